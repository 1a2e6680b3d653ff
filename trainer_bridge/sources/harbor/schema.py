"""The tables of a task.toml of Harbor and Terminal-Bench 2, with the types and defaults there.

Written from the behaviour of `harbor` 0.26, which tests/harbor compares it with. What this cannot
run (`fits.py`) is left untyped: it is only asked whether it is there.
"""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from trainer_bridge.sources.harbor.hosts import normalized

NetworkMode = Literal["no-network", "public", "allowlist"]

_SIZES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
_PACKAGE_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*")


class Table(BaseModel):
    """A table; keys that Harbor does not know are kept, so that they can be told."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Hosts(Table):
    """What every table with a network policy has."""

    allowed_hosts: list[str] | None = None

    @field_validator("allowed_hosts")
    @classmethod
    def _normalize(cls, hosts: list[str] | None) -> list[str] | None:
        return None if hosts is None else normalized(hosts)

    def _check(self, mode: NetworkMode) -> None:
        if mode != "allowlist" and self.allowed_hosts:
            raise ValueError("allowed_hosts is only for network_mode allowlist")


class Phase(Hosts):
    """The network of one role, where it is another than the environment's."""

    network_mode: NetworkMode | None = None

    @model_validator(mode="after")
    def _hosts_fit(self) -> "Phase":
        if self.network_mode is None:
            if self.allowed_hosts is not None:
                raise ValueError("allowed_hosts is only for network_mode allowlist")
        else:
            self._check(self.network_mode)
        return self


class Healthcheck(Table):
    """A command that is tried until it succeeds; times in seconds."""

    command: str
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    start_interval_sec: float = 5.0
    retries: int = 3


class Agent(Phase):
    """`[agent]`."""

    timeout_sec: float | None = None
    user: str | int | None = None


class Environment(Hosts):
    """`[environment]` and `[verifier.environment]`."""

    network_mode: NetworkMode = "public"
    docker_image: str | None = None
    build_timeout_sec: float = 600.0
    os: Annotated[
        Literal["linux", "windows"],
        BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value),
    ] = "linux"
    cpus: int | float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    gpu_types: list[str] | None = None
    tpu: Any = None
    mcp_servers: list[Any] = []
    env: dict[str, str] = {}
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: str | None = None
    allow_internet: bool | None = None

    @field_validator("cpus")
    @classmethod
    def _finite(cls, cpus: int | float | None) -> int | float | None:
        if isinstance(cpus, float) and not math.isfinite(cpus):
            raise ValueError("must be a finite number")
        return cpus

    @model_validator(mode="before")
    @classmethod
    def _old_sizes(cls, table: Any) -> Any:
        """`memory` and `storage` of older schemas; as there, only text such as 2G counts."""
        if not isinstance(table, dict):
            return table
        table = dict(table)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if isinstance(table.get(old), str):
                size = _megabytes(table.pop(old))
                if table.setdefault(new, size) != size:
                    raise ValueError(f"{old} and {new} contradict each other")
        return table

    @model_validator(mode="after")
    def _hosts_fit(self) -> "Environment":
        self._check(self.network_mode)
        return self

    @property
    def network(self) -> NetworkMode:
        """The network mode; `allow_internet` decides where nothing newer does."""
        newer = "network_mode" in self.model_fields_set or self.allowed_hosts is not None
        if newer or self.allow_internet is None:
            return self.network_mode
        return "public" if self.allow_internet else "no-network"


class Verifier(Phase):
    """`[verifier]`."""

    timeout_sec: float = 600.0
    env: dict[str, str] = {}
    user: str | int | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None
    collect: list[Any] = []

    @model_validator(mode="after")
    def _mode_fits(self) -> "Verifier":
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode shared contradicts [verifier.environment]")
        return self

    @property
    def mode(self) -> Literal["shared", "separate"] | None:
        """The mode that this table asks for, if any."""
        if self.environment_mode is None and self.environment is not None:
            return "separate"
        return self.environment_mode


class Artifact(Table):
    """An entry of `artifacts` that is more than a path."""

    source: str
    destination: str | None = None
    exclude: list[str] = []
    service: str | None = None


class Step(Table):
    """One of `[[steps]]`."""

    name: str = Field(min_length=1)
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: list[str | Artifact] = []


class Author(Table):
    """An author of the package."""

    name: str
    email: str | None = None


class Package(Table):
    """`[task]`: name and version in a registry."""

    name: str
    version: str | None = Field(default=None, min_length=1)
    description: str = ""
    authors: list[Author] = []
    keywords: list[str] = []

    @field_validator("name")
    @classmethod
    def _organization_and_name(cls, name: str) -> str:
        if _PACKAGE_NAME.fullmatch(name) is None or ".." in name:
            raise ValueError("must be of the form organization/name")
        return name


class Solution(Table):
    """`[solution]`."""

    env: dict[str, str] = {}


class TaskToml(Table):
    """The whole file."""

    schema_version: str = "1.4"
    source: str | None = None
    task: Package | None = None
    metadata: dict[str, Any] = {}
    environment: Environment = Environment()
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    solution: Solution = Solution()
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    steps: list[Step] | None = None
    artifacts: list[str | Artifact] = []

    @model_validator(mode="before")
    @classmethod
    def _old_version(cls, table: Any) -> Any:
        if isinstance(table, dict) and "version" in table:
            table = dict(table)
            table.setdefault("schema_version", table.pop("version"))
        return table


def _megabytes(size: str) -> int:
    """Mebibytes of a size such as 2G, 512M or 64K."""
    text = size.strip().upper()
    unit = _SIZES.get(text[-1:])
    try:
        if unit is not None:
            return int(float(text[:-1]) * unit)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{size!r} is not a size such as 2G, 512M or 64K")


def unknown_keys(table: Table, place: str = "") -> list[str]:
    """The keys that Harbor does not know either, with their tables; `metadata` may have any."""
    found = [f"{place}{key}" for key in table.model_extra or {}]
    for name in type(table).model_fields:
        for value in _tables(getattr(table, name)):
            found += unknown_keys(value, f"{place}{name}.")
    return found


def _tables(value: Any) -> list[Table]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, Table)]
