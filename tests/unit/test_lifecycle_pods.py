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
        ({"initContainerStatuses": [container(terminated(1), "runner")]}, "ContainerFailed"),
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


def test_an_init_container_that_completed_is_no_failure() -> None:
    seen = view(
        pod(
            initContainerStatuses=[container(terminated(0, "Completed"), "runner")],
            containerStatuses=[container(waiting("PodInitializing"))],
        )
    )
    assert seen.failure is None
    assert seen.waiting.reason is NoVerdictReason.START_DEADLINE_EXCEEDED


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
