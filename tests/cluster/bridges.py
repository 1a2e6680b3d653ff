"""Bridges in tests: a scripted policy with known scores, a trainer, and what each of them saw."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from episode_operator.api.result import Delivery, EpisodeResult
from episode_operator.kube.client import EPISODE_RESULTS, EPISODES, KubernetesClient
from episode_operator.results.record import EpisodeRecord
from tests.atropos.peers import Peers
from tests.atropos.server import AtroposServer
from tests.fakes import chat
from tests.fakes import judge as judges
from tests.fakes.vllm_server import MODEL, FakeVllm, Reply
from trainer_bridge.config import BridgeConfig
from trainer_bridge.run.bridge import Bridge
from trainer_bridge.run.context import Context
from trainer_bridge.run.names import labels
from trainer_bridge.run.opening import opened
from trainer_bridge.sources import read_catalog

RUN = "scores"
SCORES = (0.0, 0.25, 0.5, 1.0)
HINT = "Write the number with printf, and read the file back."

_TASK = re.compile(r"task number (\d+)")


class ScoringPolicy(FakeVllm):
    """Each Episode of a task writes another score; its words are of that Episode alone."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: Counter[str] = Counter()
        self.same_score: set[str] = set()
        """Tasks whose Episodes all write 0.5."""
        self.judge.when("", judges.yes(HINT))

    def reply_to(self, prompt: list[int]) -> Reply:
        text = chat.decode(prompt)
        found = _TASK.search(text)
        if found is None:
            return super().reply_to(prompt)
        task = found.group(1)
        if "<tool_response>" in text:
            return Reply(text=f"Done with {task}.")
        number = self.begun[task]
        self.begun[task] += 1
        score = 0.5 if task in self.same_score else SCORES[(number + int(task)) % len(SCORES)]
        command = f": {task} {number}; echo {score} > /workspace/score"
        return Reply(text=chat.hermes("terminal", command=command))


def write_tasks(folder: Path, image: str, count: int) -> Path:
    """A file of Harbor tasks, each with the score that its agent wrote."""
    for number in range(count):
        task = folder / f"task-{number}"
        (task / "tests").mkdir(parents=True)
        (task / "instruction.md").write_text(f"Do task number {number}.")
        (task / "tests" / "test.sh").write_text(
            "#!/bin/sh\ncat /workspace/score > /logs/verifier/reward.txt\n"
        )
        (task / "task.toml").write_text(
            f"[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 120.0\n"
            f'[environment]\ndocker_image = "{image}"\nworkdir = "/workspace"\n'
        )
    return folder


@asynccontextmanager
async def open_run(settings: BridgeConfig) -> AsyncIterator[Context]:
    """The run, opened in this process."""
    catalog = await asyncio.to_thread(read_catalog, settings.tasks)
    async with opened(
        settings,
        catalog,
        different_scores=settings.env.ensure_scores_are_not_same,
        waiting=lambda holder: None,
    ) as context:
        yield context


@asynccontextmanager
async def serving(settings: BridgeConfig) -> AsyncIterator[Context]:
    """A bridge at work in this process, which must not fail; cancelled at the end."""
    async with open_run(settings) as context:
        work = asyncio.create_task(Bridge(context).serve())
        try:
            yield context
            if work.done():
                work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


@dataclass
class Trainer:
    """Takes batches, and keeps every sequence that it was given."""

    peers: Peers
    sequences: list[dict[str, Any]] = field(default_factory=list)

    async def take(self) -> int:
        """Take what is there; the number of groups."""
        groups = 0
        while batch := await self.peers.batch():
            for group in batch:
                groups += 1
                self.sequences += _sequences(group)
        return groups

    async def take_until(self, count: int, *, seconds: float = 300) -> None:
        """Take batches until so many sequences have come."""
        async with asyncio.timeout(seconds):
            while len(self.sequences) < count:
                await self.take()
                await asyncio.sleep(0.5)


def _sequences(group: dict[str, Any]) -> list[dict[str, Any]]:
    """What a batch says of each sequence of a group."""
    names = ("tokens", "masks", "scores", "inference_logprobs")
    optional = ("distill_token_ids", "distill_logprobs")
    return [
        {
            **{name: group[name][at] for name in names},
            **{name: group[name][at] for name in optional if group[name] is not None},
            "size": len(group["tokens"]),
        }
        for at in range(len(group["tokens"]))
    ]


def expected(record: EpisodeRecord) -> dict[str, Any]:
    """What the trainer must be given of a record, made of it by hand, position by position."""
    row = record.row
    assert row is not None
    sequence: dict[str, Any] = {
        "tokens": [int(token) for token in row.tokens],
        "masks": [
            int(token) if sampled else -100
            for token, sampled in zip(row.tokens, row.mask, strict=True)
        ],
        "scores": record.reward,
        "inference_logprobs": [
            float(np.float32(value)) if sampled else 1.0
            for value, sampled in zip(row.logprobs, row.mask, strict=True)
        ],
    }
    values = record.distillation
    if values is not None:
        ids: list[list[int]] = [[] for _ in row.tokens]
        logprobs: list[list[float]] = [[] for _ in row.tokens]
        for at, position in enumerate(values.positions):
            ids[position] = [int(one) for one in values.token_ids[at]]
            logprobs[position] = [float(one) for one in values.logprobs[at]]
        sequence |= {"distill_token_ids": ids, "distill_logprobs": logprobs}
    return sequence


def as_float32(sequence: dict[str, Any]) -> bytes:
    """A sequence with its floats as the float32 they stand for, to be compared."""

    def exact(value: Any) -> Any:
        if isinstance(value, float):
            return float(np.float32(value))
        if isinstance(value, list):
            return [exact(one) for one in value]
        return value

    return orjson.dumps(
        {name: exact(value) for name, value in sequence.items() if name != "size"},
        option=orjson.OPT_SORT_KEYS,
    )


@dataclass(frozen=True)
class World:
    """All that a bridge works with."""

    client: KubernetesClient
    namespace: str
    policy: ScoringPolicy
    atropos: AtroposServer
    trainer: Trainer

    def config(self, folder: Path, sink: dict[str, Any], **more: dict[str, Any]) -> BridgeConfig:
        """A run with groups of four on the scripted policy; `more` adds to sections."""
        value: dict[str, Any] = {
            "run": RUN,
            "namespace": self.namespace,
            "tasks": {"path": str(folder), "eval_split_ratio": 0},
            "episode": {
                "agent": {"kind": "Model", "toolsets": ["terminal"], "maxTurns": 4},
                "model": {"endpoint": self.policy.url, "name": MODEL},
            },
            "sink": sink,
            "env": {"group_size": 4, "max_num_workers": 2},
        }
        for name, section in more.items():
            value[name] = {**value.get(name, {}), **section}
        return BridgeConfig.model_validate(value)

    async def results(self) -> list[EpisodeResult]:
        """All results of the run."""
        found = await self.client.list(EPISODE_RESULTS, self.namespace, labels=labels(RUN))
        return [EpisodeResult.model_validate(one) for one in found]

    async def left_episodes(self) -> list[str]:
        """Names of the run's Episodes that are still there."""
        found = await self.client.list(
            EPISODES, self.namespace, labels=labels(RUN), metadata_only=True
        )
        return [one["metadata"]["name"] for one in found]

    async def check_each_once_or_dropped(self, *, group_size: int = 4, unlike: bool = True) -> None:
        """The trainer has every delivered sequence once and nothing else, in whole groups.

        `unlike` says that no two Episodes can have sampled the same.
        """
        delivered: list[bytes] = []
        groups: Counter[str] = Counter()
        for result in await self.results():
            state, name = result.status.delivery, result.metadata["name"]
            if "-eval-" in name:
                assert state is None, name
                continue
            assert state in {Delivery.DELIVERED, Delivery.DROPPED}, f"{name}: {state}"
            if state is Delivery.DROPPED:
                assert result.status.reason
                continue
            record = await EpisodeRecord.load(self.client, namespace=self.namespace, name=name)
            delivered.append(as_float32(expected(record)))
            assert result.spec.group is not None
            groups[result.spec.group.name] += 1
        assert delivered
        assert set(groups.values()) == {group_size}
        assert {sequence["size"] for sequence in self.trainer.sequences} == {group_size}
        taken = Counter(as_float32(sequence) for sequence in self.trainer.sequences)
        extra, missing = taken - Counter(delivered), Counter(delivered) - taken
        assert not extra and not missing, (
            f"{extra.total()} not delivered, {missing.total()} not taken"
        )
        assert not unlike or max(taken.values()) == 1
