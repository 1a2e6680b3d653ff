"""A node of the cluster that is simulated by kwok's controller, so that it has GPUs."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import kubectl
from tests.cluster.episodes import is_ready
from tests.testbed import gobuild

NAME = "gpu-simulated"
GPU = "nvidia.com/gpu"
GPUS = 8
LABELS = {"nvidia.com/gpu.present": "true"}
"""As GPU Feature Discovery labels nodes; the usual labels are left out, by which DaemonSets go."""

TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
_ANNOTATION = "kwok.x-k8s.io/node"
_STAGES = Path(__file__).with_name("kwok.yaml")
_CAPACITY = {
    "cpu": "64",
    "memory": "512Gi",
    "ephemeral-storage": "1Ti",
    "pods": "20",
    GPU: str(GPUS),
}
_SECONDS = 60.0


@asynccontextmanager
async def simulated_node(folder: Path) -> AsyncIterator[None]:
    """The node, ready, while the block runs; its pods go with it. kwok's log is in the folder.

    An etcd before 3.4.25, such as Debian 12's, does not let kwok watch, so that it lists again and
    again, up to a minute apart: what it does may take so long.
    """
    program = await asyncio.to_thread(gobuild.ensure, gobuild.KWOK, print)
    log = folder / "kwok.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(program / "kwok"),
            f"--config={_STAGES}",
            f"--kubeconfig={os.environ['KUBECONFIG']}",
            f"--manage-nodes-with-annotation-selector={_ANNOTATION}=fake",
            "--node-lease-duration-seconds=40",
            stdout=output,
            stderr=output,
            env={**os.environ, "KWOK_WORKDIR": str(folder / "kwok")},
        )
    try:
        await _delete()  # one that a run before has left
        await kubectl.check("create", "-f", "-", stdin=yaml.safe_dump(_node()))
        end = time.monotonic() + _SECONDS
        while not _takes_pods(node := await kubectl.get("node", NAME, namespace="default")):
            assert time.monotonic() < end, f"{node}\n{log.read_text()[-3000:]}"
            await asyncio.sleep(0.3)
        yield
    finally:
        await _delete()
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _takes_pods(node: dict[str, Any]) -> bool:
    """Whether it is ready, and its only taint is ours: a new node has one until it is ready."""
    return is_ready(node) and [one["key"] for one in node["spec"].get("taints", [])] == [GPU]


async def _delete() -> None:
    """Its pods first, without grace: once it is gone, only the garbage collector ends them."""
    on_it = ("--all-namespaces", f"--field-selector=spec.nodeName={NAME}")
    await kubectl.run("delete", "pods", *on_it, "--force", "--grace-period=0", "--wait=false")
    await kubectl.run("delete", "node", NAME, "--ignore-not-found")


def _node() -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NAME, "labels": LABELS, "annotations": {_ANNOTATION: "fake"}},
        "spec": {"taints": [TAINT]},
        "status": {"capacity": _CAPACITY, "allocatable": _CAPACITY},
    }
