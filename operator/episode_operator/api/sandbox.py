"""`spec.sandbox`: the pod the agent works in."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from episode_operator.api.base import ApiModel, ObjectName, PositiveSeconds, cel, validations

Quantity = Annotated[
    str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$", max_length=32)
]
LabelValue = Annotated[
    str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)
]


_UNITS = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGT", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGT", start=1)},
}


def quantity(text: str) -> Decimal:
    """The value of a quantity such as 500m or 1.5Gi, as far as the schema admits it."""
    digits = text.rstrip("mkMGTKi")
    return Decimal(digits) * _UNITS[text[len(digits) :]]


class Resources(ApiModel):
    """Limits of the sandbox, and what it requests: never more than the limit."""

    cpu: Quantity = Field(default="1", description="CPU limit.")
    memory: Quantity = Field(default="1Gi", description="Memory limit.")
    ephemeral_storage: Quantity = Field(default="4Gi", description="Local storage limit.")
    cpu_request: Quantity = Field(default="50m", description="CPU request.")
    memory_request: Quantity = Field(default="64Mi", description="Memory request.")


class NetworkMode(StrEnum):
    """What the sandbox may reach."""

    NONE = "None"
    ALLOWLIST = "Allowlist"
    PUBLIC = "Public"


class EgressRule(ApiModel):
    """One destination of an allowlist."""

    cidr: str = Field(
        description="IP block in CIDR form.",
        max_length=64,
        json_schema_extra=validations(cel("isCIDR(self)", "must be a CIDR such as 10.0.0.0/8")),
    )
    ports: list[Annotated[int, Field(ge=1, le=65_535)]] = Field(
        default=[], description="TCP ports; all when empty.", max_length=32
    )


class Network(ApiModel):
    """Network of the sandbox; nothing may connect to it in any mode."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "(self.mode == 'Allowlist') == (has(self.allow) && self.allow.size() > 0)",
                "allow must list at least one rule when mode is Allowlist, and only then",
                field_path=".allow",
            )
        )
    )

    mode: NetworkMode = Field(
        default=NetworkMode.NONE,
        description="None cuts it off (DNS too), Allowlist opens the listed blocks, "
        "Public opens all but private addresses.",
    )
    allow: list[EgressRule] = Field(
        default=[], description="Destinations of mode Allowlist.", max_length=64
    )

    @property
    def closed(self) -> bool:
        """Whether cluster addresses are out of reach for sure; an allowlist may name some."""
        return self.mode is not NetworkMode.ALLOWLIST


class Toleration(ApiModel):
    """A toleration, as in a pod."""

    key: str | None = Field(default=None, description="Taint key; all when not set.")
    operator: Literal["Exists", "Equal"] = Field(default="Equal", description="Comparison.")
    value: str | None = Field(default=None, description="Taint value for Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Taint effect; all when not set."
    )


class Sandbox(ApiModel):
    """Where and within which limits the sandbox runs."""

    resources: Resources = Field(default=Resources(), description="Limits and requests.")
    network: Network = Field(default=Network(), description="Network access.")
    runtime_class_name: ObjectName | None = Field(
        default=None, description="RuntimeClass of the pod, for example gvisor."
    )
    node_selector: dict[str, LabelValue] = Field(
        default={}, description="Labels the node must have."
    )
    tolerations: list[Toleration] = Field(
        default=[], description="Taints the pod tolerates.", max_length=32
    )
    labels: dict[str, LabelValue] = Field(
        default={},
        description="More labels of the pod, for example the queue name of Kueue.",
        json_schema_extra=validations(
            cel(
                "self.all(k, !k.startsWith('episodes.dev/'))",
                "labels under episodes.dev/ belong to the operator",
            )
        ),
    )
    image_pull_secrets: list[ObjectName] = Field(
        default=[], description="Names of Secrets with registry credentials.", max_length=8
    )
    start_deadline_seconds: PositiveSeconds = Field(
        default=600,
        description="Time the pod has from creation until it runs, in seconds.",
    )
