"""A real Prometheus as a process of this machine, with targets and rules of the test."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml

from tests.ports import free_port
from tests.testbed import packages

SCRAPE_SECONDS = 2
_START_SECONDS = 120.0

Sample = tuple[dict[str, str], float]
"""Labels and value of a series at one moment."""


@dataclass(frozen=True)
class Target:
    """What is scraped, and the labels that it gets: a ServiceMonitor's are made of the cluster."""

    url: str
    labels: Mapping[str, str]


class Prometheus:
    """Asks one by its HTTP API."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._http = http

    @classmethod
    @asynccontextmanager
    async def running(
        cls, folder: Path, targets: Sequence[Target], groups: Sequence[Mapping[str, Any]]
    ) -> AsyncIterator["Prometheus"]:
        """Debian's Prometheus, installed if it is missing; all its data are in the folder."""
        program = await asyncio.to_thread(packages.program, "prometheus", "prometheus", print)
        port, log = free_port(), folder / "prometheus.log"
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}))
        config = folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(_config(targets)))
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
                stdout=output,
                stderr=output,
                env={**os.environ, "GOMAXPROCS": "1"},
            )
        try:
            async with aiohttp.ClientSession() as http:
                url = f"http://127.0.0.1:{port}"
                async with asyncio.timeout(_START_SECONDS):
                    while not await _ready(http, url):
                        assert process.returncode is None, log.read_text()
                        await asyncio.sleep(0.1)
                yield cls(url, http)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    async def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer, which must be a success without warnings."""
        async with self._http.get(f"{self._url}/api/v1/{path}", params=parameters) as answer:
            told = await answer.json()
        assert told["status"] == "success", f"{path} {parameters}: {told}"
        assert not told.get("warnings"), f"{path} {parameters}: {told}"
        return told["data"]

    async def query(self, query: str) -> list[Sample]:
        """What a query gives now."""
        data = await self.get("query", query=query)
        assert data["resultType"] == "vector", query
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]


async def _ready(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(f"{url}/-/ready") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


def _config(targets: Sequence[Target]) -> dict[str, Any]:
    interval = f"{SCRAPE_SECONDS}s"
    jobs = [
        {
            "job_name": target.labels["job"],
            "static_configs": [
                {"targets": [urlsplit(target.url).netloc], "labels": dict(target.labels)}
            ],
        }
        for target in targets
    ]
    return {
        "global": {
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "evaluation_interval": interval,
        },
        "rule_files": ["rules.yaml"],
        "scrape_configs": jobs,
    }
