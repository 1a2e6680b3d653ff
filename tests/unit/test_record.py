"""EpisodeRecord: found by either name, complete, and refused where its parts do not fit."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from episode_operator.api.distillation import TurnOutcome
from episode_operator.api.labels import unique_name
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import Counts, EpisodeReference, WeightSpan
from episode_operator.results.arrays import PayloadError
from episode_operator.results.blobs import BlobError
from episode_operator.results.finding import RecordAmbiguous, RecordMissing, RecordUnfinished
from episode_operator.results.record import EpisodeRecord
from tests.unit import builders, records
from tests.unit.records import NAMESPACE, Cluster

RESULT = unique_name("hello", builders.UID)
SCORED, UNSCORED = records.TURNS


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with records.cluster() as found:
        yield found


async def load(cluster: Cluster, name: str = "hello") -> EpisodeRecord:
    return await EpisodeRecord.load(cluster.client, namespace=NAMESPACE, name=name)


async def test_everything_of_an_episode(cluster: Cluster) -> None:
    cluster.add_episode()
    await cluster.add_result()
    record = await load(cluster)
    assert (record.verdict, record.reward) == (Verdict.PASSED, 1.0)
    assert record.reward_components == {"correctness": 1.0}
    assert (record.counts.tokens, record.counts.turns) == (6, 2)
    assert record.messages == records.CONVERSATION
    assert record.turns == records.TURNS
    assert record.row is not None and record.versions is not None
    assert record.row.tokens.tolist() == records.row().tokens.tolist()
    assert record.versions.tolist() == ["", "", "step-1", "step-1", "", "step-20"]
    assert record.distillation is not None
    advantages = record.distillation.row_advantages(record.row)
    np.testing.assert_array_equal(advantages, [np.nan, np.nan, -1, 1.5, np.nan, np.nan])


@pytest.mark.parametrize("name", ["hello", RESULT])
@pytest.mark.parametrize("gone", [False, True])
async def test_it_is_found_by_either_name_with_or_without_its_episode(
    cluster: Cluster, name: str, gone: bool
) -> None:
    if not gone:
        cluster.add_episode()
    await cluster.add_result()
    record = await load(cluster, name)
    assert record.result.metadata["name"] == RESULT
    assert (record.episode is None) == gone


async def test_an_episode_of_the_same_name_is_not_taken_for_the_results_own(
    cluster: Cluster,
) -> None:
    cluster.add_episode()
    other = EpisodeReference(name="hello", uid="another")
    await cluster.add_result(name="hello-another", episode=other)
    assert (await load(cluster, "hello-another")).episode is None
    with pytest.raises(RecordUnfinished, match="its phase is Running"):
        await load(cluster)


async def test_nothing_of_that_name(cluster: Cluster) -> None:
    with pytest.raises(RecordMissing, match="neither an Episode nor an EpisodeResult hello"):
        await load(cluster)


async def test_two_episodes_of_that_name(cluster: Cluster) -> None:
    for uid in ("first", "second"):
        episode = EpisodeReference(name="hello", uid=uid)
        await cluster.add_result(name=f"hello-{uid}", episode=episode)
    with pytest.raises(RecordAmbiguous, match="hello-first, hello-second"):
        await load(cluster)


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("counts", {"counts": Counts(turns=2, tokens=7, sampled_tokens=3)}),
        ("counts", {"counts": Counts(turns=2, tokens=6, sampled_tokens=4)}),
        ("weightVersions", {"weight_versions": []}),
        ("weightVersions", {"weight_versions": [WeightSpan(version="a", start=0, end=6)]}),
        ("weightVersions", {"weight_versions": [WeightSpan(version="a", start=2, end=7)]}),
        (
            "weightVersions",
            {
                "weight_versions": [
                    WeightSpan(version="b", start=5, end=6),
                    WeightSpan(version="a", start=2, end=4),
                ]
            },
        ),
        ("distillation", {"positions": 3}),
        ("turns", {"records": [SCORED, SCORED]}),
        ("turns", {"records": [UNSCORED, SCORED]}),
        ("turns", {"records": [SCORED.model_copy(update={"outcome": TurnOutcome.OVER_BUDGET})]}),
        ("turns", {"records": [SCORED, UNSCORED.model_copy(update={"outcome": SCORED.outcome})]}),
        ("turns", {"records": [SCORED.model_copy(update={"start": 1})]}),
        ("turns", {"records": [SCORED, UNSCORED.model_copy(update={"end": 5})]}),
    ],
)
async def test_parts_that_do_not_fit(cluster: Cluster, what: str, changes: dict[str, Any]) -> None:
    await cluster.add_result(**changes)
    with pytest.raises(PayloadError, match=what):
        await load(cluster)


async def test_values_of_another_row(cluster: Cluster) -> None:
    await cluster.add_result()
    first = cluster.server.objects[cluster.path("episoderesults", RESULT)]
    await cluster.add_result(
        name="hello-other",
        episode=EpisodeReference(name="hello", uid="other"),
        tokens=replace(
            records.row(),
            mask=np.array([0, 1, 1, 0, 0, 1], dtype=np.bool_),
            logprobs=np.array([0, -1, -1, 0, 0, -1], dtype=np.float32),
        ),
        values=replace(
            records.taught(),
            positions=np.array([1, 2], dtype=np.int32),
            sampled_logprobs=np.array([-4, -3.5], dtype=np.float32),
        ),
        weight_versions=[WeightSpan(version="", start=1, end=3)],
    )
    second = cluster.server.objects[cluster.path("episoderesults", "hello-other")]
    first["status"], second["status"] = second["status"], first["status"]
    for name in (RESULT, "hello-other"):
        with pytest.raises(PayloadError):
            await load(cluster, name)


@pytest.mark.parametrize("blob", ["tokens", "messages", "data", "turns"])
async def test_changed_bytes(cluster: Cluster, blob: str) -> None:
    await cluster.add_result()
    stored = cluster.server.objects[cluster.path("episoderesults", RESULT)]
    holder = stored["spec"] if blob in stored["spec"] else stored["status"]["distillation"]
    data = bytearray(base64.b64decode(holder[blob]["inline"]))
    data[-1] ^= 1
    holder[blob]["inline"] = base64.b64encode(data).decode()
    with pytest.raises(BlobError, match="sha256"):
        await load(cluster)


async def test_in_one_call_with_a_kubeconfig(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.add_result()
    monkeypatch.setenv("KUBECONFIG", cluster.kubeconfig(tmp_path))
    loading = asyncio.to_thread(EpisodeRecord.load_sync, "hello", namespace=NAMESPACE)
    assert (await loading).reward == 1.0


def test_in_one_call_where_an_event_loop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook; nothing answers here, and the error is the call's own."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    async def cell() -> None:
        EpisodeRecord.load_sync("hello")

    with pytest.raises(Exception, match="kube-config"):
        asyncio.run(cell())
