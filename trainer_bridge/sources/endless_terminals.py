"""Endless Terminals: folders `task_*`, and dataset rows that name one.

The image is that of `container.def`, unless the caller names images that were built from it. The
family of a task is the `category` of its row or of environment/task.json, else `endless-terminals`.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from episode_operator.api.agent import Agent, AgentKind, Model
from trainer_bridge.sources.archives import Packer, read_tree
from trainer_bridge.sources.errors import Unreadable, UnusableError
from trainer_bridge.sources.fields import Row, optional_text
from trainer_bridge.sources.harbor.folder import RUN_SOLUTION, TaskFolder
from trainer_bridge.sources.task import Build, Options, episode_spec

TEST = "test_final_state.py"
FAMILY = "endless-terminals"
DEFAULT_IMAGE = "ubuntu:22.04"
VERIFIER_SECONDS = 60

_BUILD_IT = "build the image, push it, and name it with `image` or --image"
_SECTION = re.compile(
    r"^%(?=(?:app\w+|arguments|environment|files|help|labels|post|pre|runscript|setup|"
    r"startscript|test)\b)",
    re.MULTILINE,
)
"""A script in one of them may have other lines that begin with %."""
_IGNORED_SECTIONS = frozenset({"help", "labels", "runscript", "startscript", "test"})
"""They say nothing about the state in which the agent finds the container."""


@dataclass(frozen=True, slots=True)
class EndlessTerminalsTask:
    """One task; `setup` is what `container.def` runs to make the state it begins with."""

    folder: Path
    name: str
    family: str
    image: str
    setup: str
    instruction: str
    notes: tuple[str, ...] = ()

    def build(self, agent: Agent, *, prefix: str, model: Model | None = None) -> Build:
        """An Episode of the task; see `Task.build`."""
        packer = Packer(prefix)
        task: dict[str, Any] = {"image": self.image, "instruction": self.instruction}
        if self.setup:
            task["setup"] = {"script": self.setup, "timeout_seconds": agent.timeout_seconds}
        try:
            tests = self._tests(packer)
            if agent.kind is AgentKind.ORACLE:
                task["solution"] = self._solution(packer)
        except (UnusableError, OSError, UnicodeDecodeError) as error:
            raise Unreadable(self.folder, str(error)) from error
        fields = {
            "task": task,
            "agent": agent,
            "model": model,
            "verifier": {"pytest": tests, "timeout_seconds": VERIFIER_SECONDS},
        }
        return Build(episode_spec(self.folder, fields), packer.parts)

    def _tests(self, packer: Packer) -> dict[str, Any]:
        folder = self.folder / "tests"
        if not (folder / TEST).exists():
            return {"test": (self.folder / TEST).read_text()}
        beside = read_tree(folder, within=self.folder)
        beside.pop(TEST)
        archives = [packer.add(beside, path="/tests")] if beside else []
        return {"test": (folder / TEST).read_text(), "archives": archives}

    def _solution(self, packer: Packer) -> dict[str, Any]:
        tree = TaskFolder(self.folder).solution("")
        return {"script": RUN_SOLUTION, "archives": [packer.add(tree, path="/solution")]}


def is_task(folder: Path) -> bool:
    """Whether the folder is one of these."""
    return (folder / "tests" / TEST).exists() or (folder / TEST).exists()


def read_task(folder: Path, options: Options, *, row: Row | None = None) -> EndlessTerminalsTask:
    """The task in a folder; what its row says counts first.

    Raises:
        Unreadable: it cannot be read, or its image has to be built first.
    """
    if not is_task(folder):
        raise Unreadable(folder, f"there is no tests/{TEST} and no {TEST}")
    name = folder.resolve().name
    try:
        image, setup = options.image_of(name), ""
        if image is None:
            image, setup = _container(folder)
        own, described = row or {}, _described(folder)
        instruction = optional_text(own, "description") or _instruction(folder, described)
        family = optional_text(own, "category") or _first_text(described.get("category"))
    except (UnusableError, OSError, UnicodeDecodeError) as error:
        raise Unreadable(folder, str(error)) from error
    return EndlessTerminalsTask(folder, name, family or FAMILY, image, setup, instruction)


def is_row(row: Row) -> bool:
    """Whether the row is one of these."""
    return "extra_info" in row or "reward_spec" in row


def read_row(row: Row, where: str, base: Path, options: Options) -> EndlessTerminalsTask:
    """The task that a row names by its folder, which may have moved into the folder `base`.

    Raises:
        UnusableError: the row names no folder that is there.
        Unreadable: the folder cannot be read.
    """
    named = _nested(row, "extra_info", "task_dir") or _nested(row, "reward_spec", "ground_truth")
    if not isinstance(named, str) or not PurePosixPath(named).name:
        raise UnusableError("the row has neither extra_info.task_dir nor ground_truth")
    places = dict.fromkeys([base / named, base / PurePosixPath(named).name])
    try:
        folder = next((place for place in places if place.is_dir()), None)
    except OSError as error:
        raise UnusableError(str(error)) from error
    if folder is None:
        raise UnusableError(
            f"there is no folder {' nor '.join(map(str, places))}; tasks_base_dir must be the "
            "folder that holds it"
        )
    return read_task(folder, options, row=row)


def _nested(row: Row, outer: str, inner: str) -> Any:
    table = row.get(outer)
    return table.get(inner) if isinstance(table, dict) else None


def _described(folder: Path) -> dict[str, Any]:
    """What environment/task.json says; nothing where there is none."""
    file = folder / "environment" / "task.json"
    if not file.exists():
        return {}
    try:
        task = json.loads(file.read_text())
    except (ValueError, RecursionError) as error:
        raise UnusableError(f"environment/task.json is not JSON: {error}") from error
    if not isinstance(task, dict):
        raise UnusableError("environment/task.json is not a JSON object")
    return task


def _instruction(folder: Path, described: dict[str, Any]) -> str:
    page = folder / "instruction.md"
    found = page.read_text() if page.exists() else ""
    text = _first_text(found, described.get("description"), described.get("instruction"))
    if text is None:
        raise UnusableError(
            "no description: neither the row nor instruction.md nor task.json has one"
        )
    return text


def _first_text(*values: Any) -> str | None:
    texts = (value.strip() for value in values if isinstance(value, str))
    return next((text for text in texts if text), None)


def _container(folder: Path) -> tuple[str, str]:
    """Image and setup script that `container.def` asks for."""
    places = [folder / "environment" / "container.def", folder / "container.def"]
    definition = next((place for place in places if place.exists()), None)
    if definition is None:
        if (folder / "environment" / "Dockerfile").exists():
            raise UnusableError(f"environment/Dockerfile: {_BUILD_IT}")
        return DEFAULT_IMAGE, ""
    header, *sections = _SECTION.split(definition.read_text())
    wanted = dict(re.findall(r"^(\w+):[ \t]*(\S+)", header.lower(), flags=re.MULTILINE))
    if (bootstrap := wanted.get("bootstrap", "docker")) != "docker":
        raise UnusableError(f"container.def starts from a {bootstrap}: {_BUILD_IT}")
    found = re.search(r"^from:[ \t]*(\S+)", header, flags=re.MULTILINE | re.IGNORECASE)
    return found[1] if found else DEFAULT_IMAGE, _setup(sections)


def _setup(sections: list[str]) -> str:
    script = ""
    for section in sections:
        first, _, body = section.partition("\n")
        name = first.split()[0] if first.split() else ""
        if name == "post":
            script += f"set -e\n{body}"
        elif name not in _IGNORED_SECTIONS and body.strip():
            raise UnusableError(f"container.def has a section %{name}: {_BUILD_IT}")
    return script
