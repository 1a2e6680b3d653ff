"""The network policies of an Episode's pods, as dicts for the API server."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from urllib.parse import urlsplit

from episode_operator.api.episode import Episode
from episode_operator.api.labels import EPISODE_UID, unique_name
from episode_operator.api.network import EgressRule, NetworkMode, Protocol
from episode_operator.kube.client import CILIUM_NETWORK_POLICIES, NETWORK_POLICIES, Object, Resource
from episode_operator.sandbox.errors import SandboxError
from episode_operator.sandbox.network import Cluster
from episode_operator.sandbox.owned import metadata

Block = IPv4Network | IPv6Network

_PUBLIC = ("0.0.0.0/0", "2000::/3")
_PRIVATE = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
)
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_DNS_NAMESPACE = "kube-system"
_DNS_PORT = 53


class HostsNeedCilium(SandboxError):
    """The Episode names hosts, and the cluster cannot open a name."""

    reason = "InvalidTask"


def policy_kinds(cluster: Cluster) -> list[Resource]:
    """The kinds of policies that `policies` may make."""
    return [NETWORK_POLICIES, *([CILIUM_NETWORK_POLICIES] if cluster.cilium else [])]


def policies(
    episode: Episode, cluster: Cluster, *, blocked_cidrs: Iterable[str] = ()
) -> list[tuple[Resource, Object]]:
    """The policies of an Episode's pods: nothing in, and out only what the mode allows.

    Args:
        blocked_cidrs: what mode Public must not open besides private addresses.

    Raises:
        HostsNeedCilium: the Episode names hosts, and the cluster has no Cilium.
    """
    made = [(NETWORK_POLICIES, _network_policy(episode, cluster, blocked_cidrs))]
    if episode.spec.sandbox.network.hosts:
        if not cluster.cilium:
            raise HostsNeedCilium(
                "host names in sandbox.network.allow need Cilium, which this cluster does not "
                "have; name IP blocks instead"
            )
        made.append((CILIUM_NETWORK_POLICIES, _cilium_policy(episode)))
    return made


def _network_policy(episode: Episode, cluster: Cluster, blocked_cidrs: Iterable[str]) -> Object:
    network, model = episode.spec.sandbox.network, _model_address(episode)
    match network.mode:
        case NetworkMode.NONE:
            egress = []
        case NetworkMode.ALLOWLIST:
            egress = [
                _opened(rule, episode.namespace, model)
                for rule in network.allow
                if rule.host is None
            ]
        case NetworkMode.PUBLIC:
            api_server = [ip_network(endpoint.address) for endpoint in cluster.api_server]
            named = [ip_network(cidr, strict=False) for cidr in (*_PRIVATE, *blocked_cidrs)]
            egress = _public([*named, *api_server, *model])
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(episode, unique_name(episode.name, episode.uid)),
        "spec": {
            "podSelector": {"matchLabels": {EPISODE_UID: episode.uid}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": egress,
        },
    }


def _model_address(episode: Episode) -> list[Block]:
    """The model server's, where the endpoint names it by address: closed unless named alone."""
    model = episode.spec.model
    try:
        return [ip_network(urlsplit(model.endpoint).hostname or "")] if model is not None else []
    except ValueError:
        return []  # a host name; who answers to it is known to the cluster's DNS only


def _opened(rule: EgressRule, namespace: str, model: list[Block]) -> Object:
    return {"to": [_peer(rule, namespace, model)], "ports": _ports(rule)}


def _peer(rule: EgressRule, namespace: str, model: list[Block]) -> Object:
    if rule.pods is not None:
        return {
            "namespaceSelector": {
                "matchLabels": {_NAMESPACE_LABEL: rule.pods.namespace or namespace}
            },
            "podSelector": {"matchLabels": dict(rule.pods.match_labels)},
        }
    assert rule.cidr is not None  # CEL admits exactly one destination, and hosts are Cilium's
    block = ip_network(rule.cidr, strict=False)
    return {"ipBlock": _ip_block(block, [closed for closed in model if closed != block])}


def _ports(rule: EgressRule) -> list[Object]:
    return [{"protocol": rule.protocol, "port": port} for port in rule.ports] or [
        {"protocol": rule.protocol}
    ]


def _public(closed: list[Block]) -> list[Object]:
    blocks = [ip_network(cidr) for cidr in _PUBLIC]
    opened = [
        {"ipBlock": _ip_block(block, closed)}
        for block in blocks
        if not any(_covers(other, block) for other in closed)
    ]
    dns: Object = {
        "to": [{"namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: _DNS_NAMESPACE}}}],
        "ports": [{"protocol": protocol, "port": _DNS_PORT} for protocol in Protocol],
    }
    # A rule without destinations would open all of them.
    return [{"to": opened}, dns] if opened else [dns]


def _ip_block(block: Block, closed: list[Block]) -> Object:
    exceptions = sorted({str(other) for other in closed if _covers(block, other)})
    return {"cidr": str(block), **({"except": exceptions} if exceptions else {})}


def _covers(block: Block, other: Block) -> bool:
    return other.prefixlen >= block.prefixlen and other.network_address in block


def _cilium_policy(episode: Episode) -> Object:
    """Opens the named hosts, and the cluster's DNS for their names only.

    Source of the fields: Cilium's `toFQDNs` and DNS proxy; a port of 0 means all of the protocol.
    """
    network = episode.spec.sandbox.network
    dns: Object = {
        "toEndpoints": [{"matchLabels": {"k8s:io.kubernetes.pod.namespace": _DNS_NAMESPACE}}],
        "toPorts": [
            {
                "ports": [{"port": str(_DNS_PORT), "protocol": protocol} for protocol in Protocol],
                "rules": {"dns": [_host(host) for host in network.hosts]},
            }
        ],
    }
    opened = [
        {
            "toFQDNs": [_host(rule.host)],
            "toPorts": [
                {
                    "ports": [
                        {"port": str(port), "protocol": rule.protocol} for port in rule.ports or [0]
                    ]
                }
            ],
        }
        for rule in network.allow
        if rule.host is not None
    ]
    return {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": metadata(episode, unique_name(episode.name, episode.uid)),
        "spec": {
            "endpointSelector": {"matchLabels": {EPISODE_UID: episode.uid}},
            "egress": [dns, *opened],
        },
    }


def _host(name: str) -> Object:
    return {"matchPattern" if "*" in name else "matchName": name}
