"""Who runs which Episode, of several replicas."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from episode_operator.kube import membership
from episode_operator.kube.client import LEASES, KubernetesClient
from episode_operator.kube.membership import UNCHANGED_LOOKS, Membership, Replica, Roll, owner
from tests.fakes.kubernetes_server import KubernetesServer
from tests.unit import records

UIDS = [f"uid-{number}" for number in range(3000)]


def test_every_episode_has_one_owner_and_each_member_about_as_many() -> None:
    owners = [owner(uid, ["a", "b", "c"]) for uid in UIDS]
    assert owners == [owner(uid, ["c", "a", "b"]) for uid in UIDS]
    for member in "abc":
        assert 0.28 < owners.count(member) / len(UIDS) < 0.38


def test_only_the_share_of_the_one_that_goes_moves() -> None:
    before = {uid: owner(uid, ["a", "b", "c"]) for uid in UIDS}
    after = {uid: owner(uid, ["a", "c"]) for uid in UIDS}
    moved = {uid for uid in UIDS if before[uid] != after[uid]}
    assert moved == {uid for uid in UIDS if before[uid] == "b"}
    assert {after[uid] for uid in moved} == {"a", "c"}


def test_without_members_nobody_owns_anything() -> None:
    assert owner("uid", []) is None


def test_a_lease_that_changes_no_more_is_of_a_member_that_is_gone() -> None:
    roll = Roll()
    for look in range(UNCHANGED_LOOKS):
        assert roll.look({"a": str(look), "b": "1"}) == {"a", "b"}
    assert roll.look({"a": "new", "b": "1"}) == {"a"}
    assert roll.look({"a": "newer", "b": "2"}) == {"a", "b"}, "it is back"
    assert roll.look({"a": "newest"}) == {"a"}, "a Lease that is deleted ends it at once"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubernetesServer]:
    monkeypatch.setattr(membership, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(membership, "JOIN_SECONDS", 0.04)
    async with KubernetesServer.running() as running:
        yield running


class Member:
    """A replica with a client and a task of its own."""

    def __init__(self, server: KubernetesServer, name: str, installation: str = "episodes") -> None:
        self.client = KubernetesClient(records.connection(server))
        self.membership = Membership(
            self.client, Replica(name, f"uid-of-{name}", "default", installation)
        )
        self.changes = 0
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.membership.look()
        self._running = asyncio.create_task(self.membership.run(self._changed))

    def _changed(self) -> None:
        self.changes += 1

    async def stop(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def sees(self, *names: str) -> None:
        async with asyncio.timeout(10):
            while self.membership.members != set(names):
                await asyncio.sleep(0.005)


@pytest.fixture
async def members(server: KubernetesServer) -> AsyncIterator[tuple[Member, Member]]:
    a, b = Member(server, "a"), Member(server, "b")
    await a.start()
    assert a.membership.members == {"a"}, "without others it waits for nobody"
    await b.start()
    assert b.membership.members == frozenset(), "the other has not yet let go of anything"
    await asyncio.gather(a.sees("a", "b"), b.sees("a", "b"))
    yield a, b
    for one in (a, b):
        await one.stop()
        await one.client.close()


async def test_two_replicas_share_all_episodes(members: tuple[Member, Member]) -> None:
    a, b = (one.membership for one in members)
    assert all(a.owns(uid) != b.owns(uid) for uid in UIDS)
    assert any(map(a.owns, UIDS)) and any(map(b.owns, UIDS))
    assert [one.changes for one in members] == [1, 1]


async def test_one_that_was_killed_is_followed_by_the_other(
    members: tuple[Member, Member],
) -> None:
    a, b = members
    await b.stop()
    await a.sees("a")
    assert all(map(a.membership.owns, UIDS))
    assert a.changes == 2


async def test_one_that_leaves_is_followed_at_once(
    members: tuple[Member, Member], server: KubernetesServer
) -> None:
    a, b = members
    await b.stop()
    await b.membership.leave()
    assert list(server.objects) == [LEASES.path("default", "a")]
    looks = asyncio.create_task(a.membership.refreshed())
    await looks
    assert a.membership.members == {"a"}


async def test_while_the_api_server_is_away_nobody_is_gone(
    members: tuple[Member, Member], server: KubernetesServer
) -> None:
    a, b = members
    server.refuse = lambda method, path: (403, "away")
    await asyncio.sleep(0.02 * (UNCHANGED_LOOKS + 3))
    server.refuse = lambda method, path: None
    await a.membership.refreshed()
    assert a.membership.members == b.membership.members == {"a", "b"}
    assert [one.changes for one in members] == [1, 1]


async def test_other_installations_are_no_members(
    members: tuple[Member, Member], server: KubernetesServer
) -> None:
    other = Member(server, "c", "others")
    await other.start()
    assert other.membership.members == {"c"}
    await members[0].membership.refreshed()
    assert members[0].membership.members == {"a", "b"}
    await other.stop()
    await other.client.close()


async def test_a_lease_goes_with_its_pod(
    members: tuple[Member, Member], server: KubernetesServer
) -> None:
    lease = server.objects[LEASES.path("default", "a")]
    assert lease["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-of-a"}
    ]
    assert lease["spec"]["holderIdentity"] == "a"
