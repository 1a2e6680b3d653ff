"""A hostile agent in a real pod: what it tries fails, and its reward is the right one all the same.

Each attack is an Episode with the calls of the agent, what they must answer (which shows that the
attack was made, and how it failed) and the verdict that is right. The controls run the same attacks
without the protection: there they work.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import pytest

from episode_operator.kube.client import KubernetesClient
from tests.cluster.attacks import (
    evidence,
    image,
    kernel,
    loops,
    network,
    resources,
    runner,
    steering,
)
from tests.cluster.attacks.attack import FORGER, HIDDEN, IMAGE, Attack
from tests.cluster.attacks.network import ALLOWED, LISTENING, NAMES, RESOLVING, Reached
from tests.cluster.episodes import Ended, Episodes, scripted

ATTACKS: dict[str, Attack] = {
    **evidence.ATTACKS,
    **loops.ATTACKS,
    **steering.ATTACKS,
    **image.ATTACKS,
    **runner.ATTACKS,
    **kernel.ATTACKS,
    **resources.ATTACKS,
}
ATTEMPTS = [
    pytest.param(name, number, id=f"{name}: {attempt.name}")
    for name, attack in ATTACKS.items()
    for number, attempt in enumerate(attack.tried)
    if attempt.answer
]
_AT_ONCE = 6
_CLOSED = [(mode, name) for mode in ("None", "Public", "Allowlist") for name in NAMES]


@dataclass(frozen=True)
class Made:
    """An attack that was made: how its Episode ended, and what the agent's tools answered."""

    ended: Ended
    answers: list[str]


class Attacks:
    """The attacks of the selected tests, some at a time; a test waits only for its own."""

    def __init__(self, episodes: Episodes, names: Iterable[str]) -> None:
        self._episodes = episodes
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._runs = {
            name: [
                asyncio.create_task(self._make(f"{name}-{run}", ATTACKS[name]))
                for run in range(ATTACKS[name].runs)
            ]
            for name in names
        }

    async def made(self, name: str) -> list[Made]:
        """Each run of an attack."""
        return await asyncio.gather(*self._runs[name])

    async def stop(self) -> None:
        """End what still runs."""
        tasks = [task for runs in self._runs.values() for task in runs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _make(self, name: str, attack: Attack) -> Made:
        async with self._room:
            ended = await self._episodes.run(name, attack.episode())
        return Made(ended, await self._episodes.answers(ended))


@pytest.fixture(scope="module")
async def attacks(shared: Episodes, request: pytest.FixtureRequest) -> AsyncIterator[Attacks]:
    """The attacks, started."""
    selected = [
        str(item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and "attacks" in item.fixturenames
    ]
    started = Attacks(shared, dict.fromkeys(selected))
    yield started
    await started.stop()


@pytest.mark.parametrize("name", ATTACKS)
async def test_reward(attacks: Attacks, name: str) -> None:
    """The verdict is what the agent deserves, in every run, at the first attempt."""
    attack = ATTACKS[name]
    made = await attacks.made(name)
    assert len(made) == attack.runs
    for one in made:
        said = f"{one.ended.result.spec.message}\n{one.ended.result.spec.verifier_output}"
        verdict, reward, reason = one.ended.verdict
        assert (verdict, reason) == (attack.verdict[0], attack.verdict[2]), said
        assert reward == (None if attack.verdict[1] is None else pytest.approx(attack.verdict[1]))
        assert one.ended.episode.status.attempts == [], said


@pytest.mark.parametrize("name", ATTACKS)
async def test_nothing_of_it_is_left(attacks: Attacks, name: str) -> None:
    """No tool showed the tests, and nothing the agent left ran beside them."""
    attack = ATTACKS[name]
    for one in await attacks.made(name):
        output = one.ended.result.spec.verifier_output
        assert not any(HIDDEN in answer for answer in one.answers)
        assert attack.control or FORGER not in output, output
        assert re.search(attack.output, output), output
        assert one.ended.result.spec.artifacts_missing.keys() == attack.missing


@pytest.mark.parametrize(("name", "number"), ATTEMPTS)
async def test_attempt(attacks: Attacks, name: str, number: int) -> None:
    """The agent did try it, and this is what it saw."""
    attempt = ATTACKS[name].tried[number]
    for one in await attacks.made(name):
        assert re.search(attempt.answer, one.answers[number]), one.answers[number]


@pytest.fixture(scope="module")
async def reached(
    shared: Episodes, client: KubernetesClient, host_address: str
) -> dict[str, Reached]:
    """What is reached from a pod without a policy, and by an agent in each mode."""
    async with network.listening(
        namespace=shared.namespace, host=host_address, api_server=client.connection.base_url
    ) as targets:
        _, pod, port = targets["another pod by TCP"]
        allow = {"mode": "Allowlist", "allow": [{"cidr": f"{pod}/32", "ports": [port]}]}
        modes = {"none": {"mode": "None"}, "public": {"mode": "Public"}, "allowlist": allow}
        specs = {
            f"reaching-{name}": scripted(IMAGE, *network.calls(targets), sandbox={"network": mode})
            for name, mode in modes.items()
        }
        control = await network.reached_from("control", namespace=shared.namespace, targets=targets)
        ended = await shared.run_all(specs)
        answers = {name: await shared.answers(one) for name, one in ended.items()}
    return {
        "control": control,
        **{
            mode: json.loads(answers[f"reaching-{mode.lower()}"][-1])
            for mode in ("None", "Public", "Allowlist")
        },
    }


@pytest.mark.parametrize("name", LISTENING)
async def test_a_pod_without_a_policy_reaches(reached: dict[str, Reached], name: str) -> None:
    """The control: there is something to reach."""
    assert reached["control"][name].startswith("open"), reached["control"][name]


@pytest.mark.parametrize(("mode", "name"), _CLOSED)
async def test_network(reached: dict[str, Reached], mode: str, name: str) -> None:
    """An agent reaches only what its mode opens."""
    opened = {"None": set[str](), "Public": RESOLVING, "Allowlist": ALLOWED}[mode]
    assert reached[mode][name].startswith("open") == (name in opened), reached[mode][name]
