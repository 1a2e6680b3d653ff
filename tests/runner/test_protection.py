"""PID 1 against what runs beside it."""

import asyncio
import os
import textwrap
from pathlib import Path

import pytest

from episode_operator.sandbox import errors
from episode_operator.sandbox.session import Session
from tests.runner.sandbox import LocalSandbox, eventually, local_sandbox


async def python(session: Session, code: str) -> str:
    """Runs Python in the sandbox as root, which is more than an agent may be."""
    result = await session.exec(
        ["python3", "-c", textwrap.dedent(code)], timeout_seconds=30, merge_output=True
    )
    return result.stdout.text()


async def test_no_signal_from_inside_ends_it(session: Session) -> None:
    instance = session.instance
    code = """
        import ctypes, os, signal
        for number in range(1, 65):
            for _ in range(3):
                try: os.kill(1, number)
                except OSError: pass
        # As sigqueue does it: a code that a runtime may take for a fault of its own.
        libc = ctypes.CDLL(None, use_errno=True)
        class Info(ctypes.Structure):
            _fields_ = [("signo", ctypes.c_int), ("errno", ctypes.c_int), ("code", ctypes.c_int),
                        ("rest", ctypes.c_char * 116)]
        for number in range(1, 65):
            for code in (-1, -2, -60):
                info = Info(number, 0, code)
                libc.syscall(129, 1, number, ctypes.byref(info))
        print("sent")
    """
    assert await python(session, code) == "sent\n"
    await asyncio.gather(*(session.exec(["true"], timeout_seconds=10) for _ in range(50)))
    assert session.instance == instance and session.attachments == 1


async def test_nobody_inside_may_connect(sandbox: LocalSandbox, session: Session) -> None:
    code = f"""
        import os, socket, array, subprocess
        name = "\\0episode-runner/" + os.readlink("/proc/self/ns/pid")
        def attempt():
            s = socket.socket(socket.AF_UNIX)
            s.connect(name)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))
            try: s.sendmsg([b"A"], [rights])
            except BrokenPipeError: pass
            return s.recv(1000).decode()
        print(attempt())
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:  # an orphan: its parent is PID 1
                import time; time.sleep(0.2)
                print(attempt(), flush=True)
            os._exit(0)
        os.wait(); import time; time.sleep(0.5)
        print(subprocess.run(["{sandbox.runner}", "attach"], capture_output=True, text=True,
                             stdin=subprocess.DEVNULL).stderr)
    """
    answer = await python(session, code)
    assert answer.count("comes from inside the container") == 3, answer
    assert session.attachments == 1
    assert (await session.exec(["true"], timeout_seconds=10)).exit_code == 0


async def test_its_memory_is_closed_to_other_users(session: Session) -> None:
    result = await session.exec(
        "cd /proc/1; for f in mem environ maps exe fd; do cat $f; ls $f/; done 2>&1",
        timeout_seconds=10,
        user="nobody",
    )
    text = result.stdout.text()
    assert "IMAGE_VARIABLE" not in text and text.count("Permission denied") >= 5, text


async def test_serve_refuses_to_be_another_process(sandbox: LocalSandbox) -> None:
    process = await asyncio.create_subprocess_exec(
        str(sandbox.runner), "serve", stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await process.communicate()
    assert process.returncode == 1 and b"must be PID 1" in stderr


async def test_a_killed_attach_is_replaced(session: Session) -> None:
    await session.exec(
        "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline | grep -q 'runner attach'"
        " && kill -9 ${p#/proc/}; done; true",
        timeout_seconds=20,
    )
    assert (await session.exec("echo on", timeout_seconds=10)).stdout.data == b"on\n"
    await eventually(lambda: session.attachments == 2)


async def test_orphans_are_reaped(session: Session) -> None:
    await session.exec(
        "for i in $(seq 50); do (sleep 0.05 &) ; done; sleep 0.5", timeout_seconds=20
    )
    result = await session.exec("cat /proc/[0-9]*/stat", timeout_seconds=10)
    assert b") Z " not in result.stdout.data


async def test_a_fork_bomb_does_not_starve_it(runner: Path) -> None:
    """A runtime that cannot make a thread ends its process; PID 1 has made its threads before."""
    uid = 50_000 + os.getpid() % 10_000  # the limit counts all processes of a user
    poor = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all")
    limit = ("prlimit", "--nproc=90", "--")
    bomb = "f() { sleep 5 & f & f & }; f; sleep 5"
    async with (
        local_sandbox(runner, through=(*poor, *limit)) as box,
        box.session(reconnect_seconds=15) as session,
    ):
        running = asyncio.create_task(session.exec(bomb, timeout_seconds=3, shell="bash"))
        refused, data = 0, bytes(1_000_000)
        while not running.done():
            answers = await asyncio.gather(
                *(session.exec(["true"], timeout_seconds=5) for _ in range(20)),
                *(session.write_file(f"f{number}", data) for number in range(10)),
                return_exceptions=True,
            )
            failures = [answer for answer in answers if isinstance(answer, BaseException)]
            for failure in failures:
                assert isinstance(failure, errors.CommandNotStarted), failure
                assert failure.errno == "EAGAIN"
            refused += len(failures)
        assert refused > 0
        await session.kill_all()
        assert (await session.exec("echo on", timeout_seconds=10)).stdout.data == b"on\n"


RACES = {
    "a link": ("os.symlink(outside, path)",),
    "a directory with a file": ("os.mkdir(path)", "open(f'{path}/reward.txt', 'w').close()"),
    "a parent that is a link": (
        *("os.rename('logs', 'away')", "os.symlink(outside, 'logs')"),
        *("os.remove('logs')", "os.rename('away', 'logs')"),
    ),
}


@pytest.mark.parametrize("race", RACES)
async def test_a_loop_against_a_fresh_directory(
    session: Session, sandbox: LocalSandbox, race: str
) -> None:
    """It may make that fail, by a typed error, as long as it runs; never be followed."""
    outside = sandbox.workdir / "outside"
    outside.mkdir(mode=0o700)
    (outside / "precious").write_text("kept")
    (sandbox.workdir / "logs").mkdir()
    moves = "".join(f"\n    try: {move}\n    except OSError: pass" for move in RACES[race])
    code = (
        f"import os\npath, outside = 'logs/verifier', '{outside}'\nwhile True:{moves}\n    print()"
    )
    await session.start_process("racer", ["python3", "-u", "-c", code])
    ended: list[str] = []
    while (await session.poll_process("racer")).status.output_bytes < 1000:
        try:
            await session.fresh_directory(
                "logs/verifier", mode=0o711, owner="1234:1234", replace_parents=True
            )
        except errors.FileError as error:
            ended.append(error.errno)
    await session.kill_all()
    assert all(ended) and "EINVAL" not in ended
    assert (outside / "precious").read_text() == "kept"
    # What the loop makes outside itself is root's; the runner's would be the owner's.
    assert outside.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_uid for path in (outside, *outside.iterdir())} == {0}
    await session.fresh_directory("logs/verifier", mode=0o711, replace_parents=True)
    assert (await session.list_directory("logs/verifier", refuse_links=True)).entries == ()


LEFTOVERS = {
    "modes that forbid all": "mkdir -p a/b/c && touch a/b/c/file && chmod 0 a/b/c a/b a . && cd /",
    "5,000 levels": """python3 -c "
import os
for _ in range(5000): os.mkdir('d'), os.chdir('d')" """,
    "20,000 files": "seq 20000 | xargs touch",
    "names with newlines": r"""touch "$(printf 'a\nb\n.')" && mkdir "$(printf '\n.')" """,
    "a working directory": "mkdir b && cd b && { sleep 1000 & } && cd .. && sleep 1000 &",
    "links that go out": "ln -s /etc all && ln -s / root && ln -s . self",
    "pipes and sockets": """mkfifo pipe && python3 -c "
import socket
socket.socket(socket.AF_UNIX).bind('socket')" """,
}


@pytest.mark.parametrize("root", [True, False])
async def test_nothing_is_left_in_a_fresh_directory(runner: Path, root: bool) -> None:
    """By a runner that is root, and by one that has the rights of the agent only."""
    poor = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
    async with (
        local_sandbox(runner, through=() if root else poor) as box,
        box.session() as session,
    ):
        for name, leftover in LEFTOVERS.items():
            script = f"mkdir -p logs/verifier; cd logs/verifier; {leftover}"
            made = await session.exec(script, timeout_seconds=60)
            assert made.exit_code == 0, f"{name}: {made.stderr.text()}"
            await session.fresh_directory("logs/verifier", mode=0o755)
            assert (await session.list_directory("logs/verifier")).entries == (), name
            assert (await session.stat("logs/verifier")).mode == 0o755, name


async def test_open_handles_do_not_reach_a_fresh_directory(runner: Path) -> None:
    """Not through files and folders that were removed, nor on a mount point, which stays."""
    code = """
        import os, sys, time
        handles = []
        for name in ("plain", "mount"):
            os.makedirs(f"{name}/sub", exist_ok=True)
            handles.append(open(f"{name}/reward.txt", "w"))
            handles.append(os.open(f"{name}/sub", os.O_DIRECTORY))
            handles.append(os.open(name, os.O_DIRECTORY) if name == "plain" else None)
        print("ready", flush=True)
        sys.stdin.read()
        for handle in handles:
            if isinstance(handle, int):
                try: os.open("reward.txt", os.O_CREAT | os.O_WRONLY, dir_fd=handle)
                except FileNotFoundError: print("no way", flush=True)
            elif handle:
                handle.write("1"); handle.flush(); print("written", flush=True)
    """
    mount = 'mkdir mount && mount -t tmpfs tmpfs mount && exec "$@"'
    async with (
        local_sandbox(runner, through=("sh", "-c", mount, "sh")) as box,
        box.session() as session,
    ):
        program = ["python3", "-c", textwrap.dedent(code)]
        await session.start_process("holder", program, open_stdin=True)
        await eventually(lambda: _wrote(session, "holder", b"ready\n"))
        for folder in ("plain", "mount"):
            await session.fresh_directory(folder)
        await session.write_process("holder", b"", close_stdin=True)
        told = b"ready\nwritten\nno way\nno way\nwritten\nno way\n"
        await eventually(lambda: _wrote(session, "holder", told))
        for folder in ("plain", "mount"):
            assert (await session.list_directory(folder)).entries == ()


async def _wrote(session: Session, process: str, data: bytes) -> bool:
    return (await session.poll_process(process)).data == data
