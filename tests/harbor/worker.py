"""Reads task.toml files with Harbor's own models: a JSON list on stdin, a JSON list on stdout.

Runs in an environment of its own (environment.py) and imports nothing of ours. What Harbor keeps in
methods of a running trial (harbor/trial/trial.py and multi_step.py) is said here once more: a
step's time limit and user beat the task's, an explicit network beats the environment's.
"""

import json
import os
import sys
import warnings
from typing import Any

from harbor.models.task.artifacts import (  # type: ignore[import-not-found]
    normalize_artifact_entries,
)
from harbor.models.task.config import (  # type: ignore[import-not-found]
    NetworkPolicy,
    StepConfig,
    TaskConfig,
)
from harbor.models.task.verifier_mode import (  # type: ignore[import-not-found]
    resolve_effective_verifier_env_config,
)
from harbor.utils.env import resolve_env_vars  # type: ignore[import-not-found]


def first(*values: Any) -> Any:
    """The first that is set."""
    return next((value for value in values if value is not None), None)


def network(policy: NetworkPolicy) -> list[Any]:
    """Mode and hosts."""
    return [policy.network_mode.value, policy.allowed_hosts]


def environment(config: Any) -> dict[str, Any]:
    """What an environment gives its container."""
    names = ("docker_image", "cpus", "memory_mb", "storage_mb", "gpus", "skills_dir", "env")
    return {
        **{name: getattr(config, name) for name in names},
        "os": config.os.value,
        "workdir": config.workdir or None,
        "healthcheck": config.healthcheck and config.healthcheck.model_dump(),
    }


def step(task: TaskConfig, own: StepConfig | None) -> dict[str, Any]:
    """What holds in one step, or in a task without any."""
    tables = [task] if own is None else [own, task]
    agents, verifiers = [t.agent for t in tables], [t.verifier for t in tables]
    separate = resolve_effective_verifier_env_config(task, own)
    verifier_home = separate or task.environment
    min_reward = None if own is None else own.min_reward
    if isinstance(min_reward, int | float):
        min_reward = {"reward": min_reward}
    return {
        "name": own.name if own else "",
        "agent_seconds": first(*(agent.timeout_sec for agent in agents)),
        "agent_user": first(*(agent.user for agent in agents)),
        "agent_network": network(
            first(
                *(agent.explicit_phase_policy() for agent in agents),
                task.environment.resolve_baseline(),
            )
        ),
        "verifier_seconds": first(*(verifier.timeout_sec for verifier in verifiers)),
        "verifier_user": first(*(verifier.user for verifier in verifiers)),
        "verifier_env": resolve_env_vars(
            {**task.verifier.env, **(own.verifier.env if own else {})}
        ),
        "verifier_network": network(
            first(
                *(verifier.explicit_phase_policy() for verifier in verifiers),
                verifier_home.resolve_baseline(),
            )
        ),
        "separate": separate and environment(separate),
        "collects": any(verifier.collect for verifier in verifiers),
        "healthcheck": own and own.healthcheck and own.healthcheck.model_dump(),
        "min_reward": min_reward or {},
        "artifacts": [
            artifact.model_dump()
            for artifact in normalize_artifact_entries(
                [*task.artifacts, *(own.artifacts if own else [])]
            )
        ],
    }


def read(text: str) -> dict[str, Any]:
    """The effective values of one file."""
    task = TaskConfig.model_validate_toml(text)
    strategy = task.multi_step_reward_strategy
    return {
        "name": task.task and task.task.name,
        "version": task.task and task.task.version,
        "schema_version": task.schema_version,
        "environment": environment(task.environment),
        "env": resolve_env_vars(task.environment.env),
        "solution_env": task.solution.env,
        "step_reward": strategy.value if strategy else "mean",
        "steps": [step(task, own) for own in task.steps or [None]],
    }


def main() -> None:
    """Answer every file: its values, or why Harbor refuses it."""
    warnings.simplefilter("ignore")
    asked = json.load(sys.stdin)
    os.environ.clear()
    os.environ.update(asked["environ"])
    answers: list[dict[str, Any]] = []
    for text in asked["files"]:
        try:
            answers.append({"read": read(text)})
        except (ValueError, OverflowError) as error:  # ValidationError is a ValueError
            answers.append({"refused": f"{type(error).__name__}: {error}"})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
