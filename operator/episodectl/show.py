"""`episodectl show`: reads a record with the texts of its tokens, and prints it."""

import os
from collections.abc import Mapping

import orjson
import typer
from rich.console import Console

from episode_operator.kube.client import KubernetesClient
from episode_operator.results import rollout
from episode_operator.results.record import EpisodeRecord
from episode_operator.results.texts import NoTexts, texts
from episodectl import records, view


async def read(
    client: KubernetesClient, name: str, *, namespace: str, endpoint: str | None
) -> tuple[EpisodeRecord, dict[int, str] | None, str | None]:
    """The record, the texts of its ids, and if there are none, why."""
    record = await records.load(client, namespace, name)
    model = record.result.spec.model
    if record.row is None or model is None:
        return record, None, None
    # Inside of the cluster a Service answers itself; a URL of the user's is taken as it is.
    direct = endpoint is not None or "KUBERNETES_SERVICE_HOST" in os.environ
    try:
        found = await texts(
            record.row.tokens.tolist(),
            endpoint=endpoint or _endpoint(record),
            model=model.name,
            through=None if direct else client,
        )
    except NoTexts as error:
        return record, None, f"{error}; give --endpoint URL of a vLLM server of this model"
    return record, found, None


def _endpoint(record: EpisodeRecord) -> str:
    episode = record.episode
    if episode is None or episode.spec.model is None:
        raise NoTexts("the Episode is gone, and with it the address of its model server")
    return episode.spec.model.endpoint


def write_lines(record: EpisodeRecord, found: Mapping[int, str] | None) -> None:
    """One line of JSON for the Episode, then one for each turn."""
    head = rollout.head(record) | {"verifierOutput": record.result.spec.verifier_output}
    lines = [head, *(turn.to_json() for turn in rollout.turns(record, found))]
    for line in lines:
        typer.echo(orjson.dumps(line))


def write_view(
    console: Console, record: EpisodeRecord, found: Mapping[int, str] | None, *, table: bool
) -> None:
    """For people."""
    spec = record.result.spec
    view.print_head(console, rollout.head(record))
    if record.row is None:
        console.print(f"no tokens: an agent of kind {spec.agent_kind} samples none")
    else:
        taught = record.distillation is not None
        console.print(view.legend(taught=taught))
        for turn in rollout.turns(record, found):
            view.print_turn(console, turn, taught=taught, table=table)
    view.print_output(console, spec.verifier_output)
