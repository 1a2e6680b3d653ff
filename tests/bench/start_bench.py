"""`start`: how long until a sandbox is of use, against a plain pod's Ready, in one run."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count

import aiohttp

from episode_operator.kube.client import KubernetesClient, NotFoundError
from episode_operator.kube.connection import load
from episode_operator.sandbox.network import discover
from tests.bench.machine import Watch
from tests.bench.namespace import own_namespace
from tests.bench.pod_watch import PodWatch
from tests.bench.readings import percentile
from tests.bench.start_report import Cell, StartReport
from tests.bench.started import StartedPods
from tests.bench.starts import Start, Starts, Way
from tests.bench.target import Target
from tests.testbed.stack import NAMESPACE, RELEASE

_SETTLE_SECONDS = 2.5
"""What is left of a pod that was deleted with no grace is gone after this time."""
_KUBELET_SECONDS = 1.0
"""The kubelet looks at its containers so often. Starts begin anywhere in between."""


@dataclass(frozen=True)
class Settings:
    """How many starts to measure."""

    repeats: int
    pods: int
    at_once: int


Key = tuple[str, int]
Say = Callable[[str], None]


async def measure(target: Target, settings: Settings, say: Say) -> StartReport:
    """Starts all of it in a new namespace, which is gone afterwards.

    Raises:
        TestbedError: something did not start.
    """
    connection = await load()
    watch = Watch()
    async with (
        KubernetesClient(connection) as client,
        aiohttp.ClientSession() as http,
        own_namespace(client) as namespace,
        PodWatch(connection, namespace) as pods,
        StartedPods(client, namespace, pods) as started,
    ):
        operator = await _has_operator(client)
        if not operator:
            say(f"no operator {NAMESPACE}/{RELEASE}: measuring without it")
        starts = Starts(client, http, pods, started, namespace, target, await discover(client))
        seen = await _repeat(starts.ways(operator=operator), settings, say)
    cells = [Cell.of(*key, repeats) for key, repeats in seen.items()]
    return StartReport(asdict(settings), watch.end(), cells)


async def _has_operator(client: KubernetesClient) -> bool:
    try:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}"
        deployment = await client.request("GET", path)
    except NotFoundError:
        return False
    return bool(deployment.get("status", {}).get("availableReplicas"))


async def _repeat(
    ways: dict[str, Way], settings: Settings, say: Say
) -> dict[Key, list[list[Start]]]:
    """Start by start in turns, so that whatever disturbs disturbs all ways alike."""
    names = (f"start-{number}" for number in count(1))
    await _begin(ways, 1, names)  # images are pulled now, if they have to be
    seen: dict[Key, list[list[Start]]] = defaultdict(list)
    for repeat in range(settings.repeats):
        for at_once, rounds in ((1, settings.pods), (settings.at_once, 1)):
            gathered: dict[str, list[Start]] = defaultdict(list)
            for _ in range(rounds):
                for way, starts in (await _begin(ways, at_once, names)).items():
                    gathered[way] += starts
            for way, starts in gathered.items():
                seen[way, at_once].append(starts)
                p50 = percentile([list(start.values())[-1] for start in starts], 50)
                say(f"repeat {repeat + 1}/{settings.repeats}, {at_once} at once: {way} {p50:.3f} s")
    return seen


async def _begin(
    ways: dict[str, Way], at_once: int, names: Iterator[str]
) -> dict[str, list[Start]]:
    """Each way once, in an order of chance, with so many of it at the same time."""
    seen: dict[str, list[Start]] = {}
    for name in random.sample(list(ways), len(ways)):
        way, chosen = ways[name], [next(names) for _ in range(at_once)]
        await asyncio.sleep(random.uniform(0, _KUBELET_SECONDS))
        seen[name] = list(await asyncio.gather(*map(way.begin, chosen)))
        await asyncio.gather(*map(way.remove, chosen))
        await asyncio.sleep(_SETTLE_SECONDS)
    return seen
