"""Commands through a session, on the real runner."""

import asyncio
import time

import pytest

from episode_operator.sandbox import errors
from episode_operator.sandbox.session import Session
from tests.runner.sandbox import LocalSandbox, eventually


async def count(session: Session, marker: str) -> int:
    """How many live processes of the sandbox have the marker in their command line."""
    script = (
        "n=0; for p in /proc/[0-9]*; do "
        f"case $p in /proc/$$|/proc/self) continue;; esac; "
        f'grep -aq "{marker}" $p/cmdline 2>/dev/null && n=$((n+1)); done; echo $n'
    )
    result = await session.exec(["sh", "-c", script, marker[:0]], timeout_seconds=20)
    return int(result.stdout.data)


async def test_a_command_and_its_two_streams(session: Session) -> None:
    result = await session.exec("printf out; printf err >&2; exit 3", timeout_seconds=10)
    assert (result.exit_code, result.stdout.data, result.stderr.data) == (3, b"out", b"err")
    assert not result.timed_out and result.signal is None and result.duration_seconds > 0


async def test_text_is_exact_across_frames(session: Session) -> None:
    """cases.md 1: 40,000 `é` behind one ASCII character."""
    script = "printf a; head -c 40000 /dev/zero | sed 's/\\x00/é/g'"
    result = await session.exec(script, timeout_seconds=20)
    assert result.stdout.text() == "a" + "é" * 40_000


async def test_a_background_child_does_not_hold_the_call(session: Session) -> None:
    """cases.md 3, first half."""
    begin = time.monotonic()
    result = await session.exec("sleep 3600 & echo started", timeout_seconds=60)
    assert result.stdout.data == b"started\n"
    assert time.monotonic() - begin < 10
    assert await count(session, "3600") == 1


async def test_an_endless_writer_is_gone_after_its_time(session: Session) -> None:
    """cases.md 3, second half."""
    result = await session.exec("yes 7117 & yes 7117", timeout_seconds=1)
    assert result.timed_out and result.signal == 9 and result.exit_code == 137
    assert result.stdout.omitted_bytes > 0
    assert result.stdout.total_bytes == result.stdout.omitted_bytes + len(result.stdout.data)
    assert await count(session, "7117") == 0


async def test_output_over_the_limit_keeps_both_ends(session: Session) -> None:
    result = await session.exec("seq 100000", timeout_seconds=20, output_limit_bytes=1000)
    whole = "".join(f"{n}\n" for n in range(1, 100_001)).encode()
    assert result.stdout.head == whole[:500] and result.stdout.tail == whole[-500:]
    assert result.stdout.omitted_bytes == len(whole) - 1000


async def test_shell_state_is_carried_by_key(session: Session) -> None:
    await session.exec("cd /tmp; export A=1; exit 4", timeout_seconds=10, shell_state="one")
    result = await session.exec("pwd; echo $A", timeout_seconds=10, shell_state="one")
    assert result.stdout.data == b"/tmp\n1\n" and result.cwd == "/tmp"
    other = await session.exec("pwd; echo $A", timeout_seconds=10, shell_state="two")
    assert other.stdout.data.endswith(b"\n\n") and other.cwd != "/tmp"


async def test_users_state_and_rights(session: Session) -> None:
    options = {"timeout_seconds": 10, "user": "nobody", "shell_state": "nobody"}
    await session.exec("cd /tmp; export A=1", **options)  # type: ignore[arg-type]
    result = await session.exec("id -un; echo $A; cat /etc/shadow", **options)  # type: ignore[arg-type]
    assert result.stdout.data == b"nobody\n1\n" and result.exit_code == 1


async def test_the_images_environment_holds(session: Session) -> None:
    """cases.md 11: nothing of a login shell, the image's variables as they are."""
    info = await session.info()
    assert info.env["IMAGE_VARIABLE"] == "from image"
    result = await session.exec("echo $IMAGE_VARIABLE; echo $PATH", timeout_seconds=10)
    assert result.stdout.text() == f"from image\n{info.env['PATH']}\n"


async def test_many_callers_at_once(session: Session) -> None:
    """cases.md 4."""

    async def one(number: int) -> None:
        result = await session.exec(f"echo {number}; exit {number}", timeout_seconds=60)
        assert (result.stdout.data, result.exit_code) == (f"{number}\n".encode(), number)

    await asyncio.gather(*(one(number) for number in range(100)))


async def test_a_flood_delays_nobody(session: Session) -> None:
    flood = asyncio.create_task(
        session.exec("yes | head -c 30000000", timeout_seconds=60, output_limit_bytes=16 << 20)
    )
    slow = [asyncio.create_task(session.exec("sleep 10", timeout_seconds=30)) for _ in range(10)]
    for _ in range(5):
        await session.exec(["true"], timeout_seconds=30)
    assert not any(one.done() for one in slow)
    assert (await flood).stdout.total_bytes == 30_000_000
    await asyncio.gather(*slow)


async def test_large_stdin(session: Session) -> None:
    data = bytes(range(256)) * 20_000
    result = await session.exec(
        ["cat"], timeout_seconds=30, stdin=data, output_limit_bytes=2 * len(data)
    )
    assert result.stdout.data == data


async def test_a_long_script_is_no_problem(session: Session) -> None:
    """cases.md 2: a 200 KB command line. One argument may have 128 KiB; stdin takes any."""
    script = "# " + "x" * 200_000 + "\necho done\n"
    result = await session.exec(["sh"], stdin=script.encode(), timeout_seconds=10)
    assert result.stdout.data == b"done\n"
    with pytest.raises(errors.CommandNotStarted) as caught:
        await session.exec(script, timeout_seconds=10)
    assert caught.value.errno == "E2BIG"


async def test_errors_are_typed(session: Session) -> None:
    with pytest.raises(errors.CommandNotStarted) as caught:
        await session.exec(["no-such-program"], timeout_seconds=10)
    assert caught.value.errno == "ENOENT" and caught.value.pod_uid == "local"
    for bad in ("lone \ud800 surrogate", "zero \x00 byte"):
        with pytest.raises(errors.RequestError):
            await session.exec(["echo", bad], timeout_seconds=10)
    for seconds in (0, -1, float("inf"), float("nan")):
        with pytest.raises(errors.InvalidRequest):
            await session.exec("true", timeout_seconds=seconds)
    for request_id in ("", "~mine"):
        with pytest.raises(errors.InvalidRequest):
            await session.exec("true", timeout_seconds=1, request_id=request_id)
    with pytest.raises(errors.InvalidRequest):
        await session.exec("true", timeout_seconds=1, output_limit_bytes=1 << 30)
    with pytest.raises(errors.InvalidRequest):
        await session.exec("true", timeout_seconds=1, user="no-such-user")


async def test_cancel(session: Session) -> None:
    running = asyncio.create_task(
        session.exec("sleep 7227 & sleep 7227", timeout_seconds=60, request_id="long")
    )
    await eventually(lambda: session.cancel("long"))
    assert (await running).signal == 9
    assert await count(session, "7227") == 0
    assert not await session.cancel("long")


async def test_a_cancelled_wait_leaves_the_command_alone(
    session: Session, sandbox: LocalSandbox
) -> None:
    script = "echo >begun; sleep 1; echo >finished; echo done"
    waiting = asyncio.create_task(session.exec(script, timeout_seconds=10, request_id="kept"))
    await eventually((sandbox.workdir / "begun").exists)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await eventually((sandbox.workdir / "finished").exists)
    again = await session.exec(script, timeout_seconds=10, request_id="kept")
    assert again.stdout.data == b"done\n"


async def test_background_processes(session: Session) -> None:
    status = await session.start_process(
        "echo", "while read x; do echo got $x; done; exit 7", open_stdin=True
    )
    assert status.running and status.exit_code is None
    await session.write_process("echo", b"one\ntwo\n")
    output, cursor = b"", 0
    while not output.endswith(b"got two\n"):
        polled = await session.poll_process("echo", cursor=cursor, wait_seconds=5)
        output, cursor = output + polled.data, polled.next_cursor
    assert output == b"got one\ngot two\n"
    with pytest.raises(errors.ProcessConflict):
        await session.start_process("echo", "true")
    await session.write_process("echo", b"", close_stdin=True)
    polled = await session.poll_process("echo", cursor=cursor, wait_seconds=5)
    assert polled.status.exit_code == 7 and polled.data == b""
    await session.start_process("sleeper", "sleep 7337 & sleep 7337")
    assert [p.process for p in await session.list_processes()] == ["echo", "sleeper"]
    assert (await session.kill_process("sleeper")).signal == 9
    assert await count(session, "7337") == 0
    await session.remove_process("sleeper")
    with pytest.raises(errors.ProcessNotFound):
        await session.poll_process("sleeper")


async def test_kill_all(session: Session) -> None:
    await session.exec(
        "(setsid sleep 7447 &) ; nohup sleep 7447 >/dev/null 2>&1 &", timeout_seconds=10
    )
    await session.start_process("left", "trap '' TERM; sleep 7447")
    running = asyncio.create_task(session.exec("sleep 7447", timeout_seconds=60))

    async def all_there() -> bool:
        return await count(session, "7447") >= 5

    await eventually(all_there)
    assert await session.kill_all() >= 4
    assert (await running).signal == 9
    listing = await session.exec(
        ["sh", "-c", 'for p in /proc/[0-9]*; do echo "${p#/proc/} $(cat $p/comm)"; done'],
        timeout_seconds=10,
    )
    assert "sleep" not in listing.stdout.text()
    assert session.attachments >= 2, "the link was killed too, and made anew"


async def test_kill_all_beats_a_fork_bomb(session: Session) -> None:
    bomb = "f() { sleep 0.01; f & f & }; f"
    await session.exec(f"ulimit -u 400 2>/dev/null; {bomb}", timeout_seconds=1, shell="bash")
    await session.kill_all()
    # What could still run would fork on; so the number of processes stays small.
    result = await session.exec("echo /proc/[0-9]* | wc -w", timeout_seconds=20)
    assert int(result.stdout.data) < 8
