"""The bridge's guide says what the code does: fields, reasons, commands, examples."""

import asyncio
import importlib
import json
import pkgutil
import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
import typer.main
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from episode_operator.api.result import Delivery
from tests.documented import FENCE
from tests.unit import records
from tests.unit.test_docs import INLINE_CODE, PAGES, ROOT, name_of
from tests.unit.training_groups import group, record
from trainer_bridge import run, sinks
from trainer_bridge.cli import app
from trainer_bridge.config import (
    AtroposSinkSettings,
    BridgeConfig,
    CustomSinkSettings,
    EnvironmentSettings,
    EpisodeTemplate,
    load,
)
from trainer_bridge.run import episodes, groups
from trainer_bridge.sinks.atif import AtifSettings
from trainer_bridge.sinks.atropos import AtroposSettings
from trainer_bridge.sinks.base import Demand, NotSentError, RefusedError
from trainer_bridge.sinks.checks import Refusal
from trainer_bridge.sinks.datasets import DatasetSettings

EXAMPLES = ROOT / "examples" / "bridge"
PAGE = (ROOT / "docs" / "bridge.md").read_text()
RERUNS = {groups.DELETED, episodes.UNREADABLE, episodes.WRONG_HARNESS}
COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*trainer-bridge ([a-z].*)$", re.MULTILINE)
WORDS = re.compile(r"([A-Z][a-z]+)+")


def reasons() -> set[str]:
    """Every constant of runs and sinks that is CamelCase: nothing else there is written so."""
    found: set[str] = set(Refusal)
    for package in (run, sinks):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            constants = vars(importlib.import_module(module.name)).items()
            found |= {
                value
                for name, value in constants
                if name.isupper() and isinstance(value, str) and WORDS.fullmatch(value)
            }
    return found


def section(heading: str) -> str:
    """What stands under a heading, up to the next one of any level."""
    _, found, rest = PAGE.partition(f"\n{heading}\n")
    assert found, f"docs/bridge.md has no heading {heading!r}"
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def table(text: str) -> list[list[str]]:
    """The cells of the rows of a text's only table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is None:
        return "none"
    if isinstance(field.default, BaseModel):
        return "`{}`"
    value = json.dumps(to_jsonable_python(field.default)).strip('"')
    return f"`{value}`"


def fields(*models: type[BaseModel]) -> list[tuple[str, str, str | None]]:
    """Name, default and meaning of each field of the first; what lacks a meaning may have it in
    the others.
    """
    found = []
    for name, field in models[0].model_fields.items():
        said = (
            model.model_fields[name].description for model in models if name in model.model_fields
        )
        found.append(
            (f"`{field.alias or name}`", default_of(field), next(filter(None, said), None))
        )
    return found


@pytest.mark.parametrize(
    ("heading", "models"),
    [
        ("### The file", [BridgeConfig]),
        ("### `episode`", [EpisodeTemplate]),
        ("### `env`", [EnvironmentSettings]),
        ("#### Atropos", [AtroposSinkSettings, AtroposSettings]),
        ("#### Parquet and JSONL", [DatasetSettings]),
        ("#### ATIF trajectories", [AtifSettings]),
        ("#### Custom", [CustomSinkSettings]),
    ],
)
def test_the_tables_of_fields_are_those_of_the_models(
    heading: str, models: Sequence[type[BaseModel]]
) -> None:
    rows, expected = table(section(heading)), fields(*models)
    assert all(meaning for _, _, meaning in rows)
    assert [
        (name, default, None if told is None else meaning)
        for (name, default, meaning), (_, _, told) in zip(rows, expected, strict=True)
    ] == expected


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("### Why a group is dropped", reasons() - RERUNS),
        ("## Groups", RERUNS),
        ("## Delivery", Delivery),
    ],
)
def test_closed_lists_have_a_row_for_each_value(heading: str, expected: Collection[str]) -> None:
    text = section(heading)
    first_table = text.partition("\n| ")[2].partition("\n\n")[0]
    told = [row[0] for row in table(f"| {first_table}")]
    assert sorted(told) == sorted(f"`{value}`" for value in expected)


def test_reasons_that_are_not_run_again_are_named() -> None:
    text = section("## Groups").partition("Not\nrun again is what would end alike: ")[2]
    told = INLINE_CODE.findall(text.partition(". Besides")[0])
    assert sorted(told) == sorted(groups.HOPELESS)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_load(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    load(path).make_sink("uid")
    assert f"bridge/{path.name}" in (ROOT / "examples" / "README.md").read_text()


def test_configurations_in_the_guide_load(tmp_path: Path) -> None:
    shown = [block for language, block in FENCE.findall(PAGE) if language == "yaml"]
    assert shown
    for block in shown:
        file = tmp_path / "bridge.yaml"
        file.write_text(block)
        load(file)


def commands(page: Path) -> list[str]:
    """The command lines of `trainer-bridge` in a page; a bare command within text is none."""
    text = page.read_text()
    blocks = "\n".join(block for _, block in FENCE.findall(text))
    inline = [code for code in INLINE_CODE.findall(FENCE.sub("", text)) if " -" in code]
    return COMMAND.findall("\n".join([blocks, *inline]))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_command_lines_parse(page: Path) -> None:
    group = typer.main.get_group(app)
    for line in commands(page):
        name, *arguments = shlex.split(line, comments=True)
        group.commands[name].make_context(name, arguments)


def test_the_guide_shows_every_command() -> None:
    shown = {line.split()[0] for line in commands(ROOT / "docs" / "bridge.md")}
    assert shown == set(typer.main.get_group(app).commands)


def test_the_sink_in_the_guide_is_the_example() -> None:
    assert f"```python\n{(EXAMPLES / 'folder_sink.py').read_text()}```\n" in PAGE


async def test_the_sink_of_the_example_delivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    settings = yaml.safe_load((EXAMPLES / "custom.yaml").read_text())
    settings["sink"]["options"]["folder"] = str(tmp_path / "groups")
    sink = BridgeConfig.model_validate(settings).make_sink("uid")
    two = group(record(), record(episode={"name": "other", "uid": "other"}))
    await sink.open()
    assert await sink.demand() == Demand(groups=2)
    sink.check(two)
    assert await sink.arrived(two) is None
    await sink.send(two)
    assert await sink.arrived(two) is True
    assert await sink.demand() == Demand(groups=1)

    file = tmp_path / "groups" / "run-0.json"
    row = records.row()
    expected = {
        "reward": 1.0,
        "tokens": row.tokens.tolist(),
        "mask": row.mask.tolist(),
        "logprobs": row.logprobs.tolist(),
    }
    sent = json.loads(await asyncio.to_thread(file.read_bytes))
    assert sent == [{"uid": one.result.spec.episode.uid, **expected} for one in two.members]

    assert await sink.arrived(group(record())) is None, "a file of other Episodes proves nothing"
    with pytest.raises(RefusedError):
        sink.check(group(record(), record()))
    file.unlink()
    file.parent.rmdir()
    with pytest.raises(NotSentError):
        await sink.send(two)
    await sink.close()
