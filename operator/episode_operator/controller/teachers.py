"""Teachers that were found fit to score a policy, shared by all Episodes."""

import asyncio
from dataclasses import dataclass
from functools import partial

from episode_operator.api.agent import Model
from episode_operator.api.distillation import Distillation
from episode_operator.controller.models import ModelPool, ServedModel
from episode_operator.distill import check_vocabulary
from episode_operator.model import Scorer, detect_scoring

_Server = tuple[str, str, int]
_Key = tuple[_Server, _Server, int, int]


@dataclass(frozen=True, slots=True)
class Teacher:
    """A teacher and the policy it scores, as long as both are served as they were then."""

    policy: ServedModel
    served: ServedModel
    scorer: Scorer


class Teachers:
    """Finds out once for all Episodes whether a teacher can score a policy."""

    def __init__(self, models: ModelPool) -> None:
        self._models = models
        self._known: dict[_Key, Teacher] = {}
        self._asking: dict[_Key, asyncio.Task[Teacher]] = {}
        self._same_vocabulary: set[tuple[str | None, ...]] = set()
        self._gates: dict[tuple[str, int], asyncio.Semaphore] = {}

    async def get(self, policy: Model, spec: Distillation) -> Teacher:
        """The teacher that the spec asks for, found fit.

        Raises:
            ModelError: a server does not answer, or the teacher cannot score this policy.
        """
        teacher = _model(spec, policy)
        given = policy.sampling.top_logprobs if spec.student_top_k else 0
        served = await self._models.get(policy, logprobs=False)
        scoring = await self._models.get(teacher, logprobs=False)
        key = (_served_as(policy), _served_as(teacher), spec.top_k, given)
        known = self._known.get(key)
        if known is not None and known.policy is served and known.served is scoring:
            return known
        if key not in self._asking:  # many Episodes start at once; all take what one is answered
            asking = self._ask(served, scoring, top_k=spec.top_k, given_ids=given)
            self._asking[key] = asyncio.create_task(asking)
            self._asking[key].add_done_callback(partial(self._asked, key))
        return await asyncio.shield(self._asking[key])

    def _asked(self, key: _Key, asking: asyncio.Task[Teacher]) -> None:
        del self._asking[key]
        if not asking.cancelled() and asking.exception() is None:
            self._known[key] = asking.result()

    async def _ask(
        self, policy: ServedModel, teacher: ServedModel, *, top_k: int, given_ids: int
    ) -> Teacher:
        both = tuple(
            part
            for one in (policy, teacher)
            for part in (one.client.endpoint, one.client.model, one.capabilities.root)
        )
        if both not in self._same_vocabulary:
            await check_vocabulary(policy.client, teacher.client)
            self._same_vocabulary.add(both)
        capabilities = await detect_scoring(teacher.client, top_k=top_k, given_ids=given_ids)
        at_once = capabilities.concurrent_requests
        gate = self._gates.setdefault(
            (teacher.client.endpoint, at_once), asyncio.Semaphore(at_once)
        )
        return Teacher(policy, teacher, Scorer(teacher.client, capabilities, gate=gate))


def _model(spec: Distillation, policy: Model) -> Model:
    """The teacher as a model; the policy's own where the spec names none."""
    if spec.teacher is None:
        return policy
    return Model(
        endpoint=spec.teacher.endpoint,
        name=spec.teacher.name,
        request_timeout_seconds=spec.teacher.request_timeout_seconds,
    )


def _served_as(model: Model) -> _Server:
    return model.endpoint, model.name, model.request_timeout_seconds
