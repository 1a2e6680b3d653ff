"""The operator's replicas: what they tell of Episodes at work, over forwarded ports."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from episode_operator.kube.client import PODS, KubernetesClient
from episode_operator.kube.port_forward import Forward, forwarded
from episodectl.errors import CommandError

_LABELS = {
    "app.kubernetes.io/name": "episode-operator",
    "app.kubernetes.io/component": "operator",
}
_PORT = 9091
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a replica answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body.

        Raises:
            CommandError: it tells an error, or is no JSON.
        """
        try:
            content = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise CommandError(f"the operator answered {self.status} and no JSON") from error
        if not isinstance(content, dict) or "error" in content:
            raise CommandError(f"the operator answered {self.status}: {content}")
        return content


class Operators:
    """Replicas of an operator that can be asked."""

    def __init__(self, http: aiohttp.ClientSession, forwards: Mapping[str, Forward]) -> None:
        self._http = http
        self._forwards = forwards

    async def get(self, path: str) -> Answer:
        """The answer of the replica that knows most: 421 of one means, ask another.

        Raises:
            CommandError: no replica answers.
        """
        answers: list[Answer] = []
        failures: list[str] = []
        for pod, forward in self._forwards.items():
            try:
                async with self._http.get(f"{forward.url}{path}") as response:
                    answer = Answer(response.status, response.headers, await response.read())
            except (aiohttp.ClientError, TimeoutError) as error:
                failures.append(f"pod {pod}: {forward.failure or repr(error)}")
                continue
            if answer.status != HTTPStatus.MISDIRECTED_REQUEST:
                return answer
            answers.append(answer)
        if not answers:
            raise CommandError(
                f"the operator does not answer: {'; '.join(failures)}; is it of an older release, "
                "without a web view?"
            )
        return answers[-1]


@asynccontextmanager
async def connected(client: KubernetesClient, namespace: str | None) -> AsyncIterator[Operators]:
    """The replicas that run, in a namespace or, if None, in any.

    Raises:
        CommandError: there are none.
        ApiError: the API server does not answer, or does not allow it.
    """
    pods = await client.list(PODS, namespace, labels=_LABELS)
    running = [pod["metadata"] for pod in pods if pod["status"].get("phase") == "Running"]
    if not running:
        where = "any namespace" if namespace is None else f"namespace {namespace}"
        raise CommandError(f"no operator runs in {where}; --operator-namespace says where it is")
    _check_one_release(running)
    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        forwards = {
            pod["name"]: await stack.enter_async_context(
                forwarded(
                    client.connection, namespace=pod["namespace"], pod=pod["name"], port=_PORT
                )
            )
            for pod in running
        }
        yield Operators(http, forwards)


def _check_one_release(pods: Sequence[Mapping[str, Any]]) -> None:
    namespaces = sorted({pod["namespace"] for pod in pods})
    if len(namespaces) > 1:
        raise CommandError(
            f"operators run in namespaces {', '.join(namespaces)}: choose one with "
            "--operator-namespace"
        )
