"""The configuration file: one YAML for all modes."""

import importlib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from episode_operator.api.agent import Agent, Model
from episode_operator.api.base import ApiModel
from episode_operator.api.distillation import Distillation
from episode_operator.api.sandbox import Sandbox
from episode_operator.results.objects import ObjectStore
from trainer_bridge.charts.base import ChartSettings
from trainer_bridge.sinks.atif import AtifSettings, AtifSink
from trainer_bridge.sinks.atropos import AtroposServerSettings, AtroposSettings, AtroposSink
from trainer_bridge.sinks.base import Sink
from trainer_bridge.sinks.datasets import DatasetSettings, DatasetSink
from trainer_bridge.sources.settings import TaskSettings

_PLAIN: Final[Mapping[str, str]] = {
    "extra_forbidden": "there is no such field",
    "missing": "must be set",
}
"""What pydantic says in words of its own, by the type of its error."""


class ConfigError(Exception):
    """The configuration cannot be used; the text names the field."""


class Settings(BaseModel):
    """A part of the file; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EvalHandling(StrEnum):
    """What happens to training while an evaluation runs."""

    STOP_TRAIN = "STOP_TRAIN"
    LIMIT_TRAIN = "LIMIT_TRAIN"
    NONE = "NONE"


class UnknownDelivery(StrEnum):
    """What becomes of a group that may or may not have arrived."""

    DROP = "drop"
    RESEND = "resend"


class EnvironmentSettings(Settings):
    """How groups are made and handed over; the names of Atropos' environments where it has them."""

    group_size: int = Field(default=4, ge=1, le=1024, description="Episodes of a group.")
    max_token_length: int = Field(
        default=2048, ge=2, description="Groups with a row of so many tokens or more are dropped."
    )
    max_num_workers: int = Field(default=8, ge=1, description="Most groups being worked on.")
    max_batches_offpolicy: int = Field(
        default=3, ge=1, description="Batches that may wait for the trainer before work pauses."
    )
    max_staleness_steps: int | None = Field(
        default=None,
        ge=0,
        description="Groups started more steps of the trainer ago are dropped; none when not set.",
    )
    min_batch_allocation: float | None = Field(
        default=None, gt=0, le=1, description="Least part of each batch that is from here."
    )
    inference_weight: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Weight among the environments of the trainer.",
    )
    total_steps: int | None = Field(
        default=None,
        ge=1,
        description="Steps of the trainer after which serving ends; those that the trainer itself "
        "wants when not set.",
    )
    ensure_scores_are_not_same: bool = Field(
        default=True,
        description="Drop groups whose scores are all equal, unless a teacher scored one of them. "
        "Has no effect on `process`.",
    )
    include_messages: bool = Field(default=False, description="Send conversations to the trainer.")
    max_reruns: int | None = Field(
        default=None,
        ge=0,
        description="Episodes of a group that may be run again for want of a verdict; group_size "
        "when not set.",
    )
    unknown_delivery: UnknownDelivery = Field(
        default=UnknownDelivery.DROP,
        description="A group that may or may not have arrived: drop it, or resend it and risk that "
        "the trainer has it twice.",
    )
    result_ttl_seconds: int | None = Field(
        default=86_400,
        ge=0,
        description="Seconds from their creation until EpisodeResults of closed groups are "
        "deleted; kept for ever when null. Episodes are deleted at once.",
    )
    steps_per_eval: int | None = Field(
        default=None, ge=1, description="Steps between two evaluations; none when not set."
    )
    num_eval_tasks: int | None = Field(
        default=None, ge=1, description="Tasks of an evaluation; all held-out ones when not set."
    )
    eval_samples: int = Field(default=1, ge=1, le=1024, description="Episodes of each of them.")
    eval_pass_at: list[int] = Field(
        default=[], description="The k of pass@k; those up to eval_samples that are powers of 2."
    )
    max_eval_workers: int = Field(default=16, ge=1, description="Most Episodes at a time.")
    eval_handling: EvalHandling = Field(
        default=EvalHandling.STOP_TRAIN,
        description="While an evaluation runs: start no groups, half as many, or as always.",
    )
    eval_folder: Path = Field(
        default=Path("evaluations"), description="Where each evaluation's files go."
    )

    @property
    def reruns(self) -> int:
        """Members of a group that may be run again."""
        return self.group_size if self.max_reruns is None else self.max_reruns

    @property
    def pass_at(self) -> list[int]:
        """The k of pass@k."""
        powers = [1 << power for power in range(self.eval_samples.bit_length())]
        return self.eval_pass_at or [k for k in powers if k <= self.eval_samples]


class EpisodeTemplate(ApiModel):
    """What all Episodes of the run have in common; fields as in an Episode's spec."""

    agent: Agent = Field(default=Agent(), description="Who acts, with which tools and limits.")
    model: Model | None = Field(default=None, description="The model server.")
    distillation: Distillation | None = Field(default=None, description="Off when not set.")
    sandbox: Sandbox = Field(
        default=Sandbox(), description="What is set here goes before what the task asks for."
    )
    infra_retry_limit: int = Field(default=2, ge=0, le=10, description="Fresh pods per Episode.")


class AtroposSinkSettings(AtroposServerSettings):
    """An Atropos server; what is not here comes from `env`."""

    kind: Literal["atropos"]


class CustomSinkSettings(Settings):
    """A sink of your own."""

    kind: Literal["custom"]
    class_: str = Field(
        alias="class",
        pattern=r"^[\w.]+:\w+$",
        description="`module:Class` with the protocol of trainer_bridge.sinks.base.Sink.",
    )
    options: dict[str, Any] = Field(default={}, description="Its keyword arguments.")


SinkSettings = Annotated[
    AtroposSinkSettings | DatasetSettings | AtifSettings | CustomSinkSettings,
    Field(discriminator="kind"),
]


class BridgeConfig(Settings):
    """The whole file."""

    run: str = Field(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=40,
        description="Name of the run. All its objects carry it; a bridge started again with "
        "the same name goes on where the last one was.",
    )
    namespace: str | None = Field(
        default=None, description="Of the Episodes; that of the kubeconfig or the pod if not given."
    )
    tasks: TaskSettings
    episode: EpisodeTemplate = EpisodeTemplate()
    env: EnvironmentSettings = EnvironmentSettings()
    sink: SinkSettings
    charts: ChartSettings = ChartSettings()
    object_store: str | None = Field(
        default=None, description="Where the operator keeps large blobs: file:// or s3://."
    )
    metrics_port: int | None = Field(
        default=None, ge=0, le=65_535, description="Port of Prometheus' metrics; off when not set."
    )

    @model_validator(mode="after")
    def _complete(self) -> "BridgeConfig":
        if self.episode.agent.kind == "Model" and self.episode.model is None:
            raise ValueError("episode.model must be set when episode.agent.kind is Model")
        return self

    @property
    def store(self) -> ObjectStore | None:
        """The object store, if any."""
        return None if self.object_store is None else ObjectStore(self.object_store)

    def make_sink(self, uid: str) -> Sink:
        """The sink that is configured, for the run with this uid.

        Raises:
            ConfigError: there is no such class, or it cannot be made.
            SinkError: a library is missing.
        """
        match self.sink:
            case AtroposSinkSettings() as atropos:
                env = self.env
                return AtroposSink(
                    AtroposSettings(
                        **atropos.model_dump(exclude={"kind"}),
                        name=f"{self.run}-{uid}",
                        weight=env.inference_weight,
                        group_size=env.group_size,
                        max_token_length=env.max_token_length,
                        min_batch_allocation=env.min_batch_allocation,
                        max_batches_offpolicy=env.max_batches_offpolicy,
                        include_messages=env.include_messages,
                    )
                )
            case DatasetSettings() as dataset:
                return DatasetSink(dataset)
            case AtifSettings() as atif:
                return AtifSink(atif)
            case CustomSinkSettings() as custom:
                return _custom(custom)


def _custom(settings: CustomSinkSettings) -> Sink:
    module, _, name = settings.class_.partition(":")
    try:
        made: Sink = getattr(importlib.import_module(module), name)(**settings.options)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"sink.class: {settings.class_}: {error}") from error
    return made


def load(path: Path) -> BridgeConfig:
    """Read a configuration.

    Raises:
        ConfigError: it cannot be read, is no YAML, or a field is wrong; each is named.
    """
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: not a mapping of fields")
    try:
        return BridgeConfig.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"{path}:\n{_told(error)}") from error


def _told(error: ValidationError) -> str:
    lines = []
    for one in error.errors():
        place = ".".join(str(part) for part in one["loc"])
        what = _PLAIN.get(one["type"]) or one["msg"].removeprefix("Value error, ")
        lines.append(f"  {place or '(file)'}: {what}")
    return "\n".join(lines)
