"""The pipeline against the scripted server: values, every outcome, and mutants that are seen."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import aiohttp
import numpy as np
import pytest

from episode_operator.api.distillation import HintPlacement, TurnOutcome
from episode_operator.distill import (
    Config,
    Distilled,
    Judge,
    Rollout,
    check_vocabulary,
    distill,
    prompts,
)
from episode_operator.model import Scorer, TeacherMismatch, VllmClient, detect_scoring
from tests.distillation import wrong_values
from tests.fakes import chat, scoring
from tests.fakes.judge import NO, yes
from tests.fakes.vllm_server import CHAT, GENERATE, MODEL, RENDER, FakeVllm, Fault
from tests.model.rollouts import (
    HINTS,
    ServedModel,
    hint_every_turn,
    prompts_before_turn,
    prompts_last_user_message,
    recorded,
    served,
)

PROMPTS = {
    HintPlacement.LAST_USER_MESSAGE: prompts_last_user_message,
    HintPlacement.BEFORE_TURN: prompts_before_turn,
}
TOLERANCE = 1e-5


@pytest.fixture(params=["V1", "V2"])
def runner(request: pytest.FixtureRequest, server: FakeVllm) -> None:
    """Both of vLLM's model runners."""
    server.scoring.runner = request.param


@pytest.fixture
async def policy(client: VllmClient) -> ServedModel:
    """The policy."""
    return await served(client)


@pytest.fixture
async def rollout(server: FakeVllm, policy: ServedModel) -> Rollout:
    """Five turns; see `recorded`."""
    return await recorded(server, policy)


async def distilled(
    server: FakeVllm,
    policy: ServedModel,
    rollout: Rollout,
    *,
    seconds: float = 30.0,
    concurrency: int = 4,
    judge_timeout: float = 15.0,
    **config: Any,
) -> Distilled:
    """Distil with teacher and judge on the policy's own server."""
    top_k = config.setdefault("top_k", 5)
    capabilities = await detect_scoring(policy.client, top_k=top_k)
    async with aiohttp.ClientSession() as session:
        return await distill(
            rollout,
            policy=policy,
            teacher=Scorer(policy.client, capabilities),
            judge=Judge(
                session, server.url, MODEL, request_timeout=judge_timeout, retry_budget=2.0
            ),
            config=Config(**config),
            deadline=time.monotonic() + seconds,
            concurrency=concurrency,
        )


def outcomes(result: Distilled) -> list[TurnOutcome]:
    """The outcome of each turn."""
    return [turn.outcome for turn in result.turns]


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("placement", list(HintPlacement))
async def test_values_are_those_of_prompts_built_by_hand(
    server: FakeVllm,
    policy: ServedModel,
    rollout: Rollout,
    placement: HintPlacement,
) -> None:
    hint_every_turn(server)
    result = await distilled(server, policy, rollout, placement=placement)
    assert outcomes(result) == [TurnOutcome.SCORED] * 4 + [TurnOutcome.NO_NEXT_STATE]
    assert [turn.hint for turn in result.turns] == [*HINTS, None]
    built = PROMPTS[placement]()
    client = policy.client
    assert await wrong_values(result, rollout, built, client, tolerance=TOLERANCE) == []
    for row, position in enumerate(result.positions.tolist()):
        turn = int(rollout.turn[position])
        own = rollout.tokens[rollout.sampled(turn).start : position].tolist()
        expected = scoring.top([*built[turn], *own], 5)
        assert result.token_ids[row].tolist() == [token_id for token_id, _ in expected]
        assert result.logprobs[row] == pytest.approx([value for _, value in expected], abs=1e-6)
    own_values = rollout.logprobs[result.positions]
    assert result.advantages(rollout) == pytest.approx(result.sampled_logprobs - own_values)
    lengths = [len(built[turn]) + len(rollout.sampled(turn)) for turn in range(4)]
    assert [turn.teacher_tokens for turn in result.turns] == [*lengths, 0]
    assert result.teacher_tokens == sum(lengths)


@pytest.mark.usefixtures("runner")
async def test_neither_order_nor_what_was_scored_before_matters(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    hint_every_turn(server)
    results = [
        await distilled(server, policy, rollout, concurrency=concurrency, placement=placement)
        for placement in HintPlacement
        for concurrency in (1, 8, 1)
    ]
    for first, *others in (results[:3], results[3:]):
        for other in others:
            assert np.array_equal(first.sampled_logprobs, other.sampled_logprobs)
            assert np.array_equal(first.token_ids, other.token_ids)


async def test_v2_computes_and_answers_little_more_than_the_turn(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    server.scoring.runner = "V2"
    hint_every_turn(server)
    await distilled(server, policy, rollout, concurrency=1, placement=HintPlacement.BEFORE_TURN)
    computed = server.scoring.computed[-3:]
    built = prompts_before_turn()
    for turn, tokens in zip((1, 2, 3), computed, strict=True):
        new = len(rollout.inserted(turn)) + len(rollout.sampled(turn)) + len(HINTS[turn]) + 80
        assert tokens <= new < len(built[turn])


# A wrong implementation must be seen.


def _shift_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Scorer.score

    async def shifted(self: Scorer, token_ids: Sequence[int], *, first: int, **more: Any) -> Any:
        return await right(self, token_ids[:-1], first=first - 1, **more)

    monkeypatch.setattr(Scorer, "score", shifted)


def _hint_in_another_message(monkeypatch: pytest.MonkeyPatch) -> None:
    right = prompts.with_hint

    def other(messages: Any, hint: str, placement: HintPlacement) -> list[dict[str, Any]]:
        changed = [dict(message) for message in messages]
        if len(changed) == 1:
            return right(messages, hint, placement)
        changed[0]["content"] += f"\n\n{prompts.HEADING}\n{hint}"
        return changed

    monkeypatch.setattr(prompts, "with_hint", other)


def _another_turns_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    right = prompts.HintedPrompts.prompt

    async def other(self: prompts.HintedPrompts, turn: int, hint: str) -> Any:
        return await right(self, turn, HINTS[turn - 1])

    monkeypatch.setattr(prompts.HintedPrompts, "prompt", other)


def _tokenize_again(monkeypatch: pytest.MonkeyPatch) -> None:
    right = prompts.HintedPrompts.prompt

    async def again(self: prompts.HintedPrompts, turn: int, hint: str) -> Any:
        prompt = await right(self, turn, hint)
        before = chat.encode(chat.decode(prompt.token_ids[: prompt.first]))
        ids = [*before, *prompt.token_ids[prompt.first :]]
        return replace(prompt, token_ids=ids, first=len(before))

    monkeypatch.setattr(prompts.HintedPrompts, "prompt", again)


def _no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    right = prompts.HintedPrompts.prompt

    async def plain(self: prompts.HintedPrompts, turn: int, hint: str) -> Any:
        prompt = await right(self, turn, hint)
        before = self._ids(range(self._rollout.sampled(turn).start))
        return replace(
            prompt, token_ids=[*before, *prompt.token_ids[prompt.first :]], first=len(before)
        )

    monkeypatch.setattr(prompts.HintedPrompts, "prompt", plain)


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("placement", list(HintPlacement))
@pytest.mark.parametrize(
    "mutate",
    [_shift_spans, _hint_in_another_message, _another_turns_hint, _tokenize_again, _no_hint],
)
async def test_a_wrong_implementation_is_seen(
    server: FakeVllm,
    policy: ServedModel,
    rollout: Rollout,
    placement: HintPlacement,
    mutate: Callable[[pytest.MonkeyPatch], None],
) -> None:
    hint_every_turn(server)
    with pytest.MonkeyPatch.context() as patched:
        mutate(patched)
        result = await distilled(server, policy, rollout, placement=placement)
    built = PROMPTS[placement]()
    assert outcomes(result).count(TurnOutcome.SCORED) == 4
    assert await wrong_values(result, rollout, built, policy.client, tolerance=TOLERANCE)


# Outcomes.


async def test_a_judge_that_says_no_declines(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    server.judge.when("All done.", yes(HINTS[2]), NO, NO)
    result = await distilled(server, policy, rollout, concurrency=1)
    assert outcomes(result) == [TurnOutcome.JUDGE_DECLINED] * 4 + [TurnOutcome.NO_NEXT_STATE]
    assert result.turns[2].message == "1 of 3 votes for a hint"
    assert result.positions.shape == (0,)
    assert result.token_ids.shape == (0, 5)
    assert result.student_topk_logprobs is None


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(path=CHAT, status=500), "ModelUnavailable"),
        (Fault(path=CHAT, status=401), "ModelUnauthorized"),
        (Fault(path=CHAT, status=404, message="nothing here"), "distillation.judge.endpoint"),
        (Fault(path=CHAT, status=404, message="no such model"), "distillation.judge.endpoint"),
        (Fault(path=CHAT, status=403), "ModelUnauthorized"),
        (Fault(path=CHAT, raw=b"{"), "ModelBadResponse"),
        (Fault(path=CHAT, raw=b"[]"), "ModelBadResponse"),
        (Fault(path=CHAT, raw=b'{"choices":[]}'), "answered no message"),
        (Fault(path=CHAT, raw=b'{"choices":[{"message":{"content":null}}]}'), "without text"),
        (Fault(path=CHAT, raw=b'{"choices":["x"]}'), "answered no message"),
        (
            Fault(
                path=CHAT,
                raw=b'{"choices":[{"message":{"content":"so"},"finish_reason":"length"}]}',
            ),
            "judge.maxTokens",
        ),
    ],
)
async def test_a_judge_that_fails_has_failed(
    server: FakeVllm, policy: ServedModel, rollout: Rollout, fault: Fault, said: str
) -> None:
    hint_every_turn(server)
    server.faults.extend([fault] * 60)
    result = await distilled(server, policy, rollout, concurrency=8, seconds=60.0)
    assert outcomes(result) == [TurnOutcome.JUDGE_FAILED] * 4 + [TurnOutcome.NO_NEXT_STATE]
    assert said in result.turns[0].message
    assert [vote.hint for vote in result.turns[0].votes] == [None] * 3


async def test_a_judge_that_is_too_slow_has_failed(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    hint_every_turn(server)
    server.faults.append(Fault(path=CHAT, delay=30.0, lasting=True))
    result = await distilled(server, policy, rollout, judge_timeout=0.3)
    assert outcomes(result) == [TurnOutcome.JUDGE_FAILED] * 4 + [TurnOutcome.NO_NEXT_STATE]
    assert "requestTimeoutSeconds" in result.turns[0].message


@pytest.mark.parametrize(
    "fault",
    [
        Fault(path=CHAT, status=503),
        Fault(path=CHAT, status=429, headers={"Retry-After": "1"}),
        Fault(path=CHAT, drop=True),
    ],
)
async def test_a_passing_failure_of_the_judge_is_asked_again(
    server: FakeVllm, policy: ServedModel, rollout: Rollout, fault: Fault
) -> None:
    hint_every_turn(server)
    server.faults.extend([fault] * 5)
    result = await distilled(server, policy, rollout)
    assert outcomes(result)[:4] == [TurnOutcome.SCORED] * 4


async def test_the_judge_sees_the_turn_as_it_was_sampled_and_a_cut_next_state(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    await distilled(server, policy, rollout, concurrency=1, next_state_limit=4)
    by_turn = server.judge.questions[::3]
    assert "<tool_call>\n" in by_turn[0]
    assert "[role: tool]\na.tx\n[cut]\n" in by_turn[0]
    assert "(turn t)\n[[x\n" in by_turn[1]
    assert "[role: user]\nNo, \n[cut]\n" in by_turn[2]
    assert len(server.judge.questions) == 12
    body = server.bodies(CHAT)[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == (MODEL, 0.7, 500)


async def test_another_template_than_recorded_is_no_score(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    hint_every_turn(server)
    server.template = chat.thinking
    result = await distilled(server, policy, rollout)
    assert outcomes(result)[:4] == [TurnOutcome.TEACHER_FAILED] * 4
    assert "do not render to the recorded ids" in result.turns[0].message
    assert result.teacher_tokens == 0


async def test_a_template_that_hides_the_hint_is_no_score(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    hint_every_turn(server)

    def hiding(messages: chat.Messages, tools: Any, generation: bool) -> str:
        cut = [dict(one, content=str(one["content"]).split("\n\n[user")[0]) for one in messages]
        return chat.chatml(cut, tools, generation)

    server.template = hiding
    result = await distilled(server, policy, rollout)
    assert "does not show the hint" in result.turns[0].message
    assert outcomes(result)[0] == TurnOutcome.TEACHER_FAILED


def _change_rows(change: Callable[[list[Any]], None]) -> Callable[[dict[str, Any]], None]:
    return lambda answer: change(answer["prompt_logprobs"])


def _value(value: Any) -> Callable[[list[Any]], None]:
    def change(rows: list[Any]) -> None:
        rows[-2] = {key: {**entry, "logprob": value} for key, entry in rows[-2].items()}

    return change


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize(
    "change",
    [
        _change_rows(lambda rows: rows.pop()),
        _change_rows(lambda rows: rows.append(rows[-1])),
        _change_rows(lambda rows: rows.insert(1, rows.pop())),
        _change_rows(lambda rows: rows[-1].popitem()),
        _change_rows(lambda rows: rows[-1].update({"7": {"logprob": -30.0, "rank": 9999}})),
        _change_rows(lambda rows: rows[-1].update({"x": {"logprob": -30.0, "rank": 9999}})),
        _change_rows(lambda rows: rows[-1].update({"7": {"logprob": -30.0, "rank": 1}})),
        _change_rows(lambda rows: rows.__setitem__(-1, list(rows[-1]))),
        _change_rows(_value(float("nan"))),
        _change_rows(_value(-9999.0)),
        _change_rows(_value(None)),
        _change_rows(_value(0.5)),
        lambda answer: answer.update(prompt_logprobs=None),
        lambda answer: answer.update(prompt_logprobs=[None]),
    ],
)
async def test_an_answer_that_is_not_what_was_asked_for_is_no_score(
    server: FakeVllm,
    policy: ServedModel,
    rollout: Rollout,
    change: Callable[[dict[str, Any]], None],
) -> None:
    server.judge.when("All done.", yes(HINTS[2]))
    # The first two are those of the detection; on V2 a row that is missing is asked for again.
    unchanged = Fault(path=GENERATE)
    server.faults.extend([unchanged] * 2 + [Fault(path=GENERATE, change=change)] * 2)
    result = await distilled(server, policy, rollout)
    assert outcomes(result)[2] == TurnOutcome.TEACHER_FAILED
    assert "ModelBadResponse" in result.turns[2].message
    assert len(result.positions) == 0


@pytest.mark.parametrize("status", [500, 400])
async def test_a_teacher_that_fails_is_no_score(
    server: FakeVllm, policy: ServedModel, rollout: Rollout, status: int
) -> None:
    hint_every_turn(server)
    server.faults.extend([Fault(path=GENERATE)] * 2 + [Fault(path=GENERATE, status=status)] * 90)
    result = await distilled(server, policy, rollout)
    assert outcomes(result)[:4] == [TurnOutcome.TEACHER_FAILED] * 4
    assert len(result.positions) == 0


async def test_a_teacher_that_is_replaced_scores_nothing_more(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    def replaced(_answer: dict[str, Any]) -> None:
        server.root = "/models/another"

    hint_every_turn(server)
    server.faults.extend([Fault(path=GENERATE)] * 3 + [Fault(path=GENERATE, change=replaced)])
    result = await distilled(server, policy, rollout, concurrency=1)
    failed = [TurnOutcome.TEACHER_FAILED] * 3
    assert outcomes(result) == [TurnOutcome.SCORED, *failed, TurnOutcome.NO_NEXT_STATE]
    assert all("/models/another" in turn.message for turn in result.turns[1:4])
    assert result.positions.tolist() == list(rollout.sampled(0))


async def test_each_turn_names_the_weights_that_scored_it(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    def update(_answer: dict[str, Any]) -> None:
        server.weights = "2"

    hint_every_turn(server)
    server.weights = "1"
    server.faults.extend([Fault(path=GENERATE)] * 3 + [Fault(path=GENERATE, change=update)])
    result = await distilled(server, policy, rollout, concurrency=1)
    assert [turn.weights for turn in result.turns] == ["1", "1", "2", "2", None]


async def test_a_prompt_beyond_the_teachers_context_is_told(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    hint_every_turn(server)
    server.max_model_len = len(rollout.tokens) - len(rollout.sampled(4))
    result = await distilled(server, policy, rollout)
    assert outcomes(result)[2:4] == [TurnOutcome.SCORED, TurnOutcome.TEACHER_FAILED]
    assert "--max-model-len" in result.turns[3].message


async def test_the_budget_goes_to_turns_in_their_order(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    hint_every_turn(server)
    built = prompts_last_user_message()
    needed = [len(built[turn]) + len(rollout.sampled(turn)) for turn in range(4)]
    result = await distilled(server, policy, rollout, max_teacher_tokens=sum(needed[:2]))
    scored, over = TurnOutcome.SCORED, TurnOutcome.OVER_BUDGET
    assert outcomes(result) == [scored, scored, over, over, TurnOutcome.NO_NEXT_STATE]
    assert "maxTeacherTokens" in result.turns[2].message
    assert result.teacher_tokens == sum(needed[:2])
    assert result.turns[2].hint == HINTS[2]


@pytest.mark.parametrize("path", [CHAT, RENDER, GENERATE])
async def test_turns_not_reached_in_time_are_over_budget(
    server: FakeVllm, policy: ServedModel, rollout: Rollout, path: str
) -> None:
    hint_every_turn(server)
    before = 2 if path == GENERATE else 0
    server.faults.extend([Fault(path=path)] * before + [Fault(path=path, delay=30.0)] * 90)
    began = time.monotonic()
    result = await distilled(server, policy, rollout, seconds=1.0)
    assert time.monotonic() - began < 15
    assert outcomes(result) == [TurnOutcome.OVER_BUDGET] * 4 + [TurnOutcome.NO_NEXT_STATE]
    assert "timeoutSeconds" in result.turns[0].message


# The student's own top tokens, and another teacher.


async def test_the_students_top_tokens_are_scored_under_the_teacher(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    server.scoring.runner = "V2"
    server.judge.when("[[x", yes(HINTS[1]))
    server.judge.when("I was cut", yes(HINTS[3]))
    counts = np.arange(rollout.mask.sum(), dtype=np.int16) % 4
    ids = np.arange(counts.sum(), dtype=np.int32) * 3 + 200
    student = replace(rollout, student_topk_counts=counts, student_topk_token_ids=ids)
    placement = HintPlacement.BEFORE_TURN
    result = await distilled(server, policy, student, student_top_k=True, placement=placement)
    sampled = np.flatnonzero(rollout.mask).tolist()
    starts = np.cumsum(counts) - counts
    expected = []
    for turn in (1, 3):
        prefix = prompts_before_turn()[turn]
        for position in rollout.sampled(turn):
            place = sampled.index(position)
            own = ids[starts[place] : starts[place] + counts[place]].tolist()
            expected += [scoring.logprob(prefix, one) for one in own]
            prefix.append(int(rollout.tokens[position]))
    assert result.student_topk_logprobs == pytest.approx(expected, abs=1e-6)
    assert len(expected) == counts[[sampled.index(one) for one in result.positions]].sum()


@pytest.mark.parametrize("path", [CHAT, GENERATE], ids=["judge", "teacher"])
async def test_time_that_ends_while_a_server_fails_is_over_all_the_same(
    server: FakeVllm, policy: ServedModel, rollout: Rollout, path: str
) -> None:
    hint_every_turn(server)
    capabilities = await detect_scoring(policy.client, top_k=5)
    server.faults.append(Fault(path=path, status=500, lasting=True))
    async with aiohttp.ClientSession() as session:
        result = await distill(
            rollout,
            policy=policy,
            teacher=Scorer(policy.client, capabilities),
            judge=Judge(session, server.url, MODEL, retry_budget=30.0),
            config=Config(top_k=5),
            deadline=time.monotonic() + 1.0,
        )
    assert set(outcomes(result)) == {TurnOutcome.OVER_BUDGET, TurnOutcome.NO_NEXT_STATE}


async def test_the_students_top_tokens_must_have_been_recorded(
    server: FakeVllm, policy: ServedModel, rollout: Rollout
) -> None:
    with pytest.raises(ValueError, match="topLogprobs"):
        await distilled(server, policy, rollout, student_top_k=True)


def _other_tokens(answer: dict[str, Any]) -> None:
    answer["tokens"] = [one + 1 for one in answer["tokens"]]


async def test_a_teacher_elsewhere_must_have_the_same_vocabulary(
    server: FakeVllm, client: VllmClient
) -> None:
    async with FakeVllm.running() as other, VllmClient.open(other.url, MODEL) as teacher:
        server.vocabulary = other.vocabulary = 5000
        before = len(server.requests)
        await check_vocabulary(client, client)
        assert len(server.requests) == before
        await check_vocabulary(client, teacher)

        def change(answer: dict[str, Any]) -> None:
            answer["prompt"] = answer["prompt"].replace("A", "B")

        other.faults.append(Fault(path="/detokenize", change=change))
        with pytest.raises(TeacherMismatch, match="other texts"):
            await check_vocabulary(client, teacher)
        other.vocabulary = 4999
        with pytest.raises(TeacherMismatch, match="other texts"):
            await check_vocabulary(client, teacher)
        other.faults.append(Fault(path="/tokenize", change=_other_tokens))
        with pytest.raises(TeacherMismatch, match="other ids"):
            await check_vocabulary(client, teacher)
