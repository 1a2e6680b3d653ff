"""Clients of the model servers, shared by all Episodes."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial

import aiohttp

from episode_operator.api.agent import Model
from episode_operator.model import (
    Capabilities,
    ModelChanged,
    SpecialTokens,
    VllmClient,
    WeightVersions,
    detect,
    require_unchanged,
)

_DETECT_AGAIN_SECONDS = 300.0
"""What a server can do is asked again now and then, also where nothing seems to have changed."""

_Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that is ready to be sampled."""

    client: VllmClient
    capabilities: Capabilities
    specials: SpecialTokens


class ModelPool:
    """One client per endpoint, model name and time limit, over one connection pool."""

    def __init__(self, *, retry_seconds: float) -> None:
        """`retry_seconds`: how long a request that failed is sent again."""
        self._retry_seconds = retry_seconds
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._known: dict[_Key, tuple[float, ServedModel]] = {}
        self._versions: defaultdict[str, WeightVersions] = defaultdict(WeightVersions)
        self._asking: dict[_Key, asyncio.Task[ServedModel]] = {}

    async def close(self) -> None:
        """Close the connections."""
        for asking in self._asking.values():
            asking.cancel()
        await self._session.close()

    async def get(self, model: Model, *, logprobs: bool) -> ServedModel:
        """The model, after finding out what its server can do.

        What is known already is checked first: the server may have been started anew. `logprobs`:
        it matters whether it reports processed or raw ones.

        Raises:
            ModelError: the server does not answer, lacks the model, or cannot be used token-exact.
        """
        key = (model.endpoint, model.name, model.request_timeout_seconds)
        while (served := self._recent(key)) is not None:
            try:
                await require_unchanged(served.client, served.capabilities, logprobs=logprobs)
            except ModelChanged:
                if self._recent(key) is served:
                    del self._known[key]
            else:
                return served
        if key not in self._asking:  # many Episodes start at once; all take what one is answered
            self._asking[key] = asyncio.create_task(self._ask(model))
            self._asking[key].add_done_callback(partial(self._asked, key))
        return await asyncio.shield(self._asking[key])

    def _recent(self, key: _Key) -> ServedModel | None:
        asked, served = self._known.get(key, (0.0, None))
        return served if time.monotonic() - asked < _DETECT_AGAIN_SECONDS else None

    def _asked(self, key: _Key, asking: asyncio.Task[ServedModel]) -> None:
        del self._asking[key]
        if not asking.cancelled() and asking.exception() is None:
            self._known[key] = (time.monotonic(), asking.result())

    async def _ask(self, model: Model) -> ServedModel:
        client = VllmClient(
            self._session,
            model.endpoint,
            model.name,
            request_timeout=model.request_timeout_seconds,
            retry_budget=self._retry_seconds,
            versions=self._versions[model.endpoint],
        )
        return ServedModel(client, await detect(client), SpecialTokens(client))
