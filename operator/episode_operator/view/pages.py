"""Makes pages from templates, off the event loop: a long trajectory takes a while."""

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from episode_operator.kube.rows import age
from episode_operator.results.heat import ADVANTAGES, LOGPROBS, heat
from episode_operator.results.rollout import Token

_SHOWN = 4_000
"""Characters of a text that are shown at once; the rest is one click away."""


class Pages:
    """The templates of this package. All values are escaped."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader(__package__),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"arguments": _arguments, "number": _number, "age": age}
        self._templates.globals |= {
            "heat": _heat,
            "title": _title,
            "line": _line,
            "shown": _SHOWN,
            "logprob_limits": LOGPROBS,
            "advantage_limits": ADVANTAGES,
        }

    async def answer(
        self,
        template: str,
        *,
        status: int = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> web.Response:
        """The template with the values."""
        found = self._templates.get_template(template)
        text = await asyncio.to_thread(found.render, values)
        return web.Response(
            text=text, status=status, headers=headers, content_type="text/html", charset="utf-8"
        )


def _arguments(given: dict[str, Any] | str) -> list[tuple[str, str]]:
    """Arguments of a call as names and texts; one without a name where they are no object."""
    if isinstance(given, str):
        return [("", given)]
    return [
        (name, value if isinstance(value, str) else orjson.dumps(value).decode())
        for name, value in given.items()
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _heat(token: Token, taught: bool) -> str:
    """CSS classes of a token."""
    found = heat(token, taught=taught)
    return f"{found.scale} {found.scale}-{found.level}" if found.level else found.scale


def _title(token: Token) -> str:
    """All that is known of a token."""
    parts = [f"position {token.position}", f"id {token.id}"]
    values = (("logprob", token.logprob), ("teacher", token.teacher), ("A_t", token.advantage))
    parts += [f"{name} {value:.4f}" for name, value in values if value is not None]
    if token.version:
        parts.append(f"weights {token.version}")
    return ", ".join(parts) if token.sampled else f"{', '.join(parts)}, inserted"


def _line(points: Sequence[tuple[float, float]], width: float, height: float) -> str:
    """Points of an SVG polyline: x from 0 to the last, y from 0 to the greatest value."""
    right = max((x for x, _ in points), default=1.0) or 1.0
    top = max((y for _, y in points), default=1.0) or 1.0
    return " ".join(f"{x / right * width:.1f},{height - y / top * height:.1f}" for x, y in points)
