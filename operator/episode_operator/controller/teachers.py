"""Teachers that were found fit to score a policy, shared by all Episodes."""

import asyncio
from dataclasses import dataclass
from functools import partial

from episode_operator.api.agent import Model
from episode_operator.api.distillation import Distillation
from episode_operator.controller.models import ModelPool, ServedModel, Server, server_of
from episode_operator.controller.single_flight import SingleFlight
from episode_operator.distill import check_vocabulary
from episode_operator.model import Scorer, detect_scoring

_Key = tuple[Server, Server, int, int]


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
        self._asking = SingleFlight[_Key, Teacher]()
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
        key = (server_of(policy), server_of(teacher), spec.top_k, given)
        known = self._known.get(key)
        if known is not None and known.policy is served and known.served is scoring:
            return known
        return await self._asking.ask(key, partial(self._ask, key, served, scoring))

    async def _ask(self, key: _Key, policy: ServedModel, teacher: ServedModel) -> Teacher:
        *_, top_k, given_ids = key
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
        fit = Teacher(policy, teacher, Scorer(teacher.client, capabilities, gate=gate))
        self._known[key] = fit
        return fit


def _model(spec: Distillation, policy: Model) -> Model:
    """The teacher as a model; the policy's own where the spec names none."""
    if spec.teacher is None:
        return policy
    return Model(
        endpoint=spec.teacher.endpoint,
        name=spec.teacher.name,
        request_timeout_seconds=spec.teacher.request_timeout_seconds,
    )
