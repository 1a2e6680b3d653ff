"""Where to measure: a cluster that runs, and the two images that the pod needs."""

import json
import os
import sys
from dataclasses import dataclass

from tests.testbed import choice
from tests.testbed.console import step
from tests.testbed.environments import exclusive
from tests.testbed.paths import CACHE
from tests.testbed.shell import run
from tests.testbed.stack import REFERENCES, ROOT

IMAGES = ("runner", "task-python")
VARIABLES = ("KUBECONFIG", "RUNNER_IMAGE", "TASK_IMAGE")


@dataclass(frozen=True)
class Target:
    """A cluster by its kubeconfig, and digest-pinned image references."""

    kubeconfig: str
    runner_image: str
    task_image: str


def ensure_target() -> Target:
    """What KUBECONFIG, RUNNER_IMAGE and TASK_IMAGE say if all are set, else the testbed.

    The testbed's cluster is brought up or repaired, and images that changed are built: seconds
    when all is there. The model server is neither needed nor started.
    """
    if all(os.environ.get(name) for name in VARIABLES):
        return Target(*(os.environ[name] for name in VARIABLES))
    cluster = choice.current()
    CACHE.mkdir(parents=True, exist_ok=True)
    with exclusive(CACHE / "testbed.lock"):
        cluster.up()
    with step("images"):
        build = [sys.executable, "-m", "images.build", "--registry", cluster.registry]
        run([*build, "--plain-http", *IMAGES], cwd=ROOT)
    references = json.loads(REFERENCES.read_text())
    return Target(str(cluster.kubeconfig), references["runner"], references["task-python"])
