"""Who reaches whom, and that Services, policies and owners find their pods."""

from typing import Any

import pytest
import yaml

from tests.chart.cases import (
    CASES,
    NAMESPACE,
    RELEASE,
    TRAINER,
    matching,
    named,
    of_kind,
    pods,
)

every_case = pytest.mark.parametrize("case", CASES)
OPERATOR_IS_ASKED_BY = [
    {
        "namespaceSelector": {},
        "podSelector": {
            "matchExpressions": [{"key": "episodes.dev/episode-uid", "operator": "DoesNotExist"}]
        },
    }
]


def component(name: str) -> dict[str, Any]:
    """The peer that is a component of the release."""
    labels = {"app.kubernetes.io/instance": RELEASE, "app.kubernetes.io/component": name}
    return {"podSelector": {"matchLabels": labels}}


def ports_of(pod: dict[str, Any]) -> dict[str, int]:
    (container,) = pod["spec"]["containers"]
    return {port["name"]: port["containerPort"] for port in container.get("ports", [])}


@every_case
def test_every_component_has_one_network_policy(case: str) -> None:
    policies = of_kind(case, "NetworkPolicy")
    closed = [matching(one["spec"]["podSelector"]["matchLabels"], case) for one in policies]
    assert sorted(closed) == sorted([one] for one in pods(case))
    assert all("Ingress" in one["spec"]["policyTypes"] for one in policies)


@every_case
def test_owners_select_the_pods_that_they_make(case: str) -> None:
    for owner in of_kind(case, "Deployment"):
        template = owner["spec"]["template"]["metadata"]["labels"]
        selector = owner["spec"]["selector"]["matchLabels"]
        assert selector.items() <= template.items()
        assert matching(selector, case) == [template["app.kubernetes.io/component"]]


@every_case
def test_services_lead_to_a_port_of_one_component(case: str) -> None:
    for service in of_kind(case, "Service"):
        (found,) = matching(service["spec"]["selector"], case)
        assert service["metadata"]["labels"]["app.kubernetes.io/component"] == found
        (port,) = service["spec"]["ports"]
        assert ports_of(pods(case)[found])[port["targetPort"]] == port["port"]


@every_case
def test_policies_open_ports_that_there_are(case: str) -> None:
    for policy in of_kind(case, "NetworkPolicy"):
        (found,) = matching(policy["spec"]["podSelector"]["matchLabels"], case)
        for rule in policy["spec"]["ingress"]:
            assert rule["from"], "an empty list would open the port to everyone"
            assert {port["port"] for port in rule["ports"]} <= set(
                ports_of(pods(case)[found]).values()
            )


@pytest.mark.parametrize(
    ("name", "port", "peers"),
    [
        (RELEASE, 9090, OPERATOR_IS_ASKED_BY),
        (f"{RELEASE}-bridge", 9090, OPERATOR_IS_ASKED_BY),
        (f"{RELEASE}-vllm", 8000, [component("operator")]),
        (f"{RELEASE}-atropos", 8000, [component("bridge"), *TRAINER]),
    ],
)
def test_only_who_is_named_gets_in(name: str, port: int, peers: list[Any]) -> None:
    (rule,) = named("Atropos", "NetworkPolicy", name)["spec"]["ingress"]
    assert rule["from"] == peers
    assert rule["ports"] == [{"protocol": "TCP", "port": port}]


def test_nobody_gets_in_where_nobody_is_named() -> None:
    for case, name in (
        ("metrics for nobody", RELEASE),
        ("bridge with volumes", f"{RELEASE}-bridge"),
        ("defaults", f"{RELEASE}-test"),
    ):
        assert named(case, "NetworkPolicy", name)["spec"]["ingress"] == []


def test_atropos_calls_nobody_and_the_bridge_calls_it() -> None:
    policy = named("Atropos", "NetworkPolicy", f"{RELEASE}-atropos")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == []
    egress = named("Atropos", "NetworkPolicy", f"{RELEASE}-bridge")["spec"]["egress"]
    assert {"to": [component("atropos")], "ports": [{"protocol": "TCP", "port": 8000}]} in egress


@pytest.mark.parametrize(
    ("case", "url"),
    [
        ("Atropos", f"http://{RELEASE}-atropos.{NAMESPACE}.svc:8000"),
        ("bridge", "http://atropos:8000"),
    ],
)
def test_the_bridge_delivers_to_the_releases_own_server_unless_told(case: str, url: str) -> None:
    file = named(case, "ConfigMap", f"{RELEASE}-bridge")["data"]["config.yaml"]
    assert yaml.safe_load(file)["sink"] == {"kind": "atropos", "url": url}


def test_affinity_is_off_unless_asked_for() -> None:
    name = f"{RELEASE}-vllm"
    assert named("model server", "Service", name)["spec"]["sessionAffinity"] == "None"
    assert named("replicas", "Service", name)["spec"]["sessionAffinity"] == "ClientIP"


@every_case
def test_a_budget_only_where_there_may_be_several_and_never_one_that_blocks(case: str) -> None:
    several = [
        [component]
        for component in ("operator", "vllm")
        if (values := CASES[case].get(component, {})).get("replicas", 1) > 1
        or "autoscaling" in values
    ]
    budgets = of_kind(case, "PodDisruptionBudget")
    assert [matching(one["spec"]["selector"]["matchLabels"], case) for one in budgets] == several
    assert all(one["spec"]["maxUnavailable"] == 1 for one in budgets)


def test_an_autoscaler_alone_decides_the_replicas() -> None:
    (scaler,) = of_kind("autoscaled", "HorizontalPodAutoscaler")
    target = scaler["spec"]["scaleTargetRef"]
    deployment = named("autoscaled", target["kind"], target["name"])
    assert "replicas" not in deployment["spec"]
    assert scaler["spec"]["metrics"] == CASES["autoscaled"]["vllm"]["autoscaling"]["metrics"]
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (1, 8)


def test_what_runs_once_is_never_there_twice() -> None:
    for deployment in of_kind("everything", "Deployment"):
        name = deployment["metadata"]["name"]
        if name not in {RELEASE, f"{RELEASE}-vllm"}:
            assert deployment["spec"]["replicas"] == 1, name
            assert deployment["spec"]["strategy"] == {"type": "Recreate"}, name
