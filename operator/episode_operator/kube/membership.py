"""Which replica of the operator runs which Episode.

Each replica renews a Lease of its own. Those whose Leases change are the members, and each Episode
belongs to one of them, chosen by a hash of its uid: when a member comes or goes only its own share
moves. For some seconds two members may disagree. That costs time and doubles nothing: the later
session with a pod ends the earlier one, commands run at most once, and results have fixed names.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from episode_operator.api.labels import FIELD_MANAGER
from episode_operator.kube.client import LEASES, ApiError, KubernetesClient, Object
from episode_operator.kube.lease import lease

logger = logging.getLogger(__name__)

MEMBER_OF = "episodes.dev/member-of"
"""Label of the members' Leases: the installation that they are of."""

RENEW_SECONDS = 2.0
UNCHANGED_LOOKS = 4
"""A member is gone when its Lease was not renewed for so many looks, one each RENEW_SECONDS.

Looks are counted, not seconds: while the API server is away nobody is taken for gone."""
JOIN_SECONDS = 2 * RENEW_SECONDS
"""How long a new member lets the others let go of what is its share now."""


def owner(uid: str, members: Collection[str]) -> str | None:
    """The member that runs the Episode of this uid (rendezvous hashing); None without members."""
    return max(
        members,
        key=lambda member: hashlib.sha256(f"{member}/{uid}".encode()).digest(),
        default=None,
    )


@dataclass(frozen=True, slots=True)
class Replica:
    """This process among the replicas of an installation.

    Attributes:
        name: the pod's, unique in the namespace, and that of its Lease.
        uid: of the pod, with which its Lease goes; empty if this process has none.
        installation: what the replicas have in common.
    """

    name: str
    uid: str
    namespace: str
    installation: str


class Roll:
    """Tells members from those that are gone, by looks at their Leases."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, int]] = {}

    def look(self, versions: Mapping[str, str]) -> frozenset[str]:
        """The members now.

        Args:
            versions: the resource version of each Lease that there is, by its name.
        """
        before, self._seen = self._seen, {}
        for name, version in versions.items():
            seen, unchanged = before.get(name, ("", 0))
            self._seen[name] = (version, unchanged + 1 if version == seen else 0)
        return frozenset(
            name for name, (_, unchanged) in self._seen.items() if unchanged < UNCHANGED_LOOKS
        )


class Membership:
    """This replica's Lease, and what those of all replicas say.

    Attributes:
        members: names of the replicas that share the Episodes; none before this one has joined.
    """

    def __init__(self, client: KubernetesClient, replica: Replica) -> None:
        self._client = client
        self._replica = replica
        self._roll = Roll()
        self.members: frozenset[str] = frozenset()
        self._joins_at: float | None = None
        self._looks = 0
        self._looked = asyncio.Condition()

    def owns(self, uid: str) -> bool:
        """Whether the Episode of this uid is this replica's."""
        return owner(uid, self.members) == self._replica.name

    async def refreshed(self) -> None:
        """Return when all replicas have had time to renew and to look from now on."""
        wanted = self._looks + 2  # one of them may be under way
        async with self._looked:
            await self._looked.wait_for(lambda: self._looks >= wanted)

    async def run(self, on_change: Callable[[], None]) -> None:
        """Look for ever; `on_change` is called when the members have changed."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            before = self.members
            try:
                await self.look()
            except ApiError as error:
                logger.warning("the Leases of the replicas: %s", error)
            if self.members != before:
                on_change()

    async def look(self) -> None:
        """Renew this replica's Lease and look at all.

        Raises:
            ApiError: the API server does not let it.
        """
        await self._client.apply(LEASES, self._lease(), manager=FIELD_MANAGER)
        leases = await self._client.list(
            LEASES, self._replica.namespace, labels={MEMBER_OF: self._replica.installation}
        )
        versions = {
            found["metadata"]["name"]: found["metadata"]["resourceVersion"] for found in leases
        }
        members = self._roll.look(versions)
        if self._joins_at is None:
            others = members - {self._replica.name}
            self._joins_at = time.monotonic() + (JOIN_SECONDS if others else 0.0)
        if time.monotonic() >= self._joins_at and members != self.members:
            logger.info("replicas: %s", ", ".join(sorted(members)))
            self.members = members
        async with self._looked:
            self._looks += 1
            self._looked.notify_all()

    async def leave(self) -> None:
        """Let the others take over now. Nothing may run any more."""
        try:
            await self._client.delete(LEASES, self._replica.namespace, self._replica.name)
        except ApiError as error:  # they find out by themselves
            logger.warning("the Lease of this replica: %s", error)

    def _lease(self) -> Object:
        replica = self._replica
        pod = {"apiVersion": "v1", "kind": "Pod", "name": replica.name, "uid": replica.uid}
        owners = [pod] if replica.uid else []
        metadata: Object = {
            "name": replica.name,
            "namespace": replica.namespace,
            "labels": {MEMBER_OF: replica.installation},
            "ownerReferences": owners,
        }
        duration = int(UNCHANGED_LOOKS * RENEW_SECONDS)
        return lease(metadata, holder=replica.name, duration_seconds=duration)
