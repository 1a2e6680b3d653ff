"""The reasons that a broken model server, session, network or operator gives: each is forced.

The operator runs here as a process with little patience, behind a proxy before the API server. All
Episodes run at once. What the cluster does to a pod is forced in test_faults.py.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson
import pytest

from episode_operator.api.decisions import RETRIED
from episode_operator.api.episode import Episode
from episode_operator.api.labels import EPISODE_NAME, pod_name
from episode_operator.api.reasons import NoVerdictReason
from episode_operator.kube import connection
from episode_operator.kube.client import NETWORK_POLICIES
from episode_operator.lifecycle.pods import MAIN_CONTAINER
from episode_operator.sandbox import protocol
from episode_operator.sandbox.pod import verifier_container
from episode_operator.sandbox.session import Session
from tests.cluster import kubectl, node
from tests.cluster.episodes import PASSING_TEST, Ended, Episodes, scripted, terminal
from tests.cluster.local_operator import LocalOperator
from tests.fakes import chat
from tests.fakes.api_proxy import ApiProxy, Route
from tests.fakes.vllm_server import GENERATE, MODEL, FakeVllm, Fault, Reply

pytestmark = pytest.mark.timeout(1000)

N = NoVerdictReason
PATIENCE = {"EPISODE_MODEL_RETRY_SECONDS": "20", "EPISODE_SESSION_RETRY_SECONDS": "15"}
FINISH_SECONDS = 900.0
RETRIES = 1
SMALL = {"cpuRequest": "10m", "memoryRequest": "16Mi"}
MOST_OUTPUT = 262_144
SLEEP = "4242"


@dataclass(frozen=True)
class World:
    """What a reason can be forced with; `servers` are closed when all Episodes have ended."""

    episodes: Episodes
    proxy: ApiProxy
    servers: AsyncExitStack
    busybox: str

    async def create(self, name: str, *calls: dict[str, Any], **spec: Any) -> None:
        """Create a scripted Episode of little size."""
        spec["sandbox"] = {"resources": SMALL, **spec.get("sandbox", {})}
        given = scripted(self.busybox, *calls, infraRetryLimit=RETRIES, **spec)
        await self.episodes.create(name, given)

    async def acting(self, name: str, attempt: int) -> Episode:
        """The Episode, once its agent sleeps in the pod of the attempt."""
        episode = await self.episodes.until(
            name, lambda e: e.status.attempt == attempt and e.status.phase == "Running"
        )
        assert episode.status.pod_uid is not None
        async with asyncio.timeout(60):
            while not node.processes(episode.status.pod_uid, SLEEP):
                await asyncio.sleep(0.1)
        return episode


Force = Callable[[World, str], Awaitable[None]]
"""Creates an Episode of this name, and does to it what is needed."""


# The model server


class Failing(FakeVllm):
    """Samples one tool call. From then on the fault goes with every sample."""

    fault: Fault

    def reply_to(self, prompt: list[int]) -> Reply:
        """The call."""
        self.faults.append(self.fault)
        return Reply(text=chat.hermes("terminal", command="true"))


async def on_model(world: World, name: str, url: str, **more: dict[str, Any]) -> None:
    agent = {"kind": "Model", "toolsets": ["terminal"], **more.get("agent", {})}
    model = {"endpoint": url, "name": MODEL, **more.get("model", {})}
    await world.create(name, agent=agent, model=model)


def failing(fault: Fault, **more: dict[str, Any]) -> Force:
    async def force(world: World, name: str) -> None:
        server = await world.servers.enter_async_context(Failing.running())
        server.fault = fault
        await on_model(world, name, server.url, **more)

    return force


def answering(status: int, message: str = "injected", **more: dict[str, Any]) -> Force:
    return failing(Fault(path=GENERATE, lasting=True, status=status, message=message), **more)


async def nobody_listens(world: World, name: str) -> None:
    await on_model(world, name, "http://127.0.0.1:9")


def one_logprob_less(answer: dict[str, Any]) -> None:
    answer["choices"][0]["logprobs"]["content"].pop()


def mute(messages: chat.Messages, tools: Any, generation: bool) -> str:
    """A template that leaves out what the assistant said."""
    return chat.chatml([m for m in messages if m["role"] != "assistant"], tools, generation)


async def template_without_answers(world: World, name: str) -> None:
    server = await world.servers.enter_async_context(FakeVllm.running())
    server.template = mute
    server.replies.append(Reply(text=chat.hermes("terminal", command="true")))
    await on_model(world, name, server.url)


# What the runner keeps


async def outputs_in_one_turn(world: World, name: str) -> None:
    """64 MiB and more: all answers of a turn are kept until the turn is in the journal."""
    server = await world.servers.enter_async_context(FakeVllm.running())
    server.max_model_len = 1_000_000
    flood = chat.hermes("terminal", command=f"yes | head -c {MOST_OUTPUT}")
    server.replies.append(Reply(text="\n".join([flood] * 280)))
    sampling = {"maxTokens": server.max_model_len}
    agent = {"outputLimitBytes": MOST_OUTPUT}
    await on_model(world, name, server.url, agent=agent, model={"sampling": sampling})


async def outputs_in_all_turns(world: World, name: str) -> None:
    """32 MiB and more that cannot be compressed further."""
    noise = terminal(f"head -c {MOST_OUTPUT * 3 // 4} /dev/urandom | base64")
    script = [noise] * 256
    agent = {
        "kind": "Scripted",
        "script": script,
        "maxTurns": len(script),
        "outputLimitBytes": MOST_OUTPUT,
    }
    await world.create(name, agent=agent)


# The pod, and the way to it


def rerouted(route: Route, **verifier: Any) -> Force:
    """The session is cut while a command runs, and leads elsewhere from then on."""

    async def force(world: World, name: str) -> None:
        scores = {"testScript": {"script": PASSING_TEST}, **verifier}
        await world.create(name, terminal(f"sleep {SLEEP}", timeout=120), verifier=scores)
        for attempt in range(1 + RETRIES):
            status = (await world.acting(name, attempt)).status
            assert status.pod_name is not None and status.pod_uid is not None
            world.proxy.routes[status.pod_name] = route
            await node.cut_session(status.pod_uid)

    return force


def nowhere(_path: str) -> str:
    return ""


def to_another_runner(path: str) -> str:
    """To that of the verifier's own container."""
    return path.replace(f"container={MAIN_CONTAINER}&", f"container={verifier_container(0)}&")


def to_another_release(path: str) -> str:
    """To a program that greets as a runner with another version of the protocol does."""
    hello = {"version": protocol.VERSION + 1, "instance": "x", "uptimeSeconds": 1}
    frame = protocol.Encoder().encode(protocol.HELLO, orjson.dumps({**hello, "journalLength": 0}))
    octal = "".join(rf"\{byte:03o}" for byte in frame)
    script = f"printf '{octal}'; sleep 60"
    command = urlencode([("command", part) for part in ("sh", "-c", script)])
    return f"{path.partition('&command=')[0]}&{command}"


async def runner_of_another_release(world: World, name: str) -> None:
    for attempt in range(1 + RETRIES):
        world.proxy.routes[pod_name(name, attempt)] = to_another_release
    await world.create(name)


async def policy_that_opens_the_pod(world: World, name: str) -> None:
    """Policies add up: with this one the Episode's own closes nothing."""
    spec = {
        "podSelector": {"matchLabels": {EPISODE_NAME: name}},
        "policyTypes": ["Egress"],
        "egress": [{}],
    }
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "open", "namespace": world.episodes.namespace},
        "spec": spec,
    }
    await world.episodes.client.create(NETWORK_POLICIES, body)
    await world.create(name)


async def sidecar_that_takes_too_long(world: World, name: str) -> None:
    sidecar = {
        "name": "slow",
        "image": world.busybox,
        "command": ["sh", "-c", "sleep 600"],
        "ready": {"tcpPort": 1, "timeoutSeconds": 600},
        "resources": SMALL,
    }
    await world.create(name, sandbox={"sidecars": [sidecar], "startDeadlineSeconds": 60})


# The operator


async def journal_of_another_release(world: World, name: str) -> None:
    """The journal has another step than this operator takes, as after an upgrade."""
    await world.create(name, terminal(f"sleep {SLEEP}", timeout=120))
    for attempt in range(1 + RETRIES):
        status = (await world.acting(name, attempt)).status
        assert status.pod_name is not None and status.pod_uid is not None
        async with (
            aiohttp.ClientSession() as http,
            Session.to_pod(
                world.proxy.connection,
                http,
                namespace=world.episodes.namespace,
                pod=status.pod_name,
                container=MAIN_CONTAINER,
                pod_uid=status.pod_uid,
            ) as session,
        ):
            length = len(await session.journal_read())
            entry = {"step": "of-another-release", "value": {}}
            await session.journal_append(length, orjson.dumps(entry))


FORCED: dict[str, tuple[NoVerdictReason, Force]] = {
    "no-server": (N.MODEL_UNAVAILABLE, nobody_listens),
    "server-errors": (N.MODEL_UNAVAILABLE, answering(500)),
    "server-errors-until-the-agent-is-out-of-time": (
        N.MODEL_UNAVAILABLE,
        answering(500, agent={"timeoutSeconds": 15, "toolTimeoutSeconds": 5}),
    ),
    "too-many-requests": (N.MODEL_OVERLOADED, answering(429)),
    "no-capacity": (N.MODEL_OVERLOADED, answering(503)),
    "slow-server": (
        N.MODEL_TIMEOUT,
        failing(Fault(path=GENERATE, lasting=True, delay=60), model={"requestTimeoutSeconds": 2}),
    ),
    "nonsense": (
        N.MODEL_BAD_RESPONSE,
        failing(Fault(path=GENERATE, lasting=True, change=one_logprob_less)),
    ),
    "refused": (N.MODEL_BAD_REQUEST, answering(400, "top_k must be positive")),
    "credential": (N.MODEL_UNAUTHORIZED, answering(401)),
    "shorter-context": (
        N.CONTEXT_LENGTH_EXCEEDED,
        answering(400, "This model's maximum context length is 16 tokens."),
    ),
    "template": (N.RENDER_MISMATCH, template_without_answers),
    "result-store": (N.RESULT_STORE_FULL, outputs_in_one_turn),
    "journal": (N.JOURNAL_FULL, outputs_in_all_turns),
    "out-of-reach": (N.SESSION_LOST, rerouted(nowhere)),
    "replaced": (N.SANDBOX_REPLACED, rerouted(to_another_runner, isolation="SeparateContainer")),
    "other-runner": (N.SANDBOX_ERROR, runner_of_another_release),
    "open": (N.NETWORK_NOT_ENFORCED, policy_that_opens_the_pod),
    "slow-sidecar": (N.START_DEADLINE_EXCEEDED, sidecar_that_takes_too_long),
    "other-journal": (N.INTERNAL_ERROR, journal_of_another_release),
}


def retries(reason: NoVerdictReason) -> int:
    return RETRIES if reason in RETRIED else 0


@dataclass(frozen=True)
class Forced:
    """What came of all Episodes, and what the operator counted."""

    ended: dict[str, Ended]
    pods: dict[str, int]
    events: list[dict[str, Any]]
    finished: dict[tuple[str, ...], float]
    failed: dict[tuple[str, ...], float]


@pytest.fixture(scope="module")
async def forced(
    shared_unwatched: Episodes,
    busybox: str,
    host_address: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Forced:
    """All Episodes, run at once by an operator of their own."""
    folder = tmp_path_factory.mktemp("operator")
    return await run_all(shared_unwatched, busybox, host_address, folder)


async def run_all(episodes: Episodes, busybox: str, address: str, folder: Path) -> Forced:
    proxy = ApiProxy(await connection.load())
    # Pods reach the proxy unless a policy forbids it: the operator takes it for the API server.
    async with AsyncExitStack() as servers, proxy.serving(address) as url:
        operator = await servers.enter_async_context(
            LocalOperator(url, episodes.namespace, folder, PATIENCE)
        )
        world = World(episodes, proxy, servers, busybox)

        async def force(name: str) -> Ended:
            await FORCED[name][1](world, name)
            return await episodes.finish(name, seconds=FINISH_SECONDS)

        try:
            ended = await asyncio.gather(*map(force, FORCED))
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"{error}\n{operator.log()}") from error
        await until_idle(operator)
        return Forced(
            ended=dict(zip(FORCED, ended, strict=True)),
            pods={name: len(await episodes.pods(name)) for name in FORCED},
            events=await kubectl.items("events", namespace=episodes.namespace),
            finished=await operator.metric(
                "episode_operator_episodes_finished_total", "verdict", "reason"
            ),
            failed=await operator.metric("episode_operator_attempts_failed_total", "reason"),
        )


async def until_idle(operator: LocalOperator) -> None:
    """Its last event and count come after the Episode's status."""
    async with asyncio.timeout(60):
        while (await operator.metric("episode_operator_episodes_live"))[()]:
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("name", FORCED)
async def test_the_reason_is_given(forced: Forced, name: str) -> None:
    (reason, _), end = FORCED[name], forced.ended[name]
    status = end.episode.status
    assert end.verdict == ("NoVerdict", None, reason), status.message
    assert end.result.spec.reward is None
    assert end.result.spec.reason == reason
    assert [attempt.reason for attempt in status.attempts] == [reason] * retries(reason)
    conditions = {c.type: (c.status, c.reason) for c in status.conditions}
    assert conditions["Failed"] == conditions["Finished"] == ("True", reason)
    assert conditions["Verified"] == ("False", reason)
    assert forced.pods[name] == 0


@pytest.mark.parametrize("name", FORCED)
async def test_events_tell_of_each_attempt_and_of_the_end(forced: Forced, name: str) -> None:
    reason = FORCED[name][0]
    warnings = [
        event["message"]
        for event in forced.events
        if event["involvedObject"]["name"] == name
        and (event["type"], event["reason"]) == ("Warning", reason)
    ]
    assert sum(warning.startswith("attempt ") for warning in warnings) == retries(reason)
    assert sum(warning.startswith("NoVerdict: ") for warning in warnings) == 1


async def test_metrics_count_each_attempt_and_each_end(forced: Forced) -> None:
    given = Counter(reason for reason, _ in FORCED.values())
    assert forced.finished == {("NoVerdict", reason): given[reason] for reason in given}
    assert forced.failed == {
        (reason,): given[reason] * RETRIES for reason in given if retries(reason)
    }
