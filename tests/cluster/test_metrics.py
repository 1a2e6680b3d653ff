"""Metrics and traces of an operator that runs an Episode on the real cluster."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from episode_operator.lifecycle.pods import MAIN_CONTAINER
from tests.cluster import kubectl
from tests.cluster.episodes import Episodes, call, scripted, terminal
from tests.cluster.local_operator import LocalOperator, operating
from tests.fakes.collector import Collector, attributes

GATE = "/workspace/gate"
WAIT = f"until test -e {GATE}; do sleep 0.2; done"
SECRET = "swordfish"


async def until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(120):
            while not condition():
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise AssertionError(f"not within two minutes: {what()}") from error


async def nonzero(
    operator: LocalOperator, *gauges: tuple[str, str]
) -> list[dict[tuple[str, ...], float]]:
    """The samples of the gauges that are not 0, by the value of their label."""
    found = [await operator.metric(f"episode_operator_{name}", label) for name, label in gauges]
    return [{key: value for key, value in one.items() if value} for one in found]


async def test_an_operator_counts_what_an_episode_does(
    unwatched: Episodes, busybox: str, tmp_path: Path
) -> None:
    nowhere = {"nodeSelector": {"no-such-label": "anywhere"}}
    async with operating(unwatched, tmp_path) as operator:
        await unwatched.create("waiting", scripted(busybox, sandbox=nowhere))
        await unwatched.until("waiting", lambda e: e.status.pod_uid is not None)
        calls = (terminal("true"), call("no_such_tool"), terminal("false"))
        await unwatched.run("counted", scripted(busybox, *calls))

        gauges = (("episodes", "phase"), ("episodes_waiting", "cause"))
        one_waits = [{("Starting",): 1.0}, {("Node",): 1.0}]
        async with asyncio.timeout(60):
            while await nonzero(operator, *gauges) != one_waits:
                await asyncio.sleep(0.2)

        turns = await operator.metric("episode_operator_turns_total", "agent")
        assert turns == {("Scripted",): 3}
        tools = await operator.metric("episode_operator_tool_calls_total", "tool")
        assert tools == {("terminal",): 2, ("unknown_tool",): 1}
        errors = await operator.metric("episode_operator_tool_errors_total", "tool")
        assert errors == {("unknown_tool",): 1}
        runner = await operator.metric("episode_operator_runner_request_seconds_count", "operation")
        assert runner[("exec",)] >= 2 and runner[("appendJournal",)] >= 5
        labels = ("resource", "verb", "outcome")
        writes = await operator.metric("episode_operator_api_writes_total", *labels)
        assert writes["pods", "create", "Written"] == 2
        assert writes["episoderesults", "create", "Written"] == 1
        assert writes["episodes", "apply", "Written"] >= 4
        lag = await operator.metric("episode_operator_event_loop_lag_seconds_count")
        assert lag[()] > 0


async def test_two_operators_tell_one_trace(
    unwatched: Episodes, busybox: str, tmp_path: Path
) -> None:
    """The first one is killed while a command of the second turn runs."""
    spec = scripted(
        busybox,
        terminal(f"echo {SECRET}"),
        terminal(WAIT),
        terminal("true"),
        test=f"echo {SECRET}; echo 1 > /logs/verifier/reward.txt",
    )
    async with Collector.running() as collector:
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=episodes",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        async with operating(unwatched, tmp_path, settings) as operator:
            await unwatched.create("traced", spec)
            await until(lambda: bool(collector.named("turn")), operator.log)
            running = await unwatched.get("traced")
            before = len(collector.spans)
            await operator.kill()
            await operator.start()
            where = ("-n", unwatched.namespace, "traced-a0", "-c", MAIN_CONTAINER)
            await kubectl.check("exec", *where, "--", "touch", GATE)
            ended = await unwatched.finish("traced")
            await until(lambda: bool(collector.named("episode")), operator.log)

    spans = collector.spans
    assert {span.trace_id for span in spans} == {UUID(ended.episode.uid).bytes}
    assert len({span.span_id for span in spans}) == len(spans), "a span was told twice"
    names = [span.name for span in spans]
    expected = {
        **{"episode": 1, "attempt": 1, "setup": 1, "agent": 1},
        **{"turn": 3, "tool call": 3, "verifier": 1},
    }
    assert {name: names.count(name) for name in set(names)} == expected
    assert 0 < before < len(spans)
    by_name = {span.name: span for span in spans}
    parents = {
        "attempt": "episode",
        "setup": "attempt",
        "agent": "attempt",
        "turn": "agent",
        "tool call": "turn",
        "verifier": "attempt",
    }
    assert by_name["episode"].parent_span_id == b""
    for name, parent in parents.items():
        assert by_name[name].parent_span_id == by_name[parent].span_id, name
    told = attributes(by_name["episode"])
    assert told["episode.uid"] == ended.episode.uid
    assert (told["episode.verdict"], told["episode.reward"]) == ("Passed", 1.0)
    assert attributes(by_name["attempt"])["k8s.pod.uid"] == running.status.pod_uid
    assert SECRET not in str(spans)
    assert collector.services == {"episode-operator"}
    assert {headers["x-tenant"] for headers in collector.headers} == {"episodes"}
