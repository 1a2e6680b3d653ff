"""What the run has in the cluster: a model server of its own, and the namespace of its Episodes."""

from collections.abc import Callable
from pathlib import Path

from examples.learning.plan import NAMESPACE
from tests.testbed import chart, stack
from tests.testbed.paths import CACHE
from tests.testbed.shell import run
from tests.testbed.stack import Stack

RELEASE = "learning"
MODEL_SERVICE = f"{RELEASE}-vllm"
MODEL_ENDPOINT = f"http://{MODEL_SERVICE}.{NAMESPACE}.svc:8000"
PUSHED = CACHE / "learning" / "pushed"
"""Where trainers write weights; the server sees the folder as `chart.UPDATES`."""


def install(running: Stack, model: Path, say: Callable[[str], None]) -> None:
    """Bring the model server up, with the first weights, beside the testbed's own.

    Raises:
        TestbedError: it does not come up.
    """
    server = chart.model_server(running.images["vllm-cpu"], model=model, updates=PUSHED)
    operators = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stack.NAMESPACE}}
    }
    chart.install(
        RELEASE,
        NAMESPACE,
        {
            "operator": {"enabled": False},
            "crds": {"install": False},
            "vllm": {**server, "networkPolicy": {"from": [operators]}},
        },
        deployments=(MODEL_SERVICE,),
        env=running.environment,
        say=say,
    )


def model_server(running: Stack) -> str:
    """URL of the model server from this machine, which is the cluster's node.

    It holds while the API server is restarted, as a port-forward would not.
    """
    address = ("get", "service", MODEL_SERVICE, "-n", NAMESPACE, "-o", "jsonpath={.spec.clusterIP}")
    return f"http://{run(['kubectl', *address], env=running.environment)}:8000"
