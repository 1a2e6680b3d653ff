"""The session through the real exec websocket, in pods as the operator makes them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from episode_operator.api.episode import Episode, EpisodeSpec
from episode_operator.kube.client import PODS, KubernetesClient
from episode_operator.lifecycle.pods import MAIN_CONTAINER
from episode_operator.sandbox import errors, websocket
from episode_operator.sandbox.channel import Channel, ChannelClosed, OpenChannel
from episode_operator.sandbox.pod import SandboxSettings, build_pod
from episode_operator.sandbox.session import RUNNER_PATH, Session
from tests.cluster import kubectl


class Sandboxes:
    """Pods as the operator makes them, and ways to reach their runners."""

    def __init__(
        self, client: KubernetesClient, http: aiohttp.ClientSession, namespace: str
    ) -> None:
        self._client = client
        self._http = http
        self.namespace = namespace

    async def start(self, name: str, image: str, **task: Any) -> str:
        """Makes a pod that is ready, and gives its uid."""
        resources = {"cpu": "4", "memory": "128Mi"}
        spec = {
            "task": {"image": image, "instruction": "none", **task},
            "verifier": {"testScript": {"script": "true"}},
            "sandbox": {"resources": resources},
        }
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "uid": "0" * 8,
            "generation": 1,
            "creationTimestamp": datetime.now(UTC),
        }
        episode = Episode(metadata=metadata, spec=EpisodeSpec.model_validate(spec))
        manifest = build_pod(episode, 0, SandboxSettings(os.environ["RUNNER_IMAGE"]))
        # Of no Episode: the operator's sweeper would take it away.
        del manifest["metadata"]["ownerReferences"], manifest["metadata"]["labels"]
        manifest["metadata"]["name"] = name
        created = await self._client.create(PODS, manifest)
        await kubectl.check(
            *("wait", "-n", self.namespace, f"pod/{name}"),
            *("--for=condition=Ready", "--timeout=120s"),
        )
        return str(created["metadata"]["uid"])

    async def stop(self, name: str) -> None:
        """Deletes a pod and waits until its object is gone."""
        await kubectl.check(
            "delete", "pod", name, "-n", self.namespace, "--grace-period=0", "--force"
        )

    def session(self, name: str, uid: str, **options: Any) -> Session:
        """A session with the runner of a pod; enter it to connect."""
        return Session.to_pod(
            self._client.connection,
            self._http,
            namespace=self.namespace,
            pod=name,
            container=MAIN_CONTAINER,
            pod_uid=uid,
            **options,
        )

    def channels(self, name: str) -> OpenChannel:
        """How to open a raw channel to the runner of a pod."""
        return websocket.open_exec(
            self._client.connection,
            self._http,
            namespace=self.namespace,
            pod=name,
            container=MAIN_CONTAINER,
            command=(RUNNER_PATH, "attach"),
        )


class Wrapped:
    """A channel with a hook before each receive."""

    def __init__(self, inner: Channel, before: Callable[[], Any]) -> None:
        self._inner = inner
        self._before = before

    async def send(self, data: bytes) -> None:
        await self._inner.send(data)

    async def receive(self) -> bytes:
        await self._before()
        return await self._inner.receive()

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def _sandboxes(client: KubernetesClient) -> AsyncIterator[Sandboxes]:
    namespace = f"session-{os.urandom(4).hex()}"
    await kubectl.check("create", "namespace", namespace)
    try:
        async with aiohttp.ClientSession() as http:
            yield Sandboxes(client, http, namespace)
    finally:
        await kubectl.check("delete", "pods", "--all", "-n", namespace, "--grace-period=0")
        await kubectl.check("delete", "namespace", namespace, "--wait=false")


@pytest.fixture(scope="module")
async def sandboxes(client: KubernetesClient) -> AsyncIterator[Sandboxes]:
    async with _sandboxes(client) as found:
        yield found


@pytest.fixture(scope="module")
async def pod(sandboxes: Sandboxes, image: str) -> str:
    """The uid of a pod named "shared" that the tests of this module use one after the other."""
    return await sandboxes.start("shared", image)


@pytest.fixture
async def session(sandboxes: Sandboxes, pod: str) -> AsyncIterator[Session]:
    async with sandboxes.session("shared", pod) as connected:
        yield connected
        await connected.kill_all()
        await connected.fresh_directory("/tmp/box")


async def test_text_is_exact(session: Session) -> None:
    """cases.md 1."""
    script = "printf a; head -c 40000 /dev/zero | sed 's/\\x00/é/g'"
    result = await session.exec(script, timeout_seconds=20)
    assert result.stdout.text() == "a" + "é" * 40_000


@pytest.mark.parametrize("size", [200_000, 48 << 20])
async def test_files_of_any_size(session: Session, size: int) -> None:
    """cases.md 2."""
    data = os.urandom(1 << 20) * (size // (1 << 20)) or os.urandom(size)
    written = await session.write_file("/tmp/box/file", data, parents=True)
    seen = await session.exec("sha256sum </tmp/box/file", timeout_seconds=60)
    assert seen.stdout.text().split()[0] == written.sha256
    assert (await session.read_file("/tmp/box/file")).data == data
    assert session.attachments == 1


async def test_background_and_endless(session: Session) -> None:
    """cases.md 3."""
    result = await session.exec("sleep 3600 & echo started", timeout_seconds=60)
    assert result.stdout.data == b"started\n" and result.duration_seconds < 10
    result = await session.exec("yes 7117 & yes 7117", timeout_seconds=2)
    assert result.timed_out and result.duration_seconds < 10
    left = await session.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", timeout_seconds=20)
    assert "sleep 3600" in left.stdout.text() and "yes 7117" not in left.stdout.text()


async def test_parallel_commands_and_pod_reads(
    session: Session, client: KubernetesClient, sandboxes: Sandboxes
) -> None:
    """cases.md 4."""

    async def command(number: int) -> None:
        result = await session.exec(f"echo {number}; exit {number}", timeout_seconds=60)
        assert (result.stdout.data, result.exit_code) == (f"{number}\n".encode(), number)

    async def read() -> None:
        assert await client.get(PODS, sandboxes.namespace, "shared") is not None

    await asyncio.gather(*(command(n) for n in range(32)), *(read() for _ in range(20)))


@pytest.mark.parametrize("version", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_a_reader_that_sleeps_loses_nothing(
    sandboxes: Sandboxes, pod: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "_PROTOCOLS", (version,))
    naps = 0

    async def nap() -> None:
        nonlocal naps
        if naps:
            naps -= 1
            await asyncio.sleep(3)

    async def open_channel() -> Channel:
        return Wrapped(await sandboxes.channels("shared")(), nap)

    async with Session(open_channel, pod_uid=pod) as session:
        naps = 3
        result = await session.exec(
            "yes | head -c 12000000", timeout_seconds=60, output_limit_bytes=16 << 20
        )
        assert result.stdout.data == b"y\n" * 6_000_000
        assert session.attachments == 1


async def test_websockets_that_drop(sandboxes: Sandboxes, pod: str) -> None:
    """Every command runs once and every byte arrives, however often the websocket goes."""
    receives = 0

    async def maybe_break() -> None:
        nonlocal receives
        receives += 1
        if receives % 25 == 0:
            raise ChannelClosed("broken by the test")

    async def open_channel() -> Channel:
        return Wrapped(await sandboxes.channels("shared")(), maybe_break)

    async with Session(open_channel, pod_uid=pod, reconnect_seconds=60) as session:
        await session.fresh_directory("/tmp/box")

        async def command(number: int) -> None:
            script = f"echo {number} >>ran; head -c {number * 4000} /dev/zero | tr '\\0' b; cat"
            result = await session.exec(
                script, timeout_seconds=60, cwd="/tmp/box", stdin=b"x" * number * 5000
            )
            assert result.stdout.data == b"b" * (number * 4000) + b"x" * number * 5000

        await asyncio.gather(*(command(number) for number in range(1, 21)))
        ran = (await session.read_file("/tmp/box/ran")).data.split()
        assert sorted(map(int, ran)) == list(range(1, 21))
        assert session.attachments > 1


async def test_a_restarted_operator(sandboxes: Sandboxes, pod: str) -> None:
    script = "mkdir -p /tmp/box; echo ran >>/tmp/box/proof; sleep 2; echo done"
    async with sandboxes.session("shared", pod) as first:
        await first.journal_append(0, b"turn 0")
        waiting = asyncio.create_task(first.exec(script, timeout_seconds=20, request_id="turn-1"))
        await asyncio.sleep(0)
        instance = first.instance
        await first.exec(["true"], timeout_seconds=20)
    with pytest.raises(errors.SessionClosed):
        await waiting
    async with sandboxes.session("shared", pod, instance=instance) as second:
        assert await second.journal_read() == [b"turn 0"]
        result = await second.exec(script, timeout_seconds=20, request_id="turn-1")
        assert result.stdout.data == b"done\n"
        assert (await second.read_file("/tmp/box/proof")).data == b"ran\n"


async def test_the_images_path_and_no_more_tools(sandboxes: Sandboxes, busybox: str) -> None:
    """cases.md 11, and a task image with nothing but busybox, as a user without rights."""
    uid = await sandboxes.start("plain", busybox, user=1000)
    async with sandboxes.session("plain", uid) as session:
        result = await session.exec("hello-tool; id -u", timeout_seconds=10, shell="auto")
        assert result.stdout.text() == "hello from the tool\n1000\n"
        assert (await session.exec(["hello-tool"], timeout_seconds=10)).exit_code == 0
        await session.exec("cd /tmp; export A=1", timeout_seconds=10, shell_state="agent")
        result = await session.exec("pwd; echo $A", timeout_seconds=10, shell_state="agent")
        assert result.stdout.text() == "/tmp\n1\n"
        # PID 1 and the runner attach of this very session.
        script = (
            "for p in /proc/[0-9]*; do grep -q [r]unner $p/cmdline || continue;"
            " cat $p/environ $p/mem; ls $p/fd; done"
        )
        peek = await session.exec(script, timeout_seconds=10)
        assert peek.stdout.data == b"" and peek.stderr.text().count("ermission denied") == 6
        runner = await session.exec(f"cat {RUNNER_PATH}; rm {RUNNER_PATH}", timeout_seconds=10)
        assert runner.stdout.data == b"" and runner.exit_code != 0
        with pytest.raises(errors.InvalidRequest, match="only root"):
            await session.exec("true", timeout_seconds=10, user="root")
        with pytest.raises(errors.FilePermissionDenied):
            await session.write_file("/etc/passwd", b"mine")
        await session.exec("for n in $(seq 64); do kill -$n 1; done; true", timeout_seconds=10)
        # A runner that is not root marks a command right after it has started.
        read = "sleep 0.5; cat /proc/self/oom_score_adj"
        score = await session.exec(f"sh -c '{read}'", timeout_seconds=10)
        assert score.stdout.data == b"1000\n"
        assert session.attachments == 1
        await session.exec("(setsid sleep 3600 &)", timeout_seconds=10)
        assert await session.kill_all() == 1


async def test_commands_as_other_users(session: Session) -> None:
    script = "id -un; cat /proc/self/oom_score_adj"
    result = await session.exec(script, timeout_seconds=10, user="nobody")
    assert result.stdout.text() == "nobody\n1000\n"
    await session.fresh_directory("/tmp/box", owner="nobody")
    await session.write_file("/tmp/box/mine", b"x", user="nobody")
    assert (await session.stat("/tmp/box/mine")).uid == 65534
    with pytest.raises(errors.FilePermissionDenied):
        await session.write_file("/root/x", b"x", user="nobody")
    await session.start_process("stubborn", "trap '' TERM; sleep 3600", user="nobody")
    assert await session.kill_all() >= 1
    await session.remove_process("stubborn")


async def test_memory_that_runs_out_is_told(sandboxes: Sandboxes, image: str) -> None:
    """cases.md 8: either the whole container dies (cgroup v2), or the result says it."""
    uid = await sandboxes.start("hungry", image)
    eat = ["python3", "-c", "x = bytearray(1 << 30); print(len(x))"]
    async with sandboxes.session("hungry", uid, reconnect_seconds=20) as session:
        before = await session.exec(["true"], timeout_seconds=10)
        assert not before.oom_killed
        try:
            result = await session.exec(eat, timeout_seconds=60)
        except errors.SessionLost as error:
            assert "container not found" in str(error)
        else:
            assert result.oom_killed and result.signal == 9
            after = await session.exec(["true"], timeout_seconds=10)
            assert not after.oom_killed


async def test_a_pod_of_the_same_name_is_another(sandboxes: Sandboxes, image: str) -> None:
    uid = await sandboxes.start("again", image)
    async with sandboxes.session("again", uid, reconnect_seconds=60) as session:
        running = asyncio.create_task(session.exec("sleep 3600", timeout_seconds=3600))
        await session.exec(["true"], timeout_seconds=10)
        await sandboxes.stop("again")
        await sandboxes.start("again", image)
        with pytest.raises((errors.SandboxReplaced, errors.SessionLost)):
            await running


async def test_a_pod_that_is_gone(sandboxes: Sandboxes, image: str) -> None:
    uid = await sandboxes.start("gone", image)
    async with sandboxes.session("gone", uid, reconnect_seconds=60) as session:
        running = asyncio.create_task(session.exec("sleep 3600", timeout_seconds=3600))
        await session.exec(["true"], timeout_seconds=10)
        await sandboxes.stop("gone")
        with pytest.raises(errors.SessionLost, match=uid):
            await running


async def test_a_container_that_has_ended(sandboxes: Sandboxes, image: str) -> None:
    """Trying again cannot help, so nobody waits for long, and the cluster's words are told."""
    uid = await sandboxes.start("ended", image)
    async with sandboxes.session("ended", uid, reconnect_seconds=600) as session:
        running = asyncio.create_task(session.exec("sleep 3600", timeout_seconds=3600))
        await session.exec(["true"], timeout_seconds=10)
        await kubectl.check(
            *("patch", "pod", "ended", "-n", sandboxes.namespace),
            *("--type=merge", "-p", '{"spec": {"activeDeadlineSeconds": 1}}'),
        )
        async with asyncio.timeout(90):
            with pytest.raises(errors.SessionLost, match="container not found"):
                await running


async def test_a_container_without_a_runner(sandboxes: Sandboxes, pod: str) -> None:
    session = sandboxes.session("shared", pod, runner_path="/no/such", reconnect_seconds=1)
    with pytest.raises(errors.SessionLost, match="/no/such"):
        await session.connect()


async def test_no_such_pod(sandboxes: Sandboxes) -> None:
    session = sandboxes.session("no-such", "uid", reconnect_seconds=600)
    with pytest.raises(errors.SessionLost, match=r'404 .*pods "no-such" not found'):
        await session.connect()
