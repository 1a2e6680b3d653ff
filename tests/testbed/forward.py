"""Reach a Service or a pod of the cluster from this machine, whichever cluster it is."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.testbed.errors import TestbedError

_LINE = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")
_START_SECONDS = 20


@asynccontextmanager
async def forwarded(
    name: str, port: int, *, namespace: str, env: Mapping[str, str], kind: str = "service"
) -> AsyncIterator[str]:
    """`http://127.0.0.1:PORT`, forwarded to it by kubectl while the block runs."""
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        "port-forward",
        "--address=127.0.0.1",
        f"--namespace={namespace}",
        f"{kind}/{name}",
        f":{port}",
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
        found = _LINE.match(line)
        if found is None:
            raise TestbedError(f"kubectl port-forward to {kind} {name} does not work")
        yield f"http://127.0.0.1:{found[1].decode()}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
