"""Limits of a container, and the quantities they are written in."""

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from episode_operator.api.base import ApiModel

Quantity = Annotated[
    str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$", max_length=32)
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


class SidecarResources(Resources):
    """Limits of a sidecar, and what it requests: never more than the limit."""

    cpu: Quantity = Field(default="500m", description="CPU limit.")
    memory: Quantity = Field(default="256Mi", description="Memory limit.")
    ephemeral_storage: Quantity = Field(default="1Gi", description="Local storage limit.")
    cpu_request: Quantity = Field(default="10m", description="CPU request.")
    memory_request: Quantity = Field(default="32Mi", description="Memory request.")
