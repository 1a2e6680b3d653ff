"""Completion, and the plugin of kubectl."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from episodectl import cli, options
from tests.unit import command_line
from tests.unit.command_line import PASSED, add
from tests.unit.records import Cluster


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with command_line.cluster(tmp_path, monkeypatch) as found:
        yield found


async def program(
    entry: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *words: str,
) -> tuple[str, str]:
    """What a program of pyproject.toml prints, when it is called with these words."""
    monkeypatch.setattr(sys, "argv", ["program", *words])

    def call() -> None:
        with pytest.raises(SystemExit):
            entry()

    await asyncio.to_thread(call)
    said = capsys.readouterr()
    return said.out, said.err


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("canc",), ["cancel"]),
        (("list", "--verdict", ""), ["Passed", "Failed", "NoVerdict"]),
        (("watch", "he"), ["hello", "help"]),
        (("retry", "-n", "space", ""), ["elsewhere"]),
        (("show", "x"), []),
        (("show", "hel"), ["hello", "help", "hello-0f5e2f8e"]),
    ],
)
async def test_kubectl_completes(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    completed: list[str],
) -> None:
    add(cluster, "hello", PASSED)
    add(cluster, "help")
    add(cluster, "elsewhere", namespace="space")
    await cluster.add_result()
    for name in ("_EPISODECTL_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        monkeypatch.setenv(name, "")  # so that they are as before after the test
    out, errors = await program(cli.kubectl_completion, monkeypatch, capsys, *words)
    assert [*out.split()] == [*completed, ":0"]
    assert errors == ""


async def test_without_a_cluster_there_are_no_names_and_no_words(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for name in ("_EPISODECTL_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(options, "_COMPLETION_SECONDS", 0.2)
    cluster.server.refuse = lambda method, path: (503, "later")
    asked = await program(cli.kubectl_completion, monkeypatch, capsys, "watch", "")
    assert (asked[0].split(), asked[1]) == ([":0"], "")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    asked = await program(cli.kubectl_completion, monkeypatch, capsys, "watch", "")
    assert (asked[0].split(), asked[1]) == ([":0"], "")


async def test_the_plugin_says_its_own_name(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = await program(cli.kubectl_plugin, monkeypatch, capsys, "list", "--help")
    assert "kubectl episode list [OPTIONS]" in out
    out, _ = await program(cli.kubectl_plugin, monkeypatch, capsys, "--help")
    assert "--install-completion" not in out
    script = Path(__file__).parent / "task_folders.py"
    flags = ("--image", "i", "--instruction", "t", "--verifier", str(script))
    out, errors = await program(
        *(cli.kubectl_plugin, monkeypatch, capsys),
        *("run", *flags, "--model", "http://vllm/policy", "--detach"),
    )
    assert f"follow it: kubectl episode watch {out.strip()}" in errors
