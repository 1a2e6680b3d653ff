"""The operator of the testbed: stopping, starting and killing it."""

import asyncio
import os
import signal
import time
from pathlib import Path

from tests.cluster import kubectl
from tests.testbed import stack

_SELECTOR = f"app.kubernetes.io/instance={stack.RELEASE},app.kubernetes.io/component=operator"


async def scale(replicas: int) -> None:
    """Run so many operators; returns when they run, or when none is left."""
    deployment = f"deployment/{stack.RELEASE}"
    await kubectl.check("scale", deployment, f"--replicas={replicas}", "-n", stack.NAMESPACE)
    if replicas:
        await kubectl.check(
            "rollout", "status", deployment, "-n", stack.NAMESPACE, "--timeout=120s"
        )
    else:
        await kubectl.check(
            "wait", "--for=delete", "pod", "-l", _SELECTOR, "-n", stack.NAMESPACE, "--timeout=60s"
        )


async def kill() -> None:
    """SIGKILL the operator's process; the kubelet starts its container again.

    From inside its pod PID 1 cannot be killed, so this looks for it from the node: the cgroup of a
    container's process names the pod's uid.
    """
    (pod,) = await kubectl.items("pods", namespace=stack.NAMESPACE, selector=_SELECTOR)
    uid = pod["metadata"]["uid"]
    pids = [pid for pid in _processes() if _runs_operator(pid, uid)]
    assert pids, f"no process of operator pod {uid} on this machine"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    before = pod["status"]["containerStatuses"][0]["restartCount"]
    end = time.monotonic() + 120
    while True:
        (pod,) = await kubectl.items("pods", namespace=stack.NAMESPACE, selector=_SELECTOR)
        status = pod["status"]["containerStatuses"][0]
        if status["restartCount"] > before and status["ready"]:
            return
        assert time.monotonic() < end, f"the operator did not come back: {status}"
        await asyncio.sleep(0.3)


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _runs_operator(pid: int, pod_uid: str) -> bool:
    try:
        cgroup = Path(f"/proc/{pid}/cgroup").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    named = pod_uid in cgroup or pod_uid.replace("-", "_") in cgroup
    return named and b"episode_operator.main" in command
