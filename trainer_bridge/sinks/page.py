"""Rollouts as one HTML page to look at, which needs nothing else and runs nothing.

All text in it is of agents and tasks, so hostile: it is escaped, and a policy in the page lets the
browser load and run nothing, whatever it finds.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

SHOWN_COLUMNS: Final = (
    "group",
    "member",
    "episode",
    "task",
    "verdict",
    "reason",
    "reward",
    "reward_components",
    "agent_end",
    "messages",
)
SHOWN_GROUPS: Final = 100

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Rollouts</title>
<style>
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; }
details { border-top: 1px solid #ccc; padding: .5em 0; }
summary { cursor: pointer; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; font-family: ui-monospace, monospace; }
.message { border-left: 4px solid #999; margin: .7em 0; padding: 0 1em; }
.assistant { border-color: #2a6; }
.tool { border-color: #c82; }
.user { border-color: #26c; }
</style>
</head>
<body>
<h1>Rollouts</h1>
"""
_TAIL = "</body>\n</html>\n"
_ROLES = ("assistant", "tool", "user")


def page(shown: Sequence[Sequence[Mapping[str, Any]]], *, groups: int) -> str:
    """The page of the groups in `shown`, each a list of rows with SHOWN_COLUMNS, of `groups`."""
    parts = [_HEAD, _element("p", f"{len(shown)} of {groups} groups, the last ones written.")]
    for rows in shown:
        parts.append(_element("h2", f"{rows[0]['group']}: {rows[0]['task']}"))
        parts += map(_rollout, rows)
    return "".join([*parts, _TAIL])


def _rollout(row: Mapping[str, Any]) -> str:
    heading = f"{row['member']}: {row['verdict']}, reward {row['reward']}, {row['reason']}"
    components = [f"{part['name']} {part['value']}" for part in row["reward_components"]]
    ends = [f"agent ended: {row['agent_end']}"] if row["agent_end"] else []
    about = ", ".join([row["episode"], *ends, *components])
    messages = "".join(map(_message, row["messages"] or []))
    return f"<details>{_element('summary', heading)}{_element('p', about)}{messages}</details>\n"


def _message(message: Mapping[str, Any]) -> str:
    role = message["role"]
    style = role if role in _ROLES else "other"
    texts = [message["reasoning"], message["content"]]
    for call in message["tool_calls"] or []:
        texts.append(f"{call['function']['name']} {call['function']['arguments']}")
    body = "".join(_element("div", text, style="text") for text in texts if text)
    return f'<div class="message {style}">{_element("b", role)}{body}</div>'


def _element(tag: str, text: str, *, style: str | None = None) -> str:
    attribute = f' class="{style}"' if style else ""
    return f"<{tag}{attribute}>{escape(text)}</{tag}>"
