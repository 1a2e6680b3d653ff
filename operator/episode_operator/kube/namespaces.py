"""Which namespaces are this operator's."""

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The watched namespaces, all when none is named, without those left to other operators."""

    watched: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Shell patterns of names; they go before `watched`."""

    def include(self, name: str) -> bool:
        """Whether Episodes of this namespace are this operator's."""
        if any(fnmatchcase(name, pattern) for pattern in self.ignored):
            return False
        return not self.watched or name in self.watched
