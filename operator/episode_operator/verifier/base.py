"""What every contract has in common: a clean pod, tests that enter only now, one command."""

from collections.abc import Sequence
from dataclasses import dataclass

from episode_operator.lifecycle.outcome import Failure, Scored
from episode_operator.sandbox.errors import FileError
from episode_operator.sandbox.memory import check_memory
from episode_operator.sandbox.results import ExecResult
from episode_operator.sandbox.session import Session
from episode_operator.verifier.composite import AgentUse

TESTS_FOLDER = "/tests"
LOGS_FOLDER = "/logs/verifier"
OUTPUT_LIMIT_BYTES = 64 << 10
_LOG_LIMIT_BYTES = 8 << 20


class VerifierTimeoutError(Exception):
    """The verifier did not end in its time; the message is what it had printed."""


@dataclass(frozen=True, slots=True)
class TestFile:
    """A file of the tests, with its content resolved."""

    __test__ = False

    path: str
    content: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class Context:
    """What a contract may use. `secret` is known to no process of the agent; times in seconds."""

    session: Session
    workdir: str
    timeout_seconds: int
    use: AgentUse
    secret: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict or why there is none, and the verifier's output for people."""

    end: Scored | Failure
    output: str = ""


async def prepare(session: Session) -> None:
    """End everything the agent left running, then make the tests' folders anew.

    Whatever stood there is removed, links and their parents included, never followed.
    """
    await session.kill_all(request_id="verifier.kill")
    for folder in (TESTS_FOLDER, LOGS_FOLDER):
        await session.fresh_directory(
            folder, replace_parents=True, request_id=f"verifier.fresh{folder}"
        )


async def put(session: Session, files: Sequence[TestFile]) -> None:
    """Write the tests; a link of the agent's at one of the paths is replaced, not followed."""
    for file in files:
        await session.write_file(
            file.path, file.content, mode=file.mode, parents=True, refuse_links=True
        )


async def run(
    context: Context,
    command: Sequence[str],
    *,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
) -> ExecResult:
    """Run the verifier's command in the workdir with the image's own environment.

    Raises:
        CommandNotStarted: there is no such program in the image.
        VerifierTimeoutError: it was killed after its time.
        SandboxError: the sandbox failed.
    """
    result = await context.session.exec(
        command,
        timeout_seconds=context.timeout_seconds,
        request_id=f"verifier.run.{command[0]}",
        cwd=context.workdir,
        env=env,
        stdin=stdin,
        merge_output=True,
        output_limit_bytes=OUTPUT_LIMIT_BYTES,
    )
    check_memory(result, pod_uid=context.session.pod_uid)
    if result.timed_out:
        raise VerifierTimeoutError(result.stdout.text())
    return result


async def read_log(session: Session, name: str) -> bytes | None:
    """A file the verifier left in its logs folder; None if there is none. Links do not count."""
    try:
        content = await session.read_file(
            f"{LOGS_FOLDER}/{name}", limit_bytes=_LOG_LIMIT_BYTES, refuse_links=True
        )
    except FileError:
        return None
    return content.data
