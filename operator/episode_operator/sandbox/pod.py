"""The pod of one attempt, as a dict for the API server."""

from dataclasses import dataclass
from typing import Any

from episode_operator.api.episode import Episode
from episode_operator.api.labels import ATTEMPT, pod_name
from episode_operator.api.network import Network, NetworkMode
from episode_operator.api.sandbox import Toleration, UserNamespace
from episode_operator.lifecycle.deadlines import deadlines
from episode_operator.lifecycle.pods import MAIN_CONTAINER
from episode_operator.sandbox.containers import (
    RUNNER_VOLUME,
    runner_container,
    sidecar_part,
    task_part,
    verifier_part,
)
from episode_operator.sandbox.owned import metadata

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LOST_NODE_SECONDS = 60
"""A lost node is noticed after this time; the cluster's default is 300 seconds."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What the operator's installation decides about sandboxes."""

    runner_image: str
    image_pull_policy: str = "IfNotPresent"
    require_network_policy: bool = True
    """Whether an agent may only start once its pod is known to be cut off."""
    blocked_cidrs: tuple[str, ...] = ()
    """What mode Public must not open, besides private addresses and the API server."""


def verifier_container(index: int) -> str:
    """Name of the container that verifies the step of this index apart from the agent's."""
    return f"verifier-{index}"


def build_pod(episode: Episode, attempt: int, settings: SandboxSettings) -> dict[str, Any]:
    """The pod of one attempt: no service-account token, dropped capabilities, limits, seccomp.

    The name depends only on the Episode and the attempt, so that creating it twice makes one pod.
    The runner comes first: the kubelet starts containers in this order.
    """
    sandbox, pull_policy = episode.spec.sandbox, settings.image_pull_policy
    sidecars = [sidecar_part(sidecar, pull_policy) for sidecar in sandbox.sidecars]
    verifiers = [
        verifier_part(verifier_container(index), step.verifier, episode, pull_policy)
        for index, step in enumerate(episode.spec.plan)
        if step.verifier.separate
    ]
    served = [task_part(episode, pull_policy), *verifiers]
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": deadlines(episode.spec).pod,
        "initContainers": [part.container for part in sidecars] or None,
        "containers": [
            runner_container(settings.runner_image, pull_policy),
            *(part.container for part in served),
        ],
        "volumes": [
            {"name": RUNNER_VOLUME, "emptyDir": {"sizeLimit": "64Mi"}},
            *(volume for part in (*served, *sidecars) for volume in part.volumes),
        ],
        "nodeSelector": dict(sandbox.node_selector) or None,
        "tolerations": _tolerations(sandbox.tolerations),
        "runtimeClassName": sandbox.runtime_class_name,
        "imagePullSecrets": [{"name": name} for name in sandbox.image_pull_secrets] or None,
        "hostUsers": False if sandbox.user_namespace is UserNamespace.PRIVATE else None,
        **_resolver(sandbox.network),
    }
    described = metadata(episode, pod_name(episode.name, attempt))
    described["labels"] = {**sandbox.labels, **described["labels"], ATTEMPT: str(attempt)}
    described["annotations"] = {_DEFAULT_CONTAINER: MAIN_CONTAINER}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": described,
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def _resolver(network: Network) -> dict[str, Any]:
    if network.mode is NetworkMode.PUBLIC:
        return {}
    if network.hosts:
        # Only the hosts themselves may be asked for, so a name is not tried with suffixes first.
        return {"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}}
    # No resolver: a name would otherwise leave the sandbox in a DNS question.
    return {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}


def _tolerations(given: list[Toleration]) -> list[dict[str, Any]]:
    lost_node = [
        Toleration(
            key=taint,
            operator="Exists",
            effect="NoExecute",
            toleration_seconds=_LOST_NODE_SECONDS,
        )
        for taint in _LOST_NODE_TAINTS
        if not any(t.key in (None, taint) and t.effect in (None, "NoExecute") for t in given)
    ]
    return [toleration.to_api() for toleration in (*given, *lost_node)]
