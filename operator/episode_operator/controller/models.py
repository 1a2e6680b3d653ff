"""Clients of the model servers, shared by all Episodes."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass

import aiohttp

from episode_operator.api.agent import Model
from episode_operator.model import Capabilities, SpecialTokens, VllmClient, detect

_DETECT_AGAIN_SECONDS = 300.0
"""A server may be restarted with other options; so what it can do is asked again now and then."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that is ready to be sampled."""

    client: VllmClient
    capabilities: Capabilities
    specials: SpecialTokens


class ModelPool:
    """One client per endpoint, model name and time limit, over one connection pool."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._known: dict[tuple[str, str, int], tuple[float, ServedModel]] = {}
        self._asking: defaultdict[tuple[str, str, int], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def get(self, model: Model) -> ServedModel:
        """The model, after finding out what its server can do.

        Raises:
            ModelError: the server does not answer, lacks the model, or cannot be used token-exact.
        """
        key = (model.endpoint, model.name, model.request_timeout_seconds)
        async with self._asking[key]:  # many Episodes start at once; one of them asks
            asked, served = self._known.get(key, (0.0, None))
            if served is None or time.monotonic() - asked >= _DETECT_AGAIN_SECONDS:
                served = await self._ask(model)
                self._known[key] = (time.monotonic(), served)
            return served

    async def _ask(self, model: Model) -> ServedModel:
        client = VllmClient(
            self._session,
            model.endpoint,
            model.name,
            request_timeout=model.request_timeout_seconds,
        )
        return ServedModel(client, await detect(client), SpecialTokens(client))
