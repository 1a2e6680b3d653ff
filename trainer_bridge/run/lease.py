"""One bridge per run: a Lease, without which two of them would double every group."""

import asyncio
import contextlib
import logging
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from episode_operator.kube.client import (
    LEASES,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KubernetesClient,
    Object,
)
from episode_operator.kube.lease import lease
from trainer_bridge.run.names import labels, state_name

logger = logging.getLogger(__name__)

T = TypeVar("T")

DURATION_SECONDS = 30
RENEW_SECONDS = 5.0

_PAUSE_SECONDS = 1.0


class LeaseLostError(Exception):
    """Another bridge may be at work on this run."""


class RunLease:
    """Held while a bridge works on its run; renewed in the background.

    How long a holder is silent is measured by this process' own clock, from when the Lease was last
    seen to change: clocks of machines differ.
    """

    def __init__(
        self,
        client: KubernetesClient,
        *,
        namespace: str,
        run: str,
        waiting: Callable[[str], None] = lambda holder: None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._run = run
        self._waiting = waiting
        self._identity = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._held_until = 0.0
        self._renewing: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._cause: Exception | None = None

    async def __aenter__(self) -> Self:
        await self._acquire()
        self._renewing = asyncio.create_task(self._renew(), name="lease")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._renewing is not None
        self._renewing.cancel()
        await asyncio.gather(self._renewing, return_exceptions=True)
        with contextlib.suppress(ApiError):
            stored = await self._client.get(LEASES, self._namespace, state_name(self._run))
            if stored is not None and _holder(stored) == self._identity:
                await self._client.replace(LEASES, self._held(stored, holder=""))

    async def lost(self) -> None:
        """Return once the lease is lost."""
        await self._lost.wait()

    def check(self) -> None:
        """Raise LeaseLostError unless the lease is held now."""
        if self._lost.is_set() or time.monotonic() >= self._held_until:
            raise LeaseLostError(
                f"the lease of run {self._run} was not renewed for {DURATION_SECONDS} s, so that "
                f"another bridge may have taken over: {self._cause or 'the API server is away'}"
            ) from self._cause

    async def _acquire(self) -> None:
        seen: tuple[Any, float] | None = None
        told = ""
        while True:
            began = time.monotonic()
            stored = await self._client.get(LEASES, self._namespace, state_name(self._run))
            holder = _holder(stored) if stored is not None else ""
            if stored is not None and holder not in {"", self._identity}:
                version = stored["metadata"]["resourceVersion"]
                if seen is None or seen[0] != version:
                    seen = (version, time.monotonic())
                if time.monotonic() - seen[1] < DURATION_SECONDS:
                    if holder != told:
                        told = holder
                        self._waiting(holder)
                    await asyncio.sleep(1.0)
                    continue
            try:
                if stored is None:
                    await self._client.create(LEASES, self._held(None, holder=self._identity))
                else:
                    await self._client.replace(LEASES, self._held(stored, holder=self._identity))
            except (AlreadyExistsError, ConflictError):
                continue
            self._held_until = began + DURATION_SECONDS
            return

    async def insist(self, request: Callable[[], Awaitable[T]]) -> T:
        """Make a request to the API server; repeat it while it is away, and the lease is held.

        Raises:
            LeaseLostError: the lease was lost before there was an answer; the request is given up.
            ApiError: the API server refused it.
        """
        while True:
            self.check()
            try:
                return await self._while_held(request)
            except ApiError as error:
                if not error.away or too_large(error):
                    raise
                logger.warning("the API server is away: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _while_held(self, request: Callable[[], Awaitable[T]]) -> T:
        asked, lost = asyncio.ensure_future(request()), asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({asked, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                self.check()
            return await asked
        finally:
            for task in (asked, lost):
                task.cancel()
            await asyncio.gather(asked, lost, return_exceptions=True)

    async def _renew(self) -> None:
        try:
            while True:
                await asyncio.sleep(RENEW_SECONDS)
                began = time.monotonic()
                try:
                    async with asyncio.timeout(self._held_until - began):
                        await self._renew_once()
                    self._held_until = began + DURATION_SECONDS
                except ApiError as error:
                    logger.warning("renewing the lease of run %s: %s", self._run, error)
        except Exception as error:
            self._cause = error
        finally:
            self._lost.set()

    async def _renew_once(self) -> None:
        stored = await self._client.get(LEASES, self._namespace, state_name(self._run))
        if stored is None or _holder(stored) != self._identity:
            holder = "nobody" if stored is None else _holder(stored) or "nobody"
            raise LeaseLostError(f"the lease of run {self._run} is held by {holder}")
        await self._client.replace(LEASES, self._held(stored, holder=self._identity))

    def _held(self, stored: Object | None, *, holder: str) -> Object:
        metadata: Object = {
            "name": state_name(self._run),
            "namespace": self._namespace,
            "labels": labels(self._run),
        }
        if stored is not None:
            metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
        return lease(metadata, holder=holder, duration_seconds=DURATION_SECONDS)


def too_large(error: ApiError) -> bool:
    """Whether etcd does not take an object of this size, which is told with status 500."""
    return "too large" in error.message


def _holder(stored: Object) -> str:
    return str(stored.get("spec", {}).get("holderIdentity") or "")
