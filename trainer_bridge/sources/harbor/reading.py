"""What a task.toml means: for each step the value that holds, after defaults and overrides.

tests/harbor compares it with `harbor`'s own reading of the same files.
"""

import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from trainer_bridge.sources.errors import UnusableError
from trainer_bridge.sources.harbor.schema import (
    Artifact,
    Environment,
    Healthcheck,
    NetworkMode,
    Phase,
    Step,
    TaskToml,
    unknown_keys,
)
from trainer_bridge.sources.harbor.variables import resolved
from trainer_bridge.sources.task import first_error


@dataclass(frozen=True, slots=True)
class Network:
    """What may be reached; `hosts` in mode allowlist only."""

    mode: NetworkMode
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepReading:
    """One step; a task without steps is one step whose name is empty.

    Attributes:
        agent_seconds: time limit of the agent, None for none.
        min_reward: least value of each named reward, without which no further step is run.
        artifacts: the task's and the step's.
        separate: the environment that a separate verifier asks for, None for a shared one.
        collects: whether commands are to be run between agent and verifier.
    """

    name: str
    agent_seconds: float | None
    agent_user: str | None
    agent_network: Network
    verifier_seconds: float
    verifier_user: str | None
    verifier_env: dict[str, str]
    verifier_network: Network
    separate: Environment | None
    collects: bool
    healthcheck: Healthcheck | None
    min_reward: dict[str, float]
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A whole task. `env` is resolved, `solution_env` is not: only an Oracle needs it."""

    name: str | None
    category: str | None
    version: str | None
    schema_version: str
    environment: Environment
    env: dict[str, str]
    solution_env: dict[str, str]
    step_reward: Literal["mean", "final"]
    steps: tuple[StepReading, ...]
    unknown: tuple[str, ...]


def read(text: str, environ: Mapping[str, str]) -> Reading:
    """The reading of a task.toml, with variables looked up in `environ`.

    Raises:
        UnusableError: it is not TOML, has a value that is not allowed, or needs a variable
            that is not set.
    """
    try:
        toml = TaskToml.model_validate(tomllib.loads(text))
        return Reading(
            name=toml.task.name if toml.task else None,
            category=_category(toml.metadata),
            version=toml.task.version if toml.task else None,
            schema_version=toml.schema_version,
            environment=toml.environment,
            env=resolved(toml.environment.env, environ),
            solution_env=toml.solution.env,
            step_reward=toml.multi_step_reward_strategy or "mean",
            steps=tuple(
                _step(toml, step, environ) for step in toml.steps or [Step.model_construct(name="")]
            ),
            unknown=tuple(unknown_keys(toml)),
        )
    except ValidationError as error:
        raise UnusableError(f"task.toml: {first_error(error)}") from error
    except (ValueError, RecursionError) as error:  # also of numbers and nesting beyond all bounds
        raise UnusableError(f"task.toml is not TOML: {error}") from error


def step_key(name: str) -> str:
    """Two steps with the same key are the same folder on some file systems."""
    return unicodedata.normalize("NFC", name).casefold()


def _category(metadata: Mapping[str, Any]) -> str | None:
    """The category, if it is text: a task may have anything in its metadata."""
    found = metadata.get("category")
    return found.strip() or None if isinstance(found, str) else None


def _step(toml: TaskToml, step: Step, environ: Mapping[str, str]) -> StepReading:
    single = not step.name
    agents = [toml.agent] if single else [step.agent, toml.agent]
    verifiers = [toml.verifier] if single else [step.verifier, toml.verifier]
    mode = next((one.mode for one in verifiers if one.mode is not None), "shared")
    environments = [one.environment for one in verifiers] + [toml.environment]
    separate = next(one for one in environments if one is not None)
    environment = separate if mode == "separate" else toml.environment
    least = {} if step.min_reward is None else step.min_reward
    return StepReading(
        name=step.name,
        agent_seconds=next((a.timeout_sec for a in agents if a.timeout_sec is not None), None),
        agent_user=_user([agent.user for agent in agents]),
        agent_network=_network(agents, toml.environment),
        verifier_seconds=verifiers[0].timeout_sec,
        verifier_user=_user([verifier.user for verifier in verifiers]),
        verifier_env=resolved(
            {key: value for one in reversed(verifiers) for key, value in one.env.items()}, environ
        ),
        verifier_network=_network(verifiers, environment),
        separate=separate if mode == "separate" else None,
        collects=any(verifier.collect for verifier in verifiers),
        healthcheck=step.healthcheck,
        min_reward=least if isinstance(least, dict) else {"reward": least},
        artifacts=tuple(
            Artifact(source=one) if isinstance(one, str) else one
            for one in [*toml.artifacts, *step.artifacts]
        ),
    )


def _user(users: list[str | int | None]) -> str | None:
    return next((str(user) for user in users if user is not None), None)


def _network(phases: Sequence[Phase], environment: Environment) -> Network:
    for phase in phases:
        if phase.network_mode is not None:
            return Network(phase.network_mode, tuple(phase.allowed_hosts or ()))
    return Network(environment.network, tuple(environment.allowed_hosts or ()))
