"""Distillation of one rollout: judge, hint, prompt and scores of every turn.

Turns are independent: each prompt holds its own turn's hint only, and the order in which the server
scores them does not matter. First all turns get their hints and prompts, then the budget is given
out in the order of turns, then those within it are scored.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from episode_operator.api.distillation import TurnOutcome
from episode_operator.distill.judge import Judge
from episode_operator.distill.prompts import HintedPrompt, HintedPrompts, Policy
from episode_operator.distill.records import Config, Distilled, TurnRecord
from episode_operator.distill.rollout import Rollout, next_state_text
from episode_operator.distill.votes import Vote, decide
from episode_operator.model.errors import ModelError
from episode_operator.model.scores import Scores
from episode_operator.model.scoring import Scorer


async def distill(
    rollout: Rollout,
    *,
    policy: Policy,
    teacher: Scorer,
    judge: Judge,
    config: Config,
    deadline: float,
    concurrency: int = 4,
) -> Distilled:
    """Distil `rollout`; every turn ends with an outcome, whatever fails.

    `policy` is the model that sampled it, `deadline` a time.monotonic(): turns not scored by then
    are OverBudget. `concurrency` turns are worked on at once. Raises ValueError when the student's
    top-k is asked for and was not recorded.
    """
    if config.student_top_k and rollout.student_topk_counts is None:
        raise ValueError("the student's top-k was not recorded: set sampling.topLogprobs")
    pipeline = Pipeline(rollout, policy, teacher, judge, config)
    gate = asyncio.Semaphore(concurrency)

    async def bounded(step: Callable[[_Turn], Awaitable[_Turn]], turn: _Turn) -> _Turn:
        if turn.outcome is not None:
            return turn
        limit = asyncio.timeout(deadline - time.monotonic())
        try:
            async with limit, gate:
                return await step(turn)
        except TimeoutError:
            if not limit.expired():
                raise
            message = "distillation.timeoutSeconds was over before the turn was scored"
            return turn.ended(TurnOutcome.OVER_BUDGET, message)

    async def each(
        step: Callable[[_Turn], Awaitable[_Turn]], turns: Iterable[_Turn]
    ) -> list[_Turn]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(bounded(step, turn)) for turn in turns]
        return [task.result() for task in tasks]

    hinted = await each(pipeline.hint, map(pipeline.start, range(rollout.turns)))
    within = affordable(hinted, max_tokens=config.max_teacher_tokens)
    return _joined(await each(pipeline.score, within), config)


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """A turn on its way; it has its outcome when nothing more is to be done for it."""

    turn: int
    positions: range
    outcome: TurnOutcome | None = None
    message: str = ""
    votes: tuple[Vote, ...] = ()
    hint: str | None = None
    prompt: HintedPrompt | None = None
    scores: Scores | None = None

    def ended(self, outcome: TurnOutcome, message: str) -> "_Turn":
        return replace(self, outcome=outcome, message=message)

    def record(self) -> TurnRecord:
        assert self.outcome is not None
        return TurnRecord(
            turn=self.turn,
            outcome=self.outcome,
            message=self.message,
            hint=self.hint,
            votes=list(self.votes),
            teacher_tokens=0 if self.scores is None else self.scores.prompt_tokens,
            positions=self.positions,
            weights=None if self.scores is None else self.scores.weights,
        )


class Pipeline:
    """The steps of a turn. Each takes a turn as far as it gets and raises nothing."""

    def __init__(
        self, rollout: Rollout, policy: Policy, teacher: Scorer, judge: Judge, config: Config
    ) -> None:
        self._rollout = rollout
        self._teacher = teacher
        self._judge = judge
        self._config = config
        self._prompts = HintedPrompts(rollout, policy, config.placement)

    def start(self, number: int) -> _Turn:
        """The turn, ended when no text follows it."""
        turn = _Turn(turn=number, positions=self._rollout.sampled(number))
        if self._next_state(number) is None:
            return turn.ended(TurnOutcome.NO_NEXT_STATE, "no text follows this turn")
        return turn

    def _next_state(self, number: int) -> tuple[str, str] | None:
        messages = self._rollout.next_state(number)
        return next_state_text(messages, limit=self._config.next_state_limit)

    async def hint(self, turn: _Turn) -> _Turn:
        """Ask the judge, and put its hint into the turn's prompt."""
        state = self._next_state(turn.turn)
        assert state is not None
        try:
            response = await self._prompts.response(turn.turn)
        except ModelError as error:
            message = f"the turn could not be decoded for the judge: {_worded(error)}"
            return turn.ended(TurnOutcome.JUDGE_FAILED, message)
        votes = await self._judge.votes(response, *state)
        turn = replace(turn, votes=tuple(votes))
        verdict = decide(votes)
        if verdict.outcome is not None or verdict.hint is None:
            return turn.ended(verdict.outcome or TurnOutcome.JUDGE_FAILED, verdict.message)
        turn = replace(turn, hint=verdict.hint)
        try:
            prompt = await self._prompts.prompt(turn.turn, verdict.hint)
        except ModelError as error:
            message = f"no prompt with the hint: {_worded(error)}"
            return turn.ended(TurnOutcome.TEACHER_FAILED, message)
        return replace(turn, prompt=prompt)

    async def score(self, turn: _Turn) -> _Turn:
        """Let the teacher score the turn."""
        assert turn.prompt is not None
        student = self._rollout.student_topk(turn.turn) if self._config.student_top_k else None
        try:
            scores = await self._teacher.score(
                turn.prompt.token_ids,
                first=turn.prompt.first,
                top_k=self._config.top_k,
                given=student,
            )
        except ModelError as error:
            return turn.ended(TurnOutcome.TEACHER_FAILED, _worded(error))
        if len(scores.sampled_logprobs) != len(turn.positions):
            raise AssertionError("the prompt does not end with the turn")
        return replace(turn, scores=scores).ended(TurnOutcome.SCORED, "")


def affordable(turns: Iterable[_Turn], *, max_tokens: int) -> list[_Turn]:
    """The turns, those whose prompt is beyond the budget ended; earlier turns come first."""
    left = max_tokens
    result = []
    for turn in turns:
        need = 0 if turn.outcome is not None or turn.prompt is None else len(turn.prompt.token_ids)
        if need > left:
            message = f"its prompt has {need} tokens, and of maxTeacherTokens {left} are left"
            result.append(turn.ended(TurnOutcome.OVER_BUDGET, message))
        else:
            result.append(turn)
            left -= need
    return result


def _worded(error: ModelError) -> str:
    return f"{error.reason}: {error}"


def _joined(turns: Sequence[_Turn], config: Config) -> Distilled:
    scored = [(one.positions, one.scores) for one in turns if one.scores is not None]
    scores = [one for _, one in scored]
    positions = [np.array(one, dtype=np.int32) for one, _ in scored]
    given = [one.given_logprobs for one in scores if one.given_logprobs is not None]
    records = [turn.record() for turn in turns]
    return Distilled(
        turns=records,
        positions=np.concatenate([np.empty(0, np.int32), *positions]),
        token_ids=np.concatenate(
            [np.empty((0, config.top_k), np.int32), *(one.token_ids for one in scores)]
        ),
        logprobs=np.concatenate(
            [np.empty((0, config.top_k), np.float32), *(one.logprobs for one in scores)]
        ),
        sampled_logprobs=np.concatenate(
            [np.empty(0, np.float32), *(one.sampled_logprobs for one in scores)]
        ),
        student_topk_logprobs=np.concatenate([np.empty(0, np.float32), *given])
        if config.student_top_k
        else None,
        teacher_tokens=sum(one.teacher_tokens for one in records),
    )
