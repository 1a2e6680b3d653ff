"""Reads a pod: is it ready, and if it cannot become or stay ready, why."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from episode_operator.api.reasons import NoVerdictReason
from episode_operator.lifecycle.outcome import Failure

MAIN_CONTAINER = "sandbox"

_PULL_WAITING = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"})
_BAD_IMAGE_WAITING = frozenset({"InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_BAD_CONTAINER_WAITING = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
_ABSENT_IMAGE = ("not found", "manifest unknown", "does not exist", "name unknown")


@dataclass(frozen=True, slots=True)
class PodView:
    """What the lifecycle needs to know of a pod; times in seconds since the epoch."""

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
    if status["name"] == MAIN_CONTAINER or state.get("exitCode") != 0:
        detail = state.get("message") or state.get("reason") or "no message"
        return Failure(
            NoVerdictReason.CONTAINER_FAILED,
            f"container {status['name']} ended with exit code {state.get('exitCode')}: {detail}",
        )
    return None


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
            NoVerdictReason.CONTAINER_FAILED,
            f"container {status['name']} cannot be created: {message or reason}",
        )
    return None


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


def _failure(pod: dict[str, Any]) -> Failure | None:
    container = next((f for s in _statuses(pod) if (f := _terminated(s))), None)
    if container is not None and container.reason is NoVerdictReason.OOM_KILLED:
        return container
    if pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return _pod_ended(pod, container)
    if container is not None:
        return container
    if "deletionTimestamp" in pod["metadata"]:
        return Failure(NoVerdictReason.POD_LOST, "the pod was deleted while it was needed")
    return next((f for s in _statuses(pod) if (f := _cannot_start(s))), None)


def _waiting(pod: dict[str, Any]) -> Failure:
    """What the pod waits for, as the failure it is if the start deadline passes."""
    for status in _statuses(pod):
        state = status.get("state", {}).get("waiting", {})
        if state.get("reason") in _PULL_WAITING:
            return Failure(
                NoVerdictReason.IMAGE_PULL_FAILED,
                f"image {status['image']}: {state.get('message') or state['reason']}",
            )
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Failure(
                NoVerdictReason.UNSCHEDULABLE,
                f"{condition.get('message', 'no node fits')}; lower sandbox.resources or add nodes",
            )
    return Failure(
        NoVerdictReason.START_DEADLINE_EXCEEDED, "the pod did not run within the start deadline"
    )


def view(pod: dict[str, Any]) -> PodView:
    """The view of a pod as the API server gives it.

    Source of the reasons: kubelet's container waiting reasons and pod status reasons.
    """
    main = next((s for s in _statuses(pod) if s["name"] == MAIN_CONTAINER), {})
    running = main.get("state", {}).get("running")
    metadata = pod["metadata"]
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        created=_seconds(metadata["creationTimestamp"]),
        running=running is not None,
        failure=_failure(pod),
        waiting=_waiting(pod),
        image_id=main.get("imageID") or None,
        started=_seconds(running["startedAt"]) if running else None,
    )
