"""Archives of folders: byte-exact, the same each time, never out of the task's folder."""

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from tests.unit.task_folders import write
from trainer_bridge.sources.archives import PART_BYTES, Entry, Packer, pack, read_tree
from trainer_bridge.sources.errors import UnusableError

BINARY = bytes(range(256)) * 7


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
        return {member.name: member for member in tar.getmembers()}


def content(data: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def test_files_links_folders_and_modes_are_kept(tmp_path: Path) -> None:
    folder = write(tmp_path / "tests", {"deep/er/data.bin": BINARY, "run.sh": "#!/bin/sh\n"})
    (folder / "run.sh").chmod(0o750)
    (folder / "empty").mkdir(mode=0o700)
    (folder / "link").symlink_to("deep/er/data.bin")
    data = pack(read_tree(folder, within=tmp_path))
    found = members(data)
    assert sorted(found) == ["deep", "deep/er", "deep/er/data.bin", "empty", "link", "run.sh"]
    assert content(data, "deep/er/data.bin") == BINARY
    assert found["run.sh"].mode == 0o750
    assert found["empty"].isdir() and found["empty"].mode == 0o700
    assert found["link"].issym() and found["link"].linkname == "deep/er/data.bin"
    assert {(m.uid, m.gid, m.mtime) for m in found.values()} == {(0, 0, 0)}


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"b": "2", "a": "1"})
    other = write(tmp_path / "other", {"a": "1", "b": "2"})
    os.utime(other / "a", (1, 1))
    assert pack(read_tree(one, within=tmp_path)) == pack(read_tree(other, within=tmp_path))


def test_a_large_archive_is_cut_into_parts() -> None:
    noise = b"".join(hashlib.sha256(bytes([i, j])).digest() for i in range(200) for j in range(256))
    packer = Packer("task")
    archive = packer.add({"noise": Entry(0o644, noise)}, path="/tests")
    parts = packer.parts
    assert len(parts) > 1
    assert archive.parts == [part.name for part in parts]
    assert all(len(part.data) <= PART_BYTES for part in parts)
    whole = b"".join(part.data for part in parts)
    assert archive.sha256 == hashlib.sha256(whole).hexdigest()
    assert content(whole, "noise") == noise


def test_the_same_tree_twice_has_its_parts_once() -> None:
    packer = Packer("task")
    tree = {"a": Entry(0o644, b"x")}
    first, second = packer.add(tree, path="/tests"), packer.add(tree, path="/elsewhere")
    assert (first.parts, first.sha256) == (second.parts, second.sha256)
    assert len(packer.parts) == 1


def test_config_maps_are_labelled_and_immutable() -> None:
    packer = Packer("task")
    packer.add({"a": Entry(0o644, b"x")}, path="/tests")
    body = packer.parts[0].to_api("space", {"run": "1"})
    assert body["metadata"]["namespace"] == "space"
    assert body["metadata"]["labels"] == {"run": "1"}
    assert body["immutable"] is True
    assert list(body["binaryData"]) == ["part"]


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "loop"])
def test_links_that_lead_out_are_refused(tmp_path: Path, target: str) -> None:
    folder = write(tmp_path / "task" / "tests", {"a": ""})
    (tmp_path / "outside").touch()
    (folder / "loop").symlink_to(target)
    with pytest.raises(UnusableError, match="loop is a link"):
        read_tree(folder, within=tmp_path / "task")


def test_a_link_to_elsewhere_in_the_task_stays(tmp_path: Path) -> None:
    write(tmp_path, {"environment/data": "x"})
    folder = write(tmp_path / "tests", {"a": ""})
    (folder / "data").symlink_to("../environment/data")
    assert read_tree(folder, within=tmp_path)["data"].link == "../environment/data"


def test_a_folder_that_is_a_link_out_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "outside", {"a": ""})
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "tests").symlink_to(tmp_path / "outside")
    with pytest.raises(UnusableError, match="out of the task's folder"):
        read_tree(tmp_path / "task" / "tests", within=tmp_path / "task")


def test_special_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnusableError, match="pipe is neither a file nor a folder nor a link"):
        read_tree(tmp_path, within=tmp_path)


def test_ignore_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"sub/.harborignore": "*.pyc\n"})
    with pytest.raises(UnusableError, match=r"sub/\.harborignore is not supported"):
        read_tree(tmp_path, within=tmp_path)
