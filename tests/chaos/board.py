"""What the API server says of all Episodes, read again and again; it may be away for a while."""

import asyncio
from collections.abc import Callable

from episode_operator.api.episode import Episode
from episode_operator.kube.client import EPISODES, ApiError, KubernetesClient

_POLL_SECONDS = 0.25


class Board:
    """The newest state of every Episode of a namespace."""

    def __init__(self, client: KubernetesClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._changed = asyncio.Condition()
        self.episodes: dict[str, Episode] = {}

    async def follow(self) -> None:
        """Read until cancelled."""
        while True:
            try:
                items = await self._client.list(EPISODES, self._namespace, labels={})
            except ApiError:  # the API server restarts: what it said last stands
                continue
            parsed = [Episode.model_validate(item) for item in items]
            async with self._changed:
                self.episodes = {episode.name: episode for episode in parsed}
                self._changed.notify_all()
            await asyncio.sleep(_POLL_SECONDS)

    async def until(self, name: str, condition: Callable[[Episode], bool]) -> Episode:
        """The Episode once the condition holds."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: name in self.episodes and condition(self.episodes[name])
            )
            return self.episodes[name]
