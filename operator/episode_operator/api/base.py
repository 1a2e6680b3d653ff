"""Base model of the custom resources and the field types they share."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP = "episodes.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class ApiModel(BaseModel):
    """A camelCase object of the API; unknown fields are refused, instances are immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )

    def to_api(self) -> dict[str, Any]:
        """The object as the API server takes it: camelCase, unset optional fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def cel(rule: str, message: str, *, field_path: str | None = None) -> dict[str, str]:
    """One `x-kubernetes-validations` entry."""
    entry = {"rule": rule, "message": message}
    if field_path is not None:
        entry["fieldPath"] = field_path
    return entry


def validations(*rules: dict[str, str]) -> dict[str, Any]:
    """The `json_schema_extra` that carries CEL rules into the CRD."""
    return {"x-kubernetes-validations": list(rules)}


PositiveSeconds = Annotated[int, Field(ge=1, le=604_800)]
AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00]*$", max_length=4096)]
ObjectName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=253)
]
Endpoint = Annotated[str, Field(pattern=r"^https?://[^\s/]+(/[^\s]*)?$", max_length=2048)]
"""Base URL of a server."""
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)]
FileMode = Annotated[str, Field(pattern=r"^0?[0-7]{3}$")]
UserName = Annotated[
    str, Field(pattern=r"^([a-z_][a-z0-9_.-]*|[0-9]{1,10})(:([a-z_][a-z0-9_.-]*|[0-9]{1,10}))?$")
]
"""A user of the image, by name or number, with :group if the group is another than its own."""


class EnvVar(ApiModel):
    """One environment variable."""

    name: EnvName = Field(description="Name of the variable.")
    value: str = Field(description="Value, taken literally.", max_length=32_768)


class KeySelector(ApiModel):
    """One key of a ConfigMap or Secret in the Episode's namespace."""

    name: ObjectName = Field(description="Name of the object.")
    key: str = Field(description="Key in its data.", min_length=1, max_length=253)


_ONE_SOURCE = "exactly one of configMapKeyRef, secretKeyRef must be set"


class Archive(ApiModel):
    """Many files at once: a gzipped tar in numbered ConfigMaps, unpacked under a folder."""

    path: AbsolutePath = Field(description="Folder to unpack it in; made when it is missing.")
    sha256: str = Field(description="Of the gzipped tar, hex.", pattern=r"^[0-9a-f]{64}$")
    parts: list[ObjectName] = Field(
        description="ConfigMaps whose binaryData.part hold it, in order.",
        min_length=1,
        max_length=1024,
    )


class ContentSource(ApiModel):
    """Where text comes from when it is not written inline."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel("has(self.configMapKeyRef) != has(self.secretKeyRef)", _ONE_SOURCE)
        )
    )

    config_map_key_ref: KeySelector | None = Field(
        default=None, description="A key of a ConfigMap in the Episode's namespace."
    )
    secret_key_ref: KeySelector | None = Field(
        default=None, description="A key of a Secret in the Episode's namespace."
    )


class File(ApiModel):
    """A file the operator writes into the sandbox."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "has(self.content) != has(self.contentFrom)",
                "exactly one of content, contentFrom must be set",
            )
        )
    )

    path: AbsolutePath = Field(description="Absolute path in the sandbox.")
    content: str | None = Field(
        default=None, description="Text of the file, UTF-8.", max_length=524_288
    )
    content_from: ContentSource | None = Field(
        default=None, description="Where the content comes from instead."
    )
    mode: FileMode = Field(default="644", description="Permission bits, octal.")
