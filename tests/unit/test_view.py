"""The web view on an API server without a cluster: what it shows, and whom it refuses."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from episode_operator.api.labels import EPISODE_NAME, GROUP_NAME, RUN
from episode_operator.view import Conversations, View
from tests.unit import builders, records
from tests.unit.records import NAMESPACE, Cluster

EPISODE = f"/namespaces/{NAMESPACE}/episodes/hello"
ATTACK = '<script>alert("x")</script>'


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with records.cluster() as found:
        yield found


@asynccontextmanager
async def viewing(
    cluster: Cluster, conversations: Conversations = lambda uid: None
) -> AsyncIterator[TestClient[Any, Any]]:
    view = View(cluster.client, None, conversations)
    async with TestClient(TestServer(view.application)) as client:
        yield client


async def page(client: TestClient[Any, Any], path: str, status: int = 200) -> str:
    async with client.get(path) as answer:
        text = await answer.text()
        assert answer.status == status, text
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        return text


async def test_the_list_with_its_filters(cluster: Cluster) -> None:
    cluster.add_episode()
    stored = cluster.server.objects[cluster.path("episodes", "hello")]
    stored["metadata"] |= {
        "labels": {RUN: "coding", GROUP_NAME: "coding-000001"},
        "creationTimestamp": "2026-11-30T12:00:00Z",
    }
    async with viewing(cluster) as client:
        shown = await page(client, "/")
        assert f'href="{EPISODE}"' in shown and "1 Episodes" in shown
        assert f'href="/namespaces/{NAMESPACE}/runs/coding"' in shown
        assert f'href="/namespaces/{NAMESPACE}/groups/coding-000001"' in shown
        for taken in (
            "phase=Running",
            "run=coding",
            "group=coding-000001",
            f"namespace={NAMESPACE}",
        ):
            assert "hello" in await page(client, f"/?part&{taken}"), taken
        for other in ("phase=Finished", "verdict=Passed", "run=other", "namespace=other"):
            assert "hello" not in await page(client, f"/?part&{other}"), other
        assert "is not a valid Phase" in await page(client, "/?phase=Nothing", 400)


async def test_a_finished_episode(cluster: Cluster) -> None:
    cluster.add_episode()
    result = await cluster.add_result(message=ATTACK)
    async with viewing(cluster) as client:
        for path in (EPISODE, f"/namespaces/{NAMESPACE}/episodes/{result.metadata['name']}"):
            shown = await page(client, path)
            assert "Passed" in shown and "reward 1" in shown and "TestsPassed" in shown
            assert "one two" in shown and "turn 1" in shown
            assert "teacher minus student" in shown
            assert ATTACK not in shown and "&lt;script&gt;" in shown
            assert "data-follow" not in shown, "it is over"


async def test_the_tokens_of_a_turn(cluster: Cluster) -> None:
    cluster.add_episode()
    await cluster.add_result()
    async with viewing(cluster) as client:
        shown = await page(client, f"{EPISODE}/turns/0/tokens")
        spans = re.findall(r'<span class="([^"]+)" title="([^"]+)">([^<]+)</span>', shown)
        assert [kind for kind, _, _ in spans] == [
            "inserted",
            "inserted",
            "loss loss-3",
            "gain gain-3",
        ]
        assert spans[2][1] == (
            "position 2, id 12, logprob -0.5000, teacher -1.5000, A_t -1.0000, weights step-1"
        )
        assert [text.strip() for _, _, text in spans] == ["10", "11", "12", "13"]
        assert "ids instead of texts" in shown and "count faster" in shown
        await page(client, f"{EPISODE}/turns/7/tokens", 404)


async def test_an_episode_at_work_is_followed(cluster: Cluster) -> None:
    cluster.add_episode()
    messages: list[dict[str, Any]] = [{"role": "user", "content": "count"}]
    async with viewing(cluster, {builders.UID: messages}.get) as client:
        shown = await page(client, EPISODE)
        assert f'data-follow="{EPISODE}/entries" data-seen="1"' in shown and "Running" in shown
        async with client.get(f"{EPISODE}/entries?from=0&seen=1") as nothing:
            assert (nothing.status, nothing.headers["X-Over"]) == (204, "0")
        messages.append({"role": "assistant", "content": ATTACK})
        async with client.get(f"{EPISODE}/entries?from=1&seen=1") as news:
            text = await news.text()
            assert (news.status, news.headers["X-Seen"]) == (200, "2")
        assert "turn 0" in text and "&lt;script&gt;" in text and "count" not in text
        async with client.get(f"/api{EPISODE}/conversation?seen=1") as answer:
            assert await answer.json() == {
                "over": False,
                "phase": "Running",
                "attempt": 0,
                "messages": [{"role": "assistant", "content": ATTACK}],
            }
        await cluster.add_result()
        async with client.get(f"{EPISODE}/entries?from=1&seen=2") as end:
            assert end.headers["X-Over"] == "1"
        assert "number" in await page(client, f"{EPISODE}/entries?from=-1", 400)


async def test_another_replica_is_asked_for_what_this_one_does_not_drive(cluster: Cluster) -> None:
    cluster.add_episode()
    async with viewing(cluster) as client:
        assert "another replica" in await page(client, EPISODE, 421)
        async with client.get(f"/api{EPISODE}/conversation") as answer:
            assert answer.status == 421
            assert (await answer.json())["phase"] == "Running"
        await page(client, f"{EPISODE}/entries", 421)


async def test_a_group_and_a_run(cluster: Cluster) -> None:
    for number, reward in enumerate((1.0, 0.0)):
        name = f"coding-000001-m{number}"
        await cluster.add_result(name=name, reward=reward)
        stored = cluster.server.objects[cluster.path("episoderesults", name)]
        stored["metadata"]["labels"] |= {
            EPISODE_NAME: name,
            RUN: "coding",
            GROUP_NAME: "coding-000001",
        }
    async with viewing(cluster) as client:
        shown = await page(client, f"/namespaces/{NAMESPACE}/groups/coding-000001")
        assert "mean reward 0.5" in shown and "+0.5" in shown and "-0.5" in shown
        assert shown.count("<section>") == 2 and "one two" in shown
        shown = await page(client, f"/namespaces/{NAMESPACE}/runs/coding")
        assert "1 groups" in shown and "<polyline" in shown and "Pending <b>2</b>" in shown
        for missing in ("groups/none", "runs/none"):
            assert "none" in await page(client, f"/namespaces/{NAMESPACE}/{missing}", 404)


async def test_what_is_not_there_or_cannot_be_read(cluster: Cluster) -> None:
    async with viewing(cluster) as client:
        assert "neither an Episode" in await page(client, EPISODE, 404)
        async with client.get(f"/api{EPISODE}/conversation") as answer:
            assert answer.status == 404 and "neither" in (await answer.json())["error"]
        await page(client, "/static/secrets", 404)
        await page(client, "/nothing", 404)
        cluster.server.refuse = lambda method, path: (403, "not yours")
        assert "not yours" in await page(client, "/", 502)


async def test_it_only_reads(cluster: Cluster) -> None:
    async with viewing(cluster) as client:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            async with client.request(method, EPISODE) as answer:
                assert answer.status == 405


async def test_a_foreign_name_for_the_loopback_is_refused(cluster: Cluster) -> None:
    async with viewing(cluster) as client:
        async with client.get("/", headers={"Host": "attacker.example"}) as answer:
            assert answer.status == 403 and "loopback" in await answer.text()
        async with client.get("/", headers={"Host": "localhost:9091"}) as answer:
            assert answer.status == 200


async def test_a_long_text_is_cut_and_the_rest_is_there(cluster: Cluster) -> None:
    cluster.add_episode()
    messages = [{"role": "assistant", "content": "a" * 4_000 + "b" * 60}]
    async with viewing(cluster, {builders.UID: messages}.get) as client:
        shown = await page(client, EPISODE)
    assert "60 more characters" in shown and "b" * 60 in shown


@pytest.mark.parametrize(
    "path",
    [
        "/namespaces/a%2F..%2F..%2Fb/episodes/hello",
        "/namespaces/default/episodes/..",
        "/namespaces/default/episodes/..%2Fconfigmaps%2Fsecret",
        "/namespaces/default/episodes/hello%3Fwatch=1",
        "/namespaces/Default/episodes/hello",
        "/?namespace=default/../../../../api/v1/namespaces/kube-system/secrets",
        "/?namespace=..",
    ],
)
async def test_names_lead_nowhere_else(cluster: Cluster, path: str) -> None:
    asked: list[str] = []
    cluster.server.on_get = asked.append
    async with viewing(cluster) as client, client.get(URL(path, encoded=True)) as answer:
        assert answer.status in (400, 404)
    assert asked == []
