"""What a session needs of a transport: bytes both ways, and a clear end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol


class ChannelClosed(Exception):
    """The channel ended; the message says what its far end reported (stderr, status)."""


class ChannelRefused(Exception):
    """The channel could not be opened.

    Attributes:
        final: trying again cannot help (the pod is gone, or access is forbidden).
    """

    def __init__(self, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.final = final


class Channel(Protocol):
    """A byte stream to `runner attach`. Where its pieces are cut means nothing."""

    async def send(self, data: bytes) -> None:
        """Sends bytes. Raises ChannelClosed at the end of the stream."""

    async def receive(self) -> bytes:
        """The next bytes, at least one. Raises ChannelClosed at the end of the stream."""

    async def close(self) -> None:
        """Closes both directions. May be called again."""


OpenChannel = Callable[[], Awaitable[Channel]]
"""Opens a new channel to the same runner. Raises ChannelRefused, or OSError: then try again."""
