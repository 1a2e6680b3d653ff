"""`opd`: what a teacher computes for each token of a trajectory, and what payloads cost."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass

import aiohttp
import numpy as np

from episode_operator.distill import Rollout
from tests.bench import payload_sizes
from tests.bench.machine import Watch
from tests.bench.opd_report import OpdReport, PayloadCell, WayCell
from tests.bench.opd_rollout import STEPS, sample
from tests.bench.opd_server import Runner, serving
from tests.bench.opd_ways import TITLES, TOP_K, Reading, Teacher
from tests.testbed.console import step

Key = tuple[Runner, str]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How often to measure."""

    repeats: int


async def measure(settings: Settings, say: Say) -> OpdReport:
    """Payloads first, while the machine is quiet; then on a server of each runner, which ends
    with the measurement.

    Raises:
        TestbedError: a server did not start, a turn got no values, or others used the server.
    """
    watch = Watch()
    payloads = PayloadCell.of([payload_sizes.measure() for _ in range(settings.repeats)])
    seen: dict[Key, list[Reading]] = defaultdict(list)
    rollout: Rollout | None = None
    for runner in Runner:
        with step(f"vLLM with its {runner} model runner") as tell:
            async with serving(runner, tell) as server, aiohttp.ClientSession() as http:
                tell("measuring")
                teacher = await Teacher.on(server, http)
                rollout = rollout or await sample(teacher.client)
                for repeat in range(settings.repeats):
                    for way in TITLES:
                        reading = await teacher.measure(way, rollout)
                        seen[runner, way].append(reading)
                        at = f"{runner}, repeat {repeat + 1}/{settings.repeats}, {way}"
                        say(f"{at}: {reading.counted.computed:,} tokens computed")
    assert rollout is not None
    tokens = len(rollout.tokens)
    known = {**asdict(settings), "turns": len(STEPS), "tokens": tokens, "top_k": TOP_K}
    known["sampled tokens"] = int(rollout.mask.sum())
    cells = [WayCell.of(*key, [one.counted for one in found]) for key, found in seen.items()]
    return OpdReport(known, watch.end(), cells, payloads, _differences(seen))


def _differences(seen: dict[Key, list[Reading]]) -> tuple[float, ...]:
    """The largest between the runners' values of the same tokens, for each repeat."""
    pairs = [zip(seen[Runner.V1, way], seen[Runner.V2, way], strict=True) for way in TITLES]
    return tuple(
        max(float(np.abs(ours.values - theirs.values).max()) for ours, theirs in repeat)
        for repeat in zip(*pairs, strict=True)
    )
