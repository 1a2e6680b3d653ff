"""The files of a task folder of Harbor: which of them count, and what becomes of them."""

from dataclasses import dataclass
from pathlib import Path

from trainer_bridge.sources.archives import Entry, read_tree
from trainer_bridge.sources.errors import UnusableError
from trainer_bridge.sources.harbor.instruction import without_canary

RUN_SOLUTION = "/solution/solve.sh\n"
"""The Oracle's script: the solution runs by its own interpreter, from its own place."""

_INSTRUCTION = "instruction.md"
_TEST, _SOLVE, _SETUP = "test.sh", "solve.sh", "setup.sh"


@dataclass(frozen=True, slots=True)
class Tests:
    """The script that gives the reward, and the files beside it."""

    __test__ = False

    script: str
    tree: dict[str, Entry]


class TaskFolder:
    """One folder. A step without a name is the task itself.

    Methods raise UnusableError for what is missing or cannot be packed, OSError for what cannot
    be read, UnicodeDecodeError for a script that is no text.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def instruction(self, step: str) -> str:
        """What the agent is asked to do."""
        page = self._place(step) / _INSTRUCTION
        if not page.exists():
            raise UnusableError(f"there is no {self._named(self._place(step))}{_INSTRUCTION}")
        text = without_canary(page.read_text())
        if not text:
            raise UnusableError(f"{self._named(self._place(step))}{_INSTRUCTION} is empty")
        return text

    def test_script(self, step: str) -> Path:
        """The step's test.sh, else that of the task."""
        for place in self._test_places(step):
            if (place / _TEST).exists():
                return place / _TEST
        raise UnusableError(f"there is no {self._named(self._test_places(step)[0])}{_TEST}")

    def tests(self, step: str) -> Tests:
        """The step's tests, over those of the task."""
        script = _with_interpreter(_lines(self.test_script(step)).decode())
        tree: dict[str, Entry] = {}
        for place in reversed(self._test_places(step)):
            if place.exists():
                tree |= self._tree(place)
        tree.pop(_TEST, None)
        return Tests(script, tree)

    def _test_places(self, step: str) -> list[Path]:
        """Folders with tests; what is in an earlier one counts first."""
        return list(dict.fromkeys([self._place(step) / "tests", self.path / "tests"]))

    def solution(self, step: str) -> dict[str, Entry]:
        """The step's solution, else that of the task; `solve.sh` can be executed."""
        own = self._place(step) / "solution"
        place = own if own.exists() else self.path / "solution"
        script = place / _SOLVE
        if not script.exists():
            raise UnusableError(f"there is no {self._named(place)}{_SOLVE} for the Oracle to run")
        return self._tree(place) | {_SOLVE: Entry(0o755, _lines(script))}

    def loose_files(self) -> dict[str, Entry]:
        """The files of `environment/` that go into the working directory of a ready image.

        None do where the folder says how to build the image.
        """
        place = self.path / "environment"
        if not place.is_dir() or (place / "Dockerfile").exists():
            return {}
        return self._tree(place)

    def workdir(self, step: str) -> dict[str, Entry]:
        """The files that go into the working directory before the step."""
        place = self._place(step) / "workdir"
        if not place.exists():
            return {}
        tree = self._tree(place)
        if _SETUP in tree:
            tree[_SETUP] = Entry(0o755, _lines(place / _SETUP))
        return tree

    def _place(self, step: str) -> Path:
        return self.path / "steps" / step if step else self.path

    def _named(self, place: Path) -> str:
        return "".join(f"{part}/" for part in place.relative_to(self.path).parts)

    def _tree(self, place: Path) -> dict[str, Entry]:
        try:
            return read_tree(place, within=self.path)
        except UnusableError as error:
            raise UnusableError(f"{self._named(place)}{error}") from error


def has_setup(tree: dict[str, Entry]) -> bool:
    """Whether the files for the working directory have a script to run there."""
    return _SETUP in tree


def _lines(script: Path) -> bytes:
    """A script with the line ends that a Linux interpreter wants."""
    return script.read_bytes().replace(b"\r\n", b"\n")


def _with_interpreter(script: str) -> str:
    """Harbor starts scripts from bash, which runs those that name no interpreter by itself."""
    return script if script.startswith("#!") else f"#!/bin/bash\n{script}"
