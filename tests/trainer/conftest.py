"""A worker in vLLM's environment, and a way to run the trainer there."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.testbed.paths import CACHE
from tests.testbed.stack import ROOT
from tests.testbed.vllm import ensure_vllm_environment

Worker = Callable[..., Any]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="session")
def python() -> Path:
    """That of vLLM's environment."""
    return ensure_vllm_environment(CACHE, print)


@pytest.fixture(scope="session")
def worker(python: Path) -> Iterator[Worker]:
    """Calls a function of worker.py by its name."""
    with subprocess.Popen(
        [str(python), "-m", "tests.trainer.worker"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:

        def call(name: str, **arguments: Any) -> Any:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps({"call": name, "arguments": arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, f"the worker ended in {name}; its stderr tells why"
            return json.loads(line)

        yield call
        process.kill()
