"""The fields of an Episode that runs a Harbor task."""

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from episode_operator.api.agent import Agent, AgentKind
from trainer_bridge.sources.archives import Entry, Packer
from trainer_bridge.sources.errors import UnusableError
from trainer_bridge.sources.harbor import scripts
from trainer_bridge.sources.harbor.folder import RUN_SOLUTION, TaskFolder, has_setup
from trainer_bridge.sources.harbor.hosts import egress_rule
from trainer_bridge.sources.harbor.reading import Network, Reading, StepReading
from trainer_bridge.sources.harbor.schema import Environment, Healthcheck
from trainer_bridge.sources.harbor.variables import resolved
from trainer_bridge.sources.task import limited, whole_seconds

_ARTIFACTS = "/logs/artifacts"
_LOGS = {"agent": Entry(0o777), "artifacts": Entry(0o777)}
"""Folders that are there from the start in Harbor, for everyone to write."""
_STAGING = "/tmp/task-files"
_NETWORK_MODES = {"no-network": "None", "public": "Public", "allowlist": "Allowlist"}


class EpisodeFields:
    """Makes the fields of one Episode; archives go through the packer.

    Methods raise UnusableError for what cannot be done, and what TaskFolder raises.
    """

    def __init__(
        self,
        folder: TaskFolder,
        reading: Reading,
        environ: Mapping[str, str],
        agent: Agent,
        packer: Packer,
    ) -> None:
        self._folder = folder
        self._reading = reading
        self._environ = environ
        self._agent = agent
        self._packer = packer

    def spec(self, image: str) -> dict[str, Any]:
        """All fields but `model`."""
        steps = self._reading.steps
        user = steps[0].agent_user
        seconds = max(self._agent_seconds(step) for step in steps)
        fields: dict[str, Any] = {
            "task": {"image": image, **self._task()},
            "agent": limited(self._agent, seconds, **({} if user is None else {"user": user})),
            "sandbox": {
                "resources": _resources(self._reading.environment),
                "network": _network(steps[0].agent_network),
            },
            "artifacts": _artifacts(steps),
        }
        if steps[0].name:
            reward = self._reading.step_reward.capitalize()
            return fields | {"steps": [self._step(s) for s in steps], "step_reward": reward}
        fields["task"] |= {
            "instruction": self._folder.instruction(""),
            "solution": self._solution(""),
        }
        return fields | {"verifier": self._verifier(steps[0])}

    def _task(self) -> dict[str, Any]:
        environment = self._reading.environment
        archives, script = [self._packer.add(_LOGS, path="/logs")], ""
        if files := self._folder.loose_files():
            archives.append(self._packer.add(files, path=_STAGING))
            script = scripts.into_workdir(_STAGING)
        return {
            "workdir": environment.workdir or None,
            "env": _variables(self._reading.env),
            "archives": archives,
            "setup": self._setup(script, environment.healthcheck),
        }

    def _step(self, step: StepReading) -> dict[str, Any]:
        archives, script = [], ""
        if files := self._folder.workdir(step.name):
            archives.append(self._packer.add(files, path=_STAGING))
            script = scripts.into_workdir(_STAGING)
            script += scripts.run_setup() if has_setup(files) else ""
        setup = self._setup(script, step.healthcheck)
        if setup is not None and step.agent_user is not None:
            raise UnusableError(
                f"step {step.name}: its setup is to run as agent.user, {step.agent_user}; "
                "here it runs as the container's user"
            )
        return {
            "name": step.name,
            "instruction": self._folder.instruction(step.name),
            "agent_timeout_seconds": self._agent_seconds(step),
            "archives": archives,
            "setup": setup,
            "solution": self._solution(step.name),
            "verifier": self._verifier(step),
            "min_reward": step.min_reward,
        }

    def _setup(self, script: str, check: Healthcheck | None) -> dict[str, Any] | None:
        """A setup script; Harbor has no time limit for it, so the agent's holds."""
        seconds: float = self._agent.timeout_seconds
        if check is not None:
            script += scripts.wait_until_healthy(check)
            seconds += scripts.longest_wait_seconds(check) or self._agent.timeout_seconds
        if not script:
            return None
        limit = whole_seconds(seconds, what="the time limit of setup and healthcheck")
        return {"script": f"set -e\n{script}", "timeout_seconds": limit}

    def _agent_seconds(self, step: StepReading) -> int:
        if step.agent_seconds is None:
            return self._agent.timeout_seconds
        return whole_seconds(step.agent_seconds, what="agent.timeout_sec", least=2)

    def _solution(self, step: str) -> dict[str, Any] | None:
        if self._agent.kind is not AgentKind.ORACLE:
            return None
        tree = self._folder.solution(step)
        env = resolved(self._reading.solution_env, self._environ)
        return {
            "script": RUN_SOLUTION,
            "archives": [self._packer.add(tree, path="/solution")],
            "env": _variables({"DEBIAN_FRONTEND": "noninteractive", **env}),
        }

    def _verifier(self, step: StepReading) -> dict[str, Any]:
        tests = self._folder.tests(step.name)
        archives = [self._packer.add(tests.tree, path="/tests")] if tests.tree else []
        env = dict(step.verifier_env)
        if step.separate is not None:
            env = resolved(step.separate.env, self._environ) | env
        fields: dict[str, Any] = {
            "test_script": {"script": tests.script, "archives": archives},
            "timeout_seconds": whole_seconds(step.verifier_seconds, what="verifier.timeout_sec"),
            "env": _variables(env),
            "user": step.verifier_user,
        }
        if step.separate is not None:
            fields |= {"isolation": "SeparateContainer", "carry": _artifacts([step])}
        return fields


def _artifacts(steps: Iterable[StepReading]) -> list[str]:
    sources = [artifact.source for step in steps for artifact in step.artifacts]
    return list(dict.fromkeys([_ARTIFACTS, *sources]))


def _variables(env: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in env.items()]


def _resources(environment: Environment) -> dict[str, str]:
    resources = {}
    if environment.cpus is not None:
        millis = (Decimal(str(environment.cpus)) * 1000).to_integral_value(ROUND_CEILING)
        resources["cpu"] = f"{millis}m" if millis % 1000 else f"{millis // 1000}"
    if environment.memory_mb is not None:
        resources["memory"] = f"{environment.memory_mb}Mi"
    if environment.storage_mb is not None:
        resources["ephemeral_storage"] = f"{environment.storage_mb}Mi"
    return resources


def _network(network: Network) -> dict[str, Any]:
    if network.mode == "allowlist" and not network.hosts:
        return {"mode": "None"}  # nothing is allowed
    rules = [egress_rule(host) for host in dict.fromkeys(network.hosts)]
    return {"mode": _NETWORK_MODES[network.mode], "allow": rules}
