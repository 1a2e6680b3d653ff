"""The installed chart: the operator may do what it needs, and nothing else."""

import asyncio
import shutil

import pytest

from tests.cluster import kubectl
from tests.testbed import chart, stack

ACCOUNT = f"system:serviceaccount:{stack.NAMESPACE}:{stack.RELEASE}"

ALLOWED = (
    "watch episodes.episodes.dev",
    "patch episodes.episodes.dev --subresource=status",
    "create episoderesults.episodes.dev",
    "delete episoderesults.episodes.dev",
    "patch episoderesults.episodes.dev --subresource=status",
    "list events",
    "watch events",
    "create pods",
    "delete pods",
    "create pods --subresource=exec",
    "create networkpolicies.networking.k8s.io",
    "list networkpolicies.networking.k8s.io",
    "delete networkpolicies.networking.k8s.io",
    "get endpointslices.discovery.k8s.io/kubernetes",
    "get configmaps",
)
FORBIDDEN = (
    "get secrets",
    "list secrets",
    "patch episodes.episodes.dev",
    "create episodes.episodes.dev",
    "patch episoderesults.episodes.dev",
    "create deployments.apps",
    "create serviceaccounts",
    "create clusterrolebindings.rbac.authorization.k8s.io",
    "escalate clusterroles.rbac.authorization.k8s.io",
    "impersonate users",
    "delete namespaces",
    "delete configmaps",
    "get nodes",
    "patch networkpolicies.networking.k8s.io",
    "list endpointslices.discovery.k8s.io",
    "get endpointslices.discovery.k8s.io/another",
    "create pods --subresource=attach",
    "* *",
)
BRIDGE = (
    "bridge.enabled=true",
    "bridge.config.run=maths",
    "bridge.config.tasks.builtin=coding",
    "bridge.config.sink.kind=atropos",
    "bridge.config.sink.url=http://atropos:8000",
)
"""Values of a release with a bridge."""


async def _may(question: str) -> bool:
    ran = await kubectl.run("auth", "can-i", *question.split(), f"--as={ACCOUNT}", "-n", "default")
    return ran.stdout.strip() == "yes"


@pytest.mark.parametrize("question", ALLOWED)
async def test_the_operator_may(question: str) -> None:
    assert await _may(question)


@pytest.mark.parametrize("question", FORBIDDEN)
async def test_the_operator_may_not(question: str) -> None:
    assert not await _may(question)


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


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("vllm.enabled=true",),
        ("vllm.enabled=true", "vllm.gpus=4", "vllm.maxModelLen=32768"),
        ("operator.watchNamespaces={team-a,team-b}", "operator.secretReferences=true"),
        ("operator.ignoreNamespaces={staging,staging-*}",),
        ("crds.install=false",),
        ("operator.sandbox.blockedCIDRs={203.0.113.0/24}",),
        ("operator.networkPolicy.from=null",),
        (
            "operator.tracing.endpoint=http://collector.observability:4318",
            "operator.tracing.env[0].name=OTEL_EXPORTER_OTLP_HEADERS",
            "operator.tracing.env[0].valueFrom.secretKeyRef.name=collector",
            "operator.tracing.env[0].valueFrom.secretKeyRef.key=headers",
        ),
        ("objectStore.url=s3://results/episodes", "objectStore.secretName=results"),
        (
            "objectStore.url=file:///results",
            "objectStore.volume.persistentVolumeClaim.claimName=results",
        ),
        ("vllm.enabled=true", "vllm.networkPolicy.from[0].podSelector.matchLabels.app=trainer"),
        BRIDGE,
        (*BRIDGE, "operator.enabled=false", "crds.install=false", "bridge.mode=process"),
        (*BRIDGE, "bridge.mode=evaluate", "bridge.extraArgs={--label=first}"),
        (*BRIDGE, "bridge.config.metrics_port=null"),
        (
            *BRIDGE,
            "bridge.envFrom[0].secretRef.name=wandb",
            "bridge.extraVolumes[0].name=tasks",
            "bridge.extraVolumes[0].persistentVolumeClaim.claimName=tasks",
            "bridge.extraVolumeMounts[0].name=tasks",
            "bridge.extraVolumeMounts[0].mountPath=/tasks",
            "bridge.networkPolicy.apiServer.cidrs={192.0.2.1/32}",
            "bridge.networkPolicy.from=null",
            "bridge.networkPolicy.to=null",
        ),
    ],
)
async def test_the_chart_lints_and_the_api_server_takes_it(values: tuple[str, ...]) -> None:
    helm = shutil.which("helm")
    assert helm, "the testbed builds helm"
    settings = [f"--set={value}" for value in values]
    linted = await asyncio.create_subprocess_exec(
        helm, "lint", "--strict", str(chart.CHART), *settings, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await linted.communicate()
    assert linted.returncode == 0, output.decode()
    rendered = await asyncio.create_subprocess_exec(
        helm,
        "template",
        "x",
        str(chart.CHART),
        "--kube-version=1.34.0",
        "--namespace=default",
        *settings,
        stdout=asyncio.subprocess.PIPE,
    )
    manifests, _ = await rendered.communicate()
    assert rendered.returncode == 0
    if any("watchNamespaces" in value for value in values):
        return  # the API server would refuse roles in namespaces that do not exist
    ran = await kubectl.run(
        "apply",
        "--dry-run=server",
        "--server-side",
        "--force-conflicts",
        "-f",
        "-",
        stdin=manifests.decode(),
    )
    assert ran.code == 0, ran.stderr


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        (("bridge.enabled=true",), "bridge.config.run must be set"),
        ((*BRIDGE, "bridge.config.sink=null"), "bridge.config.sink must be set"),
        ((*BRIDGE, "bridge.mode=train"), "bridge.mode is serve, process or evaluate, not train"),
    ],
)
async def test_the_chart_says_what_a_bridge_lacks(values: tuple[str, ...], refusal: str) -> None:
    rendered = await asyncio.create_subprocess_exec(
        *("helm", "template", "x", str(chart.CHART), "--kube-version=1.34.0"),
        *(f"--set={value}" for value in values),
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await rendered.communicate()
    assert rendered.returncode != 0
    assert refusal in told.decode()
