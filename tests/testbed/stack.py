"""What runs in the testbed's cluster: the images, the policy model, and the chart with both."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed import chart, vllm
from tests.testbed.choice import Cluster
from tests.testbed.console import step
from tests.testbed.paths import BIN, CACHE
from tests.testbed.policy import ensure_policy
from tests.testbed.shell import run

ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "images" / "build" / "images.json"
RELEASE = "episodes"
NAMESPACE = "episode-system"
MODEL_SERVICE = f"{RELEASE}-vllm"
UNWATCHED = "unwatched-"
"""Namespaces of this prefix are left to operators that tests run themselves."""
MODEL_ENDPOINT = f"http://{MODEL_SERVICE}.{NAMESPACE}.svc:8000"


@dataclass(frozen=True)
class Stack:
    """What tests and examples need to know of a running stack."""

    kubeconfig: Path
    images: dict[str, str]
    """Name -> digest-pinned reference."""

    host_address: str
    """Address of this machine that pods reach; test servers listen there."""

    model_name: str = vllm.SERVED_MODEL
    model_endpoint: str = MODEL_ENDPOINT

    @property
    def environment(self) -> dict[str, str]:
        """The environment that kubectl, the tests and the examples run in."""
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "TASK_IMAGE": self.images["task-python"],
            "BUSYBOX_IMAGE": self.images["task-busybox"],
            "OPERATOR_IMAGE": self.images["operator"],
            "RUNNER_IMAGE": self.images["runner"],
            "BRIDGE_IMAGE": self.images["bridge"],
            "MODEL_ENDPOINT": self.model_endpoint,
            "MODEL_NAME": self.model_name,
            "HOST_ADDRESS": self.host_address,
        }


def up(cluster: Cluster) -> Stack:
    """Bring everything up or repair it; the model is trained while the cluster comes up."""
    with ThreadPoolExecutor(2) as pool:
        policy = pool.submit(_policy)
        cluster.up()
        images = _images(cluster.registry)
        model = policy.result()
    stack = Stack(cluster.kubeconfig, images, cluster.host_address)
    with step("operator and model server") as say:
        chart.install(
            RELEASE,
            NAMESPACE,
            _values(stack, model),
            deployments=(RELEASE, MODEL_SERVICE),
            env=stack.environment,
            say=say,
        )
    return stack


def current(cluster: Cluster) -> Stack:
    """The stack that `up` has brought up."""
    return Stack(cluster.kubeconfig, json.loads(REFERENCES.read_text()), cluster.host_address)


def _policy() -> Path:
    with step("policy model") as say:
        return ensure_policy(CACHE, say)


def _images(registry: str) -> dict[str, str]:
    with step("images"):
        run(
            [sys.executable, "-m", "images.build", "--registry", registry, "--plain-http"], cwd=ROOT
        )
    images: dict[str, str] = json.loads(REFERENCES.read_text())
    return images


def _values(stack: Stack, model: Path) -> dict[str, Any]:
    return {
        "operator": {
            "image": stack.images["operator"],
            "runnerImage": stack.images["runner"],
            "retryBackoffSeconds": 1,
            "ignoreNamespaces": [f"{UNWATCHED}*"],
        },
        "vllm": chart.model_server(
            stack.images["vllm-cpu"], model=model, updates=CACHE / "vllm" / "updates"
        ),
        "test": {"image": stack.images["task-python"]},
    }
