"""The server of the web view: reads only, on the loopback only."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from importlib import resources
from typing import Any

import orjson
from aiohttp import web

from episode_operator.api.episode import Episode
from episode_operator.api.reasons import Phase, Verdict
from episode_operator.kube.client import ApiError, KubernetesClient
from episode_operator.kube.loopback import Handler, own_names
from episode_operator.kube.selection import Selection
from episode_operator.results.finding import RecordAmbiguous, RecordError
from episode_operator.results.objects import ObjectStore
from episode_operator.results.record import UNREADABLE
from episode_operator.results.rollout import head
from episode_operator.results.trajectory import entries
from episode_operator.view import curves, waterfall
from episode_operator.view.pages import Pages
from episode_operator.view.reading import Found, Reader

Conversations = Callable[[str], list[dict[str, Any]] | None]
"""What was said so far in the Episode of a uid; None where this replica does not know it."""

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE = f"/namespaces/{{namespace:{_LABEL}}}"
_EPISODE = f"{_NAMESPACE}/episodes/{{name:[a-z0-9][-a-z0-9.]{{0,252}}}}"
"""Names as Kubernetes has them: with others a path of the API server would lead elsewhere."""

_STATIC = {"style.css": "text/css", "live.js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class View:
    """Answers the requests of the web view and of `episodectl logs`.

    An Episode at work that this replica does not drive is answered with 421: what can be read of
    it, without its conversation, which another replica may have.
    """

    def __init__(
        self, client: KubernetesClient, store: ObjectStore | None, conversations: Conversations
    ) -> None:
        self._reader = Reader(client, store)
        self._conversations = conversations
        self._pages = Pages()

    @property
    def application(self) -> web.Application:
        """All its paths."""
        application = web.Application(middlewares=[self._guarded, own_names])
        application.add_routes(
            [
                web.get("/", self._list),
                web.get("/static/{file}", self._static),
                web.get(_EPISODE, self._episode),
                web.get(f"{_EPISODE}/entries", self._entries),
                web.get(f"{_EPISODE}/turns/{{turn:[0-9]{{1,9}}}}/tokens", self._tokens),
                web.get(f"{_NAMESPACE}/groups/{{name}}", self._group),
                web.get(f"{_NAMESPACE}/runs/{{name}}", self._run),
                web.get(f"/api{_EPISODE}/conversation", self._conversation),
            ]
        )
        return application

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Errors become a page or JSON."""
        try:
            response = await handler(request)
        except (*UNREADABLE, ApiError, RecordError, web.HTTPException) as error:
            response = await self._failed(request, error)
        response.headers.update(_HEADERS)
        return response

    async def _failed(self, request: web.Request, error: Exception) -> web.Response:
        status, text = _status(error), str(error)
        if isinstance(error, web.HTTPException):
            text = error.text or error.reason
        if request.path.startswith("/api/"):
            return _json({"error": text}, status=status)
        return await self._pages.answer("error.html", status=status, message=text, code=status)

    async def _static(self, request: web.Request) -> web.Response:
        file = request.match_info["file"]
        if file not in _STATIC:
            raise web.HTTPNotFound
        content = resources.files(__package__).joinpath("static", file).read_bytes()
        return web.Response(body=content, content_type=_STATIC[file], charset="utf-8")

    async def _list(self, request: web.Request) -> web.Response:
        query = request.query
        chosen = {
            name: query.get(name, "")
            for name in ("namespace", "run", "group", "phase", "verdict", "reason")
        }
        if chosen["namespace"] and not re.fullmatch(_LABEL, chosen["namespace"]):
            raise web.HTTPBadRequest(text=f"{chosen['namespace']!r} is no name of a namespace")
        selection = Selection(
            chosen["run"] or None,
            chosen["group"] or None,
            verdicts=_chosen(Verdict, chosen["verdict"]),
            reasons=[chosen["reason"]] if chosen["reason"] else (),
            phases=_chosen(Phase, chosen["phase"]),
        )
        listed = await self._reader.episodes(chosen["namespace"] or None, selection)
        part = "part" in query
        return await self._pages.answer(
            "rows.html" if part else "episodes.html",
            listed=listed,
            chosen=chosen,
            phases=list(Phase),
            verdicts=list(Verdict),
            now=datetime.now(UTC),
        )

    async def _episode(self, request: web.Request) -> web.Response:
        found = await self._found(request)
        record, messages = found.record, self._messages(found)
        if record is not None:
            bars = waterfall.of_result(record.result)
        else:
            assert found.episode is not None
            bars = waterfall.of_status(found.episode, datetime.now(UTC))
        return await self._pages.answer(
            "episode.html",
            status=HTTPStatus.MISDIRECTED_REQUEST if messages is None else HTTPStatus.OK,
            found=found,
            head=None if record is None else head(record),
            entries=entries(messages or []),
            first=0,
            seen=len(messages or []),
            elsewhere=messages is None,
            bars=bars,
            sampled=record is not None and record.row is not None,
            taught=record is not None and record.distillation is not None,
        )

    async def _entries(self, request: web.Request) -> web.Response:
        """The entries from the one numbered `from` on; nothing if there is no news."""
        found = await self._found(request)
        messages = self._messages(found)
        if messages is None:
            raise web.HTTPMisdirectedRequest
        first, seen = _number(request, "from"), _number(request, "seen")
        headers = {"X-Seen": str(len(messages)), "X-Over": str(int(found.record is not None))}
        if len(messages) == seen:
            return web.Response(status=HTTPStatus.NO_CONTENT, headers=headers)
        return await self._pages.answer(
            "entries.html",
            headers=headers,
            entries=entries(messages)[first:],
            first=first,
            sampled=False,
            found=found,
        )

    async def _tokens(self, request: web.Request) -> web.Response:
        found = await self._found(request)
        turn, why = await self._reader.turn(found, int(request.match_info["turn"]))
        if turn is None:
            raise web.HTTPNotFound(text="no tokens were sampled in this turn")
        taught = found.record is not None and found.record.distillation is not None
        return await self._pages.answer("tokens.html", turn=turn, why=why, taught=taught)

    async def _group(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        members = await self._reader.group(namespace, name)
        if not members:
            raise web.HTTPNotFound(text=f"namespace {namespace} has no results of a group {name}")
        rewards = [one.record.reward for one in members if one.record is not None]
        known = [reward for reward in rewards if reward is not None]
        return await self._pages.answer(
            "group.html",
            namespace=namespace,
            name=name,
            members=[(one, entries(self._messages(one) or [])) for one in members],
            mean=sum(known) / len(known) if known else None,
        )

    async def _run(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        outcomes = await self._reader.outcomes(namespace, name)
        if not outcomes:
            raise web.HTTPNotFound(text=f"namespace {namespace} has no results of a run {name}")
        return await self._pages.answer(
            "run.html", namespace=namespace, name=name, run=curves.of_run(name, outcomes)
        )

    async def _conversation(self, request: web.Request) -> web.Response:
        """For programs: the messages from the one numbered `seen` on."""
        found = await self._found(request)
        messages = self._messages(found)
        episode = found.episode
        return _json(
            {
                "over": found.record is not None,
                "phase": None if episode is None else episode.status.phase,
                "attempt": None if episode is None else episode.status.attempt,
                "messages": (messages or [])[_number(request, "seen") :],
            },
            status=HTTPStatus.MISDIRECTED_REQUEST if messages is None else HTTPStatus.OK,
        )

    async def _found(self, request: web.Request) -> Found:
        given = request.match_info
        return await self._reader.episode(given["namespace"], given["name"])

    def _messages(self, found: Found) -> list[dict[str, Any]] | None:
        """The conversation; None if it is only known elsewhere."""
        if found.record is not None:
            return found.record.messages or []
        assert isinstance(found.episode, Episode)
        return self._conversations(found.episode.uid)


def _status(error: Exception) -> int:
    match error:
        case web.HTTPException():
            return error.status
        case RecordAmbiguous():
            return HTTPStatus.CONFLICT
        case RecordError():
            return HTTPStatus.NOT_FOUND
        case ApiError():
            return HTTPStatus.BAD_GATEWAY
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR


def _json(content: dict[str, Any], *, status: int) -> web.Response:
    return web.Response(
        body=orjson.dumps(content), status=status, content_type="application/json", charset="utf-8"
    )


def _chosen(kind: type[Any], value: str) -> list[Any]:
    """The value as a list, none where any is taken.

    Raises:
        web.HTTPBadRequest: there is no such value.
    """
    try:
        return [kind(value)] if value else []
    except ValueError as error:
        raise web.HTTPBadRequest(text=str(error)) from error


def _number(request: web.Request, name: str) -> int:
    value = request.query.get(name, "0")
    if not value.isascii() or not value.isdigit():
        raise web.HTTPBadRequest(text=f"{name} must be a number, not {value!r}")
    return int(value)
