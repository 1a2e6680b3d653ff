"""The operator of the testbed: killing it."""

import asyncio
import os
import signal
import time

from tests.cluster import kubectl, node
from tests.testbed import stack

_SELECTOR = f"app.kubernetes.io/instance={stack.RELEASE},app.kubernetes.io/component=operator"


async def kill() -> None:
    """SIGKILL the operator's process; the kubelet starts its container again.

    From inside its pod PID 1 cannot be killed, so this looks for it from the node: the cgroup of a
    container's process names the pod's uid.
    """
    (pod,) = await kubectl.items("pods", namespace=stack.NAMESPACE, selector=_SELECTOR)
    uid = pod["metadata"]["uid"]
    pids = node.processes(uid, "episode_operator.main")
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
