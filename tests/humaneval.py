"""`make humaneval`: all 164 HumanEval problems as Episodes of the oracle, right and mutilated.

Every right solution must be Passed and every mutilated one Failed; NoVerdict is a failure of ours.
"""

import asyncio
import os
import sys
import uuid
from collections import Counter
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress

from episode_operator.api.episode import Episode
from episode_operator.kube import connection
from episode_operator.kube.client import EPISODES, KubernetesClient
from tests.testbed import choice, stack
from tests.testbed.errors import TestbedError
from trainer_bridge.sources import humaneval

AT_A_TIME = 12
_POLL_SECONDS = 0.5

console = Console(highlight=False)


@dataclass(frozen=True)
class Case:
    """One Episode and the verdict it must have."""

    manifest: dict[str, object]
    name: str
    expected: str


def cases(image: str, namespace: str) -> list[Case]:
    """Every problem twice."""
    found = []
    for problem in humaneval.problems():
        for mutilated in (False, True):
            manifest = humaneval.episode(problem, image=image, mutilated=mutilated)
            manifest["metadata"]["namespace"] = namespace
            name = manifest["metadata"]["name"]
            found.append(Case(manifest, name, "Failed" if mutilated else "Passed"))
    return found


async def run_case(client: KubernetesClient, case: Case, namespace: str) -> Episode:
    """Run one Episode to its end, and delete it."""
    await client.create(EPISODES, case.manifest)
    while True:
        stored = await client.get(EPISODES, namespace, case.name)
        assert stored is not None
        episode = Episode.model_validate(stored)
        if episode.status.verdict is not None:
            await client.delete(EPISODES, namespace, case.name)
            return episode
        await asyncio.sleep(_POLL_SECONDS)


async def run_all(image: str) -> int:
    """Run every case, so many at a time; the number of wrong verdicts."""
    namespace = f"humaneval-{uuid.uuid4().hex[:6]}"
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    async with KubernetesClient(await connection.load()) as client:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.request("POST", "/api/v1/namespaces", body=body)
        todo = cases(image, namespace)
        limit = asyncio.Semaphore(AT_A_TIME)
        with Progress(console=console) as progress:
            bar = progress.add_task("HumanEval", total=len(todo))

            async def one(case: Case) -> None:
                async with limit:
                    episode = await run_case(client, case, namespace)
                verdict = str(episode.status.verdict)
                verdicts[f"{case.expected} expected: {verdict}"] += 1
                if verdict != case.expected:
                    wrong.append(f"{case.name}: {verdict} {episode.status.reason}")
                progress.update(bar, advance=1, description=f"HumanEval ({len(wrong)} wrong)")

            await asyncio.gather(*(one(case) for case in todo))
        await client.request("DELETE", f"/api/v1/namespaces/{namespace}")
    for line, count in sorted(verdicts.items()):
        console.print(f"{line} {count}")
    for line in wrong:
        console.print(f"[red]{line}[/]")
    return len(wrong)


def main() -> int:
    """Bring the testbed up and run everything; 0 only if every verdict is right."""
    try:
        running = stack.up(choice.current())
    except TestbedError as error:
        print(error.render(), file=sys.stderr)
        return 1
    os.environ["KUBECONFIG"] = str(running.kubeconfig)
    return 1 if asyncio.run(run_all(running.images["task-python"])) else 0


if __name__ == "__main__":
    sys.exit(main())
