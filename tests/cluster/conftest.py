"""Fixtures on the real cluster. They never skip: without a cluster every test here fails."""

import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import aiohttp
import pytest

from episode_operator.kube import connection
from episode_operator.kube.client import KubernetesClient
from tests.atropos import server
from tests.atropos.peers import Peers
from tests.cluster.bridges import ScoringPolicy, Trainer, World
from tests.cluster.episodes import Ended, Episodes
from tests.cluster.verifications import CASES
from tests.testbed import stack
from tests.testbed.forward import forwarded

_MODEL_SERVER = {"model", "vllm_url"}
"""Fixtures of the testbed's model server: some tests pause it, or change its weights."""

_FIRST = ["vllm", "test_attacks", "test_reasons", "verified", "test_images"]
"""Groups that take long: the run ends with them if they start late."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Keep on one worker, in turn, what needs the model server for itself or shares a fixture."""
    items.sort(key=_place)
    grouped = [(item, group) for item in items if (group := _group(item))]
    for item, group in grouped:
        item.add_marker(pytest.mark.xdist_group(group))
    yield
    if config.getoption("loadgroup", default=False):  # set by pytest-xdist in its workers
        scattered = [item.nodeid for item, group in grouped if not item.nodeid.endswith(group)]
        assert not scattered, f"pytest-xdist did not take up the groups: {scattered[:3]}"


def _group(item: pytest.Item) -> str | None:
    assert isinstance(item, pytest.Function)
    if _MODEL_SERVER & {*item.fixturenames}:
        return "vllm"
    if "verified" in item.fixturenames:
        return "verified"
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    shares = any(fixture.scope == "module" for found in fixtures for fixture in found)
    return item.path.stem if shares else None


def _place(item: pytest.Item) -> int:
    group = _group(item)
    return _FIRST.index(group) if group in _FIRST else len(_FIRST)


def _required(name: str) -> str:
    value = os.environ.get(name)
    assert value, f"{name} is not set: `make test` brings the testbed up and sets it"
    return value


@pytest.fixture(scope="session")
async def client() -> AsyncIterator[KubernetesClient]:
    """A client of the cluster, as its administrator."""
    _required("KUBECONFIG")
    async with KubernetesClient(await connection.load()) as found:
        yield found


@pytest.fixture
async def episodes(client: KubernetesClient) -> AsyncIterator[Episodes]:
    """Episodes in a namespace of the test's own."""
    async with Episodes.in_namespace(client) as found:
        yield found


@pytest.fixture
def namespace(episodes: Episodes) -> str:
    """A namespace of the test's own."""
    return episodes.namespace


@pytest.fixture(scope="module")
async def shared(client: KubernetesClient) -> AsyncIterator[Episodes]:
    """Episodes in a namespace that the tests of a module share."""
    async with Episodes.in_namespace(client) as found:
        yield found


@pytest.fixture
async def unwatched(client: KubernetesClient) -> AsyncIterator[Episodes]:
    """Episodes that the testbed's operator leaves to one that the test runs."""
    async with Episodes.in_namespace(client, stack.UNWATCHED) as found:
        yield found


@pytest.fixture(scope="module")
async def shared_unwatched(client: KubernetesClient) -> AsyncIterator[Episodes]:
    """The same, of a module whose tests share them."""
    async with Episodes.in_namespace(client, stack.UNWATCHED) as found:
        yield found


@pytest.fixture(scope="session")
def image() -> str:
    """The task image with Python and pytest."""
    return _required("TASK_IMAGE")


@pytest.fixture(scope="session")
def busybox() -> str:
    """The task image with nothing but busybox, and a PATH of its own."""
    return _required("BUSYBOX_IMAGE")


@pytest.fixture(scope="session")
def runner_image() -> str:
    """The image that carries the runner."""
    return _required("RUNNER_IMAGE")


@pytest.fixture(scope="session")
def host_address() -> str:
    """An address of this machine that pods reach."""
    return _required("HOST_ADDRESS")


@pytest.fixture(scope="session")
def model() -> dict[str, object]:
    """`spec.model` of the testbed's model server, greedy or not as the test says."""
    return {"endpoint": _required("MODEL_ENDPOINT"), "name": _required("MODEL_NAME")}


@pytest.fixture(scope="session")
async def vllm_url() -> AsyncIterator[str]:
    """The testbed's vLLM as this machine reaches it."""
    async with forwarded(
        stack.MODEL_SERVICE, 8000, namespace=stack.NAMESPACE, env=os.environ
    ) as url:
        os.environ["EPISODE_VLLM_URL"] = url
        yield url


@pytest.fixture(scope="session")
async def verified(client: KubernetesClient, image: str, busybox: str) -> dict[str, Ended]:
    """The cases of tests/cluster/verifications.py, run at once."""
    async with Episodes.in_namespace(client) as episodes:
        return await episodes.run_all({name: spec for name, (spec, _) in CASES.items()})


@pytest.fixture(scope="session")
def local_model(model: dict[str, object], vllm_url: str) -> dict[str, object]:
    """`model` for an operator that runs on this machine."""
    return {**model, "endpoint": vllm_url}


@pytest.fixture
async def world(
    client: KubernetesClient, namespace: str, host_address: str, tmp_path: Path
) -> AsyncIterator[World]:
    """A policy that the operator's pod reaches, the real server, a trainer that has not started."""
    async with (
        ScoringPolicy.running(host_address) as policy,
        server.running(tmp_path / "atropos.log") as atropos,
        aiohttp.ClientSession() as http,
    ):
        yield World(client, namespace, policy, atropos, Trainer(Peers(http, atropos.url)))
