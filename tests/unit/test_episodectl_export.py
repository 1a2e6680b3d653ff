"""`episodectl export`: nothing is changed on the way, and nothing left out in silence."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from episode_operator.api.reasons import Verdict
from tests.unit import command_line, records
from tests.unit.command_line import invoke, lines
from tests.unit.records import Cluster
from trainer_bridge.sinks.datasets.columns import COLUMNS


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with command_line.cluster(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
async def three(cluster: Cluster) -> Cluster:
    """One with tokens, one without a verdict, one of another run."""
    await cluster.add_result()
    await cluster.add_result(
        name="broken-1", verdict=Verdict.NO_VERDICT, reward=None, reason="OOMKilled"
    )
    await cluster.add_result(name="other-1", verdict=Verdict.FAILED, reward=0.0)
    for at, body in enumerate(cluster.server.objects.values()):
        body["metadata"]["creationTimestamp"] = f"2026-11-30T12:00:0{at}Z"
    other = cluster.server.objects[cluster.path("episoderesults", "other-1")]
    other["metadata"]["labels"]["episodes.dev/run"] = "coding"
    return cluster


@pytest.mark.usefixtures("three")
async def test_lines_of_json() -> None:
    result = await invoke("export")
    assert (result.exit_code, result.stderr) == (0, "2 written, 0 could not be\n")
    first, second = lines(result)
    assert list(first) == list(COLUMNS)
    row, taught = records.row(), records.taught()
    assert first["tokens"] == row.tokens.tolist() and first["logprobs"] == row.logprobs.tolist()
    assert first["distill_logprobs"] == taught.logprobs.tolist()
    assert first["messages"][0]["content"] == "count"
    assert (first["task"], first["family"], first["group"]) == (None, None, None)
    assert (second["verdict"], second["reward"]) == ("Failed", 0.0)
    [only] = lines(await invoke("export", "--run", "coding", "--no-messages"))
    assert (only["verdict"], only["messages"]) == ("Failed", None)


@pytest.mark.usefixtures("three")
async def test_without_a_verdict_there_is_no_reward() -> None:
    [told] = lines(await invoke("export", "--verdict", "NoVerdict"))
    assert (told["verdict"], told["reward"], told["reason"]) == ("NoVerdict", None, "OOMKilled")
    assert lines(await invoke("export", "broken-1")) == [told]


async def test_arrays(three: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "arrays"
    result = await invoke("export", "--safetensors", str(folder))
    assert (result.exit_code, result.stdout) == (0, "")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["hello-0f5e2f8e.safetensors", "other-1.safetensors"]
    found = load_file(folder / names[0])
    expected = {
        **records.row().arrays(),
        **{f"distill_{name}": array for name, array in records.taught().arrays().items()},
    }
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and (found[name] == array).all()
    with safe_open(folder / names[0], "numpy") as file:
        metadata = file.metadata()
    assert (metadata["verdict"], json.loads(metadata["reward"])) == ("Passed", 1.0)
    assert json.loads(metadata["weight_versions"])[0]["version"] == "step-1"
    assert "tokens" not in metadata and "task" not in metadata


async def test_what_cannot_be_written_is_told(three: Cluster, tmp_path: Path) -> None:
    damaged = three.server.objects[three.path("episoderesults", "other-1")]
    damaged["spec"]["tokens"]["inline"] = "AAAA"
    result = await invoke("export")
    assert result.exit_code == 2
    assert [one["episode"] for one in lines(result)] == ["hello"]
    assert "left out: other-1: " in result.stderr and "sha256" in result.stderr
    result = await invoke("export", "hello-0f5e2f8e", "nobody")
    assert result.exit_code == 2 and "left out: nobody: " in result.stderr
    result = await invoke("export", "hello-0f5e2f8e", "--neutral-fill")
    assert result.exit_code == 2 and "topLogprobs" in result.stderr


async def test_agents_that_sample_nothing_have_no_arrays(three: Cluster, tmp_path: Path) -> None:
    found = three.server.objects[three.path("episoderesults", "other-1")]
    del found["spec"]["tokens"], found["spec"]["model"], found["status"]
    found["spec"] |= {"agentKind": "Oracle", "weightVersions": []}
    found["spec"]["counts"] |= {"tokens": 0, "sampledTokens": 0}
    result = await invoke("export", "other-1", "--safetensors", str(tmp_path / "arrays"))
    assert result.exit_code == 0
    assert "an agent of kind Oracle samples no tokens" in result.stderr
    [told] = lines(await invoke("export", "other-1"))
    assert told["tokens"] is None


@pytest.mark.usefixtures("three")
async def test_wrong_use(tmp_path: Path) -> None:
    result = await invoke("export", "hello", "--run", "coding")
    assert result.exit_code == 2 and "not both" in result.stderr
    file = tmp_path / "file"
    file.touch()
    result = await invoke("export", "--safetensors", str(file))
    assert result.exit_code == 2 and "choose a folder" in result.stderr
