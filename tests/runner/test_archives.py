"""Archives out of sandboxes and into them, on the real runner."""

import asyncio
import hashlib
import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from episode_operator.sandbox import errors, protocol
from episode_operator.sandbox.archives import carry
from episode_operator.sandbox.results import Packed
from episode_operator.sandbox.session import Session
from tests.runner.sandbox import LocalSandbox, PipeChannel, local_sandbox
from tests.runner.test_reattach import Fragile

TREE = """
mkdir -p tree/sub/empty && cd tree
head -c 3000000 /dev/urandom >sub/big
printf '#!/bin/sh\\n' >'a run' && chmod 4711 'a run' && touch -d '2001-02-03 04:05:06.789' 'a run'
printf 'é' >"$(printf 'li\\nne \\377')"
ln -s /etc/passwd link && ln sub/big twice && mkfifo pipe
chown 1234:5678 sub/empty && chmod 555 sub && chmod 700 sub/empty
"""
LISTING = "find tree ! -type p -printf '%p %y %m %U:%G %T@ %l\\0' | sort -z"


async def listing(session: Session, cwd: str | None = None) -> bytes:
    """Everything about the tree that an archive keeps, pipes not."""
    script = f"{LISTING}; find tree -type f -print0 | sort -z | xargs -0 sha256sum"
    result = await session.exec(script, timeout_seconds=30, cwd=cwd)
    assert result.exit_code == 0 and not result.stderr.data, result.stderr.text()
    return result.stdout.data


def tar(*names: str, **links: str) -> bytes:
    """A gzipped tar of small files, and of symbolic links."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, target in links.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name in names:
            file = tarfile.TarInfo(name)
            file.size = len(name)
            archive.addfile(file, io.BytesIO(name.encode()))
    return out.getvalue()


async def test_another_implementation_reads_it(session: Session, sandbox: LocalSandbox) -> None:
    await session.exec(TREE, timeout_seconds=20)
    data, packed = await session.pack_bytes(["tree"], limit_bytes=10 << 20)
    assert packed == Packed(len(data), hashlib.sha256(data).hexdigest(), {}, {})
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {member.name: member for member in archive.getmembers()}
        root = str(sandbox.workdir).removeprefix("/") + "/tree"
        assert list(members) == sorted(members) and members[f"{root}/sub"].mode == 0o555
        big = archive.extractfile(f"{root}/sub/big")
        assert big is not None and big.read() == (sandbox.workdir / "tree/sub/big").read_bytes()
    assert members[f"{root}/twice"].isreg() and members[f"{root}/link"].linkname == "/etc/passwd"
    assert members[f"{root}/a run"].mode == 0o4711
    assert members[f"{root}/a run"].mtime == pytest.approx(981173106.789)
    assert (members[f"{root}/sub/empty"].uid, members[f"{root}/sub/empty"].gid) == (1234, 5678)
    assert not any("pipe" in name for name in members) and any("\n" in name for name in members)


async def test_what_another_implementation_wrote(session: Session) -> None:
    await session.exec(TREE, timeout_seconds=20)
    made = await session.exec(
        "rm tree/pipe && tar -czf - tree", timeout_seconds=20, output_limit_bytes=10 << 20
    )
    unpacked = await session.unpack("copy", made.stdout.data)
    assert unpacked.entries == 8 and unpacked.archive.size_bytes == len(made.stdout.data)
    script = "cmp tree/sub/big copy/tree/twice && stat -c '%h %a %u' copy/tree/sub/*"
    seen = await session.exec(script, timeout_seconds=20)
    assert seen.stdout.text() == "2 644 0\n2 700 1234\n"


async def test_out_and_in_over_links_that_break(sandbox: LocalSandbox) -> None:
    budgets = [150_000, 400_000, 300_000, 20_000, 350_000, 500_000] * 3

    async def open_channel() -> Fragile | PipeChannel:
        channel = await sandbox.open_channel()
        return Fragile(channel, budgets.pop(), damage=False) if budgets else channel

    async with Session(open_channel, pod_uid="local", reconnect_seconds=30) as session:
        await session.exec(TREE, timeout_seconds=20)
        before = await listing(session)
        async with session.pack(["tree"], limit_bytes=10 << 20) as packing:
            await session.unpack("copy", packing)
        assert session.attachments > 10
        assert await listing(session, f"copy{sandbox.workdir}") == before


async def test_what_is_missing_is_told(session: Session, sandbox: LocalSandbox) -> None:
    script = "mkdir real; echo 1 >real/file; ln -s real link; mkfifo pipe; truncate -s 1T huge"
    await session.exec(script, timeout_seconds=10)
    paths = ["absent", "link/file", "pipe", "huge", "real", f"{sandbox.workdir}/link"]
    data, packed = await session.pack_bytes(paths, limit_bytes=100)
    assert packed.missing == {
        "absent": "no such file or directory",
        "link/file": "a symbolic link is on the way to it",
        "pipe": "it is a pipe, socket or device",
        "huge": "its 1099511627776 bytes would pass the limit of 100 bytes",
    }
    assert list(packed.too_large) == ["huge"]
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = [Path(name).name for name in archive.getnames()]
    assert names == ["link", "real", "file"]
    data, packed = await session.pack_bytes([], limit_bytes=0)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getnames() == [] and packed.missing == {}


async def test_a_file_that_changes_ends_the_pack(session: Session, sandbox: LocalSandbox) -> None:
    file = sandbox.workdir / "file"
    file.write_bytes(os.urandom(2_000_000))
    async with session.pack(["file"], limit_bytes=10 << 20) as packing:
        await anext(packing)
        with file.open("ab") as more:
            more.write(b"more")
        with pytest.raises(errors.FileChanged) as caught:
            async for _ in packing:
                pass
        assert caught.value.path == str(file)
        with pytest.raises(RuntimeError):
            _ = packing.packed
    assert (await session.pack_bytes(["file"], limit_bytes=10 << 20))[1].missing == {}


async def test_packs_that_are_left_are_dropped(session: Session, sandbox: LocalSandbox) -> None:
    (sandbox.workdir / "file").write_bytes(os.urandom(2_000_000))
    for _ in range(20):
        async with session.pack(["file"], limit_bytes=10 << 20) as packing:
            await anext(packing)
    packs = [session.pack(["file"], limit_bytes=10 << 20) for _ in range(5)]
    for pack in packs[:4]:
        await anext(pack)
    with pytest.raises(errors.InvalidRequest, match="4 packs"):
        await anext(packs[4])
    async with sandbox.session() as newer:
        await newer.pack_bytes(["file"], limit_bytes=10 << 20)


async def test_an_unpack_is_repeatable(sandbox: LocalSandbox) -> None:
    async def unreadable() -> AsyncIterator[bytes]:
        raise AssertionError("it was read")
        yield b""

    async def pieces(data: bytes) -> AsyncIterator[bytes]:
        for at in range(0, len(data), 7):
            yield data[at : at + 7]

    async with sandbox.session() as session:
        first = await session.unpack("box", tar("a", "b"), request_id="whole")
        streamed = await session.unpack("box", pieces(tar("c")), request_id="streamed")
        assert (first.entries, streamed.entries) == (2, 1)
        await session.remove_path("box", recursive=True)
        assert await session.unpack("box", tar("a", "b"), request_id="whole") == first
        with pytest.raises(errors.RequestConflict):
            await session.unpack("box", tar("other"), request_id="whole")
    async with sandbox.session() as session:
        assert await session.unpack("box", unreadable(), request_id="streamed") == streamed
        with pytest.raises(errors.FileNotFound):
            await session.stat("box")
        session.forget("streamed")
        await session.exec(["true"], timeout_seconds=10)
        with pytest.raises(AssertionError, match="it was read"):
            await session.unpack("box", unreadable(), request_id="streamed")
        assert (await session.unpack("box", pieces(tar("c")), request_id="streamed")).entries == 1
        with pytest.raises(errors.InvalidArchive):
            await session.unpack("box", b"no archive", request_id="failed")
        with pytest.raises(errors.InvalidArchive):
            await session.unpack("box", b"no archive", request_id="failed")


async def test_archives_that_are_refused(session: Session, sandbox: LocalSandbox) -> None:
    await session.exec("mkdir box outside; ln -s ../outside box/there", timeout_seconds=10)
    for bad in (
        *(tar("/escaped"), tar("../escaped"), tar("a/../../escaped"), tar("there/escaped")),
        *(tar("link/escaped", link="../outside"), b"", b"text", tar("a")[:-20]),
    ):
        with pytest.raises(errors.InvalidArchive):
            await session.unpack("box", bad)
    assert not any((sandbox.workdir / "outside").iterdir())
    assert {path.name for path in sandbox.workdir.iterdir()} == {"box", "outside"}
    with pytest.raises(errors.FileIsLink):
        await session.unpack("box/there/deep", tar("a"))
    with pytest.raises(errors.ArchiveTooLarge):
        await session.unpack("box", tar("a", "b"), limit_bytes=1)
    with pytest.raises(errors.ArchiveTooLarge):
        await session.unpack("box", tar("a", "b"), limit_entries=1)
    with pytest.raises(errors.InvalidRequest):
        await session.unpack("box", tar("a"), owner="no-such-user")


async def test_a_zip_bomb_fills_nothing(session: Session, sandbox: LocalSandbox) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for number in range(4):
            file = tarfile.TarInfo(f"zeros{number}")
            file.size = 8 << 20
            archive.addfile(file, io.BytesIO(bytes(file.size)))
    assert len(out.getvalue()) < 100_000
    with pytest.raises(errors.ArchiveTooLarge):
        await session.unpack("box", out.getvalue(), limit_bytes=20 << 20)
    assert sum(file.stat().st_size for file in (sandbox.workdir / "box").iterdir()) == 16 << 20


async def test_a_disk_that_is_full(runner: Path) -> None:
    mount = ("sh", "-c", 'mount -t tmpfs -o size=300k tmpfs "$PWD" && cd "$PWD" && exec "$@"', "sh")
    async with local_sandbox(runner, through=mount) as box, box.session() as session:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            file = tarfile.TarInfo("zeros")
            file.size = 1 << 20
            archive.addfile(file, io.BytesIO(bytes(file.size)))
        with pytest.raises(errors.NoSpace):
            await session.unpack("box", out.getvalue())
        with pytest.raises(errors.NoSpace):
            await session.unpack("box", os.urandom(1 << 20))
        await session.remove_path("box", recursive=True)
        assert (await session.unpack("box", tar("a"))).entries == 1


async def test_carry(runner: Path, session: Session, sandbox: LocalSandbox) -> None:
    """From one container to another, which has a file system of its own at the path."""
    script = f"""
        mount -t tmpfs tmpfs {sandbox.workdir} && cd {sandbox.workdir} && mkdir tree &&
        echo stale >tree/stale && echo stale >gone && echo kept >kept && exec "$@"
    """
    work = str(sandbox.workdir)
    paths = [f"{work}/tree", f"{work}/gone", f"{work}/huge"]
    async with (
        local_sandbox(runner, through=("sh", "-c", script, "sh")) as other,
        other.session() as target,
    ):
        await session.exec(f"truncate -s 1T huge; {TREE}", timeout_seconds=20)
        before = await listing(session)
        packed = await carry(session, target, paths, limit_bytes=10 << 20, request_id="carry")
        assert packed.missing[f"{work}/gone"] == "no such file or directory"
        assert list(packed.too_large) == [f"{work}/huge"] and len(packed.missing) == 2
        assert await listing(target, work) == before
        names = [entry.name for entry in (await target.list_directory(work)).entries]
        assert names == ["kept", "tree"]
        await session.exec("echo more >>tree/more", timeout_seconds=10)
        again = await carry(session, target, paths, limit_bytes=10 << 20, request_id="carry")
        assert again == packed and await listing(target, work) == before
        await carry(session, target, paths, limit_bytes=10 << 20)
        assert await listing(target, work) == await listing(session)


async def test_a_runner_that_is_not_root(runner: Path, session: Session) -> None:
    await session.exec(
        "mkdir theirs; echo same >theirs/same; echo old >theirs/open; chmod 666 theirs/open;"
        " mkdir -m 777 free; echo secret >free/secret; chmod 600 free/secret; mkdir -m 555 none",
        timeout_seconds=10,
    )
    work = (await session.info()).working_dir
    poor = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--inh-caps=-all")
    cwd = ("sh", "-c", f'cd {work} && exec "$@"', "sh")
    async with (
        local_sandbox(runner, through=(*poor, *cwd)) as box,
        box.session() as other,
    ):
        data, packed = await other.pack_bytes(["theirs", "free"], limit_bytes=1000)
        secret = f'"{work}/free/secret" cannot be read: permission denied'
        assert packed.missing == {"free": secret}
        await session.exec("echo old >theirs/open", timeout_seconds=10)
        await other.unpack("/", data)
        unpacked = await other.unpack("free/box", tar("a"), owner="54321")
        assert unpacked.entries == 1 and (await other.stat("free/box/a")).uid == 54321
        with pytest.raises(errors.FilePermissionDenied):
            await other.unpack("none", tar("a"))
        with pytest.raises(errors.InvalidRequest, match="only root"):
            await other.unpack("free", tar("a"), owner="0:0")


async def test_an_archive_that_came_otherwise_than_it_was_packed_is_refused() -> None:
    """By a runner that the test plays."""

    class Scripted:
        def __init__(self) -> None:
            self.answers: asyncio.Queue[bytes] = asyncio.Queue()
            greeting = {
                "version": protocol.VERSION,
                "instance": "i",
                "uptimeSeconds": 1,
                "journalLength": 0,
            }
            self.encoder, self.decoder = protocol.Encoder(), protocol.Decoder()
            said = self.encoder.encode(protocol.HELLO, orjson.dumps(greeting))
            self.answers.put_nowait(said)

        async def send(self, data: bytes) -> None:
            for frame in self.decoder.feed(data):
                if frame.kind != protocol.PART:
                    continue
                stream, message = protocol.Assembler().add(frame.body) or (0, b"")
                asked = orjson.loads(protocol.split_message(message)[0])["op"]
                packed = {"sizeBytes": 4, "sha256": "0" * 64, "missing": {}, "tooLarge": []}
                answer = {"result": {"packed": packed} if asked == "readPack" else {}}
                whole = protocol.join_message(orjson.dumps(answer), b"data")
                self.answers.put_nowait(self.encoder.encode_part(stream, True, whole))

        async def receive(self) -> bytes:
            return await self.answers.get()

        async def close(self) -> None:
            pass

    async def open_channel() -> Scripted:
        return Scripted()

    async with Session(open_channel) as session:
        with pytest.raises(errors.RunnerFault, match="4 bytes of an archive"):
            await session.pack_bytes(["/any"], limit_bytes=10)
