"""The judge of `make chaos` must see what it is there for."""

from random import Random
from typing import Any

import pytest

from episode_operator.api.episode import EpisodeSpec, EpisodeStatus
from episode_operator.api.result import EpisodeResult
from tests.chaos import report
from tests.chaos.faults import FAULTS
from tests.chaos.judge import End, Outcome, end_of
from tests.chaos.known import KINDS, RETRY_LIMIT, Images, Known, doubled
from tests.chaos.model import ModelServer
from tests.chaos.plan import Planned, plan
from tests.fakes import chat

IMAGES = Images("registry.test/python:1", "registry.test/busybox:1")
RIGHT = Known("testScript", {}, "Failed", 0.25)
FINISHED = {
    "type": "Finished",
    "status": "True",
    "reason": "x",
    "lastTransitionTime": "2026-11-29T10:00:00Z",
}


def planned(count: int, seed: int) -> list[Planned]:
    server = ModelServer()
    server.url = "http://model.test"
    return plan(count, Random(seed), FAULTS, IMAGES, server)


def status(
    verdict: str, reward: float | None, reason: str = "x", retries: int = 0
) -> EpisodeStatus:
    attempt = {"attempt": 0, "reason": "PodLost"}
    return EpisodeStatus.model_validate(
        {
            "verdict": verdict,
            "reward": reward,
            "reason": reason,
            "attempts": [attempt] * retries,
            "conditions": [FINISHED],
        }
    )


def result(verdict: str, reward: float | None) -> EpisodeResult:
    spec: dict[str, Any] = {
        "episode": {"name": "x", "uid": "y"},
        "verdict": verdict,
        "reason": "x",
        "harness": "testScript",
        "agentKind": "Scripted",
        "image": "z",
        "startedAt": "2026-11-29T10:00:00Z",
        "finishedAt": "2026-11-29T10:00:00Z",
    }
    if reward is not None:
        spec["reward"] = reward
    return EpisodeResult.model_validate({"metadata": {}, "spec": spec})


def test_the_seed_decides_everything() -> None:
    assert planned(50, 7) == planned(50, 7)
    assert planned(50, 7) != planned(50, 8)


def test_even_a_small_plan_has_every_fault_and_every_kind() -> None:
    small = planned(len(FAULTS), 1)
    assert {each.fault.name for each in small} == {fault.name for fault in FAULTS}
    kinds = {kind(Random(0), IMAGES, ModelServer()).kind for kind in KINDS}
    assert {each.known.kind for each in small} == kinds
    assert len({each.name for each in small}) == len(small)


@pytest.mark.parametrize("seed", range(5))
def test_every_spec_is_an_episode(seed: int) -> None:
    for each in planned(3 * len(FAULTS), seed):
        EpisodeSpec.model_validate(each.known.spec)


@pytest.mark.parametrize(
    ("output", "twice"),
    [
        ("did: 0 1 9999", False),
        ("did: 0 1 1 9999", True),
        ("did: 0 9999 9999", True),
        ("did: 0 9990\ndid: 0 1 9990 9991", False),
        ("did: 0 1 9999 and then\ndid: 0 0", True),
        ("", False),
    ],
)
def test_what_ran_twice_is_seen(output: str, twice: bool) -> None:
    assert doubled(output) is twice


@pytest.mark.parametrize(
    ("of", "results", "end"),
    [
        (status("Failed", 0.25), [result("Failed", 0.25)], End.RIGHT),
        (status("Failed", 0.0), [result("Failed", 0.0)], End.WRONG),
        (status("Passed", 0.25), [result("Passed", 0.25)], End.WRONG),
        (status("Failed", 0.25), [result("Failed", 0.5)], End.WRONG),
        (status("Failed", 0.25), [], End.LOST),
        (EpisodeStatus(), [result("Failed", 0.25)], End.LOST),
        (status("NoVerdict", None, "PodLost", 2), [result("NoVerdict", None)], End.GAVE_UP),
        (status("NoVerdict", None, "PodLost", 1), [result("NoVerdict", None)], End.WRONG),
        (status("NoVerdict", None, "RewardMissing", 2), [result("NoVerdict", None)], End.WRONG),
    ],
)
def test_ends(of: EpisodeStatus, results: list[EpisodeResult], end: End) -> None:
    assert RETRY_LIMIT == 2
    assert end_of(RIGHT, of, results) is end


@pytest.mark.parametrize("what", ["wrong", "lost", "doubled", "leaked"])
def test_each_bad_outcome_is_reported(what: str) -> None:
    one = Outcome(planned(1, 1)[0], struck=True, end=End.RIGHT, detail="the detail")
    assert report.bad([one]) == []
    if what in (End.WRONG, End.LOST):
        one.end = End(what)
    else:
        setattr(one, what, True)
    (line,) = report.bad([one])
    assert what in line
    assert "the detail" in line
    assert report.counts([one])[what] == 1


def test_the_model_says_the_turn_that_the_prompt_has_come_to() -> None:
    server = ModelServer()
    server.instruction(["other"])
    system = {"role": "system", "content": "be good"}
    user = {"role": "user", "content": server.instruction(["first", "second"])}
    turns = [{"role": "assistant", "content": "first"}, {"role": "tool", "content": "out"}]
    asked = [
        server.reply_to(chat.encode(chat.chatml([system, user, *turns[:count]], [], True))).text
        for count in (0, 2)
    ]
    assert asked == ["first", "second"]
