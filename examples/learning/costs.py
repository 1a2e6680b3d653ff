"""Who used the processors: CPU seconds by part of the loop, from the tables of this machine.

The model server, the operator, the bridge and the trainer are processes that live through the run.
What is left of all that the machine did is the sandboxes': their processes, and kubelet,
containerd, API server and network that start and stop them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")

MODEL = "model"
OPERATOR = "operator"
CONTROL_PLANE = "control plane"
NODE = "sandboxes and node"

_COMMANDS = {
    MODEL: ("vllm.entrypoints.openai.api_server", "VLLM::"),
    OPERATOR: ("episode_operator.main",),
    CONTROL_PLANE: ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler"),
}
"""Text in the command line of each part's processes."""


def _machine() -> float:
    """CPU seconds of everything since the boot, without what was idle or waited for a disk."""
    user, nice, system, _, _, interrupts, soft = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8]
    )
    return (user + nice + system + interrupts + soft) / _TICKS


@dataclass
class Costs:
    """CPU seconds by part since the start.

    `processes` are those that the run has started, by part. Look now and then: of a process that
    ended, only what was seen counts for its part, the rest for the sandboxes.
    """

    processes: Mapping[str, int]
    _used: dict[tuple[str, int], tuple[float, float]] = field(default_factory=dict)
    _busy: float = field(default_factory=_machine)

    def look(self) -> None:
        """Read the tables."""
        for pid, part in self._parts().items():
            if (seconds := _seconds(pid)) is not None:
                first, _ = self._used.setdefault((part, pid), (seconds, seconds))
                self._used[part, pid] = (first, seconds)

    def seconds(self) -> dict[str, float]:
        """CPU seconds by part, and of the sandboxes and the node."""
        self.look()
        found: dict[str, float] = {}
        for (part, _), (first, last) in self._used.items():
            found[part] = found.get(part, 0.0) + last - first
        found[NODE] = _machine() - self._busy - sum(found.values())
        return found

    def _parts(self) -> dict[int, str]:
        own = {pid: part for part, pid in self.processes.items()}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in own:
                line = _command_line(entry)
                for part, texts in _COMMANDS.items():
                    if any(text in line for text in texts):
                        own[int(entry.name)] = part
        return own


def _command_line(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it has ended
        return ""


def _seconds(pid: int) -> float | None:
    """CPU seconds of a process and of its children that have ended; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11:15])) / _TICKS
