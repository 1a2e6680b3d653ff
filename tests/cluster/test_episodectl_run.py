"""`episodectl run`, `retry` and `cancel` on the real cluster."""

import asyncio
import json
import re
import sys
import time
from pathlib import Path

import pytest
import yaml

from episode_operator.kube.client import CONFIG_MAPS, EPISODES
from tests.cluster import golden_tasks, kubectl
from tests.cluster.command_line import episodectl
from tests.cluster.episodes import PASSING_TEST, Episodes, scripted, terminal

_GONE_SECONDS = 60.0


@pytest.fixture
def flags(tmp_path: Path, image: str, namespace: str) -> tuple[str, ...]:
    """An Episode of a script that writes a word, without its verifier."""
    calls = tmp_path / "calls.yaml"
    calls.write_text(yaml.safe_dump([terminal("echo walnut > word.txt")]))
    return (
        *("run", "--image", image, "--instruction", "write a word", "--workdir", "/workspace"),
        *("--agent", "Scripted", "--script", str(calls), "-n", namespace),
    )


def verifier(folder: Path, script: str) -> tuple[str, str]:
    test = folder / "test.sh"
    test.write_text(script)
    return "--verifier", str(test)


async def gone(episodes: Episodes, name: str) -> None:
    """Wait until an Episode has neither a pod nor ConfigMaps."""
    end = time.monotonic() + _GONE_SECONDS
    while await episodes.pods(name) or await parts(episodes):
        assert time.monotonic() < end, f"{name} left something after {_GONE_SECONDS} s"
        await asyncio.sleep(0.5)


async def parts(episodes: Episodes) -> list[str]:
    found = await episodes.client.list(CONFIG_MAPS, episodes.namespace, metadata_only=True)
    names = [each["metadata"]["name"] for each in found]
    return [name for name in names if name != "kube-root-ca.crt"]


@pytest.mark.parametrize(
    ("script", "code", "verdict"),
    [
        (golden_tasks.check("grep -q walnut word.txt"), 0, "Passed"),
        (golden_tasks.check("grep -q acorn word.txt"), 1, "Failed"),
        ("#!/bin/sh\nexit 0\n", 3, "NoVerdict"),
    ],
)
async def test_the_verdict_is_the_exit_code(
    flags: tuple[str, ...], tmp_path: Path, script: str, code: int, verdict: str
) -> None:
    ended, output, errors = await episodectl(*flags, *verifier(tmp_path, script))
    assert ended == code, errors
    told = json.loads(output)
    assert told["verdict"] == verdict and (told["reward"] is None) == (verdict == "NoVerdict")
    assert re.search(r"(Running|Verifying)  pod ", errors), "a short phase may be over unseen"


async def test_pytest_files(flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "test_word.py").write_text(
        "from pathlib import Path\n\n"
        "def test_word():\n"
        "    words = Path('/tests/words.txt').read_text().split()\n"
        "    assert Path('/workspace/word.txt').read_text().strip() in words\n"
    )
    (tmp_path / "words.txt").write_text("walnut acorn\n")
    code, output, errors = await episodectl(
        *flags,
        *("--verifier", str(tmp_path / "test_word.py")),
        *("--verifier", str(tmp_path / "words.txt")),
    )
    assert code == 0, output + errors


async def test_what_a_dry_run_prints_is_taken_by_kubectl(
    flags: tuple[str, ...], tmp_path: Path, namespace: str, image: str
) -> None:
    code, output, errors = await episodectl(*flags, *verifier(tmp_path, PASSING_TEST), "--dry-run")
    assert (code, errors) == (0, "")
    await kubectl.check("apply", "--dry-run=server", "-f", "-", stdin=output)
    folder = tmp_path / "hello"
    golden_tasks.write(folder, golden_tasks.harbor_tasks(image)["crlf"])
    run = ("run", str(folder), "--agent", "Oracle", "-n", namespace, "--dry-run")
    code, output, errors = await episodectl(*run)
    assert (code, errors) == (0, "")
    await kubectl.check("apply", "--dry-run=server", "-f", "-", stdin=output)


async def test_a_folder_again_and_its_files_go_with_the_last_episode(
    episodes: Episodes, tmp_path: Path, image: str
) -> None:
    folder = tmp_path / "hello"
    golden_tasks.write(folder, golden_tasks.harbor_tasks(image)["crlf"])
    where = ("-n", episodes.namespace)
    run = ("run", str(folder), "--agent", "Oracle", "--name", "first", "--label", "team=a")
    code, _, errors = await episodectl(*run, *where)
    assert code == 0, errors
    files = await parts(episodes)
    assert files
    code, _, errors = await episodectl("retry", "first", "--name", "second", "--detach", *where)
    assert code == 0, errors
    await episodes.client.delete(EPISODES, episodes.namespace, "first")
    code, output, errors = await episodectl("watch", "second", *where)
    assert code == 0, errors
    assert json.loads(output)["verdict"] == "Passed"
    assert await parts(episodes) == files
    second = await kubectl.get("episode", "second", namespace=episodes.namespace)
    assert second["metadata"]["labels"] == {"team": "a"}
    await episodes.client.delete(EPISODES, episodes.namespace, "second")
    await gone(episodes, "second")


async def test_a_retry_is_in_no_group(episodes: Episodes, image: str) -> None:
    spec = scripted(image, group={"name": "coding-000001", "member": 1})
    body = {
        "apiVersion": "episodes.dev/v1alpha1",
        "kind": "Episode",
        "metadata": {
            "name": "hello",
            "namespace": episodes.namespace,
            "labels": {"episodes.dev/run": "coding", "episodes.dev/group": "coding-000001"},
        },
        "spec": spec,
    }
    await episodes.client.create(EPISODES, body)
    await episodes.finish("hello")
    code, output, errors = await episodectl("retry", "hello", "-n", episodes.namespace)
    assert code == 0, errors
    assert errors.count("left out: ") == 3
    ended = await episodes.finish(json.loads(output)["name"])
    assert ended.result.spec.group is None
    labels = ended.result.metadata["labels"]
    assert not {"episodes.dev/run", "episodes.dev/group"} & labels.keys()


async def test_cancel_ends_the_pod(episodes: Episodes, image: str) -> None:
    where = ("-n", episodes.namespace)
    await episodes.create("hello", scripted(image, terminal("sleep 300")))
    await episodes.until_running("hello")
    code, _, errors = await episodectl("retry", "hello", *where)
    assert code == 2 and "is not finished, its phase is Running" in errors
    code, output, errors = await episodectl("cancel", "hello", *where)
    assert code == 2 and "give --yes" in errors
    code, output, errors = await episodectl("cancel", "hello", "--yes", *where)
    assert (code, output) == (0, "episode/hello deleted\n"), errors
    await gone(episodes, "hello")


async def test_an_episode_that_the_api_refuses(flags: tuple[str, ...], tmp_path: Path) -> None:
    run = (*flags, *verifier(tmp_path, PASSING_TEST), "--label", "team=a/b")
    code, output, errors = await episodectl(*run)
    assert (code, output) == (2, "") and "metadata.labels" in errors


async def test_the_episode_goes_on_when_the_user_stops_waiting(
    episodes: Episodes, image: str
) -> None:
    await episodes.create("hello", scripted(image, terminal("sleep 5")))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "episodectl", "watch", "hello", "-n", episodes.namespace),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    await process.stderr.readline()
    process.send_signal(2)
    _, errors = await process.communicate()
    assert process.returncode == 130 and b"hello goes on; follow it" in errors
    assert (await episodes.finish("hello")).verdict[0] == "Passed"
