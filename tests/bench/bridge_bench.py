"""`bridge`: how fast groups get to Atropos, against a POST of bytes that are ready."""

import random
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from tests.bench.bridge_report import BridgeReport, Cell
from tests.bench.bridge_ways import (
    GROUP_SIZE,
    SCORED,
    TOKENS,
    TOP_K,
    WAYS,
    Load,
    Server,
    Way,
    serving,
)
from tests.bench.machine import Watch

Say = Callable[[str], None]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Settings:
    """How often to measure."""

    repeats: int


async def measure(settings: Settings, say: Say) -> BridgeReport:
    """All ways to both servers in turns, in an order of chance.

    Raises:
        TestbedError: Atropos's packages cannot be had.
    """
    loads = Load.all()
    seen: dict[Key, list[float]] = defaultdict(list)
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder)) as servers:
            readings = list(product(servers, loads, WAYS))
            for server, load, way in readings:
                seen[_key(server, load, way)] = []
                await server.seconds(way, load)  # to warm up
            for repeat in range(settings.repeats):
                for server, load, way in random.sample(readings, len(readings)):
                    seconds = await server.seconds(way, load)
                    seen[_key(server, load, way)].append(seconds)
                    at = f"repeat {repeat + 1}/{settings.repeats}, {server.name}, {load.name}"
                    say(f"{at}, {way.title}: {1e3 * seconds:.1f} ms")
    sizes = {load.name: len(load.body) for load in loads}
    known = {**asdict(settings), "members": GROUP_SIZE, "tokens": TOKENS}
    known |= {"scored positions": SCORED, "top_k": TOP_K}
    cells = [Cell(*key, sizes[key[1]], tuple(seconds)) for key, seconds in seen.items()]
    return BridgeReport(known, watch.end(), cells)


def _key(server: Server, load: Load, way: Way) -> Key:
    return server.name, load.name, way.title
