"""Files and the journal through a session, on the real runner."""

import asyncio
import hashlib
import os

import pytest

from episode_operator.sandbox import errors
from episode_operator.sandbox.results import FileType
from episode_operator.sandbox.session import Session
from tests.runner.sandbox import LocalSandbox


@pytest.mark.parametrize("size", [0, 1, 200_000, 256 << 10, (256 << 10) + 1, 48 << 20])
async def test_write_and_read(session: Session, size: int) -> None:
    """cases.md 2."""
    data = os.urandom(min(size, 1 << 20)) * (size // (1 << 20) if size > 1 << 20 else 1)
    written = await session.write_file("deep/er/file", data, parents=True, mode=0o751)
    assert (written.size_bytes, written.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    script = "sha256sum <deep/er/file; stat -c %a deep/er/file"
    seen = await session.exec(script, timeout_seconds=60)
    assert seen.stdout.text() == f"{written.sha256}  -\n751\n"
    content = await session.read_file("deep/er/file")
    assert content.data == data and content.end and content.info.size_bytes == size
    entries = await session.list_directory("deep/er")
    assert [entry.name for entry in entries.entries] == ["file"]


async def test_ranges(session: Session) -> None:
    data = os.urandom(3_000_000)
    await session.write_file("file", data)
    for offset, limit in ((0, 10), (2_999_990, 100), (5, 2_000_000), (3_000_000, 5), (9, 0)):
        content = await session.read_file("file", offset_bytes=offset, limit_bytes=limit)
        assert content.data == data[offset : offset + limit]
    assert (await session.read_file("file", offset_bytes=1_000_000)).data == data[1_000_000:]
    assert b"PPid" in (await session.read_file("/proc/self/status")).data


async def test_a_file_that_changes_meanwhile(session: Session, sandbox: LocalSandbox) -> None:
    path = sandbox.workdir / "file"
    path.write_bytes(b"x" * (8 << 20))
    reading = asyncio.create_task(session.read_file("file"))
    for _ in range(3):
        await asyncio.sleep(0)
    path.with_name("other").write_bytes(b"y" * (8 << 20))
    path.with_name("other").rename(path)
    try:
        content = await reading
    except errors.FileChanged as error:
        assert error.path == "file"
    else:
        assert len(set(content.data)) == 1


async def test_typed_errors(session: Session) -> None:
    await session.make_directory("directory")
    for path, kind, errno in (
        ("missing", errors.FileNotFound, "ENOENT"),
        ("directory", errors.FileIsDirectory, "EISDIR"),
        ("/dev/zero", errors.FileError, "EINVAL"),
    ):
        with pytest.raises(kind) as caught:
            await session.read_file(path)
        assert caught.value.errno == errno and caught.value.path.endswith(path)
    with pytest.raises(errors.FilePermissionDenied):
        await session.read_file("/etc/shadow", user="nobody")
    with pytest.raises(errors.FileNotFound):
        await session.write_file("no/parents", b"x" * 300_000)


async def test_verifier_paths_are_safe(session: Session) -> None:
    await session.write_file("outside/precious", b"x", parents=True)
    await session.exec("ln -s outside logs; ln -s outside/precious link", timeout_seconds=10)
    with pytest.raises(errors.FileIsLink):
        await session.read_file("link", refuse_links=True)
    with pytest.raises(errors.FileIsLink):
        await session.fresh_directory("logs/verifier")
    await session.fresh_directory("logs/verifier", replace_parents=True, mode=0o777)
    assert (await session.stat("logs", of_link=True)).type is FileType.DIRECTORY
    assert (await session.list_directory("logs/verifier")).entries == ()
    assert (await session.read_file("outside/precious")).data == b"x"
    assert await session.remove_path("link")
    assert not await session.remove_path("link")
    assert (await session.stat("outside/precious")).size_bytes == 1


async def test_a_repeated_write_changes_nothing(session: Session) -> None:
    for size in (10, 1_000_000):
        first = await session.write_file("file", b"x" * size, request_id=f"write-{size}")
        await session.exec("echo changed >>file", timeout_seconds=10)
        again = await session.write_file("file", b"x" * size, request_id=f"write-{size}")
        assert first == again
        assert (await session.stat("file")).size_bytes == size + len("changed\n")
        with pytest.raises(errors.RequestConflict):
            await session.write_file("file", b"y" * size, request_id=f"write-{size}")
        assert len((await session.list_directory(".")).entries) == 1


async def test_journal(session: Session, sandbox: LocalSandbox) -> None:
    entries = [os.urandom(10), b"", b"turn " * 100_000, os.urandom(3_000_000)]
    for index, entry in enumerate(entries):
        await session.journal_append(index, entry)
        await session.journal_append(index, entry)
    assert await session.journal_read() == entries
    with pytest.raises(errors.JournalConflict):
        await session.journal_append(1, b"other")
    with pytest.raises(errors.JournalConflict):
        await session.journal_append(9, b"gap")
    await session.close()
    async with sandbox.session() as other:
        assert await other.journal_read() == entries
        block = os.urandom(8 << 20)
        with pytest.raises(errors.JournalFull):
            for index in range(len(entries), 20):
                await other.journal_append(index, block)
