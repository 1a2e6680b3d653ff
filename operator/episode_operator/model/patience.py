"""Waiting for a server that is being updated: it aborts requests, or is paused."""

import asyncio
import time

from episode_operator.model import waiting
from episode_operator.model.errors import ModelUnavailable

PATIENCE_SECONDS = 600.0
"""How long a server may keep from sampling a single token before the request counts as failed."""
_LONGEST_PAUSE_SECONDS = 5.0


class Patience:
    """The time since a server was last seen to sample."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def progress(self) -> None:
        """A token was sampled."""
        self._since = time.monotonic()

    async def wait(self, what: str) -> None:
        """Pause before the next request, longer from time to time.

        Raises ModelUnavailable when the server `what` ("is paused") for too long.
        """
        waited = time.monotonic() - self._since
        failure = ModelUnavailable(f"the server {what} since {waited:.0f} s; has its trainer died?")
        if waited > PATIENCE_SECONDS:
            raise failure
        with waiting.current().failing(failure):
            await asyncio.sleep(min(0.05 + waited / 4, _LONGEST_PAUSE_SECONDS))
