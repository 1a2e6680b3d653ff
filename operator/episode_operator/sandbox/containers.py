"""The containers of a sandbox: the runner's, the task's, the verifiers', the sidecars'.

They share what containers of a pod cannot help sharing (network, IPC, host names) and no file: each
has folders of its own, shared memory too, and only the runner's program is mounted in several of
them, to be read.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from episode_operator.api.episode import Episode
from episode_operator.api.labels import SIDECAR_PREFIX
from episode_operator.api.resources import Resources, quantity
from episode_operator.api.sidecar import Ready, Sidecar
from episode_operator.api.verifier import Verifier
from episode_operator.lifecycle.pods import MAIN_CONTAINER, RUNNER_CONTAINER
from episode_operator.sandbox.session import RUNNER_PATH

RUNNER_VOLUME = "runner"

_PROGRAM = "/runner"
"""Where its own image has it."""
_RUNNER_FOLDER = str(PurePosixPath(RUNNER_PATH).parent)
_RUNNER_USER = 65_532

_ROOT_CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETPCAP",
    "SETUID",
]
"""What package managers and services need when a container runs as root; all allowed by the Pod
Security level `baseline`. A container with a non-root user gets none."""

_FOLDER_LIMIT = "1Gi"
_SHARED_MEMORY = "/dev/shm"
_SHARED_MEMORY_LIMIT = "64Mi"
_PROBE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Part:
    """A container, and the volumes that it alone mounts."""

    container: dict[str, Any]
    volumes: list[dict[str, Any]]


def runner_container(image: str, pull_policy: str) -> dict[str, Any]:
    """The container that puts the runner into the volume the others read it from.

    It does so in its hook, which has ended before the kubelet starts the container after it; an
    init container would be waited for until the kubelet next looks, up to a second. Then it idles:
    a container that has ended would take the pod's readiness.
    """
    return {
        "name": RUNNER_CONTAINER,
        "image": image,
        "imagePullPolicy": pull_policy,
        "command": [_PROGRAM, "hold"],
        "lifecycle": {"postStart": {"exec": {"command": [_PROGRAM, "install", RUNNER_PATH]}}},
        "volumeMounts": [{"name": RUNNER_VOLUME, "mountPath": _RUNNER_FOLDER}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "500m", "memory": "64Mi", "ephemeral-storage": "64Mi"},
        },
        "securityContext": {
            **_security_context(_RUNNER_USER),
            "readOnlyRootFilesystem": True,
        },
    }


def task_part(episode: Episode, pull_policy: str) -> Part:
    """The container the agent works in.

    The folders of the verifier and the oracle are volumes: they lie in the image's root folder,
    where a task that is not root could not make them.
    """
    folders = ["/tests", "/logs"]
    if any(step.solution is not None for step in episode.spec.plan):
        folders.append("/solution")
    container = _served(MAIN_CONTAINER, episode.spec.task.image, episode, pull_policy)
    return _with_folders(container, folders)


def verifier_part(name: str, verifier: Verifier, episode: Episode, pull_policy: str) -> Part:
    """A container for tests that run apart from the agent; idle until then."""
    image = verifier.image or episode.spec.task.image
    return _with_folders(_served(name, image, episode, pull_policy), ["/tests", "/logs"])


def sidecar_part(sidecar: Sidecar, pull_policy: str) -> Part:
    """An init container that goes on running; what comes after it waits until it is ready."""
    container = {
        "name": SIDECAR_PREFIX + sidecar.name,
        "image": sidecar.image,
        "imagePullPolicy": pull_policy,
        "command": sidecar.command,
        "args": sidecar.args,
        "env": [variable.to_api() for variable in sidecar.env],
        "workingDir": sidecar.working_dir,
        "restartPolicy": "Always",
        "startupProbe": _startup_probe(sidecar.ready),
        "resources": _resources(sidecar.resources),
        "securityContext": _security_context(sidecar.user),
    }
    return _with_folders({k: v for k, v in container.items() if v not in (None, [])}, [])


def _served(name: str, image: str, episode: Episode, pull_policy: str) -> dict[str, Any]:
    """A container whose PID 1 is the runner."""
    task = episode.spec.task
    container: dict[str, Any] = {
        "name": name,
        "image": image,
        "imagePullPolicy": pull_policy,
        "command": [RUNNER_PATH, "serve"],
        "env": [variable.to_api() for variable in task.env],
        "volumeMounts": [{"name": RUNNER_VOLUME, "mountPath": _RUNNER_FOLDER, "readOnly": True}],
        "resources": _resources(episode.spec.sandbox.resources),
        "securityContext": _security_context(task.user),
    }
    if task.workdir is not None:
        container["workingDir"] = task.workdir
    return container


def _with_folders(container: dict[str, Any], folders: list[str]) -> Part:
    sources = {folder: {"sizeLimit": _FOLDER_LIMIT} for folder in folders}
    sources[_SHARED_MEMORY] = {"medium": "Memory", "sizeLimit": _SHARED_MEMORY_LIMIT}
    names = {path: container["name"] + path.replace("/", "-") for path in sources}
    mounts = [{"name": name, "mountPath": path} for path, name in names.items()]
    return Part(
        {**container, "volumeMounts": [*container.get("volumeMounts", []), *mounts]},
        [{"name": names[path], "emptyDir": source} for path, source in sources.items()],
    )


def _startup_probe(ready: Ready) -> dict[str, Any]:
    if ready.tcp_port is not None:
        check: dict[str, Any] = {"tcpSocket": {"port": ready.tcp_port}}
    elif ready.http_get is not None:
        check = {"httpGet": ready.http_get.to_api()}
    else:
        check = {"exec": {"command": ready.exec}}
    return {
        **check,
        "periodSeconds": 1,
        "timeoutSeconds": _PROBE_SECONDS,
        "failureThreshold": ready.timeout_seconds,
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
