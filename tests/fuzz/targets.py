"""What is fuzzed: a name, what runs one input, and the longest input worth trying, in bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.checks import (
    calls,
    composites,
    frames,
    links,
    payloads,
    reports,
    rewards,
    server_calls,
    tasks,
    xml_calls,
)

SEEDS = Path(__file__).with_name("seeds")


@dataclass(frozen=True)
class Target:
    """One of them; `check` raises if the input shows a fault."""

    check: Callable[[bytes], None]
    most_bytes: int

    def seeds(self, name: str) -> list[Path]:
        """The files that the target of this name starts from."""
        return sorted((SEEDS / name).iterdir())


TARGETS = {
    "reward-text": Target(rewards.fuzz_text, 256),
    "reward-json": Target(rewards.fuzz_json, 512),
    "pytest-report": Target(reports.fuzz, 1024),
    "composite": Target(composites.fuzz, 64),
    "tool-calls": Target(calls.fuzz, 1024),
    "xml-tool-calls": Target(xml_calls.fuzz, 1024),
    "server-tool-calls": Target(server_calls.fuzz, 1024),
    "frames": Target(frames.fuzz, 1024),
    "links": Target(links.fuzz, 512),
    "answers": Target(links.fuzz_answer, 256),
    "payload": Target(payloads.fuzz, 1024),
    "task-toml": Target(tasks.fuzz, 5000),
}
