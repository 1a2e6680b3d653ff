"""Requests that run at most once over links that come and go."""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
import time
from typing import Any, NamedTuple

import orjson

from . import errors, metrics, protocol
from .channel import ChannelRefused, OpenChannel
from .link import Hello, Link, LinkIncompatible, LinkLost, LinkSuperseded

_BACKOFF_SECONDS = 0.05
_BACKOFF_MAX_SECONDS = 3.0
_ABSENT = "container not found"
_ABSENT_SECONDS = 3.0
_FORGET_PER_REQUEST = 64
_FORGET_AFTER_SECONDS = 2.0


class Answer(NamedTuple):
    """What the runner answered: the result, decoded, and the payload."""

    result: Any
    payload: bytes


class _Pending(NamedTuple):
    operation: str
    begun: float
    message: bytes
    forgets: list[str]
    future: asyncio.Future[Answer]


def _answer(message: bytes, *, pod_uid: str) -> Answer:
    """What a message answers.

    Raises:
        RequestError: the runner refused or failed the request.
        ProtocolError: it is no answer.
    """
    try:
        header, payload = protocol.split_message(message)
        fields = orjson.loads(header)
    except (protocol.DamagedStream, orjson.JSONDecodeError) as error:
        raise errors.ProtocolError(f"no answer: {error}", pod_uid=pod_uid) from error
    match fields:
        case {"error": dict(failure)}:
            raise errors.from_runner(orjson.dumps(failure), pod_uid=pod_uid)
        case dict() if "error" not in fields:
            return Answer(fields.get("result"), payload)
    raise errors.ProtocolError(f"no answer: {header[:200]!r}", pod_uid=pod_uid)


class Requester:
    """Keeps one link open and sends requests over it, again where a lost link left them open.

    The runner knows each request by its id, so one that is sent again is not run again. An id made
    here is forgotten by the runner once its answer has arrived; an id of the caller's is kept
    until the caller forgets it, so that it survives this program.
    """

    def __init__(
        self,
        open_channel: OpenChannel,
        *,
        pod_uid: str,
        reconnect_seconds: float,
        instance: str | None,
    ) -> None:
        self._open_channel = open_channel
        self.pod_uid = pod_uid
        self._reconnect_seconds = reconnect_seconds
        self._instance = instance
        self._client = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._streams = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._forgets: list[str] = []
        self._forget_timer: asyncio.TimerHandle | None = None
        self._releases: set[asyncio.Task[Answer]] = set()
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: errors.SandboxError | None = None
        self.hello: Hello | None = None
        self.attachments = 0

    async def start(self) -> None:
        """Attaches for the first time.

        Raises:
            SessionLost, SandboxReplaced, ProtocolError
        """
        link = await self._attach()
        self._task = asyncio.create_task(self._supervise(link), name=f"session {self.pod_uid}")

    async def stop(self) -> None:
        """Ends the link. Commands go on in the pod; their results wait for the next session."""
        self._fail(errors.SessionClosed("the session is closed", pod_uid=self.pod_uid))
        if self._forget_timer is not None:
            self._forget_timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def new_id(self) -> str:
        """An id that the runner forgets together with this client."""
        return f"~{self._client}-{next(self._numbers)}"

    async def request(
        self,
        operation: str,
        parameters: dict[str, Any],
        payload: bytes = b"",
        *,
        request_id: str | None = None,
        recorded: bool = True,
    ) -> Answer:
        """Sends one request and waits for its answer, over as many links as it takes.

        A cancelled wait does not stop what runs in the pod; what was not yet sent never runs.

        Args:
            request_id: the caller's own id, else one is made.
            recorded: the runner records this operation's answer, so it must be told to forget it.

        Raises:
            RequestError: the runner refused or failed it.
            SandboxError: the session is of no use any more.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._task is None:
            raise errors.SessionClosed("the session is not connected", pod_uid=self.pod_uid)
        if request_id is not None and (not request_id or request_id.startswith("~")):
            raise errors.InvalidRequest(
                f"request_id {request_id!r}: give one that does not begin with ~",
                pod_uid=self.pod_uid,
            )
        own = request_id is None
        chosen = self.new_id() if request_id is None else request_id
        forgets = self._forgets[:_FORGET_PER_REQUEST]
        del self._forgets[:_FORGET_PER_REQUEST]
        try:
            header = orjson.dumps(
                {"id": chosen, "op": operation, "forget": forgets, "params": parameters},
                option=orjson.OPT_SORT_KEYS,
            )
        except (orjson.JSONEncodeError, TypeError) as error:
            self._forgets.extend(forgets)
            raise errors.InvalidRequest(
                f"{operation}: a parameter is not valid Unicode: {error}", pod_uid=self.pod_uid
            ) from error
        message = protocol.join_message(header, payload)
        if len(message) > protocol.MAX_MESSAGE:
            self._forgets.extend(forgets)
            raise errors.InvalidRequest(
                f"{operation}: {len(message)} bytes are over {protocol.MAX_MESSAGE}; use a file",
                pod_uid=self.pod_uid,
            )
        stream = next(self._streams) & 0xFFFFFFFF
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[stream] = _Pending(operation, time.monotonic(), message, forgets, future)
        if self._link is not None:
            self._link.send(stream, message)
        try:
            return await future
        finally:
            if self._pending.pop(stream, None) is not None:
                self._forgets.extend(forgets)
                if self._link is not None:
                    self._link.drop(stream)
            if own and recorded:
                self.forget([chosen])

    def release(self, operation: str, parameters: dict[str, Any]) -> None:
        """Sends a request without waiting, for what the runner drops with this client anyway."""
        task = asyncio.ensure_future(self.request(operation, parameters, recorded=False))
        self._releases.add(task)
        task.add_done_callback(self._released)

    def _released(self, task: asyncio.Task[Answer]) -> None:
        self._releases.discard(task)
        if not task.cancelled():
            task.exception()

    def forget(self, request_ids: list[str]) -> None:
        """Lets the runner drop results soon; a running request loses its result when it ends."""
        self._forgets.extend(request_ids)
        if self._failure is None and self._forget_timer is None:
            loop = asyncio.get_running_loop()
            self._forget_timer = loop.call_later(_FORGET_AFTER_SECONDS, self._forget_now)

    def _forget_now(self) -> None:
        self._forget_timer = None
        if self._failure is None and self._forgets:
            task = asyncio.ensure_future(self.request("forget", {"requests": []}, recorded=False))
            task.add_done_callback(self._forgotten)

    def _forgotten(self, task: asyncio.Task[Answer]) -> None:
        if not task.cancelled() and task.exception() is None and self._forgets:
            self.forget([])

    def _on_message(self, stream: int, message: bytes) -> None:
        pending = self._pending.pop(stream, None)
        if pending is None or pending.future.done():
            return
        took = time.monotonic() - pending.begun
        metrics.REQUEST_SECONDS.labels(pending.operation).observe(took)
        try:
            pending.future.set_result(_answer(message, pod_uid=self.pod_uid))
        except errors.SandboxError as error:
            pending.future.set_exception(error)

    async def _supervise(self, link: Link) -> None:
        try:
            while True:
                self._link = link
                for stream, pending in self._pending.items():
                    link.send(stream, pending.message)
                try:
                    await link.run()
                except LinkLost:
                    pass
                finally:
                    self._link = None
                link = await self._attach()
        except LinkSuperseded as error:
            self._fail(errors.SessionSuperseded(str(error), pod_uid=self.pod_uid))
        except errors.SandboxError as error:
            self._fail(error)

    async def _attach(self) -> Link:
        begin = time.monotonic()
        pause = _BACKOFF_SECONDS
        absent_since: float | None = None
        while True:
            try:
                return await self._attach_once()
            except ChannelRefused as error:
                reason, final = str(error), error.final
            except (LinkLost, LinkSuperseded, OSError) as error:
                reason, final = str(error), False
            waited = time.monotonic() - begin
            # The kubelet's words. Before the first link the container may be about to start; after
            # it, it has ended. A kubelet that starts anew may be wrong for a moment.
            if self.attachments and _ABSENT in reason:
                absent_since = waited if absent_since is None else absent_since
                final = final or waited - absent_since > _ABSENT_SECONDS
            else:
                absent_since = None
            if final or waited + pause > self._reconnect_seconds:
                raise errors.SessionLost(
                    f"the runner cannot be reached after {waited:.1f} s: {reason}; "
                    "treat the pod as lost",
                    pod_uid=self.pod_uid,
                )
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _BACKOFF_MAX_SECONDS)

    async def _attach_once(self) -> Link:
        link = Link(await self._open_channel(), self._on_message)
        try:
            hello = await link.open(self._client)
        except LinkIncompatible as error:
            await link.close()
            raise errors.ProtocolError(
                f"{error}; use the runner image of this operator's release", pod_uid=self.pod_uid
            ) from error
        except BaseException:
            await link.close()
            raise
        if self._instance is not None and hello.instance != self._instance:
            await link.close()
            raise errors.SandboxReplaced(
                f"runner {hello.instance} answers instead of {self._instance}: the container "
                "restarted, its files and processes are gone; use a fresh pod",
                pod_uid=self.pod_uid,
            )
        self._instance = hello.instance
        self.hello = hello
        self.attachments += 1
        return link

    def _fail(self, error: errors.SandboxError) -> None:
        if self._failure is None:
            self._failure = error
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(error)
        self._pending.clear()
