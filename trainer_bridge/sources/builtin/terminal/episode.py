"""Terminal tasks as Episodes, verified by pytest in the sandbox."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from episode_operator.api.agent import Agent, AgentKind, Model
from trainer_bridge.sources.builtin.terminal import Family, TerminalTask, divided
from trainer_bridge.sources.collect import collect
from trainer_bridge.sources.errors import Unreadable
from trainer_bridge.sources.task import Build, Options, Task, episode_spec

VERIFIER_SECONDS = 60

_TEST = """\
from pathlib import Path

EXPECTED = {expected!r}
UNCHANGED = {unchanged!r}


def content(path):
    file = Path(path)
    assert file.is_file(), f"there is no file {{path}}"
    return file.read_bytes()


def test_results():
    for path, expected in EXPECTED.items():
        assert content(path).removesuffix(b"\\n"){padding} == expected


def test_other_files_are_unchanged():
    for path, before in UNCHANGED.items():
        assert content(path) == before
"""


@dataclass(frozen=True, slots=True)
class TerminalEpisodes:
    """A terminal task, of which Episodes are made in an image with Python and pytest."""

    task: TerminalTask
    image: str
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.task.name

    @property
    def family(self) -> str:
        """Kind and grade of the task."""
        return self.task.family

    def build(self, agent: Agent, *, prefix: str, model: Model | None = None) -> Build:
        """An Episode of the task; see `Task.build`. It needs no ConfigMaps."""
        files = [{"path": path, "content": text} for path, text in self.task.files.items()]
        task: dict[str, Any] = {
            "image": self.image,
            "workdir": "/workspace",
            "instruction": self.task.instruction,
            "files": files,
        }
        if agent.kind is AgentKind.ORACLE:
            task["solution"] = {"script": self.task.command}
        fields = {
            "task": task,
            "agent": agent,
            "model": model,
            "verifier": {
                "pytest": {"test": pytest_file(self.task)},
                "timeout_seconds": VERIFIER_SECONDS,
            },
        }
        return Build(episode_spec(self.name, fields))


def pytest_file(task: TerminalTask) -> str:
    """The pytest file that passes what the task expects.

    A result may end with a newline or not; a number may have spaces around it, as some `wc` write
    them. All else is compared byte for byte.
    """
    return _TEST.format(
        expected={path: text.encode() for path, text in task.expected.items()},
        unchanged={
            path: text.encode() for path, text in task.files.items() if path not in task.expected
        },
        padding='.strip(b" ")' if task.family.startswith("count") else "",
    )


def load(
    options: Options, *, seed: int, count: int, ratio: float, families: Collection[Family]
) -> tuple[list[Task | Unreadable], frozenset[str]]:
    """The tasks of both splits as `divided` makes them, and the names of those held out."""
    train, held_out = divided(seed=seed, count=count, ratio=ratio, families=families)
    found = collect((task.name, partial(_read, task, options)) for task in (*train, *held_out))
    return found, frozenset(task.name for task in held_out)


def _read(task: TerminalTask, options: Options) -> TerminalEpisodes:
    image = options.image_of(task.name)
    if image is None:
        raise Unreadable(task.name, "no image: name one that has Python and pytest with `image`")
    return TerminalEpisodes(task, image)
