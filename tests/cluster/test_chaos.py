"""A small run of `make chaos`, always the same: every fault once."""

from random import Random

import pytest

from episode_operator.kube.client import KubernetesClient
from tests.chaos import report
from tests.chaos.faults import FAULTS, World
from tests.chaos.known import Images
from tests.chaos.model import ModelServer
from tests.chaos.plan import plan
from tests.chaos.run import run

pytestmark = pytest.mark.alone

SEED = 4


async def test_every_fault_once(
    client: KubernetesClient, namespace: str, image: str, busybox: str, host_address: str
) -> None:
    """Nothing is wrong, lost, doubled or leaked, and the faults did strike."""
    async with ModelServer.running(host_address) as server:
        planned = plan(len(FAULTS), Random(SEED), FAULTS, Images(image, busybox), server)
        outcomes = await run(
            World(client, namespace), planned, at_a_time=7, say=lambda _ended, _waiting: None
        )
    assert report.bad(outcomes) == []
    counted = report.counts(outcomes)
    assert counted["gave up"] == 0
    assert counted["struck"] >= len(FAULTS) - 1
    retried = {o.planned.fault.name for o in outcomes if o.retried}
    assert {"pod deleted while the agent acts", "pod evicted", "out of memory"} <= retried
