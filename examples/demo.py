"""`make demo`: bring everything up, run the examples, and show what they gave.

01-hello is solved by the model on vLLM, 02-oracle by a HumanEval problem's own solution, 03-wrong
is wrong on purpose. The tokens of 01 are scored again by vLLM as a proof that they are exact.
"""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.live import Live
from rich.table import Table

from episode_operator.api.episode import Episode
from episode_operator.api.result import EpisodeResult
from episode_operator.kube import connection
from episode_operator.kube.client import EPISODE_RESULTS, EPISODES, KubernetesClient
from episode_operator.model import VllmClient
from episode_operator.results import payload, writer
from episode_operator.results.payload import TokenRow
from tests.testbed import choice, stack
from tests.testbed.errors import TestbedError
from tests.testbed.forward import forwarded

EXAMPLES = Path(__file__).parent
NAMESPACE = "default"
EXPECTED = {"hello": "Passed", "humaneval-0": "Passed", "wrong": "Failed"}

_POLL_SECONDS = 0.5
_LIMIT_SECONDS = 900
_TOLERANCE = 0.01
"""Of a logprob; fp32 on the CPU differs by about 2e-5 between sampling and scoring."""

console = Console(highlight=False)


def manifests(environment: dict[str, str]) -> list[dict[str, Any]]:
    """The three examples, with the testbed's image and model put in."""

    def example(folder: str) -> dict[str, Any]:
        text = (EXAMPLES / folder / "episode.yaml").read_text()
        loaded: dict[str, Any] = yaml.safe_load(Template(text).safe_substitute(environment))
        return loaded

    script = [sys.executable, str(EXAMPLES / "02-oracle" / "episode.py"), environment["TASK_IMAGE"]]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    found = [example("01-hello"), yaml.safe_load(printed), example("03-wrong")]
    for manifest in found:
        manifest["metadata"]["namespace"] = NAMESPACE
    return found


def table(episodes: list[Episode], started: float) -> Table:
    """The examples as they are now."""
    shown = Table(title=f"examples, {time.monotonic() - started:.0f} s")
    for column in ("episode", "phase", "verdict", "reward", "turns", "tokens", "seconds"):
        shown.add_column(column)
    for episode in episodes:
        status = episode.status
        took = (
            f"{(status.completion_time - episode.created).total_seconds():.0f}"
            if status.completion_time
            else ""
        )
        values = (status.phase, status.verdict, status.reward, status.turns, status.tokens)
        shown.add_row(episode.name, *("" if v is None else str(v) for v in values), took)
    return shown


async def apply(client: KubernetesClient, found: list[dict[str, Any]]) -> None:
    """Create the examples anew; what an earlier demo left is deleted first."""
    for manifest in found:
        name = manifest["metadata"]["name"]
        await client.delete(EPISODES, NAMESPACE, name)
        while await client.get(EPISODES, NAMESPACE, name) is not None:
            await asyncio.sleep(_POLL_SECONDS)
        await client.create(EPISODES, manifest)
        console.print(f"created episode {name}")


async def follow(client: KubernetesClient, names: list[str]) -> list[Episode]:
    """Show the examples until all are finished."""
    started = time.monotonic()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            episodes = []
            for name in names:
                stored = await client.get(EPISODES, NAMESPACE, name)
                if stored is not None:
                    episodes.append(Episode.model_validate(stored))
            live.update(table(episodes, started), refresh=True)
            if len(episodes) == len(names) and all(e.status.verdict for e in episodes):
                break
            if time.monotonic() - started > _LIMIT_SECONDS:
                raise TimeoutError(f"not finished within {_LIMIT_SECONDS} s")
            await asyncio.sleep(_POLL_SECONDS)
    console.print(table(episodes, started))
    return episodes


async def token_row(client: KubernetesClient, episode: Episode) -> TokenRow:
    """The training row of an Episode, from its EpisodeResult."""
    assert episode.status.result_name is not None
    stored = await client.get(EPISODE_RESULTS, NAMESPACE, episode.status.result_name)
    assert stored is not None
    result = EpisodeResult.model_validate(stored)
    assert result.spec.tokens is not None
    blob = await writer.read_blob(client, namespace=NAMESPACE, blob=result.spec.tokens)
    return payload.decode(blob)


async def rescore(row: TokenRow, endpoint: str, model: str) -> float:
    """The largest difference between the recorded logprobs and those vLLM gives the same ids."""
    async with VllmClient.open(endpoint, model) as vllm:
        scored = await vllm.score(row.tokens.tolist())
    sampled = row.mask[1:]
    return float(np.abs(scored[sampled] - row.logprobs[1:][sampled]).max())


async def run(environment: dict[str, str]) -> int:
    """Run the examples; 0 if every one ended as it must."""
    os.environ["KUBECONFIG"] = environment["KUBECONFIG"]
    async with KubernetesClient(await connection.load()) as client:
        found = manifests(environment)
        await apply(client, found)
        episodes = await follow(client, [m["metadata"]["name"] for m in found])
        verdicts = {e.name: str(e.status.verdict) for e in episodes}
        row = await token_row(client, next(e for e in episodes if e.name == "hello"))
    console.print(
        f"01-hello: {len(row.tokens)} tokens, {int(row.mask.sum())} of them sampled by the model"
    )
    async with forwarded(
        stack.MODEL_SERVICE, 8000, namespace=stack.NAMESPACE, env=environment
    ) as endpoint:
        difference = await rescore(row, endpoint, environment["MODEL_NAME"])
    console.print(f"scored again by vLLM: logprobs differ by at most {difference:.2g}")
    if verdicts != EXPECTED or difference > _TOLERANCE:
        console.print(f"[red]expected {EXPECTED}[/]")
        return 1
    console.print("[green]every example ended as it must[/]")
    console.print("next: docs/tutorial.md; it begins with the KUBECONFIG and PATH of this cluster")
    return 0


def main() -> int:
    """Bring everything up and run the examples."""
    try:
        running = stack.up(choice.current())
    except TestbedError as error:
        print(error.render(), file=sys.stderr)
        return 1
    return asyncio.run(run(running.environment))


if __name__ == "__main__":
    sys.exit(main())
