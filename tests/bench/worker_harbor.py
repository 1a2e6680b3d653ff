"""Harbor's path: the `exec` of its generic Kubernetes environment, as Harbor ships it.

Runs in an environment of its own (harbor.py). `ACKEnvironment` is the class that Harbor documents
as its generic Kubernetes implementation. Bypassed are `start`, which builds an image and creates a
pod that waits, and `stop`, which deletes it: the environments here are given the name of the
benchmark's pod. `exec` needs nothing of what those two leave behind.

Each caller has an environment, and thereby an API client, of its own, as each trial in Harbor has.
All of them share asyncio's default threads, as they do in one Harbor process: 6 on 2 cores.
"""

import asyncio
import logging
import shlex
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from harbor.environments.ack import ACKEnvironment  # type: ignore[import-not-found]
from harbor.models.task.config import EnvironmentConfig  # type: ignore[import-not-found]
from harbor.models.trial.paths import TrialPaths  # type: ignore[import-not-found]

from tests.bench.loop import Run, serve


def environment(folder: Path, namespace: str, pod: str) -> Any:
    """An environment whose pod is the given one."""
    return ACKEnvironment(
        environment_dir=folder,
        environment_name="bench",
        session_id=pod,
        trial_paths=TrialPaths(trial_dir=folder / "trial"),
        task_env_config=EnvironmentConfig(),
        namespace=namespace,
    )


async def main(namespace: str, pod: str, _container: str, _uid: str) -> None:
    """Serves measurements in that pod; Harbor takes the pod's only container."""
    logging.basicConfig(level=logging.WARNING)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "Dockerfile").write_text("FROM scratch\n")  # wanted by the constructor

        @cache
        def of_caller(_: int) -> Any:
            return environment(folder, namespace, pod)

        def runner_for(argv: tuple[str, ...]) -> Run:
            command = shlex.join(argv)

            async def run(caller: int) -> str | None:
                result = await of_caller(caller).exec(command)
                return None if result.return_code == 0 else repr(result)

            return run

        await serve(runner_for)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
