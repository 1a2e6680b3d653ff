"""Sampling one turn: the right cache salt, and going on where a weight update interrupted."""

from collections.abc import Sequence

from episode_operator.model.capabilities import Capabilities, require_unchanged
from episode_operator.model.client import VllmClient
from episode_operator.model.patience import Patience
from episode_operator.model.sampling import SamplingConfig
from episode_operator.model.wire import Generated, VersionSpan

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

        The finish reason is "stop" or "length". Raises a ModelError: ModelChanged when the server
        was started with other options, so that what it sampled does not belong to this episode.
        """
        sampled = await self._turn(prompt, index=index)
        await require_unchanged(
            self._client, self._capabilities, logprobs=self._config.changes_distribution
        )
        return sampled

    async def _turn(self, prompt: Sequence[int], *, index: int) -> Generated:
        room = self._capabilities.max_model_len - len(prompt)
        wanted = min(self._config.max_tokens, room)
        parts: list[Generated] = []
        count = 0
        patience = Patience()
        while True:
            ids = [*prompt, *(one for part in parts for one in part.token_ids)]
            part = await self._part(ids, max_tokens=wanted - count, turn=index, part=len(parts))
            if part.token_ids:
                parts.append(part)
                count += len(part.token_ids)
                patience.progress()
            if part.finish_reason != "abort":
                return _joined(parts, part)
            if part.token_ids and part.token_ids[-1] == self._capabilities.end_token:
                return _joined(parts, part, finish_reason="stop")
            if count >= wanted:
                return _joined(parts, part, finish_reason="length")
            await patience.wait("aborts every request")

    async def _part(
        self, ids: Sequence[int], *, max_tokens: int, turn: int, part: int
    ) -> Generated:
        params = self._config.params(max_tokens=max_tokens, turn=turn, part=part)
        for _ in range(1 + STALE_CACHE_REPEATS):
            salt = await cache_salt(self._client, labels_weights=self._capabilities.labels_weights)
            sampled = await self._client.generate(ids, sampling_params=params, cache_salt=salt)
            if not sampled.versions or salt in (None, salt_of(sampled.versions[0].version)):
                break
            # Sampled by newer weights than the salt says: the prefix may be of the older ones.
        return sampled


async def cache_salt(client: VllmClient, *, labels_weights: bool) -> str | None:
    """The salt that names the weights which will serve the next request, as far as can be known.

    A paused server is waited for: it would keep the request, and serve it with other weights than
    those its salt names, so that all of it would have to be done again.
    """
    if not labels_weights:
        weights = client.seen_weights
    else:
        patience = Patience()
        while await client.paused():
            await patience.wait("is paused")
        weights = await client.weight_version()
    return None if weights is None else salt_of(weights)


def salt_of(weights: str) -> str:
    """The cache salt of the weights with this label."""
    return f"weights {weights}"


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
