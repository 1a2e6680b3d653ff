"""The pod and the policy, for each kind of task and network."""

from typing import Any

import pytest

from episode_operator.api.sandbox import quantity
from episode_operator.sandbox.network import probe_address
from episode_operator.sandbox.pod import SandboxSettings, build_network_policy, build_pod
from tests.unit.builders import episode, spec

SETTINGS = SandboxSettings(runner_image="registry.test/runner:1")
TASK: dict[str, Any] = {
    "image": "registry.test/task:1",
    "instruction": "x",
    "solution": {"script": "true"},
}


def pod_spec(**overrides: Any) -> dict[str, Any]:
    made: dict[str, Any] = build_pod(episode(**overrides), 0, SETTINGS)["spec"]
    return made


def egress(network: dict[str, Any]) -> list[dict[str, Any]]:
    policy = build_network_policy(episode(sandbox={"network": network}))
    assert policy["spec"]["ingress"] == []
    assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    rules: list[dict[str, Any]] = policy["spec"]["egress"]
    return rules


def test_the_same_attempt_has_the_same_name_and_another_one_another() -> None:
    names = [build_pod(episode(), n, SETTINGS)["metadata"]["name"] for n in (0, 0, 1)]
    assert names == ["hello-a0", "hello-a0", "hello-a1"]


def test_a_root_task_gets_what_package_managers_need_and_no_more() -> None:
    capabilities = pod_spec()["containers"][0]["securityContext"]["capabilities"]
    assert capabilities["drop"] == ["ALL"]
    assert "SYS_ADMIN" not in capabilities["add"]
    assert "NET_RAW" not in capabilities["add"]
    assert "SYS_PTRACE" not in capabilities["add"]


def test_a_task_with_a_user_gets_no_capability() -> None:
    context = pod_spec(task={**TASK, "user": 1000})["containers"][0]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["runAsUser"] == 1000
    assert context["runAsNonRoot"] is True


def test_user_labels_never_replace_the_operators() -> None:
    labels = build_pod(
        episode(sandbox={"labels": {"kueue.x-k8s.io/queue-name": "gpu"}}), 3, SETTINGS
    )["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "gpu"
    assert labels["episodes.dev/attempt"] == "3"


def test_a_closed_sandbox_has_no_resolver() -> None:
    made = pod_spec()
    assert made["dnsPolicy"] == "None"
    assert egress({"mode": "None"}) == []


def test_an_allowlist_opens_its_blocks_and_ports_only() -> None:
    rules = egress({"mode": "Allowlist", "allow": [{"cidr": "10.1.0.0/16", "ports": [443]}]})
    assert rules == [
        {
            "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
            "ports": [{"protocol": "TCP", "port": 443}],
        }
    ]


def test_public_leaves_private_addresses_out() -> None:
    block = egress({"mode": "Public"})[0]["to"][0]["ipBlock"]
    assert block["cidr"] == "0.0.0.0/0"
    assert {"10.0.0.0/8", "169.254.0.0/16"} <= set(block["except"])


def test_the_pod_outlives_every_step_of_its_episode() -> None:
    made = spec()
    limit = pod_spec()["activeDeadlineSeconds"]
    assert limit > made.agent.timeout_seconds + made.verifier.timeout_seconds


@pytest.mark.parametrize(
    ("url", "address"),
    [("https://10.0.0.1", "10.0.0.1:443"), ("https://api.test:6443/x", "api.test:6443")],
)
def test_probe_address(url: str, address: str) -> None:
    assert probe_address(url) == address


def test_requests_never_pass_the_limits() -> None:
    small = {"resources": {"cpu": "20m", "memory": "32Mi", "memoryRequest": "0.5Gi"}}
    assert pod_spec(sandbox=small)["containers"][0]["resources"]["requests"] == {
        "cpu": "20m",
        "memory": "32Mi",
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("500m", 0.5), ("1.5", 1.5), ("2k", 2000), ("1Ki", 1024), ("1.5Gi", 1.5 * 2**30)],
)
def test_quantity(text: str, value: float) -> None:
    assert float(quantity(text)) == value


def test_policies_of_episodes_of_one_name_differ() -> None:
    first, second = episode(), episode()
    second.metadata["uid"] = "another-uid"
    names = {build_network_policy(e)["metadata"]["name"] for e in (first, second)}
    assert len(names) == 2
