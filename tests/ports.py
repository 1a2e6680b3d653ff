"""Ports of this machine."""

import asyncio
import socket

_START_SECONDS = 60.0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def listening(port: int, host: str = "127.0.0.1") -> None:
    """Wait until something listens there."""
    async with asyncio.timeout(_START_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
