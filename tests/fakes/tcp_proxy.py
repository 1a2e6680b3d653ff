"""A proxy between a client and an HTTP server that can lose a reply, cut, or be out of reach."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.ports import free_port

_READ_BYTES = 64 << 10
_METHODS = (b"GET ", b"POST ")


@dataclass
class TcpProxy:
    """Passes bytes on; its clients send one request at a time on a connection.

    Attributes:
        to: port of the server.
        port: where it listens.
        lose_reply_to: the next request whose method and path these are reaches the server; its
            reply is thrown away and the connection cut. It is used up by one request.
        hold_reply_to: as above, but the reply is held back for ever, and `held` is set.
        requests: method and path of the requests so far.
    """

    to: int
    port: int = field(default_factory=free_port)
    lose_reply_to: str | None = None
    hold_reply_to: str | None = None
    held: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[str] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator["TcpProxy"]:
        """Listen until the end."""
        await self.listen()
        try:
            yield self
        finally:
            await self.refuse()

    async def listen(self) -> None:
        """Take connections, again after `refuse`."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def refuse(self) -> None:
        """Be out of reach: cut what there is and refuse new connections."""
        if self._server is not None:
            self._server.close()
        self.cut()

    def cut(self) -> None:
        """Abort all connections."""
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, server_writer}
        self._open |= both
        pumps = [
            asyncio.create_task(self._requests(reader, server_writer)),
            asyncio.create_task(self._replies(server_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for each in both:
                each.transport.abort()
            self._open -= both

    async def _requests(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(_READ_BYTES):
            if data.startswith(_METHODS):
                self.requests.append(data.partition(b" HTTP/")[0].decode())
            sink.write(data)
            await sink.drain()

    async def _replies(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(_READ_BYTES):
            if self.lose_reply_to is not None and self.requests[-1] == self.lose_reply_to:
                self.lose_reply_to = None
                return
            if self.hold_reply_to is not None and self.requests[-1] == self.hold_reply_to:
                self.hold_reply_to = None
                self.held.set()
                await asyncio.Event().wait()
            sink.write(data)
            await sink.drain()
