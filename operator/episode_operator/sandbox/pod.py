"""The pod of one attempt and its NetworkPolicy, as dicts for the API server."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from episode_operator.api.base import API_VERSION
from episode_operator.api.episode import Episode
from episode_operator.api.labels import (
    ATTEMPT,
    EPISODE_NAME,
    EPISODE_UID,
    label_value,
    pod_name,
    unique_name,
)
from episode_operator.api.sandbox import Network, NetworkMode, Resources, quantity
from episode_operator.lifecycle.deadlines import deadlines
from episode_operator.lifecycle.pods import MAIN_CONTAINER
from episode_operator.sandbox.session import RUNNER_PATH

_RUNNER_FOLDER = str(PurePosixPath(RUNNER_PATH).parent)

_ROOT_CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
]
"""What package managers and services need when the task runs as root; all allowed by the Pod
Security level `baseline`. A task with a non-root user gets none."""

_FOLDER_LIMIT = "1Gi"

_PRIVATE_BLOCKS = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
]


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What the operator's installation decides about sandboxes."""

    runner_image: str
    image_pull_policy: str = "IfNotPresent"
    require_network_policy: bool = True
    """Whether an agent may only start once its pod is known to be cut off."""


def owner_reference(episode: Episode) -> dict[str, Any]:
    """An owner reference that lets the garbage collector delete the object with its Episode."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Episode",
        "name": episode.name,
        "uid": episode.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def episode_labels(episode: Episode) -> dict[str, str]:
    """Labels by which the operator finds what belongs to an Episode."""
    return {
        "app.kubernetes.io/managed-by": "episode-operator",
        EPISODE_UID: episode.uid,
        EPISODE_NAME: label_value(episode.name),
    }


def _security_context(user: int | None) -> dict[str, Any]:
    may_be_root = not user
    context: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if may_be_root:
        context["capabilities"]["add"] = _ROOT_CAPABILITIES
    if user is not None:
        context["runAsUser"] = user
        context["runAsNonRoot"] = user != 0
    return context


def _resources(resources: Resources) -> dict[str, Any]:
    return {
        "requests": {
            "cpu": min(resources.cpu_request, resources.cpu, key=quantity),
            "memory": min(resources.memory_request, resources.memory, key=quantity),
        },
        "limits": {
            "cpu": resources.cpu,
            "memory": resources.memory,
            "ephemeral-storage": resources.ephemeral_storage,
        },
    }


def _runner_container(settings: SandboxSettings) -> dict[str, Any]:
    return {
        "name": "runner",
        "image": settings.runner_image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": ["install", RUNNER_PATH],
        "volumeMounts": [{"name": "runner", "mountPath": _RUNNER_FOLDER}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "500m", "memory": "64Mi", "ephemeral-storage": "64Mi"},
        },
        "securityContext": {
            **_security_context(65_532),
            "readOnlyRootFilesystem": True,
        },
    }


def _folders(episode: Episode) -> dict[str, str]:
    """Volumes for the folders of the verifier and the oracle.

    They lie in the image's root folder, where a task that is not root could not make them.
    """
    folders = {"tests": "/tests", "logs": "/logs"}
    if episode.spec.task.solution is not None:
        folders["solution"] = "/solution"
    return folders


def _task_container(episode: Episode, settings: SandboxSettings) -> dict[str, Any]:
    task = episode.spec.task
    container: dict[str, Any] = {
        "name": MAIN_CONTAINER,
        "image": task.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": [RUNNER_PATH, "serve"],
        "env": [variable.to_api() for variable in task.env],
        "volumeMounts": [
            {"name": "runner", "mountPath": _RUNNER_FOLDER, "readOnly": True},
            *({"name": name, "mountPath": path} for name, path in _folders(episode).items()),
        ],
        "resources": _resources(episode.spec.sandbox.resources),
        "securityContext": _security_context(task.user),
    }
    if task.workdir is not None:
        container["workingDir"] = task.workdir
    return container


def build_pod(episode: Episode, attempt: int, settings: SandboxSettings) -> dict[str, Any]:
    """The pod of one attempt: no service-account token, dropped capabilities, limits, seccomp.

    The name depends only on the Episode and the attempt, so that creating it twice makes one pod.
    """
    sandbox = episode.spec.sandbox
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": deadlines(episode.spec).pod,
        "initContainers": [_runner_container(settings)],
        "containers": [_task_container(episode, settings)],
        "volumes": [
            {"name": "runner", "emptyDir": {"sizeLimit": "64Mi"}},
            *(
                {"name": name, "emptyDir": {"sizeLimit": _FOLDER_LIMIT}}
                for name in _folders(episode)
            ),
        ],
        "nodeSelector": dict(sandbox.node_selector) or None,
        "tolerations": [t.to_api() for t in sandbox.tolerations] or None,
        "runtimeClassName": sandbox.runtime_class_name,
        "imagePullSecrets": [{"name": name} for name in sandbox.image_pull_secrets] or None,
    }
    if sandbox.network.mode is NetworkMode.NONE:
        # No resolver: a name would otherwise leave the sandbox in a DNS question.
        spec["dnsPolicy"] = "None"
        spec["dnsConfig"] = {"nameservers": ["127.0.0.1"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(episode.name, attempt),
            "namespace": episode.namespace,
            "labels": {
                **sandbox.labels,
                **episode_labels(episode),
                ATTEMPT: str(attempt),
            },
            "ownerReferences": [owner_reference(episode)],
        },
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def _egress(network: Network) -> list[dict[str, Any]]:
    match network.mode:
        case NetworkMode.NONE:
            return []
        case NetworkMode.ALLOWLIST:
            return [
                {
                    "to": [{"ipBlock": {"cidr": rule.cidr}}],
                    **(
                        {"ports": [{"protocol": "TCP", "port": port} for port in rule.ports]}
                        if rule.ports
                        else {}
                    ),
                }
                for rule in network.allow
            ]
        case NetworkMode.PUBLIC:
            return [
                {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": _PRIVATE_BLOCKS}}]},
                {
                    "to": [
                        {
                            "namespaceSelector": {
                                "matchLabels": {"kubernetes.io/metadata.name": "kube-system"}
                            }
                        }
                    ],
                    "ports": [{"protocol": p, "port": 53} for p in ("UDP", "TCP")],
                },
            ]


def build_network_policy(episode: Episode) -> dict[str, Any]:
    """The NetworkPolicy of an Episode's pods: nothing in, and out only what the mode allows."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": unique_name(episode.name, episode.uid),
            "namespace": episode.namespace,
            "labels": episode_labels(episode),
            "ownerReferences": [owner_reference(episode)],
        },
        "spec": {
            "podSelector": {"matchLabels": {EPISODE_UID: episode.uid}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": _egress(episode.spec.sandbox.network),
        },
    }
