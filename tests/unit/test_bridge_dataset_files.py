"""The files of a dataset: each is whole or not there, and of the group that it is named after."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.mixed_groups import KINDS, Kind, mixed, settings, written
from trainer_bridge.sinks.base import NotSentError, Sink, SinkError
from trainer_bridge.sinks.datasets import DatasetSink


@pytest.mark.parametrize("kind", KINDS)
async def test_sending_again_replaces_the_file_with_the_same_bytes(
    tmp_path: Path, kind: Kind
) -> None:
    sink = await written(tmp_path, kind, mixed())
    [file] = (tmp_path / "data").iterdir()
    first = file.read_bytes()
    await sink.send(mixed())
    assert [path.name for path in (tmp_path / "data").iterdir()] == [f"run-0.{kind}"]
    assert file.read_bytes() == first


@pytest.mark.parametrize("kind", KINDS)
async def test_arrived_is_told_by_the_whole_file_of_these_episodes(
    tmp_path: Path, kind: Kind
) -> None:
    sink: Sink = await written(tmp_path, kind, mixed("run-0"))
    assert await sink.arrived(mixed("run-0"))
    assert not await sink.arrived(mixed("run-1"))
    file = tmp_path / "data" / f"run-0.{kind}"
    whole = file.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert not await sink.arrived(mixed("run-0"))
    await sink.send(mixed("run-0"))
    assert file.read_bytes() == whole


@pytest.mark.parametrize("kind", KINDS)
async def test_another_group_of_the_same_name_is_not_written_over(
    tmp_path: Path, kind: Kind
) -> None:
    await written(tmp_path, kind, mixed("run-0"))
    before = (tmp_path / "data" / f"run-0.{kind}").read_bytes()
    other = replace(mixed("later"), name="run-0")
    sink = await written(tmp_path, kind)
    with pytest.raises(SinkError, match="another folder") as caught:
        await sink.send(other)
    assert not isinstance(caught.value, NotSentError)
    assert not await sink.arrived(other)
    assert (tmp_path / "data" / f"run-0.{kind}").read_bytes() == before


async def test_long_names_give_files_of_their_own(tmp_path: Path) -> None:
    names = [f"{'a' * 240}-{number}" for number in range(2)]
    sink = await written(tmp_path, "jsonl", *map(mixed, names))
    assert len(list((tmp_path / "data").iterdir())) == 2
    assert all([await sink.arrived(mixed(name)) for name in names])


async def test_leftovers_are_removed_at_open_and_nothing_else(tmp_path: Path) -> None:
    await written(tmp_path, "jsonl", mixed())
    (tmp_path / "data" / ".0f.tmp").write_text("torn")
    (tmp_path / "data" / ".keep").write_text("")
    await written(tmp_path, "jsonl")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [".keep", "run-0.jsonl"]


async def test_a_file_that_cannot_be_written_is_not_sent_and_leaves_nothing(tmp_path: Path) -> None:
    sink = await written(tmp_path, "jsonl")
    (tmp_path / "data" / "run-0.jsonl").mkdir()
    (tmp_path / "data" / "run-0.jsonl" / "in the way").touch()
    with pytest.raises(SinkError, match=r"run-0\.jsonl cannot be read: Is a directory"):
        await sink.send(mixed())
    (tmp_path / "data" / "run-0.jsonl" / "in the way").unlink()
    (tmp_path / "data" / "run-0.jsonl").rmdir()
    (tmp_path / "data").rmdir()
    with pytest.raises(NotSentError, match=r"run-0\.jsonl cannot be written: No such file"):
        await sink.send(mixed())


async def test_a_full_disk_is_not_sent_and_sent_again_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = await written(tmp_path, "parquet", mixed("run-0"))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(NotSentError, match=r"run-1\.parquet .*No space left.* make room"):
            await sink.send(mixed("run-1"))
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["run-0.parquet"]
    await sink.send(mixed("run-1"))
    assert await sink.arrived(mixed("run-1"))


async def test_a_folder_that_cannot_be_made_is_told_at_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot be used: Not a directory; choose"):
        await DatasetSink(settings(tmp_path / "file" / "set", "jsonl")).open()


async def test_a_folder_of_the_other_kind_is_told_at_open(tmp_path: Path) -> None:
    await written(tmp_path, "jsonl", mixed())
    with pytest.raises(SinkError, match=r"holds \.jsonl files"):
        await written(tmp_path, "parquet")
    (tmp_path / "data" / "run-0.jsonl").unlink()
    with pytest.raises(SinkError, match=r"does not lead to data/\*\.parquet"):
        await written(tmp_path, "parquet")


async def test_a_card_that_was_edited_is_kept(tmp_path: Path) -> None:
    await written(tmp_path, "jsonl")
    card = tmp_path / "README.md"
    card.write_text(card.read_text() + "License: mine.\n")
    await written(tmp_path, "jsonl")
    assert card.read_text().endswith("License: mine.\n")
