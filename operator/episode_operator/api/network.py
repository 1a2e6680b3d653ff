"""`spec.sandbox.network`: what the sandbox may reach."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from episode_operator.api.base import ApiModel, cel, validations

LabelValue = Annotated[
    str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)
]
NamespaceName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Port = Annotated[int, Field(ge=1, le=65_535)]


class NetworkMode(StrEnum):
    """What the sandbox may reach."""

    NONE = "None"
    ALLOWLIST = "Allowlist"
    PUBLIC = "Public"


class Protocol(StrEnum):
    """Transport protocol."""

    TCP = "TCP"
    UDP = "UDP"


class PodPeer(ApiModel):
    """Pods by their labels."""

    namespace: NamespaceName | None = Field(
        default=None, description="Namespace of the pods; the Episode's when not set."
    )
    match_labels: dict[str, LabelValue] = Field(
        description="Labels the pods must have, all of them.", min_length=1, max_length=16
    )


class EgressRule(ApiModel):
    """One destination of an allowlist."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "[has(self.cidr), has(self.host), has(self.pods)].filter(x, x).size() == 1",
                "exactly one of cidr, host, pods must be set",
            )
        )
    )

    cidr: str | None = Field(
        default=None,
        description="IP block in CIDR form.",
        max_length=64,
        json_schema_extra=validations(cel("isCIDR(self)", "must be a CIDR such as 10.0.0.0/8")),
    )
    host: str | None = Field(
        default=None,
        description="DNS name, or *.NAME for the names one level below it. Needs Cilium. "
        "The sandbox may ask the cluster's DNS for these names and no others.",
        pattern=r"^(\*\.)?([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=253,
    )
    pods: PodPeer | None = Field(
        default=None,
        description="Pods of the cluster. They, or their Service, are reached by address: no name "
        "is resolved.",
    )
    ports: list[Port] = Field(
        default=[], description="Ports of the protocol; all when empty.", max_length=32
    )
    protocol: Protocol = Field(default=Protocol.TCP, description="TCP or UDP.")


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
        description="None cuts it off (DNS too), Allowlist opens what is listed and DNS for the "
        "hosts among it, Public opens all but private addresses, and DNS.",
    )
    allow: list[EgressRule] = Field(
        default=[], description="Destinations of mode Allowlist.", max_length=64
    )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names that are opened."""
        return tuple(rule.host for rule in self.allow if rule.host is not None)
