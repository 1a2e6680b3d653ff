"""`episodectl list`, `watch`, `top` and `export` on the real cluster, and the plugin of kubectl."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.numpy import load_file

from episode_operator.kube.client import Resource
from tests.cluster import kubectl
from tests.cluster.command_line import episodectl, on_a_terminal
from tests.cluster.episodes import Ended, Episodes, scripted
from tests.cluster.vllm import held_out_tasks

FAILING_TEST = "echo 0 > /logs/verifier/reward.txt"
_SERVICE_ACCOUNTS = Resource("/api/v1", "serviceaccounts")


@pytest.fixture(scope="module")
async def ended(shared: Episodes, image: str) -> dict[str, Ended]:
    """Two Episodes: one passed, one failed."""
    return await shared.run_all(
        {"good": scripted(image), "bad": scripted(image, test=FAILING_TEST)}
    )


async def lines(*arguments: str) -> list[dict[str, Any]]:
    code, output, errors = await episodectl(*arguments)
    assert code == 0, errors
    return [json.loads(line) for line in output.splitlines()]


def kubeconfig(folder: Path, token: str) -> str:
    """A file like that of the testbed, with another user."""
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return str(file)


async def test_lists(shared: Episodes, ended: dict[str, Ended]) -> None:
    where = ("-n", shared.namespace)
    found = {one["name"]: one for one in await lines("list", *where)}
    assert found.keys() == ended.keys()
    for name, one in found.items():
        status = ended[name].episode.status
        assert (one["uid"], one["phase"]) == (ended[name].episode.uid, "Finished")
        assert (one["verdict"], one["reward"]) == (status.verdict, status.reward)
        assert (one["turns"], one["reason"]) == (status.turns, status.reason)
    [bad] = await lines("list", "--verdict", "Failed", *where)
    assert bad["name"] == "bad"
    assert await lines("list", "-l", "team in (a,b)", *where) == []
    everywhere = await lines("list", "-A")
    assert {"good", "bad"} <= {
        one["name"] for one in everywhere if one["namespace"] == shared.namespace
    }


@pytest.mark.usefixtures("ended")
async def test_what_a_terminal_gets(shared: Episodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown = await asyncio.to_thread(on_a_terminal, "list", "-n", shared.namespace)
    assert "VERDICT" in shown and "Passed" in shown and "\x1b[" in shown
    shown = await asyncio.to_thread(on_a_terminal, "top", "-n", shared.namespace)
    assert "last 10 min" in shown and "Passed" in shown


@pytest.mark.usefixtures("ended")
async def test_top(shared: Episodes) -> None:
    [told] = await lines("top", "--minutes", "1440", "-n", shared.namespace)
    assert (told["live"], told["oldestWaiting"], told["finished"]) == (0, None, 2)
    assert told["verdicts"] == {"Passed": 1, "Failed": 1}
    assert told["pods"] in (None, 0)  # whether or not the cluster has a metrics server


async def test_a_watch_tells_what_changes(episodes: Episodes, image: str) -> None:
    await episodes.run("first", scripted(image))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "episodectl", "watch", "-n", episodes.namespace, "-l", "kept!=no"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            seen = json.loads(await process.stdout.readline())
            assert (seen["name"], seen["verdict"], seen["gone"]) == ("first", "Passed", False)
            await episodes.create("second", scripted(image))
            while seen["name"] == "first" or seen["phase"] != "Finished":
                seen = json.loads(await process.stdout.readline())
            await kubectl.check("delete", "episode", "first", "-n", episodes.namespace)
            while not seen["gone"]:
                seen = json.loads(await process.stdout.readline())
            assert seen["name"] == "first"
    finally:
        process.send_signal(2)
        await process.wait()
    assert process.returncode == 130


async def test_without_rights(
    episodes: Episodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the namespace's own service account, which may do nothing."""
    path = _SERVICE_ACCOUNTS.path(episodes.namespace, "default", "token")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await episodes.client.request("POST", path, body=request)
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, answer["status"]["token"]))
    code, output, errors = await episodectl("list", "-n", episodes.namespace)
    assert (code, output) == (2, "")
    assert f"kubectl auth can-i list episodes.episodes.dev -n {episodes.namespace}" in errors
    code, _, errors = await episodectl("list", "-A")
    assert code == 2
    assert "kubectl auth can-i list episodes.episodes.dev --all-namespaces" in errors


@pytest.mark.usefixtures("ended")
async def test_kubectl_runs_and_completes_it(
    shared: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    output = await kubectl.check("episode", "list", "-n", shared.namespace)
    assert {"good", "bad"} <= {json.loads(line)["name"] for line in output.splitlines()}
    output = await kubectl.check("__complete", "episode", "show", "-n", shared.namespace, "goo")
    assert output.splitlines()[0] == "good"
    ran = await kubectl.run("episode", "show", "god", "-n", shared.namespace)
    assert ran.code != 0 and "did you mean good" in ran.stderr


async def test_exports(
    episodes: Episodes, image: str, model: dict[str, object], tmp_path: Path
) -> None:
    (task,) = held_out_tasks(1)
    spec = scripted(
        image,
        agent={"kind": "Model", "toolsets": ["terminal"], "maxTurns": 2},
        model={**model, "sampling": {"temperature": 0, "maxTokens": 96}},
        task={"image": image, "instruction": task["instruction"], "workdir": "/workspace"},
        test=FAILING_TEST,
    )
    ended = await episodes.run("hello", spec)
    where = ("-n", episodes.namespace)
    row = await episodes.row(ended)
    [told] = await lines("export", *where)
    assert (told["episode"], told["verdict"], told["reward"]) == ("hello", "Failed", 0.0)
    assert told["tokens"] == row.tokens.tolist()
    assert len(told["messages"]) == len(await episodes.messages(ended))
    assert await lines("export", "--verdict", "Passed", *where) == []
    folder = tmp_path / "arrays"
    assert await lines("export", "hello", "--safetensors", str(folder), *where) == []
    found = load_file(folder / f"{ended.result.metadata['name']}.safetensors")
    assert all((found[name] == array).all() for name, array in row.arrays().items())
