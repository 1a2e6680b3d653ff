"""A sandbox that ran out of memory is lost, even where the kernel killed only a part of it.

With cgroup v2 the kubelet lets the kernel kill the whole container; with cgroup v1 one process
dies and the rest goes on, without perhaps the very service the task is about. Both end the
attempt: what such a sandbox holds is never graded.
"""

from episode_operator.sandbox.errors import SandboxError
from episode_operator.sandbox.results import ExecResult


class OutOfMemory(SandboxError):
    """The container passed its memory limit. Raise sandbox.resources.memory."""

    reason = "OOMKilled"


def check_memory(result: ExecResult, *, pod_uid: str) -> ExecResult:
    """The result, unless memory ran out meanwhile.

    Raises:
        OutOfMemory: the kernel killed a process of the container for memory.
    """
    if result.oom_killed:
        raise OutOfMemory(
            "the container passed its memory limit; raise sandbox.resources.memory if the task "
            "needs more",
            pod_uid=pod_uid,
        )
    return result
