"""What a pod's status means."""

import pytest

from episode_operator.api.reasons import NoVerdictReason
from episode_operator.lifecycle.pods import view
from tests.unit.builders import container, pod

RUNNING = {"running": {"startedAt": "2026-11-29T10:00:02Z"}}


def waiting(reason: str, message: str = "") -> dict[str, dict[str, str]]:
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int, reason: str = "Error") -> dict[str, dict[str, object]]:
    return {"terminated": {"exitCode": code, "reason": reason}}


def test_a_running_pod_is_running_and_has_no_failure() -> None:
    seen = view(pod(phase="Running", containerStatuses=[container(RUNNING)]))
    assert seen.running
    assert seen.failure is None
    assert seen.started == seen.created + 2


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"containerStatuses": [container(terminated(137, "OOMKilled"))]}, "OOMKilled"),
        ({"containerStatuses": [container(terminated(0, "Completed"))]}, "ContainerFailed"),
        ({"containerStatuses": [container(terminated(0), "runner")]}, "ContainerFailed"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {
                "phase": "Failed",
                "reason": "DeadlineExceeded",
                "containerStatuses": [container(terminated(137))],
            },
            "PodDeadlineExceeded",
        ),
        ({"phase": "Failed"}, "PodLost"),
        (
            {
                "phase": "Failed",
                "containerStatuses": [container(terminated(137, "OOMKilled"))],
            },
            "OOMKilled",
        ),
        ({"containerStatuses": [container(waiting("InvalidImageName"))]}, "ImagePullFailed"),
        (
            {"containerStatuses": [container(waiting("ErrImagePull", "x: not found"))]},
            "ImagePullFailed",
        ),
        (
            {"containerStatuses": [container(waiting("CreateContainerConfigError"))]},
            "ContainerFailed",
        ),
    ],
)
def test_a_pod_that_cannot_go_on_says_why(status: dict[str, object], reason: str) -> None:
    failure = view(pod(**status)).failure
    assert failure is not None
    assert failure.reason == reason
    assert failure.message


def test_a_pull_that_may_still_work_is_only_waited_for() -> None:
    seen = view(pod(containerStatuses=[container(waiting("ImagePullBackOff", "timeout"))]))
    assert seen.failure is None
    assert seen.waiting.reason is NoVerdictReason.IMAGE_PULL_FAILED


def test_a_pod_runs_as_soon_as_an_event_of_the_kubelet_says_so() -> None:
    creating = pod(phase="Pending", containerStatuses=[container(waiting("ContainerCreating"))])
    assert not view(creating).running
    seen = view(creating, started=True)
    assert seen.running
    assert (seen.started, seen.image_id) == (None, None), "not known yet, so not made up"


def test_a_pod_that_failed_after_the_event_says_why() -> None:
    seen = view(pod(containerStatuses=[container(terminated(1))]), started=True)
    assert seen.failure is not None
    assert seen.failure.reason is NoVerdictReason.CONTAINER_FAILED


@pytest.mark.parametrize(
    ("runner", "reason", "word"),
    [
        (waiting("ErrImagePull", "timeout"), "ImagePullFailed", "timeout"),
        (waiting("ImagePullBackOff", "Back-off"), "ImagePullFailed", "Back-off"),
        (waiting("InvalidImageName", "bad name"), "ImagePullFailed", "bad name"),
        (waiting("CreateContainerError", "no space"), "ContainerFailed", "no space"),
        (terminated(137), "ContainerFailed", "container runner"),
    ],
)
def test_a_runner_that_does_not_start_is_why_the_task_does_not(
    runner: dict[str, object], reason: str, word: str
) -> None:
    without = container(terminated(128, "StartError"))
    seen = view(pod(containerStatuses=[container(runner, "runner"), without])).failure
    assert seen is not None
    assert seen.reason == reason
    assert word in seen.message


def test_a_pull_of_the_runner_that_may_still_work_is_only_waited_for() -> None:
    pulling = [
        container(waiting("ErrImagePull", "timeout"), name) for name in ("runner", "sandbox")
    ]
    assert view(pod(containerStatuses=pulling)).failure is None


def test_an_unschedulable_pod_is_waited_for_with_the_schedulers_message() -> None:
    conditions = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes: cpu"}]
    seen = view(pod(conditions=conditions))
    assert seen.waiting.reason is NoVerdictReason.UNSCHEDULABLE
    assert "0/1 nodes: cpu" in seen.waiting.message


def test_a_pod_being_deleted_is_lost() -> None:
    doomed = pod(phase="Running", containerStatuses=[container(RUNNING)])
    doomed["metadata"]["deletionTimestamp"] = "2026-11-29T10:01:00Z"
    failure = view(doomed).failure
    assert failure is not None
    assert failure.reason is NoVerdictReason.POD_LOST
