"""`spec.sandbox.sidecars`: services beside the task, ready before anything of the task runs."""

from typing import Annotated

from pydantic import ConfigDict, Field

from episode_operator.api.base import (
    AbsolutePath,
    ApiModel,
    EnvVar,
    PositiveSeconds,
    cel,
    validations,
)
from episode_operator.api.network import Port
from episode_operator.api.resources import SidecarResources

Arguments = Annotated[list[Annotated[str, Field(max_length=32_768)]], Field(max_length=64)]


class HttpGet(ApiModel):
    """A request that a ready sidecar answers with a status from 200 to 399."""

    port: Port = Field(description="Port of the request.")
    path: str = Field(
        default="/", description="Path of the request.", pattern=r"^/", max_length=1024
    )


class Ready(ApiModel):
    """How it is known that a sidecar is ready; asked every second."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "[has(self.tcpPort), has(self.httpGet), has(self.exec)].filter(x, x).size() == 1",
                "exactly one of tcpPort, httpGet, exec must be set",
            )
        )
    )

    tcp_port: Port | None = Field(
        default=None,
        description="It accepts connections on this port of the pod's address: localhost alone is "
        "not enough.",
    )
    http_get: HttpGet | None = Field(
        default=None, description="It answers a request to the pod's address."
    )
    exec: Arguments | None = Field(
        default=None,
        description="This command in its container, without a shell, ends with exit code 0.",
        min_length=1,
    )
    timeout_seconds: PositiveSeconds = Field(
        default=120,
        description="Time it has from its start until it is ready, in seconds. "
        "sandbox.startDeadlineSeconds must leave room for all sidecars.",
    )


class Sidecar(ApiModel):
    """A service that the task needs, on the sandbox's localhost. They share no file."""

    name: str = Field(
        description="Name, unique in the Episode; the container is sidecar-NAME.",
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=40,
    )
    image: str = Field(
        description="Container image; pin it by digest.",
        min_length=1,
        max_length=512,
        pattern=r"^[^\s]+$",
    )
    command: Arguments = Field(default=[], description="Entry point; the image's when empty.")
    args: Arguments = Field(default=[], description="Arguments; the image's when empty.")
    env: list[EnvVar] = Field(
        default=[],
        description="Environment, added to the image's.",
        max_length=128,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    working_dir: AbsolutePath | None = Field(
        default=None, description="Working directory; the image's when not set."
    )
    user: int | None = Field(
        default=None,
        description="User id; the image's user when not set.",
        ge=0,
        le=2_147_483_647,
    )
    resources: SidecarResources = Field(
        default=SidecarResources(), description="Limits and requests."
    )
    ready: Ready = Field(description="How it is known that it is ready.")


Sidecars = Annotated[
    list[Sidecar],
    Field(
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
]
