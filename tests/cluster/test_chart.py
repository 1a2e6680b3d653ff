"""The installed chart: its pods, its policies, its test, and what the API server takes of it."""

import asyncio

import aiohttp
import pytest
import yaml

from tests.chart.cases import CASES, MONITORED, manifests
from tests.chart.queries import metrics, queries
from tests.cluster import kubectl
from tests.testbed import stack


@pytest.mark.parametrize("name", [stack.RELEASE, stack.MODEL_SERVICE])
async def test_the_charts_pods_let_in_only_who_is_named(name: str) -> None:
    policy = await kubectl.get("networkpolicy", name, namespace=stack.NAMESPACE)
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"]
    (port,) = rule["ports"]
    assert port["port"] == {stack.RELEASE: 9090, stack.MODEL_SERVICE: 8000}[name]


async def test_the_operator_runs_without_root_on_a_read_only_file_system() -> None:
    (pod,) = await kubectl.items(
        "pods", namespace=stack.NAMESPACE, selector="app.kubernetes.io/component=operator"
    )
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert "@sha256:" in container["image"]


@pytest.mark.parametrize("case", sorted(CASES.keys() - MONITORED - {"namespaces"}))
async def test_the_api_server_takes_what_the_chart_makes(case: str) -> None:
    """Left out: kinds of the Prometheus operator, Roles in namespaces that do not exist, the pod
    of `helm test`, which needs its service account."""
    made = [one for one in await asyncio.to_thread(manifests, case) if one["kind"] != "Pod"]
    flags = ("--dry-run=server", "--server-side", "--force-conflicts")
    ran = await kubectl.run("apply", *flags, "-f", "-", stdin=yaml.safe_dump_all(made))
    assert ran.code == 0, ran.stderr


async def test_helm_tests_the_release() -> None:
    helm = await asyncio.create_subprocess_exec(
        *("helm", "test", stack.RELEASE, "--namespace", stack.NAMESPACE, "--logs"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await helm.communicate()
    assert helm.returncode == 0, output.decode()
    left = await kubectl.run("get", "role", f"{stack.RELEASE}-test", "-n", stack.NAMESPACE)
    assert "NotFound" in left.stderr, "its rights are taken away"


async def test_vllm_has_the_metrics_that_the_dashboard_asks_for(vllm_url: str) -> None:
    asked = {name for _, query in queries() for name in metrics(query) if name.startswith("vllm:")}
    async with aiohttp.request("GET", f"{vllm_url}/metrics") as response:
        served = await response.text()
    assert asked and not {name for name in asked if f"# TYPE {name} " not in served}
