"""What `episodectl run` creates, from what the user gave: flags, or a task's folder."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from pydantic import ValidationError

from episode_operator.api.agent import Agent, AgentKind, Model
from episodectl.errors import CommandError
from trainer_bridge.sources import Build, Options, Task, Unreadable, load
from trainer_bridge.sources.task import episode_spec, first_error, limited

_MODEL = re.compile(r"(?P<endpoint>https?://[^/\s]+)/(?P<name>\S+)")
_SLUG_LENGTH = 40
_SHOWN = 10
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NAME_MAX = 253


def unique(base: str) -> str:
    """A name for an Episode that begins with the base and is not taken, as far as can be known."""
    slug = re.sub(r"[^a-z0-9]+", "-", base.lower())[:_SLUG_LENGTH].strip("-") or "episode"
    return f"{slug}-{uuid4().hex[:6]}"


def checked_name(name: str) -> str:
    """The name, if an object may have it.

    Raises:
        CommandError: it may not.
    """
    if len(name) > _NAME_MAX or _NAME.fullmatch(name) is None:
        raise CommandError(
            f"{name!r} is no name of an object: lower-case letters, digits, dashes and dots, at "
            f"most {_NAME_MAX} characters"
        )
    return name


def labels(given: Sequence[str]) -> dict[str, str]:
    """Labels from KEY=VALUE.

    Raises:
        CommandError: one is not of that form, or is the operator's own.
    """
    found = {}
    for each in given:
        key, separator, value = each.partition("=")
        if not key or not separator:
            raise CommandError(f"label {each!r} is not KEY=VALUE")
        if key.startswith("episodes.dev/"):
            raise CommandError(
                f"label {key}: those of episodes.dev/ are the operator's and bridge's"
            )
        found[key] = value
    return found


def model(text: str, **sampling: Any) -> Model:
    """The model from URL/NAME, as in http://vllm.default.svc:8000/Qwen/Qwen3-4B.

    Sampling parameters that are None keep the API's default.

    Raises:
        CommandError: it is not of that form, or a parameter is out of its bounds.
    """
    matched = _MODEL.fullmatch(text)
    if matched is None:
        raise CommandError(
            f"--model {text} is not URL/NAME, such as "
            "http://episodes-vllm.episode-system.svc:8000/Qwen/Qwen3-4B"
        )
    given = {name: value for name, value in sampling.items() if value is not None}
    try:
        return Model.model_validate({**matched.groupdict(), "sampling": given})
    except ValidationError as error:
        raise CommandError(f"--model: {first_error(error)}") from error


def agent(
    kind: AgentKind, *, script: Path | None, seconds: int | None, max_turns: int | None
) -> Agent:
    """The agent; None keeps the API's default.

    Raises:
        CommandError: the script cannot be read, or is missing, or is for another kind.
    """
    if (kind is AgentKind.SCRIPTED) != (script is not None):
        raise CommandError("--agent Scripted and --script FILE belong together")
    fields: dict[str, Any] = {"kind": kind}
    if script is not None:
        fields["script"] = _yaml(script)
    if max_turns is not None:
        fields["max_turns"] = max_turns
    try:
        found = Agent.model_validate(fields)
        return found if seconds is None else Agent.model_validate(limited(found, seconds))
    except ValidationError as error:
        raise CommandError(f"agent: {first_error(error)}") from error


def of_flags(
    *,
    image: str | None,
    instruction: str | None,
    workdir: str | None,
    setup: Path | None,
    solution: Path | None,
    verifier: Sequence[Path],
    agent: Agent,
    model: Model | None,
) -> Build:
    """An Episode of flags alone.

    Raises:
        CommandError: something is missing.
        Unreadable: the API refuses a value.
    """
    missing = [
        name
        for name, value in (
            ("--image", image),
            ("--instruction", instruction),
            ("--verifier", verifier),
            ("--model", model or agent.kind is not AgentKind.MODEL),
            ("--solution", solution or agent.kind is not AgentKind.ORACLE),
        )
        if not value
    ]
    if missing:
        raise CommandError(
            f"missing {', '.join(missing)}; or name a task folder: run FOLDER. --agent Oracle and "
            "Scripted need no model"
        )
    if solution is not None and agent.kind is not AgentKind.ORACLE:
        raise CommandError("--solution is only for --agent Oracle, so that no agent can see it")
    task: dict[str, Any] = {"image": image, "instruction": instruction}
    if workdir is not None:
        task["workdir"] = workdir
    if setup is not None:
        task["setup"] = {"script": _text(setup)}
    if solution is not None:
        task["solution"] = {"script": _text(solution)}
    fields = {"task": task, "verifier": _verifier(verifier), "agent": agent, "model": model}
    return Build(episode_spec("flags", fields))


def of_task(path: Path, *, image: str | None) -> Task:
    """The one task at the path: a task's folder, or a file with one row.

    Raises:
        Unreadable: it cannot be read.
        CommandError: there are several.
    """
    found = load(path, Options(image=image))
    if len(found) > 1:
        names = [Path(one.path).name if isinstance(one, Unreadable) else one.name for one in found]
        more = ", ..." if len(names) > _SHOWN else ""
        raise CommandError(
            f"{path} has {len(found)} tasks; name one of them: {', '.join(names[:_SHOWN])}{more}. "
            "`golden` and `trainer-bridge` run many. If it is one task, it lacks a task.toml"
        )
    (task,) = found
    if isinstance(task, Unreadable):
        raise task
    return task


def _verifier(paths: Sequence[Path]) -> dict[str, Any]:
    """The contract by the first file's suffix; the other files lie beside it in /tests."""
    first, *others = paths
    beside = [{"path": f"/tests/{path.name}", "content": _text(path)} for path in others]
    if first.suffix == ".py":
        return {"pytest": {"test": _text(first), "files": beside}}
    return {"test_script": {"script": _text(first), "files": beside}}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


def _yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise CommandError(f"{path} is no list of tool calls in YAML or JSON: {error}") from error
