"""Dropped links, restarted operators and replaced runners, on the real runner."""

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode_operator.sandbox import errors
from episode_operator.sandbox.channel import ChannelClosed, ChannelRefused
from episode_operator.sandbox.session import Session
from tests.runner.sandbox import LocalSandbox, PipeChannel, eventually, local_sandbox


class Fragile:
    """A channel that breaks after so many bytes in either direction, or damages a byte there."""

    def __init__(self, inner: PipeChannel, budget: int, *, damage: bool) -> None:
        self._inner = inner
        self._budget = budget
        self._damage = damage

    def _spend(self, data: bytes) -> bytes:
        if len(data) <= self._budget:
            self._budget -= len(data)
            return data
        at, self._budget = self._budget, 1 << 60
        if self._damage:
            return data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :]
        raise ChannelClosed("broken by the test")

    async def send(self, data: bytes) -> None:
        await self._inner.send(self._spend(data))

    async def receive(self) -> bytes:
        return self._spend(await self._inner.receive())

    async def close(self) -> None:
        await self._inner.close()


async def _exercise(box: LocalSandbox, budgets: list[int], damage: bool) -> None:
    """Runs commands and file writes over links that break; each must take effect once, exactly."""
    rest = list(budgets)

    async def open_channel() -> Fragile | PipeChannel:
        channel = await box.open_channel()
        return Fragile(channel, rest.pop(0), damage=damage) if rest else channel

    async with Session(open_channel, pod_uid="local", reconnect_seconds=30) as session:

        async def command(number: int) -> None:
            script = (
                f"echo {number} >>ran; printf 'a'; head -c {number * 1000} /dev/zero | tr '\\0' b;"
                f" cat; printf err{number} >&2; exit {number}"
            )
            given_input = bytes([number]) * (number * 3000)
            result = await session.exec(script, timeout_seconds=60, stdin=given_input)
            assert result.exit_code == number
            assert result.stdout.data == b"a" + b"b" * (number * 1000) + given_input
            assert result.stderr.data == f"err{number}".encode()

        async def file(number: int) -> None:
            data = random.randbytes(number * 40_000)
            await session.write_file(f"file{number}", data)
            assert (await session.read_file(f"file{number}")).data == data

        await asyncio.gather(*(work(n) for n in range(1, 17) for work in (command, file)))
        ran = (await session.read_file("ran")).data.split()
        assert sorted(map(int, ran)) == list(range(1, 17))
        await session.remove_path("ran")
        names = [entry.name for entry in (await session.list_directory(".")).entries]
        assert names == sorted(f"file{n}" for n in range(1, 17))


@given(
    budgets=st.lists(st.integers(1, 400_000), max_size=6),
    damage=st.booleans(),
)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_request_runs_once_over_links_that_break(
    runner: Path, budgets: list[int], damage: bool
) -> None:
    async def whole() -> None:
        async with local_sandbox(runner) as box:
            await _exercise(box, budgets, damage)

    asyncio.run(whole())


async def test_a_restarted_operator_gets_the_running_result(sandbox: LocalSandbox) -> None:
    script = "echo ran >>proof; sleep 1; printf 'é%.0s' 1 2 3; exit 5"
    first = sandbox.session()
    await first.connect()
    waiting = asyncio.create_task(first.exec(script, timeout_seconds=20, request_id="turn-1"))
    await eventually((sandbox.workdir / "proof").exists)
    await first.close()
    with pytest.raises(errors.SessionClosed):
        await waiting
    async with sandbox.session(instance=first.instance) as second:
        for _ in range(2):
            result = await second.exec(script, timeout_seconds=20, request_id="turn-1")
            assert (result.exit_code, result.stdout.text()) == (5, "ééé")
        assert (sandbox.workdir / "proof").read_text() == "ran\n"
        assert [kept.request_id for kept in await second.kept_requests()] == ["turn-1"]
        with pytest.raises(errors.RequestConflict):
            await second.exec("echo other", timeout_seconds=20, request_id="turn-1")
        second.forget("turn-1")
        await second.exec(["true"], timeout_seconds=10)
        assert await second.kept_requests() == []


async def test_results_without_an_id_do_not_pile_up(sandbox: LocalSandbox) -> None:
    async with sandbox.session() as session:
        for _ in range(200):
            await session.exec(["true"], timeout_seconds=10)
        assert len(await session.kept_requests()) <= 1
        session.forget()
    async with sandbox.session() as session:
        assert await session.kept_requests() == []


async def test_a_full_store_refuses_before_running(session: Session) -> None:
    async def fill(number: int) -> None:
        await session.exec(
            f"echo {number} >>ran; head -c 16000000 /dev/zero",
            timeout_seconds=60,
            output_limit_bytes=16 << 20,
            request_id=f"big-{number}",
        )

    done = 0
    with pytest.raises(errors.ResultStoreFull):
        for number in range(10):
            await fill(number)
            done = number + 1
    assert len((await session.read_file("ran")).data.split()) == done
    session.forget(*(f"big-{number}" for number in range(done)))
    await fill(done)


async def test_the_newest_client_wins(sandbox: LocalSandbox) -> None:
    async with sandbox.session() as older, sandbox.session() as newer:
        assert (await newer.exec(["true"], timeout_seconds=10)).exit_code == 0
        with pytest.raises(errors.SessionSuperseded):
            await older.exec(["true"], timeout_seconds=10)
        assert (await newer.exec(["true"], timeout_seconds=10)).exit_code == 0
        assert newer.attachments == 1


async def test_another_runner_is_never_taken_for_the_first(runner: Path) -> None:
    async with local_sandbox(runner) as one, local_sandbox(runner) as two:
        boxes = [one, two]

        async def open_channel() -> PipeChannel:
            return await boxes[0].open_channel()

        async with Session(open_channel, pod_uid="local", reconnect_seconds=10) as session:
            running = asyncio.create_task(session.exec("sleep 60", timeout_seconds=90))
            await session.exec(["true"], timeout_seconds=10)
            boxes.reverse()
            one.launcher.kill()
            with pytest.raises(errors.SandboxReplaced):
                await running
            with pytest.raises(errors.SandboxReplaced):
                await session.exec(["true"], timeout_seconds=10)
            expected = session.instance
        wrong = Session(open_channel, pod_uid="local", instance=expected)
        with pytest.raises(errors.SandboxReplaced):
            await wrong.connect()


async def test_a_runner_that_is_gone_is_lost(sandbox: LocalSandbox) -> None:
    async with sandbox.session(reconnect_seconds=0.5) as session:
        sandbox.launcher.kill()
        await sandbox.launcher.wait()
        with pytest.raises(errors.SessionLost, match="local"):
            await session.exec(["true"], timeout_seconds=10)


async def test_a_final_refusal_is_not_repeated() -> None:
    attempts = 0

    async def refuse() -> PipeChannel:
        nonlocal attempts
        attempts += 1
        raise ChannelRefused("pod not found", final=True)

    with pytest.raises(errors.SessionLost, match="pod not found"):
        await Session(refuse, pod_uid="local").connect()
    assert attempts == 1


async def test_a_reader_that_sleeps_loses_nothing(sandbox: LocalSandbox) -> None:
    class Sleepy:
        def __init__(self, inner: PipeChannel) -> None:
            self._inner = inner
            self.naps = 0

        async def send(self, data: bytes) -> None:
            await self._inner.send(data)

        async def receive(self) -> bytes:
            if self.naps:
                self.naps -= 1
                await asyncio.sleep(0.5)
            return await self._inner.receive()

        async def close(self) -> None:
            await self._inner.close()

    channels: list[Sleepy] = []

    async def open_channel() -> Sleepy:
        channels.append(Sleepy(await sandbox.open_channel()))
        return channels[-1]

    async with Session(open_channel) as session:
        channels[0].naps = 5
        result = await session.exec(
            "yes | head -c 12000000", timeout_seconds=30, output_limit_bytes=16 << 20
        )
        assert result.stdout.data == b"y\n" * 6_000_000
        assert session.attachments == 1
