"""The network policies, and the address by which they are checked."""

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.kube.client import CILIUM_NETWORK_POLICIES, NETWORK_POLICIES
from episode_operator.sandbox.network import Cluster, Endpoint, probe_address
from episode_operator.sandbox.policy import HostsNeedCilium, policies
from tests.unit.builders import UID, episode

Object = dict[str, Any]

SERVICE = Endpoint(ip_address("10.96.0.1"), 443)
BEHIND = Endpoint(ip_address("203.0.113.7"), 6443)
CLUSTER = Cluster((SERVICE, BEHIND))
CILIUM = Cluster((SERVICE, BEHIND), cilium=True)
PRIVATE = ("10.0.0.1", "100.64.0.1", "169.254.169.254", "172.16.0.1", "192.168.1.1", "fd00::1")
BLOCKS = st.one_of(
    st.ip_addresses(v=4, network="198.0.0.0/7"), st.ip_addresses(v=6, network="2000::/3")
).flatmap(
    lambda address: st.integers(1, address.max_prefixlen).map(
        lambda length: str(ip_network(f"{address}/{length}", strict=False))
    )
)


def allowlist(*rules: Object) -> Object:
    return {"mode": "Allowlist", "allow": list(rules)}


def network_policy(network: Object, *, blocked: list[str] | None = None, **more: Any) -> Object:
    made = policies(
        episode(sandbox={"network": network}, **more), CLUSTER, blocked_cidrs=blocked or ()
    )
    ((resource, body),) = made
    assert resource is NETWORK_POLICIES
    return body


def egress(network: Object, **more: Any) -> list[Object]:
    rules: list[Object] = network_policy(network, **more)["spec"]["egress"]
    return rules


def opens(rules: list[Object], address: str) -> bool:
    """Whether a block of the rules contains the address."""
    found = ip_address(address)
    blocks = [peer["ipBlock"] for rule in rules for peer in rule["to"] if "ipBlock" in peer]
    return any(
        found in ip_network(block["cidr"])
        and not any(found in ip_network(other) for other in block.get("except", []))
        for block in blocks
    )


@pytest.mark.parametrize(
    "network", [{}, {"mode": "Public"}, allowlist({"cidr": "10.0.0.0/8"})], ids=str
)
def test_nothing_comes_in_and_only_what_is_said_goes_out(network: Object) -> None:
    spec = network_policy(network)["spec"]
    assert spec["podSelector"] == {"matchLabels": {"episodes.dev/episode-uid": UID}}
    assert spec["ingress"] == []
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}


def test_a_closed_sandbox_reaches_nothing() -> None:
    assert egress({"mode": "None"}) == []


def test_an_allowlist_opens_its_blocks_and_ports_only() -> None:
    assert egress(
        allowlist(
            {"cidr": "10.1.0.7/16", "ports": [443, 80]},
            {"cidr": "fd00::/8", "protocol": "UDP"},
        )
    ) == [
        {
            "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
            "ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 80}],
        },
        {"to": [{"ipBlock": {"cidr": "fd00::/8"}}], "ports": [{"protocol": "UDP"}]},
    ]


@pytest.mark.parametrize(("namespace", "found"), [(None, "default"), ("data", "data")])
def test_an_allowlist_opens_pods_of_one_namespace(namespace: str | None, found: str) -> None:
    pods: Object = {"matchLabels": {"app": "db"}}
    if namespace is not None:
        pods["namespace"] = namespace
    (rule,) = egress(allowlist({"pods": pods, "ports": [5432]}))
    (peer,) = rule["to"]
    assert peer == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": found}},
        "podSelector": {"matchLabels": {"app": "db"}},
    }


def test_public_opens_the_internet_of_both_families_and_dns() -> None:
    rules = egress({"mode": "Public"})
    assert opens(rules, "1.1.1.1")
    assert opens(rules, "2606:4700::1111")
    ports = [port for rule in rules for port in rule.get("ports", [])]
    assert ports == [{"protocol": "TCP", "port": 53}, {"protocol": "UDP", "port": 53}]


@pytest.mark.parametrize("address", [*PRIVATE, "203.0.113.7"])
def test_public_opens_neither_private_addresses_nor_the_api_server(address: str) -> None:
    assert not opens(egress({"mode": "Public"}), address)


@given(st.lists(BLOCKS, max_size=6))
def test_public_opens_nothing_that_is_blocked(blocked: list[str]) -> None:
    rules = egress({"mode": "Public"}, blocked=blocked)
    for cidr in blocked:
        block = ip_network(cidr)
        assert not opens(rules, str(block[0]))
        assert not opens(rules, str(block[-1]))
    for rule in rules:
        assert rule["to"], "a rule without destinations opens all of them"
        for peer in rule["to"]:
            block = ip_network(peer.get("ipBlock", {"cidr": "::/0"})["cidr"])
            for other in peer.get("ipBlock", {}).get("except", []):
                inside = ip_network(other)
                assert inside.version == block.version
                assert inside.prefixlen > block.prefixlen


@pytest.mark.parametrize(
    ("network", "reached"),
    [
        ({"mode": "Public"}, False),
        (allowlist({"cidr": "198.51.100.0/24"}), False),
        (allowlist({"cidr": "198.51.100.9/32"}), True),
    ],
)
def test_a_model_server_named_by_address_is_closed_unless_named_alone(
    network: Object, reached: bool
) -> None:
    model = {"endpoint": "http://198.51.100.9:8000", "name": "m"}
    assert opens(egress(network, model=model), "198.51.100.9") is reached


def test_hosts_need_cilium() -> None:
    with pytest.raises(HostsNeedCilium, match=r"sandbox\.network\.allow need Cilium"):
        policies(episode(sandbox={"network": allowlist({"host": "a.test"})}), CLUSTER)


def test_hosts_are_opened_by_name_and_dns_for_their_names_alone() -> None:
    network = allowlist(
        {"host": "pypi.test", "ports": [443]},
        {"host": "*.files.test"},
        {"cidr": "10.1.0.0/16"},
    )
    (plain, body), (resource, cilium) = policies(episode(sandbox={"network": network}), CILIUM)
    assert (plain, resource) == (NETWORK_POLICIES, CILIUM_NETWORK_POLICIES)
    assert len(body["spec"]["egress"]) == 1
    assert cilium["spec"]["endpointSelector"] == {"matchLabels": {"episodes.dev/episode-uid": UID}}
    dns, first, second = cilium["spec"]["egress"]
    (questions,) = dns["toPorts"]
    assert {port["port"] for port in questions["ports"]} == {"53"}
    assert questions["rules"]["dns"] == [
        {"matchName": "pypi.test"},
        {"matchPattern": "*.files.test"},
    ]
    assert first == {
        "toFQDNs": [{"matchName": "pypi.test"}],
        "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}],
    }
    assert second["toPorts"] == [{"ports": [{"port": "0", "protocol": "TCP"}]}]


def test_policies_of_episodes_of_one_name_differ() -> None:
    first, second = episode(), episode()
    second.metadata["uid"] = "another-uid"
    names = {policies(e, CLUSTER)[0][1]["metadata"]["name"] for e in (first, second)}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("network", "address"),
    [
        ({}, "10.96.0.1:443"),
        ({"mode": "Public"}, "10.96.0.1:443"),
        (allowlist({"cidr": "10.244.0.9/32"}), "10.96.0.1:443"),
        (allowlist({"cidr": "10.96.0.0/16", "ports": [80]}), "10.96.0.1:443"),
        (allowlist({"cidr": "10.96.0.0/16", "protocol": "UDP"}), "10.96.0.1:443"),
        (allowlist({"pods": {"matchLabels": {"app": "db"}}}), "10.96.0.1:443"),
        (allowlist({"cidr": "10.96.0.0/16"}), None),
        (allowlist({"cidr": "203.0.113.0/24", "ports": [6443]}), None),
    ],
)
def test_the_check_asks_for_the_api_server_unless_it_is_opened(
    network: Object, address: str | None
) -> None:
    parsed = episode(sandbox={"network": network}).spec.sandbox.network
    assert probe_address(parsed, CLUSTER) == address


def test_an_address_with_colons_is_written_in_brackets() -> None:
    assert str(Endpoint(ip_address("fd00::1"), 443)) == "[fd00::1]:443"
