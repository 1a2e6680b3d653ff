"""The reference pages, as Markdown: the custom resources, and the decision table."""

from collections.abc import Iterator
from typing import Any

from episode_operator.api.crd import definitions
from episode_operator.api.decisions import TABLE, Contract, Decision
from episode_operator.api.reasons import Verdict

_INTRODUCTION = """\
# Reference of the custom resources

Generated from `operator/episode_operator/api` by `make crds`; do not edit. `kubectl explain` tells
the same.
"""


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "object"))


def _bounds(schema: dict[str, Any]) -> str:
    shown = {
        "minimum": ">" if schema.get("exclusiveMinimum") else "≥",
        "maximum": "≤",
        "maxLength": "length ≤",
        "maxItems": "items ≤",
    }
    found = [f"{word} {schema[key]}" for key, word in shown.items() if key in schema]
    return ", ".join(found)


def _default(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    if default in (None, [], {}) or isinstance(default, dict):
        return ""
    return f"`{default}`"


def _rows(schema: dict[str, Any], path: str) -> Iterator[str]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        full = f"{path}.{name}"
        about = " ".join(field.get("description", "").split()).replace("|", "\\|")
        if name in required:
            about += " **required**"
        cells = (f"`{full}`", _type(field), _default(field), _bounds(field), about)
        yield f"| {' | '.join(cells)} |"
        yield from _rows(field, full)
        if field.get("type") == "array":
            yield from _rows(field["items"], f"{full}[]")


def _rules(schema: dict[str, Any], path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", []):
        yield f"- `{path}{rule.get('fieldPath', '')}`: {rule['message']}"
    for name, field in schema.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}")
    if "items" in schema:
        yield from _rules(schema["items"], f"{path}[]")


def markdown() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for definition in definitions().values():
        names, version = definition["spec"]["names"], definition["spec"]["versions"][0]
        schema = version["schema"]["openAPIV3Schema"]
        parts.append(
            f"## {names['kind']} (`{names['shortNames'][0]}`)\n\n{schema['description']}\n"
        )
        for part in ("spec", "status"):
            rows = "\n".join(_rows(schema["properties"][part], part))
            head = "| field | type | default | bounds | meaning |\n|---|---|---|---|---|"
            parts.append(f"### {names['kind']} {part}\n\n{head}\n{rows}\n")
        rules = "\n".join(_rules(schema["properties"]["spec"], "spec"))
        parts.append(f"### {names['kind']} rules checked at apply\n\n{rules}\n")
    return "\n".join(parts)


_VERDICTS = """\
# Verdicts

What can happen to an Episode, and what becomes of it. Generated from
`operator/episode_operator/api/decisions.py` by `make crds`; do not edit. The operator decides by
the same table, and tests go through it row by row.

However the agent ends (`NaturalFinish`, `MaxTurns`, `ContextLimit`, `AgentTimeout`,
`OracleCompleted`, `ScriptCompleted`), what it left is verified. An exit status is never guessed:
where the answer to a command was lost, how it ended is unknown, and there is no verdict.
"""

_COLUMNS = (
    "what happened",
    "contract",
    "verdict",
    "reason",
    "retried on a fresh pod",
    "what to do",
)


def _row(decision: Decision) -> tuple[str, ...]:
    every = decision.contracts == frozenset(Contract)
    contracts = "any" if every else ", ".join(f"`{c}`" for c in Contract if c in decision.contracts)
    retried = "yes" if decision.retry else "no"
    return (
        decision.what,
        contracts,
        decision.verdict,
        f"`{decision.reason}`",
        retried if decision.verdict is Verdict.NO_VERDICT else "",
        decision.advice,
    )


def verdicts() -> str:
    """docs/verdicts.md."""
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_row, TABLE)]
    return "\n".join([_VERDICTS, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
