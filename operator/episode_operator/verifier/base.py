"""What every contract has in common: a clean pod, tests that enter only now, one command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from episode_operator.api.decisions import Contract, Happening
from episode_operator.lifecycle.outcome import Failure, Scored, decided
from episode_operator.sandbox.errors import (
    ArchiveErrors,
    CommandNotStarted,
    FileError,
    FileNotFound,
    InvalidRequest,
)
from episode_operator.sandbox.memory import check_memory
from episode_operator.sandbox.results import ExecResult
from episode_operator.sandbox.session import Session
from episode_operator.verifier.composite import AgentUse

TESTS_FOLDER = "/tests"
LOGS_FOLDER = "/logs/verifier"
OUTPUT_LIMIT_BYTES = 64 << 10
_LOG_LIMIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class TestFile:
    """A file of the tests, with its content resolved."""

    __test__ = False

    path: str
    content: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class TestArchive:
    """Many files of the tests: a gzipped tar for a folder, with its content resolved."""

    __test__ = False

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Tests:
    """What the contract brings into the sandbox besides its one script."""

    __test__ = False

    files: Sequence[TestFile] = ()
    archives: Sequence[TestArchive] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What a contract may use; times in seconds.

    `session` leads to the container that the tests run in. `secret` is known to no process of the
    agent. `name` makes the ids of the verifier's requests unique in their container. `pod_files`
    are files that the kubelet mounts into every container of the pod, as they were before the
    agent acted.
    """

    session: Session
    contract: Contract
    workdir: str
    timeout_seconds: int
    env: Mapping[str, str]
    user: str | None
    use: AgentUse
    secret: str
    name: str = "verifier"
    pod_files: Mapping[str, bytes] = field(default_factory=dict)

    def end(
        self,
        happening: Happening,
        message: str,
        *,
        reward: float | None = None,
        components: dict[str, float] | None = None,
    ) -> Scored | Failure:
        """The end that the decision table gives to what happened under this contract."""
        return decided(happening, self.contract, message, reward=reward, components=components)


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict or why there is none, and the verifier's output for people."""

    end: Scored | Failure
    output: str = ""


class NoVerdictError(Exception):
    """Ends a verification without a verdict, wherever it is."""

    def __init__(self, happening: Happening, message: str, output: str = "") -> None:
        super().__init__(message)
        self.happening = happening
        self.output = output


async def fresh_folders(
    session: Session, *, request_id: str, logs_owner: str | None = None
) -> None:
    """Make the tests' folders anew.

    Whatever stood there is removed, links and their parents included, never followed.
    """
    for folder, owner in ((TESTS_FOLDER, None), (LOGS_FOLDER, logs_owner)):
        await session.fresh_directory(
            folder,
            owner=owner,
            replace_parents=True,
            request_id=f"{request_id}.fresh{folder}",
        )


async def put(context: Context, tests: Tests, *more: TestFile) -> None:
    """Write the tests; a link of the agent's at one of the paths is replaced, not followed.

    Raises:
        NoVerdictError: a file cannot be written.
        SandboxError: the sandbox failed.
    """
    try:
        for archive in tests.archives:
            own = await context.session.info()
            await context.session.unpack(
                archive.path,
                archive.content,
                owner=f"{own.uid}:{own.gid}",
                request_id=f"{context.name}.unpack{archive.path}",
            )
        for file in (*tests.files, *more):
            await context.session.write_file(
                file.path, file.content, mode=file.mode, parents=True, refuse_links=True
            )
    except ArchiveErrors as error:
        raise NoVerdictError(
            Happening.TESTS_NOT_WRITTEN, f"the tests cannot be written: {error}"
        ) from error


async def run(
    context: Context,
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> ExecResult:
    """Run the verifier's command in the workdir with the image's own environment.

    Raises:
        CommandNotStarted: there is no such program in the image.
        NoVerdictError: it was killed after its time, or it may not be run.
        SandboxError: the sandbox failed; how the command ended is unknown.
    """
    try:
        result = await context.session.exec(
            command,
            timeout_seconds=context.timeout_seconds,
            request_id=f"{context.name}.run.{command[0]}",
            cwd=context.workdir,
            env={**context.env, **(env or {})},
            user=context.user,
            stdin=stdin,
            merge_output=True,
            output_limit_bytes=OUTPUT_LIMIT_BYTES,
        )
    except CommandNotStarted as error:
        if error.errno == "ENOENT" and error.path == command[0]:
            raise
        raise NoVerdictError(Happening.TESTS_NOT_STARTED, str(error)) from error
    except InvalidRequest as error:
        raise NoVerdictError(Happening.TESTS_NOT_STARTED, f"verifier.user: {error}") from error
    check_memory(result, pod_uid=context.session.pod_uid)
    if result.timed_out:
        raise NoVerdictError(
            Happening.TESTS_TIMED_OUT,
            f"the verifier was killed after {context.timeout_seconds} s; "
            "raise verifier.timeoutSeconds if it needs more",
            result.stdout.text(),
        )
    return result


async def read_log(context: Context, name: str) -> bytes | None:
    """A file the verifier left in its logs folder; None if there is none.

    Raises:
        NoVerdictError: it is a link, or cannot be read.
    """
    try:
        content = await context.session.read_file(
            f"{LOGS_FOLDER}/{name}", limit_bytes=_LOG_LIMIT_BYTES, refuse_links=True
        )
    except FileNotFound:
        return None
    except FileError as error:
        raise NoVerdictError(Happening.LOG_UNREADABLE, str(error)) from error
    return content.data
