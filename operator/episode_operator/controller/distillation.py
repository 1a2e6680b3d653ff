"""On-policy distillation of a written result: its turns are judged, hinted, scored, and recorded.

Everything comes from the EpisodeResult: the pod is gone by then, and an operator that takes over
starts from the same record. Whatever fails here is told in the result's status; the reward stays
what it is.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp

from episode_operator.agent.tools import toolbox
from episode_operator.api.agent import Model
from episode_operator.api.base import API_VERSION
from episode_operator.api.distillation import Distillation, DistillationState, TurnOutcome
from episode_operator.api.episode import Episode
from episode_operator.api.labels import FIELD_MANAGER
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import Blob, DistillationStatus, EpisodeResult
from episode_operator.controller import inputs, metrics
from episode_operator.controller.status import clip, utc_now
from episode_operator.controller.teachers import Teachers
from episode_operator.distill import Config, Distilled, Judge, Rollout, distill
from episode_operator.kube.client import EPISODE_RESULTS, ApiError, KubernetesClient
from episode_operator.model import ModelError
from episode_operator.results import distillation as payload
from episode_operator.results import messages, turns, writer
from episode_operator.results.blobs import Encoding
from episode_operator.results.objects import ObjectStore, ObjectStoreError, StoreUnreachable
from episode_operator.results.payload import TokenRow
from episode_operator.results.payload import decode as decode_row

logger = logging.getLogger(__name__)

DATA = "distillation"
TURNS = "turns"
_PAUSE_SECONDS = 5.0
_CHECK_SECONDS = 60.0
"""How long an agent waits for its teacher to answer; where it does not, its turns will tell."""

_REFUSED = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
"""A quota that is used up, or more than the API server takes: trying again would not help."""

OnNotStored = Callable[[ObjectStoreError], Awaitable[None]]
OnWarning = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What a distillation came to, before anything of it is written."""

    told: DistillationStatus
    data: bytes | None = None
    turns: bytes | None = None


class Distiller:
    """Distils the results of this operator's Episodes."""

    def __init__(
        self,
        client: KubernetesClient,
        http: aiohttp.ClientSession,
        teachers: Teachers,
        store: ObjectStore | None,
    ) -> None:
        self._client = client
        self._http = http
        self._teachers = teachers
        self._store = store

    async def check(self, episode: Episode, *, on_warning: OnWarning) -> None:
        """Find out, before the agent acts, whether its turns can be scored.

        A server that does not answer now may answer then, so that is but a warning.

        Raises:
            ModelError: the teacher cannot score this policy, whenever it is asked.
        """
        spec = episode.spec.distillation
        assert spec is not None  # an attempt asks only where there is one
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await self._teachers.get(_policy(episode), spec)
        except TimeoutError:
            await on_warning("TeacherNotChecked", f"no answer within {_CHECK_SECONDS:.0f} s")
        except ModelError as error:
            if error.permanent:
                raise
            await on_warning("TeacherNotChecked", f"{error.reason}: {error}")

    async def run(
        self, episode: Episode, result: EpisodeResult, *, not_stored: OnNotStored
    ) -> EpisodeResult:
        """Distil the result, and write what that gave into its status.

        `not_stored` waits when the object store does not take a blob. What was scored is kept
        until it is written; a result that is deleted meanwhile is given back as it would have been.
        """
        started = time.monotonic()
        spec = episode.spec.distillation
        assert spec is not None  # lifecycle distils only where it is asked for
        try:
            gathered = await self._gather(episode, spec, result)
        except Exception as error:
            logger.exception("%s: distillation failed", episode.name)
            message = f"{getattr(error, 'reason', type(error).__name__)}: {error}"
            gathered = _Gathered(_told(DistillationState.FAILED, message))
        seconds = round(time.monotonic() - started, 3)
        told = await self._write(episode, result, gathered, not_stored, seconds)
        metrics.distilled(told)
        status = result.status.model_copy(update={"distillation": told})
        return result.model_copy(update={"status": status})

    async def _gather(
        self, episode: Episode, spec: Distillation, result: EpisodeResult
    ) -> _Gathered:
        if result.spec.verdict is Verdict.NO_VERDICT or result.spec.tokens is None:
            message = "without a verdict nothing is trained on"
            return _Gathered(_told(DistillationState.SKIPPED, message))
        deadline = time.monotonic() + spec.timeout_seconds
        teacher = await self._teachers.get(_policy(episode), spec)
        row, conversation = await self._record(result, deadline)
        distilled = await distill(
            _rollout(episode, row, conversation),
            policy=teacher.policy,
            teacher=teacher.scorer,
            judge=await self._judge(episode, spec),
            config=Config(
                top_k=spec.top_k,
                placement=spec.hint_placement,
                student_top_k=spec.student_top_k,
                max_teacher_tokens=spec.max_teacher_tokens,
                next_state_limit=spec.judge.next_state_limit,
            ),
            deadline=deadline,
        )
        return await asyncio.to_thread(_encoded, spec, row, distilled, teacher.served.client.model)

    async def _record(
        self, result: EpisodeResult, deadline: float
    ) -> tuple[TokenRow, list[dict[str, object]]]:
        """The row and the messages; a store that is away is waited for until the deadline."""
        tokens, conversation = result.spec.tokens, result.spec.messages
        assert tokens is not None and conversation is not None  # written together
        row = await self._read(result, tokens, deadline)
        told = await self._read(result, conversation, deadline)
        return await asyncio.to_thread(decode_row, row), messages.decode(told)

    async def _read(self, result: EpisodeResult, blob: Blob, deadline: float) -> bytes:
        while True:
            try:
                return await writer.read_blob(
                    self._client,
                    namespace=result.metadata["namespace"],
                    blob=blob,
                    store=self._store,
                )
            except StoreUnreachable:
                if time.monotonic() + _PAUSE_SECONDS > deadline:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _write(
        self,
        episode: Episode,
        result: EpisodeResult,
        gathered: _Gathered,
        not_stored: OnNotStored,
        seconds: float,
    ) -> DistillationStatus:
        """Write the blobs, then the status that names them; what it says.

        Only the writing is done again where it fails: scoring has cost much.
        """
        while True:
            try:
                told = gathered.told.model_copy(
                    update={
                        "seconds": seconds,
                        "data": await self._stored(result, gathered.data, payload.ENCODING, DATA),
                        "turns": await self._stored(result, gathered.turns, turns.ENCODING, TURNS),
                    }
                )
                await self._apply(result, told)
            except ObjectStoreError as error:
                await not_stored(error)
            except ApiError as error:
                logger.warning("%s: distillation is not written: %s", episode.name, error)
                if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                    return _told(DistillationState.FAILED, "the EpisodeResult was deleted")
                if error.status in _REFUSED and gathered.turns is not None:
                    message = f"what it gave could not be written: {error}"
                    gathered = _Gathered(_told(DistillationState.FAILED, message))
                else:
                    await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return told

    async def _stored(
        self, result: EpisodeResult, data: bytes | None, encoding: Encoding, kind: str
    ) -> Blob | None:
        if data is None:
            return None
        return await writer.write_blob(
            self._client, data, encoding=encoding, kind=kind, result=result, store=self._store
        )

    async def _apply(self, result: EpisodeResult, told: DistillationStatus) -> None:
        body = {
            "apiVersion": API_VERSION,
            "kind": "EpisodeResult",
            "metadata": {key: result.metadata[key] for key in ("name", "namespace", "uid")},
            "status": {"distillation": told.to_api()},
        }
        await self._client.apply_status(EPISODE_RESULTS, body, manager=FIELD_MANAGER)

    async def _judge(self, episode: Episode, spec: Distillation) -> Judge:
        policy, judge = _policy(episode), spec.judge
        key = None
        if judge.api_key_from is not None:
            key = await inputs.text(self._client, episode.namespace, None, judge.api_key_from)
        return Judge(
            self._http,
            judge.endpoint or policy.endpoint,
            judge.name or policy.name,
            api_key=None if key is None else key.strip(),
            votes=judge.votes,
            temperature=judge.temperature,
            max_tokens=judge.max_tokens,
            request_timeout=judge.request_timeout_seconds,
        )


def _policy(episode: Episode) -> Model:
    policy = episode.spec.model
    assert policy is not None  # CEL admits no distillation without a model agent
    return policy


def _rollout(episode: Episode, row: TokenRow, conversation: list[dict[str, object]]) -> Rollout:
    tools = toolbox(episode.spec.agent.toolsets)
    return Rollout(
        tokens=row.tokens,
        mask=row.mask,
        turn=row.turn,
        logprobs=row.logprobs,
        messages=conversation,
        tools=[tool.schema() for tool in tools.values()],
        student_topk_counts=row.student_topk_counts,
        student_topk_token_ids=row.student_topk_token_ids,
    )


def _told(state: DistillationState, message: str) -> DistillationStatus:
    return DistillationStatus(state=state, message=clip(message), completed_at=utc_now())


def _encoded(spec: Distillation, row: TokenRow, distilled: Distilled, teacher: str) -> _Gathered:
    """What is to be written. Takes a while for long rows: not for the event loop."""
    data = None
    if len(distilled.positions):
        values = payload.Distillation(
            positions=distilled.positions,
            token_ids=distilled.token_ids,
            logprobs=distilled.logprobs,
            sampled_logprobs=distilled.sampled_logprobs,
            student_topk_logprobs=distilled.student_topk_logprobs,
        )
        data = payload.encode(values, row)
    told = _completed(spec, distilled, teacher)
    return _Gathered(told, data, turns.encode(_records(distilled)))


def _completed(spec: Distillation, distilled: Distilled, teacher: str) -> DistillationStatus:
    outcomes = Counter(record.outcome for record in distilled.turns)
    scored, positions = outcomes[TurnOutcome.SCORED], len(distilled.positions)
    return DistillationStatus(
        state=DistillationState.COMPLETED,
        message=f"{scored} of {len(distilled.turns)} turns scored, {positions} positions",
        outcomes={str(outcome): count for outcome, count in sorted(outcomes.items())},
        hints=sum(record.hint is not None for record in distilled.turns),
        positions=positions,
        top_k=spec.top_k,
        hint_placement=spec.hint_placement,
        teacher=teacher,
        teacher_weights=list(
            dict.fromkeys(turn.weights for turn in distilled.turns if turn.weights is not None)
        ),
        teacher_tokens=distilled.teacher_tokens,
        completed_at=utc_now(),
    )


def _records(distilled: Distilled) -> list[turns.TurnRecord]:
    return [
        turns.TurnRecord(
            turn=record.turn,
            outcome=record.outcome,
            message=record.message,
            hint=record.hint,
            votes=[
                turns.VoteRecord(decision=vote.decision.value, hint=vote.hint, error=vote.error)
                for vote in record.votes
            ],
            teacher_tokens=record.teacher_tokens,
            weights=record.weights,
            start=record.positions.start,
            end=record.positions.stop,
        )
        for record in distilled.turns
    ]
