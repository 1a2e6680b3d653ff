"""Our path: one held-open session, as the operator uses it."""

import asyncio
import sys

import aiohttp

from episode_operator.kube.connection import load
from episode_operator.sandbox.session import Session
from tests.bench.loop import Run, serve


async def main(namespace: str, pod: str, container: str, uid: str) -> None:
    """Serves measurements in that pod; all callers share the one session."""
    connection = await load()
    async with (
        aiohttp.ClientSession() as http,
        Session.to_pod(
            connection, http, namespace=namespace, pod=pod, container=container, pod_uid=uid
        ) as session,
    ):

        def runner_for(argv: tuple[str, ...]) -> Run:
            async def run(_: int) -> str | None:
                result = await session.exec(argv, timeout_seconds=60)
                return None if result.exit_code == 0 else repr(result)

            return run

        await serve(runner_for)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
