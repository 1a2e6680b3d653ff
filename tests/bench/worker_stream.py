"""The usual path: `kubernetes.stream.stream`, one exec websocket per command.

Each caller is a thread of its own with its own ApiClient: stream() changes the client that it is
given while it connects. Handing a call to its thread takes about 0.1 ms.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import local

from kubernetes import client, config
from kubernetes.stream import stream

from tests.bench.loop import Run, serve

MOST_CALLERS = 32


class Exec:
    """Runs commands in one container from any thread."""

    def __init__(self, namespace: str, pod: str, container: str) -> None:
        self._where = {"name": pod, "namespace": namespace, "container": container}
        self._of_thread = local()

    def __call__(self, argv: tuple[str, ...]) -> str | None:
        """Runs it to its end; what went wrong, or None."""
        if not hasattr(self._of_thread, "api"):
            self._of_thread.api = client.CoreV1Api(client.ApiClient())
        socket = stream(
            self._of_thread.api.connect_get_namespaced_pod_exec,
            **self._where,
            command=list(argv),
            stdin=False,
            stdout=True,
            stderr=True,
            tty=False,
            _preload_content=False,
        )
        try:
            socket.run_forever(timeout=60)
            code = socket.returncode
            return None if code == 0 else f"exit code {code}: {socket.read_all()}"
        finally:
            socket.close()


async def main(namespace: str, pod: str, container: str, _uid: str) -> None:
    """Serves measurements in that pod."""
    config.load_kube_config()  # type: ignore[no-untyped-call]
    execute = Exec(namespace, pod, container)
    with ThreadPoolExecutor(MOST_CALLERS) as threads:

        def runner_for(argv: tuple[str, ...]) -> Run:
            async def run(_: int) -> str | None:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(threads, execute, argv)

            return run

        await serve(runner_for)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
