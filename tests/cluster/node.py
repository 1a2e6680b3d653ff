"""What only the testbed's own machine can do to a pod: reach its processes."""

import asyncio
import os
import signal
from pathlib import Path


def processes(pod_uid: str, argument: str) -> list[int]:
    """Processes on this machine in a pod's control groups that have the argument."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _is_of(pid, pod_uid, argument.encode())]


def _is_of(pid: int, pod_uid: str, argument: bytes) -> bool:
    try:
        cgroup = Path(f"/proc/{pid}/cgroup").read_text()
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return False
    named = pod_uid in cgroup or pod_uid.replace("-", "_") in cgroup
    return named and argument in arguments


async def cut_session(pod_uid: str, *, seconds: float = 5.0) -> None:
    """SIGKILL the far end of the operator's sessions with a pod, as a lost connection would.

    Raises:
        TimeoutError: there is none.
    """
    async with asyncio.timeout(seconds):
        while not any([_kill(pid) for pid in processes(pod_uid, "attach")]):
            await asyncio.sleep(0.05)


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
