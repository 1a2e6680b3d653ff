"""Episodes to look at: on an API server without a cluster, and a model server for the texts."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from episode_operator.api.distillation import TurnOutcome
from episode_operator.api.labels import EPISODE_NAME, GROUP_NAME, RUN, label_value, unique_name
from episode_operator.api.result import Counts, EpisodeReference, Timings, WeightSpan
from episode_operator.results import writer
from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow
from episode_operator.results.turns import TurnRecord
from episode_operator.view import View
from tests.unit import builders, records
from tests.unit.records import NAMESPACE, Cluster

INSERTED, SAMPLED = 50, 100
TURN_TOKENS = INSERTED + SAMPLED
"""Tokens of each turn."""
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
WORDS = ("count", " the", " lines", " of", " every", " file", "\n", " then", " sort", " them")


class World:
    """What the page of a test is made from; `url` is that of the view."""

    def __init__(self, cluster: Cluster, model_url: str) -> None:
        self.cluster = cluster
        self.url = ""
        self.said: dict[str, list[dict[str, Any]]] = {}
        self._model = {"endpoint": model_url, "name": "policy"}

    def add_episode(self, name: str = "hello", **status: Any) -> str:
        """An Episode of a model; its uid."""
        uid = builders.UID if name == "hello" else f"{abs(hash(name)):032x}"
        body = builders.episode(agent={"kind": "Model"}, model=self._model).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        body["metadata"] |= {
            "name": name,
            "uid": uid,
            "creationTimestamp": START.isoformat(),
            "labels": {RUN: "coding", GROUP_NAME: "coding-000001"},
        }
        body["status"] = {"phase": "Running", **status}
        self.cluster.server.objects[self.cluster.path("episodes", name)] = body
        return uid

    async def finish(
        self, name: str, messages: Sequence[dict[str, Any]], *, reward: float = 1.0
    ) -> None:
        """The Episode's result: a row with these turns, of which the first was distilled."""
        episode = self.cluster.server.objects[self.cluster.path("episodes", name)]
        uid = episode["metadata"]["uid"]
        turns = sum(message["role"] == "assistant" for message in messages)
        row = _row(turns)
        verdict = "Passed" if reward == 1 else "Failed"
        spec = records.result_spec(
            episode=EpisodeReference(name=name, uid=uid),
            verdict=verdict,
            reason=f"Tests{verdict}",
            message="test.sh wrote a reward",
            reward=reward,
            counts=Counts(
                turns=turns,
                tool_calls=turns - 1,
                tokens=len(row.tokens),
                sampled_tokens=int(row.mask.sum()),
            ),
            weight_versions=[
                WeightSpan(version=f"step-{turn // 50}", start=at.start, end=at.stop)
                for turn, at in enumerate(map(_sampled, range(turns)))
            ],
            started_at=START,
            finished_at=START + timedelta(seconds=40),
            timings=Timings(
                sandbox_start_seconds=2,
                setup_seconds=1,
                agent_seconds=30,
                model_seconds=21,
                tool_seconds=6,
                verifier_seconds=4,
            ),
        )
        result = unique_name(name, uid)
        await writer.write(
            self.cluster.client,
            name=result,
            namespace=NAMESPACE,
            labels={EPISODE_NAME: label_value(name), RUN: "coding", GROUP_NAME: "coding-000001"},
            spec=spec,
            row=row,
            conversation=list(messages),
            artifacts=None,
            store=None,
        )
        self.cluster.distil(
            result,
            row,
            _taught(row),
            [_first_turn()],
            positions=SAMPLED,
            seconds=5,
            completed_at=spec.finished_at + timedelta(seconds=5),
        )
        episode["status"] |= {
            "phase": "Finished",
            "verdict": verdict,
            "reward": reward,
            "turns": turns,
            "reason": spec.reason,
        }


def conversation(turns: int) -> list[dict[str, Any]]:
    """Turns that call a tool, and a last one that ends."""
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "You work in a sandbox."},
        {"role": "user", "content": "Count the lines of every file in /workspace, and sort them."},
    ]
    for turn in range(turns - 1):
        arguments = orjson.dumps({"command": f"wc -l /workspace/part-{turn}.txt"}).decode()
        function = {"name": "terminal", "arguments": arguments}
        said += [
            {
                "role": "assistant",
                "content": f"I look at part {turn}.",
                "tool_calls": [{"id": f"call_{turn}_0", "type": "function", "function": function}],
            },
            {
                "role": "tool",
                "tool_call_id": f"call_{turn}_0",
                "name": "terminal",
                "content": f"{turn * 7 + 3} /workspace/part-{turn}.txt\n[exit code 0]",
            },
        ]
    return [*said, {"role": "assistant", "content": "All parts are counted and sorted."}]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """An empty one, with its view."""

    async def detokenize(request: web.Request) -> web.Response:
        body = await request.json()
        return web.json_response({"prompt": WORDS[body["tokens"][0] % len(WORDS)]})

    model = web.Application()
    model.router.add_post("/detokenize", detokenize)
    async with records.cluster() as cluster, TestServer(model) as model_server:
        found = World(cluster, str(model_server.make_url("")).rstrip("/"))
        view = View(cluster.client, None, found.said.get)
        async with TestServer(view.application) as server:
            found.url = str(server.make_url("")).rstrip("/")
            yield found


def _sampled(turn: int) -> slice:
    start = turn * TURN_TOKENS + INSERTED
    return slice(start, start + SAMPLED)


def _row(turns: int) -> TokenRow:
    """float32[n] logprobs from likely to unlikely, n = 150 tokens a turn."""
    mask = np.tile(np.repeat([False, True], [INSERTED, SAMPLED]), turns)
    logprobs = np.where(mask, -0.03 * (np.arange(len(mask)) % 200), 0.0)
    return TokenRow(
        tokens=(np.arange(len(mask)) % 400).astype(np.int32),
        mask=mask,
        logprobs=logprobs.astype(np.float32),
        turn=np.repeat(np.arange(turns), TURN_TOKENS).astype(np.int16),
    )


def _taught(row: TokenRow) -> Distillation:
    """The teacher's values of the first turn: from much less to much more than the student's."""
    at = _sampled(0)
    own = row.logprobs[at]
    values = np.minimum(own + np.linspace(-2.5, 2.5, SAMPLED, dtype=np.float32), 0)
    return Distillation(
        positions=np.arange(at.start, at.stop, dtype=np.int32),
        token_ids=row.tokens[at, None],
        logprobs=values[:, None].astype(np.float32),
        sampled_logprobs=values.astype(np.float32),
    )


def _first_turn() -> TurnRecord:
    at = _sampled(0)
    return TurnRecord(
        turn=0, outcome=TurnOutcome.SCORED, hint="count all at once", start=at.start, end=at.stop
    )
