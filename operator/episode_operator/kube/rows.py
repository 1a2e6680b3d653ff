"""Episodes as lines of a table, for people and for programs."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pydantic.alias_generators import to_camel

from episode_operator.api.labels import GROUP_NAME, RUN
from episode_operator.kube.tables import Line

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Row:
    """One Episode; None is what it does not have, or not yet."""

    namespace: str
    name: str
    uid: str
    phase: str | None
    verdict: str | None
    reward: float | None
    turns: int | None
    reason: str | None
    attempt: int | None
    pod_name: str | None
    run: str | None
    group: str | None
    created: datetime

    @classmethod
    def of(cls, line: Line) -> "Row":
        """From a line of the table of Episodes."""
        metadata, cells = line.metadata, line.cells
        labels = metadata.get("labels") or {}
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            phase=cells["Phase"],
            verdict=cells["Verdict"],
            reward=cells["Reward"],
            turns=cells["Turns"],
            reason=cells["Reason"],
            attempt=cells["Attempt"],
            pod_name=cells["Pod"],
            run=labels.get(RUN),
            group=labels.get(GROUP_NAME),
            created=datetime.fromisoformat(metadata["creationTimestamp"]),
        )

    def to_json(self) -> dict[str, Any]:
        """The fields by name, in the API's spelling."""
        return {to_camel(name): value for name, value in asdict(self).items()}


def ordered(rows: Iterable[Row]) -> list[Row]:
    """The rows as they are shown: oldest first."""
    return sorted(rows, key=lambda row: (row.created, row.namespace, row.name))


def age(seconds: float) -> str:
    """A time span in its two largest units, as kubectl has it: 41s, 3m5s, 2h, 5d3h."""
    whole = max(0, int(seconds))
    units = (("d", _DAY), ("h", _HOUR), ("m", _MINUTE), ("s", 1))
    first = next((at for at, (_, size) in enumerate(units) if whole >= size), len(units) - 1)
    parts: list[str] = []
    for letter, size in units[first : first + 2]:
        count, whole = divmod(whole, size)
        if count or not parts:
            parts.append(f"{count}{letter}")
    return "".join(parts)
