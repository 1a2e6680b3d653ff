"""Distillation of whole Episodes by the operator: on the real model, and where servers fail.

tests/cluster/test_distill_vllm.py has the values position by position.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from episode_operator.api.result import DistillationStatus
from episode_operator.distill import Rollout
from episode_operator.kube.client import EPISODE_RESULTS
from episode_operator.model import VllmClient
from episode_operator.results.record import EpisodeRecord
from tests.cluster.episodes import Ended, Episodes, scripted
from tests.cluster.local_operator import operating
from tests.cluster.vllm import held_out_tasks, tolerance
from tests.distillation import prompts_by_hand, wrong_values
from tests.fakes import chat
from tests.fakes import judge as judges
from tests.fakes.vllm_server import CHAT, MODEL, FakeVllm, Fault, Reply

HINT = "Write the word with printf, and read the file back."


@pytest.fixture
async def fake(host_address: str) -> AsyncIterator[FakeVllm]:
    """A scripted model server, and judge, that the operator's pod reaches."""
    async with FakeVllm.running(host_address) as server:
        server.judge.when("", judges.yes(HINT))
        yield server


def three_turns(image: str, fake: FakeVllm, **distillation: Any) -> dict[str, Any]:
    """Two tool calls and a last word; only what follows a turn can say something of it."""
    calls = [chat.hermes("terminal", command=command) for command in ("true", "date")]
    fake.replies.extend(Reply(text=text) for text in (*calls, "Done."))
    return scripted(
        image,
        agent={"kind": "Model", "toolsets": ["terminal"]},
        model={"endpoint": fake.url, "name": MODEL},
        distillation={"topK": 2, **distillation},
    )


def told(ended: Ended) -> DistillationStatus:
    """What the result says of its distillation."""
    status = ended.result.status.distillation
    assert status is not None
    return status


def distilled(ended: Ended) -> tuple[str, str, str]:
    """Status, reason and message of the Episode's condition."""
    found = next(c for c in ended.episode.status.conditions if c.type == "Distilled")
    return found.status, found.reason, found.message


async def record(episodes: Episodes, ended: Ended) -> EpisodeRecord:
    return await EpisodeRecord.load(
        episodes.client, namespace=episodes.namespace, name=ended.result.metadata["name"]
    )


def written_right(task: dict[str, str]) -> str:
    right = f'test "$(cat {task["path"]})" = {task["word"]}'
    return f"if {right}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt"


async def test_the_real_model_over_several_turns(
    episodes: Episodes, image: str, model: dict[str, Any], vllm_url: str, fake: FakeVllm
) -> None:
    """Two tasks in steps, of which the policy does at least the first as it was taught."""
    spec = in_steps(image, model, hintPlacement="BeforeTurn", judge=judged_by(fake))
    ended = await episodes.run("real", spec)
    assert ended.result.spec.steps[0].verdict == "Passed"
    status = told(ended)
    assert (status.state, distilled(ended)[:2]) == ("Completed", ("True", "Completed")), status
    found = await record(episodes, ended)
    row, values = found.row, found.distillation
    assert row is not None and values is not None
    last = int(row.turn[row.mask].max())
    assert last >= 3
    assert status.outcomes == {"Scored": last, "NoNextState": 1}
    scored = np.flatnonzero(row.mask & (row.turn < last))
    assert values.positions.tolist() == scored.tolist()
    assert status.positions == len(values.positions)
    advantages = values.advantages(row)
    assert np.isfinite(advantages).all()
    assert np.abs(advantages).max() > 0.01, "a hint changes something"
    assert row.student_topk_counts is not None
    await check_values(found, vllm_url, str(model["name"]))


def judged_by(fake: FakeVllm) -> dict[str, Any]:
    return {"endpoint": fake.url, "name": MODEL, "votes": 3}


def in_steps(image: str, model: dict[str, Any], **distillation: Any) -> dict[str, Any]:
    """Two held-out tasks, greedy, in one conversation."""
    steps = [
        {
            "name": f"step-{number}",
            "instruction": task["instruction"],
            "verifier": {"testScript": {"script": written_right(task)}, "timeoutSeconds": 60},
        }
        for number, task in enumerate(held_out_tasks(2))
    ]
    spec = scripted(
        image,
        task={"image": image, "workdir": "/workspace"},
        agent={"kind": "Model", "toolsets": ["terminal"]},
        model={**model, "sampling": {"temperature": 0, "maxTokens": 96, "topLogprobs": 5}},
        steps=steps,
        distillation={"topK": 5, **distillation},
    )
    del spec["verifier"]
    return spec


async def check_values(found: EpisodeRecord, url: str, model: str) -> None:
    """Every value is that of an independent request on the same ids."""
    row, values, told = found.row, found.distillation, found.turns
    assert row is not None and values is not None and told is not None
    rollout = Rollout(
        tokens=row.tokens,
        mask=row.mask,
        turn=row.turn,
        logprobs=row.logprobs,
        messages=found.messages or [],
    )
    placement = found.result.status.distillation
    assert placement is not None and placement.hint_placement is not None
    hints = {turn.turn: turn.hint for turn in told if turn.hint is not None}
    assert len(hints) >= 3
    async with VllmClient.open(url, model) as client:
        prompts = await prompts_by_hand(client, rollout, placement.hint_placement, hints)
        wrong = await wrong_values(values, rollout, prompts, client, tolerance=tolerance())
    assert wrong == []


async def test_a_judge_that_fails_leaves_the_reward(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    nowhere = fake.url.rsplit(":", 1)[0] + ":9"
    spec = three_turns(busybox, fake, judge={"endpoint": nowhere, "name": "none", "votes": 1})
    fake.faults.append(Fault(path=CHAT, status=400, lasting=True))
    del spec["distillation"]["judge"]["endpoint"]
    ended = await episodes.run("no-judge", spec)
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert told(ended).outcomes == {"JudgeFailed": 2, "NoNextState": 1}
    assert told(ended).data is None
    found = await record(episodes, ended)
    assert found.reward == 1
    assert found.turns is not None
    assert "injected" in found.turns[0].message, found.turns[0]


async def test_turns_beyond_the_budget_are_not_scored(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    ended = await episodes.run("budget", three_turns(busybox, fake, maxTeacherTokens=1))
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert told(ended).outcomes == {"NoNextState": 1, "OverBudget": 2}


async def test_a_teacher_with_another_vocabulary_is_refused_before_the_agent_acts(
    episodes: Episodes, busybox: str, fake: FakeVllm, model: dict[str, Any]
) -> None:
    teacher = {"endpoint": model["endpoint"], "name": model["name"]}
    ended = await episodes.run("vocabulary", three_turns(busybox, fake, teacher=teacher))
    assert ended.verdict == ("NoVerdict", None, "TeacherMismatch")
    assert ended.result.spec.counts.turns == 0
    assert ended.episode.status.attempt == 0, "a fresh pod would not help"
    assert told(ended).state == "Skipped"
    assert distilled(ended)[:2] == ("False", "Skipped")


async def test_no_verdict_is_not_distilled(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    spec = three_turns(busybox, fake)
    spec["verifier"]["testScript"]["script"] = "true"
    ended = await episodes.run("no-verdict", spec)
    assert ended.verdict == ("NoVerdict", None, "RewardMissing")
    assert told(ended).state == "Skipped"
    assert not fake.judge.questions


async def test_an_operator_killed_while_it_distils(
    unwatched: Episodes, busybox: str, fake: FakeVllm, tmp_path: Path
) -> None:
    """The verdict is out and the pod is gone by then; another operator distils the same record."""
    asked = 6  # three votes on each of the two turns that something follows
    fake.faults.extend(Fault(path=CHAT, delay=90.0) for _ in range(asked))
    async with operating(unwatched, tmp_path) as operator:
        await unwatched.create("killed", three_turns(busybox, fake))
        before = await unwatched.until("killed", lambda e: e.status.phase == "Distilling")
        assert (before.status.verdict, before.status.reward) == ("Passed", 1)
        async with asyncio.timeout(60):
            while await unwatched.pods("killed") or not fake.bodies(CHAT):
                await asyncio.sleep(0.2)
        fake.faults.clear()
        await operator.kill()
        await operator.start()
        ended = await unwatched.finish("killed")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert len(fake.bodies(CHAT)) > asked, "nothing was under way when it was killed"
    assert told(ended).outcomes == {"NoNextState": 1, "Scored": 2}
    assert ended.episode.status.attempt == 0
    found = await record(unwatched, ended)
    assert found.row is not None and found.distillation is not None
    assert (
        found.distillation.positions.tolist()
        == np.flatnonzero(found.row.mask & (found.row.turn < 2)).tolist()
    )


async def test_a_result_that_is_deleted_while_it_is_distilled(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    """Nothing is scored again and again for a record that nobody can read."""
    fake.faults.extend(Fault(path=CHAT, delay=5.0) for _ in range(6))
    await episodes.create("deleted", three_turns(busybox, fake))
    before = await episodes.until("deleted", lambda e: e.status.phase == "Distilling")
    assert before.status.result_name is not None
    await episodes.client.delete(EPISODE_RESULTS, episodes.namespace, before.status.result_name)
    after = await episodes.until("deleted", lambda e: e.status.phase == "Finished")
    assert (after.status.verdict, after.status.reward, after.status.attempt) == ("Passed", 1, 0)
    assert "Failed" in [c.reason for c in after.status.conditions if c.type == "Distilled"]
    assert len(fake.bodies(CHAT)) == 6
