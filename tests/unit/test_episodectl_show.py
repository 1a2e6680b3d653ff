"""`episodectl show`: for people with colours, for programs as JSON, and never a traceback."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from rich.console import Console
from typer.testing import CliRunner, Result

from episode_operator.results.record import EpisodeRecord
from episode_operator.results.rollout import Token
from episodectl import view
from episodectl.cli import app
from episodectl.show import write_view
from tests.unit import records
from tests.unit.records import NAMESPACE, Cluster

MODEL = {"endpoint": "http://vllm.models.svc:8000/base", "name": "policy"}
PROXY = "/api/v1/namespaces/models/services/http:vllm:8000/proxy/base/detokenize"
WORDS = {10: "count", 11: "\n", 12: " one", 13: "\x1b[31m two", 14: "go", 15: " three"}


def detokenize(body: Any) -> Any:
    assert body["model"] == "policy"
    (token_id,) = body["tokens"]
    return {"prompt": WORDS[token_id]}


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with records.cluster() as found:
        monkeypatch.setenv("KUBECONFIG", found.kubeconfig(tmp_path))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield found


@pytest.fixture
async def distilled(cluster: Cluster) -> Cluster:
    cluster.add_episode(
        agent={"kind": "Model"}, model=MODEL, task={"image": "i", "instruction": "t"}
    )
    await cluster.add_result()
    cluster.server.services[PROXY] = detokenize
    return cluster


async def show(*arguments: str) -> Result:
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, ["show", *arguments]))


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("distilled")
async def test_lines_of_json_where_there_is_no_terminal() -> None:
    result = await show("hello", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert (await show("hello")).stdout == result.stdout
    head, first, second = lines(result)
    assert (head["verdict"], head["reward"], head["result"]) == ("Passed", 1.0, "hello-0f5e2f8e")
    assert head["counts"]["tokens"] == 6
    assert head["weightVersions"] == {"step-1": 2, "step-20": 1}
    assert head["distillation"]["state"] == "Completed"
    assert (first["outcome"], first["hint"]) == ("Scored", "count faster")
    assert second["message"] == "no text follows this turn"
    assert first["tokens"][0] == {
        "position": 0,
        "id": 10,
        "text": "count",
        "sampled": False,
        "logprob": None,
        "teacher": None,
        "advantage": None,
        "version": None,
    }
    assert first["tokens"][3] == {
        "position": 3,
        "id": 13,
        "text": "\x1b[31m two",
        "sampled": True,
        "logprob": -2.0,
        "teacher": -0.5,
        "advantage": 1.5,
        "version": "step-1",
    }
    assert [token["position"] for token in second["tokens"]] == [4, 5]
    assert second["tokens"][1]["advantage"] is None
    assert "\x1b" not in result.stdout


async def test_a_server_of_the_users(distilled: Cluster) -> None:
    distilled.server.services.clear()

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(detokenize(await request.json()))

    server = web.Application()
    server.router.add_post("/detokenize", answer)
    async with TestServer(server) as running:
        result = await show("hello", "--endpoint", str(running.make_url("/")))
    assert result.stderr == ""
    assert lines(result)[1]["tokens"][0]["text"] == "count"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "svc:8000/base does not answer through the API server"),
        (("--endpoint", "http://127.0.0.1:1"), "does not answer: ClientConnectorError"),
        (("--endpoint", "nonsense"), "does not answer: InvalidUrlClientError"),
        (("--endpoint", "http://a:port"), "does not answer"),
    ],
)
async def test_ids_where_the_model_server_cannot_be_reached(
    distilled: Cluster, arguments: tuple[str, ...], why: str
) -> None:
    distilled.server.services.clear()
    distilled.server.refuse = lambda _, path: (404, "no such service") if "proxy" in path else None
    result = await show("hello", *arguments)
    assert result.exit_code == 0
    assert result.stderr.startswith("ids instead of texts: ")
    assert why in result.stderr and "give --endpoint " in result.stderr
    first = lines(result)[1]["tokens"][0]
    assert (first["id"], first["text"]) == (10, None)


async def test_a_server_that_answers_nonsense(distilled: Cluster) -> None:
    distilled.server.services[PROXY] = lambda _: {"detail": "what?"}
    result = await show("hello")
    assert result.exit_code == 0 and "is this a vLLM server?" in result.stderr


async def test_an_episode_that_is_gone(cluster: Cluster) -> None:
    await cluster.add_result()
    result = await show("hello")
    assert result.exit_code == 0
    assert "the Episode is gone" in result.stderr


async def test_what_cannot_be_shown(cluster: Cluster) -> None:
    result = await show("nobody")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "neither an Episode nor an EpisodeResult nobody" in result.stderr
    stored = await cluster.add_result()
    path = cluster.path("episoderesults", stored.metadata["name"])
    cluster.server.objects[path]["spec"]["tokens"]["inline"] = "AAAA"
    result = await show("hello")
    assert result.exit_code == 2 and "sha256" in result.stderr
    cluster.server.objects[path]["spec"]["verdict"] = "Perhaps"
    result = await show("hello")
    assert result.exit_code == 2 and "verdict" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("content", [None, "nonsense", "a: [", "{}", "[]"])
async def test_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    result = await show("hello")
    assert result.exit_code == 2
    assert result.stderr.startswith("no cluster: ")


async def drawn(cluster: Cluster, texts: dict[int, str] | None, *, table: bool = False) -> str:
    """What a terminal gets."""
    record = await EpisodeRecord.load(cluster.client, namespace=NAMESPACE, name="hello")
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, color_system="truecolor", width=100, highlight=False
    )
    write_view(console, record, texts, table=table)
    return out.getvalue()


async def test_what_a_terminal_gets(distilled: Cluster) -> None:
    shown = await drawn(distilled, WORDS)
    for part in ("Passed", "reward 1", "correctness 1", "step-20: 1 tokens", "sampledTokens 3"):
        assert part in shown
    for part in ("turn 0", "Scored", "count faster", "mean A_t +0.250", "NoNextState"):
        assert part in shown
    assert "\\x1b[31m two" in shown and "\x1b[31m two" not in shown
    assert "count" in shown and "↵" in shown


async def test_what_the_verifier_printed(cluster: Cluster) -> None:
    cluster.add_episode()
    await cluster.add_result(verifier_output="line one\n\x1b[31mline two\n")
    shown = await drawn(cluster, WORDS)
    assert "verifier's output" in shown and "line one\n\\x1b[31mline two\n" in shown
    head = lines(await show("hello", "--json"))[0]
    assert head["verifierOutput"] == "line one\n\x1b[31mline two\n"


async def test_ids_and_tables_on_a_terminal(distilled: Cluster) -> None:
    assert "12" in await drawn(distilled, None)
    shown = await drawn(distilled, WORDS, table=True)
    for part in ("-0.5000", "-1.5000", "-1.0000", "+1.5000", "step-20"):
        assert part in shown


def token(logprob: float, advantage: float | None = None, *, sampled: bool = True) -> Token:
    return Token(0, 1, "x", sampled, logprob if sampled else None, None, advantage, "")


def test_colours() -> None:
    assert view.style(token(0, sampled=False), taught=True) == view.INSERTED
    assert view.style(token(-1), taught=True) == view.UNSCORED
    backgrounds = [view.style(token(value), taught=False).bgcolor for value in (0, -0.5, -3, -9)]
    assert backgrounds[0] is None and len(set(backgrounds)) == 4
    greens = [view.style(token(-1, value), taught=True).bgcolor for value in (0.05, 0.2, 0.7, 5)]
    reds = [view.style(token(-1, -value), taught=True).bgcolor for value in (0.05, 0.2, 0.7, 5)]
    assert greens[0] is None and reds[0] is None
    assert len({*greens, *reds}) == 7


async def test_an_agent_that_samples_nothing(cluster: Cluster) -> None:
    stored = await cluster.add_result()
    found = cluster.server.objects[cluster.path("episoderesults", stored.metadata["name"])]
    del found["spec"]["tokens"], found["spec"]["model"], found["status"]
    found["spec"] |= {"agentKind": "Oracle", "weightVersions": []}
    found["spec"]["counts"] |= {"tokens": 0, "sampledTokens": 0}
    shown = await drawn(cluster, None)
    assert "no tokens: an agent of kind Oracle samples none" in shown
    result = await show("hello")
    assert (result.exit_code, result.stderr, len(lines(result))) == (0, "", 1)


def test_nothing_that_a_terminal_would_act_on_is_left() -> None:
    assert view.visible("a\x1b[2J\r\t\u202eb\x7f\n") == "a\\x1b[2J\\r\\t\\u202eb\\x7f↵\n"
    assert view.visible("größe 你好 🌊") == "größe 你好 🌊"
