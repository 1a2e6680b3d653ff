"""What is said in an Episode, as it is said."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import orjson
from rich.console import Console
from rich.text import Text

from episode_operator.kube.client import KubernetesClient
from episode_operator.results.finding import RecordUnfinished
from episode_operator.results.trajectory import entries
from episodectl import records
from episodectl.operators import Operators, connected
from episodectl.running import say
from episodectl.view import visible

_PAUSE_SECONDS = 1.0

Message = dict[str, Any]


async def messages(
    client: KubernetesClient,
    namespace: str,
    name: str,
    *,
    follow: bool,
    operator_namespace: str | None,
) -> AsyncIterator[Message]:
    """The messages of an Episode, finished or not; with `follow`, until it is over.

    Raises:
        CommandError: there is no such Episode, or no operator that can be asked.
        ApiError: the API server does not answer, or does not allow it.
    """
    try:
        record = await records.load(client, namespace, name)
    except RecordUnfinished:
        async with connected(client, operator_namespace) as operators:
            async for message in _live(operators, namespace, name, follow=follow):
                yield message
        return
    for message in record.messages or []:
        yield message


async def _live(
    operators: Operators, namespace: str, name: str, *, follow: bool
) -> AsyncIterator[Message]:
    path = f"/api/namespaces/{quote(namespace)}/episodes/{quote(name)}/conversation"
    seen, attempt, told = 0, None, ""
    while True:
        answer = await operators.get(f"{path}?seen={seen}")
        said = answer.json()
        if said["attempt"] is not None and said["attempt"] != attempt:
            if attempt is not None:
                say(f"attempt {attempt} failed; attempt {said['attempt']} begins", "yellow")
            attempt, again = said["attempt"], seen > 0
            seen = 0
            if again:
                continue
        for message in said["messages"]:
            yield message
        seen += len(said["messages"])
        if said["over"] or not follow:
            if not seen:
                say(_nothing(answer.status, said["phase"]), "yellow")
            return
        if answer.status == HTTPStatus.MISDIRECTED_REQUEST and told != said["phase"]:
            told = said["phase"]
            say(_nothing(answer.status, said["phase"]), "dim")
        await asyncio.sleep(_PAUSE_SECONDS)


def _nothing(status: int, phase: str | None) -> str:
    if status == HTTPStatus.MISDIRECTED_REQUEST:
        return "no operator works on it now; its messages are known once one does, or at its end"
    return f"nothing was said yet; its phase is {phase or 'not set'}"


def print_message(console: Console, message: Message) -> None:
    """Print one message for people."""
    role = str(message["role"])
    if role == "tool":
        console.print(Text(visible(str(message.get("content") or "")), style="dim"))
        return
    (entry,) = entries([message])
    console.print(Text(role, style="bold"))
    for text, style in ((entry.reasoning, "italic dim"), (entry.text, "")):
        if text:
            console.print(Text(visible(text), style=style))
    for call in entry.calls:
        given = call.arguments
        shown = given if isinstance(given, str) else orjson.dumps(given).decode()
        console.print(Text(f"{call.tool} ", style="cyan").append(visible(shown), style="not bold"))
