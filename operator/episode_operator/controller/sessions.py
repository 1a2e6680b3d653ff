"""The sessions with the containers of one pod, opened when they are needed."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import aiohttp

from episode_operator.kube.connection import KubernetesConnection
from episode_operator.lifecycle.pods import MAIN_CONTAINER, PodView
from episode_operator.sandbox.pod import verifier_container
from episode_operator.sandbox.session import Session


class Sessions:
    """Sessions with the agent's container and those that verify separately. Enter it first."""

    def __init__(
        self,
        connection: KubernetesConnection,
        http: aiohttp.ClientSession,
        namespace: str,
        pod: PodView,
        *,
        retry_seconds: float,
    ) -> None:
        self._connection = connection
        self._http = http
        self._namespace = namespace
        self._pod = pod
        self._retry_seconds = retry_seconds
        self._open: dict[str, Session] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    async def agent(self) -> Session:
        """The session with the container that the agent works in.

        Raises:
            SandboxError: it cannot be reached.
        """
        return await self._session(MAIN_CONTAINER)

    async def verifier(self, index: int) -> Session:
        """The session with the separate container that verifies a step. Raises as `agent` does."""
        return await self._session(verifier_container(index))

    async def _session(self, container: str) -> Session:
        if container not in self._open:
            self._open[container] = await self._stack.enter_async_context(
                Session.to_pod(
                    self._connection,
                    self._http,
                    namespace=self._namespace,
                    pod=self._pod.name,
                    container=container,
                    pod_uid=self._pod.uid,
                    reconnect_seconds=self._retry_seconds,
                )
            )
        return self._open[container]
