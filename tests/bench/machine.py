"""What a run ran on, and how quiet it was there."""

import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROC = Path("/proc")


def _processor_times() -> list[int]:
    """user, nice, system, idle, iowait, irq, softirq, steal of all cores since boot, in ticks."""
    try:
        line = (PROC / "stat").read_text().partition("\n")[0]
    except FileNotFoundError:  # no Linux
        return [0] * 8
    return [int(ticks) for ticks in line.split()[1:9]]


def _processor() -> str:
    try:
        lines = (PROC / "cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


@dataclass(frozen=True)
class Watch:
    """Begins with a run and describes the machine at the run's end."""

    started: float = field(default_factory=time.monotonic)
    load_average: float = field(default_factory=lambda: os.getloadavg()[0])
    ticks: list[int] = field(default_factory=_processor_times)

    def end(self) -> dict[str, Any]:
        """The machine, and its noise: load of others before the run, and time stolen from it."""
        ticks = [now - then for now, then in zip(_processor_times(), self.ticks, strict=True)]
        return {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "load average before": round(self.load_average, 2),
            "% stolen by the hypervisor": round(100 * ticks[7] / (sum(ticks) or 1), 1),
            "seconds": round(time.monotonic() - self.started),
        }
