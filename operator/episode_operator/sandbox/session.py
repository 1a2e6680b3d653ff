"""The session with the runner in one pod: commands, processes, files, archives, journal.

One exec websocket carries everything, and is opened again when it drops. Requests run at most
once; one with a `request_id` of the caller's may be sent again even by another operator, and its
result stays in the runner until `forget`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import aiohttp

from episode_operator.kube.connection import KubernetesConnection

from . import errors
from .archives import Archives
from .channel import OpenChannel
from .files import Files
from .journal import JournalClient
from .requester import Requester
from .results import ExecResult, KeptRequest, ProcessOutput, ProcessStatus, SandboxInfo
from .websocket import open_exec

RUNNER_PATH = "/.episode/runner"
OUTPUT_LIMIT_BYTES = 256 << 10
RECONNECT_SECONDS = 60.0
_MAX_TIMEOUT_SECONDS = 10_000_000

Shell = Literal["sh", "bash", "auto"]


class Session(Files, Archives, JournalClient):
    """A session with one runner. Methods may be called concurrently.

    All of them raise `RequestError` subclasses for what concerns the one request, and other
    `SandboxError` subclasses when the session itself is of no use any more.
    """

    def __init__(
        self,
        open_channel: OpenChannel,
        *,
        pod_uid: str = "",
        reconnect_seconds: float = RECONNECT_SECONDS,
        instance: str | None = None,
    ) -> None:
        """See `to_pod` for pods.

        Args:
            open_channel: opens a byte stream to `runner attach`.
            reconnect_seconds: how long to try after a link is lost, and at first.
            instance: the runner to expect, as an earlier session named it; else any at first.
        """
        self._requester = Requester(
            open_channel, pod_uid=pod_uid, reconnect_seconds=reconnect_seconds, instance=instance
        )
        super().__init__(self._requester)
        self.pod_uid = pod_uid

    @classmethod
    def to_pod(
        cls,
        connection: KubernetesConnection,
        http: aiohttp.ClientSession,
        *,
        namespace: str,
        pod: str,
        container: str,
        pod_uid: str,
        runner_path: str = RUNNER_PATH,
        reconnect_seconds: float = RECONNECT_SECONDS,
        instance: str | None = None,
    ) -> Self:
        """A session with the runner that is PID 1 of a container. Enter it to connect.

        Args:
            http: any client session; it must outlive this one.
        """
        open_channel = open_exec(
            connection,
            http,
            namespace=namespace,
            pod=pod,
            container=container,
            command=(runner_path, "attach"),
        )
        return cls(
            open_channel, pod_uid=pod_uid, reconnect_seconds=reconnect_seconds, instance=instance
        )

    async def connect(self) -> None:
        """Attaches to the runner.

        Raises:
            SessionLost: it could not be reached in time.
            SandboxReplaced: another runner than the expected instance answers.
        """
        await self._requester.start()

    async def close(self) -> None:
        """Detaches. What runs in the pod goes on."""
        await self._requester.stop()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def instance(self) -> str:
        """Names this runner; another container, even a restarted one, has another."""
        if self._requester.hello is None:
            raise errors.SessionClosed("the session is not connected", pod_uid=self.pod_uid)
        return self._requester.hello.instance

    @property
    def attachments(self) -> int:
        """How many links this session has used: 1 where none was lost."""
        return self._requester.attachments

    async def info(self) -> SandboxInfo:
        """The container's environment, working directory and user."""
        fields = (await self._requester.request("info", {}, recorded=False)).result
        env = dict(entry.partition("=")[::2] for entry in fields["env"])
        return SandboxInfo(env, fields["workingDir"], fields["uid"], fields["gid"])

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        timeout_seconds: float,
        request_id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        clean_env: bool = False,
        user: str | None = None,
        stdin: bytes = b"",
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
        merge_output: bool = False,
        shell: Shell = "sh",
        shell_state: str | None = None,
    ) -> ExecResult:
        """Runs a command to its end.

        It returns when the main process has ended, with all that it wrote; processes that it left
        in the background go on, and what they write later is dropped. When the time is over the
        command's whole session and all its descendants are killed.

        Args:
            command: a script for the shell, or a program with its arguments.
            timeout_seconds: of wall time in the pod; > 0.
            request_id: makes the call repeatable: the same id and content give the recorded
                result. The result is kept until `forget`.
            cwd: else the carried one, else the container's working directory.
            env: added to the container's environment, or to the carried one.
            clean_env: start from an empty environment.
            user: name or uid, with :group or :gid. The runner must be root.
            stdin: else /dev/null.
            output_limit_bytes: kept of each stream, half from its beginning, half from its end.
            merge_output: put stderr into stdout, in the order written.
            shell: for a script; "auto" is bash where there is one. Never a login shell.
            shell_state: carries directory and exported variables from call to call under this
                key. A shell that is killed or replaces itself (exec) leaves them as they were.

        Raises:
            CommandNotStarted, InvalidRequest, RequestConflict, ResultStoreFull, RunnerFault
        """
        if not 0 < timeout_seconds < _MAX_TIMEOUT_SECONDS:
            raise errors.InvalidRequest(
                f"timeout_seconds must be > 0 and < {_MAX_TIMEOUT_SECONDS}", pod_uid=self.pod_uid
            )
        parameters = _command(
            command,
            cwd=cwd,
            env=env,
            clean_env=clean_env,
            user=user,
            shell=shell,
            shell_state=shell_state,
        )
        parameters["timeoutSeconds"] = timeout_seconds
        parameters["outputLimitBytes"] = output_limit_bytes
        if merge_output:
            parameters["mergeOutput"] = True
        answer = await self._requester.request("exec", parameters, stdin, request_id=request_id)
        return ExecResult.parse(answer.result, answer.payload, pod_uid=self.pod_uid)

    async def cancel(self, request_id: str) -> bool:
        """Kills a running `exec` by its request id, with its session and descendants.

        The call itself then returns with the signal. Returns whether it was running.
        """
        parameters = {"request": request_id}
        answer = await self._requester.request("cancel", parameters, recorded=False)
        return bool(answer.result["running"])

    async def kill_all(self, *, request_id: str | None = None) -> int:
        """Kills every process in the container but the runner. Returns how many there were.

        That includes what was put in from outside, this session's own link too, which is then
        made anew: nothing that the agent may have got hold of is left.

        Raises:
            KillIncomplete: some cannot be killed.
        """
        answer = await self._requester.request("killAll", {}, request_id=request_id)
        return int(answer.result["killed"])

    async def start_process(
        self,
        process: str,
        command: str | Sequence[str],
        *,
        request_id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        clean_env: bool = False,
        user: str | None = None,
        open_stdin: bool = False,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
        shell: Shell = "sh",
        shell_state: str | None = None,
    ) -> ProcessStatus:
        """Starts a command in the background under a name of the caller's.

        Args:
            process: a name that no known process has.
            open_stdin: take input by `write_process`; else /dev/null.
            output_limit_bytes: the last bytes of stdout and stderr together that are kept.
            shell_state: where to start from; it is not changed.

        The other arguments are those of `exec`.

        Raises:
            CommandNotStarted, InvalidRequest, ProcessConflict, ProcessLimit, RequestConflict
        """
        parameters = _command(
            command,
            cwd=cwd,
            env=env,
            clean_env=clean_env,
            user=user,
            shell=shell,
            shell_state=shell_state,
        )
        parameters["process"] = process
        parameters["outputLimitBytes"] = output_limit_bytes
        if open_stdin:
            parameters["openStdin"] = True
        answer = await self._requester.request("start", parameters, request_id=request_id)
        return ProcessStatus.parse(answer.result)

    async def list_processes(self) -> list[ProcessStatus]:
        """All background processes that were started and not removed, by name."""
        answer = await self._requester.request("list", {}, recorded=False)
        return [ProcessStatus.parse(fields) for fields in answer.result]

    async def poll_process(
        self,
        process: str,
        *,
        cursor: int = 0,
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
        wait_seconds: float = 0,
    ) -> ProcessOutput:
        """Output from a cursor on, and the status.

        Args:
            cursor: `next_cursor` of the poll before, or 0.
            wait_seconds: wait so long for output or the end.

        Raises:
            ProcessNotFound
        """
        parameters = {
            "process": process,
            "cursor": cursor,
            "limitBytes": limit_bytes,
            "waitSeconds": wait_seconds,
        }
        answer = await self._requester.request("poll", parameters, recorded=False)
        return ProcessOutput(
            ProcessStatus.parse(answer.result),
            answer.payload,
            answer.result["nextCursor"],
            answer.result["droppedBytes"],
        )

    async def write_process(
        self,
        process: str,
        data: bytes,
        *,
        close_stdin: bool = False,
        request_id: str | None = None,
    ) -> None:
        """Queues bytes for a background process's stdin, and closes it after them if asked.

        Raises:
            ProcessNotFound, ProcessInputFull, InvalidRequest
        """
        parameters = {"process": process, "closeStdin": close_stdin}
        await self._requester.request("writeProcess", parameters, data, request_id=request_id)

    async def kill_process(
        self, process: str, *, signal: int = 9, request_id: str | None = None
    ) -> ProcessStatus:
        """Signals a background process's group; 9 kills its session and all descendants and waits.

        Raises:
            ProcessNotFound
        """
        parameters = {"process": process, "signal": signal}
        answer = await self._requester.request("kill", parameters, request_id=request_id)
        return ProcessStatus.parse(answer.result)

    async def remove_process(self, process: str, *, request_id: str | None = None) -> None:
        """Forgets an ended background process and its output.

        Raises:
            ProcessNotFound, ProcessConflict
        """
        await self._requester.request("remove", {"process": process}, request_id=request_id)

    def forget(self, *request_ids: str) -> None:
        """Lets the runner drop the recorded results of these requests soon."""
        self._requester.forget(list(request_ids))

    async def kept_requests(self) -> list[KeptRequest]:
        """The requests that the runner remembers, by id."""
        answer = await self._requester.request("requests", {}, recorded=False)
        return [KeptRequest(kept["id"], kept["done"], kept["bytes"]) for kept in answer.result]


def _command(
    command: str | Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str] | None,
    clean_env: bool,
    user: str | None,
    shell: Shell,
    shell_state: str | None,
) -> dict[str, Any]:
    parameters: dict[str, Any]
    if isinstance(command, str):
        parameters = {"shell": shell, "script": command}
        if shell_state is not None:
            parameters["shellState"] = shell_state
    else:
        parameters = {"argv": list(command)}
    if cwd is not None:
        parameters["cwd"] = cwd
    if env:
        parameters["env"] = dict(env)
    if clean_env:
        parameters["cleanEnv"] = True
    if user is not None:
        parameters["user"] = user
    return parameters
