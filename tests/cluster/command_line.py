"""episodectl, as a user runs it."""

import asyncio
import os
import pty
import sys


async def episodectl(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "episodectl",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


def on_a_terminal(*arguments: str) -> str:
    """What a terminal gets."""
    chunks = []

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 65536)
        chunks.append(data)
        return b" " if data else b""

    code = pty.spawn([sys.executable, "-m", "episodectl", *arguments], read)
    assert code == 0
    return b"".join(chunks).decode()
