"""An operator as a process of this machine, through a proxy before the API server.

It is forked from a process that has imported the operator already: most of what it costs to start
one is that, and tests start many.
"""

import asyncio
import multiprocessing
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from episode_operator import main
from tests.cluster.episodes import Episodes
from tests.fakes.api_proxy import ApiProxy
from tests.ports import free_port
from tests.testbed import stack

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


class LocalOperator:
    """It watches one namespace while its block runs. Its output goes into a file in `folder`.

    The namespace must be one that the testbed's operator leaves alone. `url` is the API server's,
    or that of a proxy before it; `settings` are EPISODE_* and OTEL_*
    variables.
    """

    def __init__(
        self, url: str, namespace: str, folder: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        assert namespace.startswith(stack.UNWATCHED), f"two operators would drive {namespace}"
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_text(yaml.safe_dump(_kubeconfig(url)))
        self._log = folder / "operator.log"
        self._namespace = namespace
        self._settings = settings or {}
        self._metrics_port = 0
        self._process: BaseProcess | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.kill()

    async def start(self) -> None:
        """Start it; it may not be ready yet."""
        self._metrics_port = free_port()
        environment = {
            "KUBECONFIG": str(self._kubeconfig),
            "EPISODE_RUNNER_IMAGE": os.environ["RUNNER_IMAGE"],
            "EPISODE_WATCH_NAMESPACES": self._namespace,
            "EPISODE_RETRY_BACKOFF_SECONDS": "1",
            "EPISODE_HEALTH_PORT": str(free_port()),
            "EPISODE_METRICS_PORT": str(self._metrics_port),
            "EPISODE_VIEW_PORT": str(free_port()),
            **self._settings,
        }
        self._process = _FORKS.Process(target=_operate, args=(environment, self._log), daemon=True)
        await asyncio.to_thread(self._process.start)

    async def kill(self) -> None:
        """SIGKILL it, if it runs."""
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.join)

    async def stop(self) -> None:
        """Stop it as Kubernetes does, with SIGTERM."""
        assert self._process is not None
        self._process.terminate()
        await asyncio.to_thread(self._process.join)

    def log(self) -> str:
        """The end of what it has written."""
        return self._log.read_text()[-3000:] if self._log.exists() else ""

    async def metric(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The samples of this name, by the values of these labels."""
        url = f"http://127.0.0.1:{self._metrics_port}/metrics"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            text = await answer.text()
        return {
            tuple(sample.labels[label] for label in labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }


@asynccontextmanager
async def operating(
    episodes: Episodes, folder: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[LocalOperator]:
    """An operator of these Episodes alone.

    Pods reach its proxy, which it takes for the API server, unless a policy forbids it.
    """
    async with (
        ApiProxy(episodes.client.connection).serving(os.environ["HOST_ADDRESS"]) as url,
        LocalOperator(url, episodes.namespace, folder, settings) as operator,
    ):
        yield operator


def _operate(environment: dict[str, str], log: Path) -> None:
    os.environ.update(environment)
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    main.main()


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
        "current-context": "proxy",
    }
