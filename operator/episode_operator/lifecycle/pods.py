"""Reads a pod: is it ready, and if it cannot become or stay ready, why."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from episode_operator.api.labels import SIDECAR_PREFIX
from episode_operator.api.reasons import NoVerdictReason
from episode_operator.lifecycle.outcome import Failure

MAIN_CONTAINER = "sandbox"
RUNNER_CONTAINER = "runner"

_PULL_WAITING = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"})
_BAD_IMAGE_WAITING = frozenset({"InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_BAD_CONTAINER_WAITING = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
_DISRUPTIONS = {
    "DeletionByTaintManager": NoVerdictReason.EVICTED,
    "EvictionByEvictionAPI": NoVerdictReason.EVICTED,
    "TerminationByKubelet": NoVerdictReason.EVICTED,
    "PreemptionByScheduler": NoVerdictReason.PREEMPTED,
    "DeletionByPodGC": NoVerdictReason.NODE_LOST,
}
"""Reasons of the pod condition DisruptionTarget."""

_ABSENT_IMAGE = ("not found", "manifest unknown", "does not exist", "name unknown")


@dataclass(frozen=True, slots=True)
class PodView:
    """What the lifecycle needs to know of a pod; times in seconds since the epoch.

    Attributes:
        running: the task's container runs; the rest of it may be known a little later.
        image_id: its image as the node resolved it.
        started: when it started.
    """

    name: str
    uid: str
    created: float
    running: bool
    failure: Failure | None
    waiting: Failure
    image_id: str | None = None
    started: float | None = None


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _statuses(pod: dict[str, Any]) -> list[dict[str, Any]]:
    status = pod.get("status", {})
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]


def _terminated(status: dict[str, Any]) -> Failure | None:
    state = status.get("state", {}).get("terminated")
    if state is None:
        return None
    if state.get("reason") == "OOMKilled":
        return Failure(
            NoVerdictReason.OOM_KILLED,
            f"container {status['name']} passed its memory limit; "
            "raise sandbox.resources.memory if the task needs more",
        )
    detail = state.get("message") or state.get("reason") or "no message"
    return Failure(
        _container_reason(status),
        f"container {status['name']} ended with exit code {state.get('exitCode')}: {detail}",
    )


def _container_reason(status: dict[str, Any]) -> NoVerdictReason:
    sidecar = status["name"].startswith(SIDECAR_PREFIX)
    return NoVerdictReason.SIDECAR_FAILED if sidecar else NoVerdictReason.CONTAINER_FAILED


def _restarted(status: dict[str, Any]) -> Failure | None:
    """A sidecar that the kubelet started again is not what the agent worked with."""
    last = status.get("lastState", {}).get("terminated")
    if last is None or not status["name"].startswith(SIDECAR_PREFIX):
        return None
    return Failure(
        NoVerdictReason.SIDECAR_FAILED,
        f"container {status['name']} ended with exit code {last.get('exitCode')} and was "
        f"restarted: {last.get('message') or last.get('reason') or 'no message'}",
    )


def _pull(status: dict[str, Any]) -> Failure | None:
    """A pull that has failed, and that the kubelet will try again."""
    state = status.get("state", {}).get("waiting", {})
    if state.get("reason") not in _PULL_WAITING:
        return None
    return Failure(
        NoVerdictReason.IMAGE_PULL_FAILED,
        f"image {status['image']}: {state.get('message') or state['reason']}",
    )


def _cannot_start(status: dict[str, Any]) -> Failure | None:
    state = status.get("state", {}).get("waiting")
    if state is None:
        return None
    reason, message = state.get("reason", ""), state.get("message", "")
    absent = reason in _PULL_WAITING and any(word in message for word in _ABSENT_IMAGE)
    if absent or reason in _BAD_IMAGE_WAITING:
        return Failure(
            NoVerdictReason.IMAGE_PULL_FAILED,
            f"image {status['image']}: {message or reason}; check its name and pull secrets",
        )
    if reason in _BAD_CONTAINER_WAITING:
        return Failure(
            _container_reason(status),
            f"container {status['name']} cannot be created: {message or reason}",
        )
    return None


def _disruption(pod: dict[str, Any]) -> Failure | None:
    """Why Kubernetes itself took the pod away, from its condition DisruptionTarget."""
    conditions = pod.get("status", {}).get("conditions", [])
    condition = next(
        (c for c in conditions if c["type"] == "DisruptionTarget" and c["status"] == "True"), None
    )
    if condition is None:
        return None
    reason = _DISRUPTIONS.get(condition.get("reason", ""), NoVerdictReason.EVICTED)
    message = condition.get("message") or condition.get("reason") or "no message"
    return Failure(reason, f"the pod was taken away: {message}")


def _node_lost(pod: dict[str, Any]) -> bool:
    """Whether the node controller took the pod's readiness because its node is silent.

    The kubelet itself never says that a pod is not ready while its containers are: sandboxes have
    no readiness gates.
    """
    conditions = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions", [])}
    return conditions.get("Ready") == "False" and conditions.get("ContainersReady") == "True"


def _pod_ended(pod: dict[str, Any], container: Failure | None) -> Failure:
    """Why a pod in a final phase ended; the pod's own reason beats its container's."""
    status = pod["status"]
    message = status.get("message") or "no message"
    match status.get("reason"):
        case "Evicted":
            return Failure(NoVerdictReason.EVICTED, f"the node evicted the pod: {message}")
        case "DeadlineExceeded":
            return Failure(NoVerdictReason.POD_DEADLINE_EXCEEDED, message)
        case _:
            lost = f"the pod ended in phase {status['phase']}: {message}"
            return container or Failure(NoVerdictReason.POD_LOST, lost)


def _without_runner(pod: dict[str, Any]) -> Failure | None:
    """Why the runner's container does not start: then those whose program it brings end at once.

    The kubelet starts them all the same, and never again.
    """
    runner = (s for s in _statuses(pod) if s["name"] == RUNNER_CONTAINER)
    return next((f for s in runner if (f := _cannot_start(s) or _pull(s))), None)


def _failure(pod: dict[str, Any], *, gone: bool) -> Failure | None:
    ended = [f for s in _statuses(pod) if (f := _terminated(s) or _restarted(s))]
    out_of_memory = [f for f in ended if f.reason is NoVerdictReason.OOM_KILLED]
    container = next(iter([*out_of_memory, *ended]), None)
    if container is not None and not out_of_memory:
        container = _without_runner(pod) or container
    if out_of_memory:
        return container
    taken_away = _lost(pod) or _disruption(pod)
    if pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return taken_away or _pod_ended(pod, container)
    if gone or "deletionTimestamp" in pod["metadata"]:
        return taken_away or Failure(
            NoVerdictReason.POD_LOST, "the pod was deleted while it was needed"
        )
    if container is not None:
        return container
    return next((f for s in _statuses(pod) if (f := _cannot_start(s))), None)


def _lost(pod: dict[str, Any]) -> Failure | None:
    if not _node_lost(pod):
        return None
    node = pod.get("spec", {}).get("nodeName", "its node")
    return Failure(NoVerdictReason.NODE_LOST, f"node {node} does not answer any more")


def _waiting(pod: dict[str, Any]) -> Failure:
    """What the pod waits for, as the failure it is if the start deadline passes."""
    pull = next((failure for s in _statuses(pod) if (failure := _pull(s))), None)
    if pull is not None:
        return pull
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Failure(
                NoVerdictReason.UNSCHEDULABLE,
                f"{condition.get('message', 'no node fits')}; lower sandbox.resources or add nodes",
            )
    why = "the pod did not run within the start deadline"
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodReadyToStartContainers" and condition["status"] == "False":
            why += (
                "; its node could not make the pod's sandbox: see the pod's events, and whether "
                "the node supports sandbox.userNamespace and sandbox.runtimeClassName"
            )
    return Failure(NoVerdictReason.START_DEADLINE_EXCEEDED, why)


def view(pod: dict[str, Any], *, started: bool = False, gone: bool = False) -> PodView:
    """The view of a pod as the API server gives it, or of one that is gone, as it was last.

    Source of the reasons: kubelet's container waiting reasons and pod status reasons.

    Args:
        started: the kubelet has told by an event that the task's container started. It does so at
            once, and says the same in the pod's status up to a second later.
    """
    main = next((s for s in _statuses(pod) if s["name"] == MAIN_CONTAINER), {})
    running = main.get("state", {}).get("running")
    metadata = pod["metadata"]
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        created=_seconds(metadata["creationTimestamp"]),
        running=started or running is not None,
        failure=_failure(pod, gone=gone),
        waiting=_waiting(pod),
        image_id=main.get("imageID") or None,
        started=_seconds(running["startedAt"]) if running else None,
    )
