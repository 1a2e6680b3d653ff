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
from tests.cluster import kubectl, operator_process
from tests.cluster.bridges import ScoringPolicy, Trainer, World
from tests.cluster.episodes import Episodes
from tests.testbed import stack
from tests.testbed.forward import forwarded


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Keep on one worker what shares a fixture of its module, so that it is made once."""
    grouped = [item for item in items if _shares(item)]
    for item in grouped:
        item.add_marker(pytest.mark.xdist_group(item.path.stem))
    yield
    if config.getoption("loadgroup", default=False):  # set by pytest-xdist in its workers
        scattered = [item.nodeid for item in grouped if not item.nodeid.endswith(item.path.stem)]
        assert not scattered, f"pytest-xdist did not take up the groups: {scattered[:3]}"


def _shares(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return any(fixture.scope == "module" for found in fixtures for fixture in found)


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
async def namespace() -> AsyncIterator[str]:
    """A namespace of the test's own, deleted afterwards."""
    async with kubectl.namespace() as name:
        yield name


@pytest.fixture
def episodes(client: KubernetesClient, namespace: str) -> Episodes:
    """Episodes in a namespace of the test's own."""
    return Episodes(client, namespace)


@pytest.fixture(scope="module")
async def shared(client: KubernetesClient) -> AsyncIterator[Episodes]:
    """Episodes in a namespace that the tests of a module share."""
    async with kubectl.namespace() as name:
        yield Episodes(client, name)


@pytest.fixture(scope="module")
async def no_other_operator() -> AsyncIterator[None]:
    """The testbed's own operator is stopped while the tests of a module run theirs."""
    async with operator_process.stopped():
        yield


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
