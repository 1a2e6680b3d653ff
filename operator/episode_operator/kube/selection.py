"""Which Episodes, or results of them, are meant."""

from collections.abc import Sequence
from dataclasses import dataclass

from episode_operator.api.labels import GROUP_NAME, RUN, label_value
from episode_operator.api.reasons import Phase, Verdict
from episode_operator.kube.tables import Line


@dataclass(frozen=True, slots=True)
class Selection:
    """What the user asks for; an empty list of values takes any.

    Attributes:
        run: a run of the trainer bridge.
        group: a group of a run.
        selector: a label selector, as of kubectl.
    """

    run: str | None = None
    group: str | None = None
    selector: str | None = None
    verdicts: Sequence[Verdict] = ()
    reasons: Sequence[str] = ()
    phases: Sequence[Phase] = ()

    @property
    def labels(self) -> str:
        """What the API server is asked for: a label selector, empty where it takes all."""
        terms = (
            None if self.run is None else f"{RUN}={self.run}",
            None if self.group is None else f"{GROUP_NAME}={label_value(self.group)}",
            self.selector,
        )
        return ",".join(term for term in terms if term)

    def takes(self, line: Line) -> bool:
        """Whether it takes an object that the API server gave."""
        wanted = (
            ("Verdict", self.verdicts),
            ("Reason", self.reasons),
            ("Phase", self.phases),
        )
        return all(not values or line.cells.get(name) in values for name, values in wanted)
