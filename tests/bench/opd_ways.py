"""The ways to get a teacher's values for a rollout: the seed's, and ours with both placements.

Each is asked for all turns that have a hint; what the teacher computed is what its server counted.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np
from numpy.typing import NDArray

from episode_operator.api.distillation import HintPlacement, TurnOutcome
from episode_operator.distill import Config, Judge, Rollout, distill
from episode_operator.model import (
    Capabilities,
    Scorer,
    ScoringCapabilities,
    SpecialTokens,
    detect,
    detect_scoring,
)
from episode_operator.model.sampler import cache_salt
from episode_operator.model.scores import parse_prompt_answer, scores_of
from episode_operator.model.wire import Generated
from tests.bench.opd_rollout import STEPS
from tests.bench.opd_server import Counters, Server
from tests.cluster.vllm import WatchedClient
from tests.fakes.judge import yes
from tests.fakes.vllm_server import MODEL, FakeVllm
from tests.testbed.errors import TestbedError
from tests.testbed.vllm import SERVED_MODEL

TOP_K = 50
SEED, LAST_USER, BEFORE = "seed", "last user message", "before the turn"
TITLES = {
    SEED: "the seed's: the whole prompt again for each turn",
    LAST_USER: "ours, LastUserMessage",
    BEFORE: "ours, BeforeTurn",
}
_TIME_LIMIT = 1800.0
_HEADING = "[user's hint / instruction]"

Values = NDArray[np.float32]


class CountingClient(WatchedClient):
    """Counts the requests that the server's engine gets."""

    asked = 0

    async def generate(self, token_ids: Sequence[int], **options: Any) -> Generated:
        """As WatchedClient's."""
        self.asked += 1
        return await super().generate(token_ids, **options)

    async def score_prompt(self, token_ids: Sequence[int], **options: Any) -> bytes:
        """As VllmClient's."""
        self.asked += 1
        return await super().score_prompt(token_ids, **options)


@dataclass(frozen=True)
class Reading:
    """What a way took: the server's counters, and the values it got, float32[m, 1 + k]: of the
    sampled ids and of the k most likely ones at their positions.
    """

    counted: Counters
    values: Values


@dataclass(frozen=True)
class Teacher:
    """The policy on one server, as its own teacher; what can be found out once is found out."""

    server: Server
    client: CountingClient
    capabilities: Capabilities
    specials: SpecialTokens
    scoring: ScoringCapabilities

    @classmethod
    async def on(cls, server: Server, http: aiohttp.ClientSession) -> "Teacher":
        """The one on this server."""
        client = CountingClient(http, server.url, SERVED_MODEL, request_timeout=_TIME_LIMIT)
        scoring = await detect_scoring(client, top_k=TOP_K)
        return cls(server, client, await detect(client), SpecialTokens(client), scoring)

    async def measure(self, way: str, rollout: Rollout) -> Reading:
        """Once, with the server as the rollout left it.

        Raises TestbedError when a turn got no values, or others used the server.
        """
        await self._as_after(rollout)
        before, asked = await self.server.counters(), self.client.asked
        values = await self._ways()[way](rollout)
        counted = await self.server.since(before, requests=self.client.asked - asked)
        return Reading(counted, values)

    def _ways(self) -> Mapping[str, Callable[[Rollout], Awaitable[Values]]]:
        return {
            SEED: self._seed,
            LAST_USER: lambda rollout: self._ours(rollout, HintPlacement.LAST_USER_MESSAGE),
            BEFORE: lambda rollout: self._ours(rollout, HintPlacement.BEFORE_TURN),
        }

    async def _as_after(self, rollout: Rollout) -> None:
        """Nothing in the cache but what sampling the rollout left there: its requests are sent
        again, in their order and under their salt, each for one token.
        """
        before, asked = await self.server.counters(), self.client.asked
        await self.server.empty_cache()
        for turn in range(rollout.turns):
            salt = await cache_salt(self.client, labels_weights=self.scoring.labels_weights)
            prompt = rollout.tokens[: rollout.sampled(turn).start].tolist()
            params = {"max_tokens": 1, "temperature": 0.0}
            await self.client.generate(prompt, sampling_params=params, cache_salt=salt)
        await self.server.since(before, requests=self.client.asked - asked)

    async def _ours(self, rollout: Rollout, placement: HintPlacement) -> Values:
        async with FakeVllm.running() as fake, aiohttp.ClientSession() as http:
            for step in STEPS:
                fake.judge.when(f"(turn t)\n{step.says}", yes(step.hint))
            distilled = await distill(
                rollout,
                policy=self,
                teacher=Scorer(self.client, self.scoring),
                judge=Judge(http, fake.url, MODEL),
                config=Config(top_k=TOP_K, placement=placement),
                deadline=time.monotonic() + _TIME_LIMIT,
            )
        for turn in distilled.turns[: len(STEPS)]:
            if turn.outcome is not TurnOutcome.SCORED:
                raise TestbedError(f"turn {turn.turn} is {turn.outcome}: {turn.message}")
        return np.column_stack([distilled.sampled_logprobs, distilled.logprobs])

    async def _seed(self, rollout: Rollout) -> Values:
        return np.concatenate([await self._seed_turn(rollout, at) for at in range(len(STEPS))])

    async def _seed_turn(self, rollout: Rollout, turn: int) -> Values:
        """Render the chat up to the turn with the hint in its last user message, add what was
        sampled, and ask for the logprobs of all of it.
        """
        assistants = [at for at, one in enumerate(rollout.messages) if one["role"] == "assistant"]
        messages = [dict(one) for one in rollout.messages[: assistants[turn]]]
        user = next(one for one in reversed(messages) if one["role"] == "user")
        user["content"] += f"\n\n{_HEADING}\n{STEPS[turn].hint}"
        prompt = await self.client.render(messages, tools=rollout.tools)
        span = rollout.sampled(turn)
        own: list[int] = rollout.tokens[span.start : span.stop].tolist()
        raw = await self.client.score_prompt([*prompt, *own], params={"prompt_logprobs": TOP_K})
        answer = parse_prompt_answer(raw, wanted=len(own))
        scores = scores_of(answer, own, top_k=TOP_K)
        return np.column_stack([scores.sampled_logprobs, scores.logprobs])
