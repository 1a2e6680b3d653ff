"""Clients of the model servers, shared by all Episodes."""

import time
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

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def get(self, model: Model) -> ServedModel:
        """The model, after finding out what its server can do.

        Raises:
            ModelError: the server does not answer, lacks the model, or cannot be used token-exact.
        """
        key = (model.endpoint, model.name, model.request_timeout_seconds)
        now = time.monotonic()
        if key in self._known and now - self._known[key][0] < _DETECT_AGAIN_SECONDS:
            return self._known[key][1]
        client = VllmClient(
            self._session,
            model.endpoint,
            model.name,
            request_timeout=model.request_timeout_seconds,
        )
        served = ServedModel(client, await detect(client), SpecialTokens(client))
        self._known[key] = (now, served)
        return served
