"""Sampling one turn: the right cache salt, and going on where a weight update interrupted."""

import asyncio
import time
from collections.abc import Sequence

from episode_operator.model.capabilities import Capabilities
from episode_operator.model.client import VllmClient
from episode_operator.model.errors import ModelUnavailable
from episode_operator.model.sampling import SamplingConfig
from episode_operator.model.wire import Generated, VersionSpan

ABORT_PATIENCE_SECONDS = 600.0
"""How long a turn may make no progress because the server aborts it, before it counts as failed."""
STALE_CACHE_REPEATS = 2
"""How often a part is sampled again because the weights changed between asking and sampling."""


class Sampler:
    """Samples turns of one conversation.

    The label of the weights goes into the cache salt: an update of the weights does not clear the
    server's prefix cache, and keys and values of older weights must not serve newer ones.
    """

    def __init__(
        self, client: VllmClient, capabilities: Capabilities, config: SamplingConfig
    ) -> None:
        self._client = client
        self._capabilities = capabilities
        self._config = config

    async def turn(self, prompt: Sequence[int], *, index: int) -> Generated:
        """Sample after `prompt` until the turn ends; the parts of an interrupted turn are joined.

        The finish reason is "stop" or "length". Raises a ModelError.
        """
        room = self._capabilities.max_model_len - len(prompt)
        wanted = min(self._config.max_tokens, room)
        parts: list[Generated] = []
        count = 0
        progress_at = time.monotonic()
        while True:
            ids = [*prompt, *(one for part in parts for one in part.token_ids)]
            part = await self._part(ids, max_tokens=wanted - count, turn=index, part=len(parts))
            if part.token_ids:
                parts.append(part)
                count += len(part.token_ids)
                progress_at = time.monotonic()
            if part.finish_reason != "abort":
                return _joined(parts, part)
            if count >= wanted:
                return _joined(parts, part, finish_reason="length")
            waited = time.monotonic() - progress_at
            if waited > ABORT_PATIENCE_SECONDS:
                raise ModelUnavailable(
                    f"the server aborts every request since {waited:.0f} s; is it paused?"
                )
            await asyncio.sleep(min(0.05 + waited / 4, 5.0))

    async def _part(
        self, ids: Sequence[int], *, max_tokens: int, turn: int, part: int
    ) -> Generated:
        params = self._config.params(max_tokens=max_tokens, turn=turn, part=part)
        for _ in range(1 + STALE_CACHE_REPEATS):
            weights = self._client.seen_weights
            if self._capabilities.labels_weights:
                weights = await self._client.weight_version()
            salt = None if weights is None else f"weights {weights}"
            sampled = await self._client.generate(ids, sampling_params=params, cache_salt=salt)
            if not sampled.versions or weights in (None, sampled.versions[0].version):
                break
            # Sampled by newer weights than the salt says: the prefix may be of the older ones.
        return sampled


def _joined(
    parts: Sequence[Generated], last: Generated, *, finish_reason: str | None = None
) -> Generated:
    """The parts of a turn as one; the finish is that of `last` unless given."""
    versions: list[VersionSpan] = []
    offset = 0
    for part in parts:
        for span in part.versions:
            moved = span.shifted(offset)
            if versions and versions[-1].version == moved.version:
                moved = VersionSpan(
                    version=moved.version, start=versions.pop().start, end=moved.end
                )
            versions.append(moved)
        offset += len(part.token_ids)
    return Generated(
        token_ids=[one for part in parts for one in part.token_ids],
        logprobs=[one for part in parts for one in part.logprobs],
        finish_reason=finish_reason or last.finish_reason,
        stop_reason=last.stop_reason,
        versions=tuple(versions),
        top=[one for part in parts for one in part.top],
    )
