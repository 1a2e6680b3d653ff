"""Clients of the model servers, shared by all Episodes."""

import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial

import aiohttp

from episode_operator.api.agent import Model
from episode_operator.controller.single_flight import SingleFlight
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

Server = tuple[str, str, int]
"""Endpoint, model name and time limit of a request in seconds: what one client is for."""


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
        self._known: dict[Server, tuple[float, ServedModel]] = {}
        self._versions: defaultdict[str, WeightVersions] = defaultdict(WeightVersions)
        self._asking = SingleFlight[Server, ServedModel]()

    async def close(self) -> None:
        """Close the connections."""
        self._asking.close()
        await self._session.close()

    async def get(self, model: Model, *, logprobs: bool) -> ServedModel:
        """The model, after finding out what its server can do.

        What is known already is checked first: the server may have been started anew. `logprobs`:
        it matters whether it reports processed or raw ones.

        Raises:
            ModelError: the server does not answer, lacks the model, or cannot be used token-exact.
        """
        key = server_of(model)
        while (served := self._recent(key)) is not None:
            try:
                await require_unchanged(served.client, served.capabilities, logprobs=logprobs)
            except ModelChanged:
                if self._recent(key) is served:
                    del self._known[key]
            else:
                return served
        return await self._asking.ask(key, partial(self._ask, key, model))

    def _recent(self, key: Server) -> ServedModel | None:
        asked, served = self._known.get(key, (0.0, None))
        return served if time.monotonic() - asked < _DETECT_AGAIN_SECONDS else None

    async def _ask(self, key: Server, model: Model) -> ServedModel:
        client = VllmClient(
            self._session,
            model.endpoint,
            model.name,
            request_timeout=model.request_timeout_seconds,
            retry_budget=self._retry_seconds,
            versions=self._versions[model.endpoint],
        )
        served = ServedModel(client, await detect(client), SpecialTokens(client))
        self._known[key] = (time.monotonic(), served)
        return served


def server_of(model: Model) -> Server:
    """Which client the model needs."""
    return model.endpoint, model.name, model.request_timeout_seconds
