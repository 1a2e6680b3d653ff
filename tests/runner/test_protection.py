"""PID 1 against what runs beside it."""

import asyncio
import os
import textwrap
from pathlib import Path

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
