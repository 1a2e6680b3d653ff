"""Answers of the server: taken only when every number is there and fits."""

from copy import deepcopy
from typing import Any

import pytest

from episode_operator.model.errors import ModelBadResponse
from episode_operator.model.wire import VersionSpan, parse_generated

GOOD: dict[str, Any] = {
    "choices": [
        {
            "finish_reason": "stop",
            "stop_reason": None,
            "token_ids": [5, 6],
            "logprobs": {
                "content": [
                    {
                        "token_id": 5,
                        "logprob": -0.5,
                        "top_logprobs": [
                            {"token_id": 5, "logprob": -0.5},
                            {"token_id": 9, "logprob": -0.1},
                            {"token_id": 8, "logprob": -9999.0},
                        ],
                    },
                    {
                        "token_id": 6,
                        "logprob": -2.0,
                        "top_logprobs": [{"token_id": 6, "logprob": -2.0}],
                    },
                ]
            },
            "weight_versions": [
                {"version": "1", "start": 0, "end": 1},
                {"version": "2", "start": 1, "end": 2},
            ],
        }
    ]
}


def choice(**changes: Any) -> dict[str, Any]:
    """GOOD with fields of its choice replaced."""
    answer = deepcopy(GOOD)
    answer["choices"][0].update(changes)
    return answer


def content(position: int, **changes: Any) -> dict[str, Any]:
    """GOOD with fields of one logprob replaced."""
    answer = deepcopy(GOOD)
    answer["choices"][0]["logprobs"]["content"][position].update(changes)
    return answer


def top(token_id: int, logprob: float) -> dict[str, Any]:
    """An entry of top_logprobs."""
    return {"token_id": token_id, "logprob": logprob}


def test_a_good_answer() -> None:
    sampled = parse_generated(GOOD, top_count=2)
    assert sampled.token_ids == [5, 6]
    assert sampled.logprobs == [-0.5, -2.0]
    assert sampled.finish_reason == "stop"
    assert sampled.top == [[(9, -0.1), (5, -0.5)], [(6, -2.0)]]
    assert sampled.versions == (
        VersionSpan(version="1", start=0, end=1),
        VersionSpan(version="2", start=1, end=2),
    )


def test_an_abort_may_come_with_nothing() -> None:
    answer = choice(finish_reason="abort", token_ids=[], logprobs=None, weight_versions=None)
    sampled = parse_generated(answer, top_count=0)
    assert (sampled.token_ids, sampled.logprobs, sampled.versions) == ([], [], ())


def test_an_unlabelled_server_gives_no_versions() -> None:
    assert parse_generated(choice(weight_versions=None), top_count=0).versions == ()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([], "not an object"),
        ({}, "exactly one choice"),
        ({"choices": []}, "exactly one choice"),
        (choice(token_ids=[5]), "1 sampled ids came with 2"),
        (choice(token_ids=[5, 6, 7]), "3 sampled ids came with 2"),
        (choice(token_ids=[5, 7]), "sampled was 7"),
        (choice(token_ids=[5, "6"]), "not a list of token ids"),
        (choice(token_ids=[5, -6]), "not a list of token ids"),
        (choice(token_ids=[True, 6]), "not a list of token ids"),
        (choice(logprobs=None), "logprobs"),
        (choice(logprobs={"content": None}), "came with 0"),
        (choice(finish_reason="error"), "finish_reason"),
        (choice(finish_reason=None), "finish_reason"),
        (content(0, logprob=None), "not a finite logprob"),
        (content(0, logprob="-1"), "not a finite logprob"),
        (content(0, logprob=float("nan")), "not a finite logprob"),
        (content(0, logprob=float("-inf")), "not a finite logprob"),
        (content(0, logprob=-9999.0), "NaN or minus infinity"),
        (content(0, logprob=0.7), "above 1"),
        (content(1, top_logprobs=None), "top_logprobs"),
        (content(1, top_logprobs=[{"token_id": "6", "logprob": -1.0}]), "top_logprobs"),
        (content(0, top_logprobs=[top(5, -0.5), top(9, -0.1), top(9, -0.2)]), "an id twice"),
        (content(0, top_logprobs=[top(9, -0.1), top(5, -0.4)]), "two values of the sampled id 5"),
        (
            content(0, top_logprobs=[top(9, -0.6), top(8, -0.7)]),
            "less likely than the sampled id 5",
        ),
        (choice(weight_versions=[{"version": "1", "start": 0, "end": 1}]), "does not cover"),
        (choice(weight_versions=[{"version": 1, "start": 0, "end": 2}]), "weight_versions"),
        (
            choice(
                weight_versions=[
                    {"version": "1", "start": 0, "end": 1},
                    {"version": "2", "start": 0, "end": 2},
                ]
            ),
            "does not cover",
        ),
    ],
)
def test_a_bad_answer_is_refused(answer: object, says: str) -> None:
    with pytest.raises(ModelBadResponse, match=says):
        parse_generated(answer, top_count=2)
