"""Turns the pydantic models into CustomResourceDefinitions with structural schemas."""

import copy
from typing import Any

from episode_operator.api.base import GROUP, VERSION, ApiModel
from episode_operator.api.episode import EpisodeSpec, EpisodeStatus
from episode_operator.api.result import EpisodeResultSpec, EpisodeResultStatus

Schema = dict[str, Any]

_DROPPED = frozenset({"title", "additionalProperties", "exclusiveMinimum", "const", "$defs"})


def _resolve(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[1]]
        return {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
    return schema


def _without_null(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if "anyOf" not in schema:
        return schema
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    if len(options) != 1:
        raise ValueError(f"a structural schema has no union of {options}")
    rest = {k: v for k, v in schema.items() if k not in ("anyOf", "default")}
    return {**_resolve(options[0], definitions), **rest}


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {
        k: _without_nulls(v) if isinstance(v, dict) else v
        for k, v in value.items()
        if v is not None
    }


def structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """A structural schema: references inlined, null and pydantic's extras removed."""
    schema = _without_null(_resolve(schema, definitions), definitions)
    out: Schema = {k: copy.deepcopy(v) for k, v in schema.items() if k not in _DROPPED}
    if "const" in schema:
        out["enum"] = [schema["const"]]
    if "exclusiveMinimum" in schema:
        out["minimum"] = schema["exclusiveMinimum"]
        out["exclusiveMinimum"] = True
    if "properties" in schema:
        out["properties"] = {
            name: structural(value, definitions) for name, value in schema["properties"].items()
        }
    if "items" in schema:
        out["items"] = structural(schema["items"], definitions)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        out["additionalProperties"] = structural(extra, definitions)
    if isinstance(schema.get("default"), dict):
        out["default"] = _without_nulls(schema["default"])
    if out.get("format") == "float" or out.get("type") == "number":
        out["format"] = "double"
    if out.get("type") == "integer":
        out["format"] = "int64"
    return out


def model_schema(model: type[ApiModel]) -> Schema:
    """The structural schema of one model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return structural(schema, schema.get("$defs", {}))


def _column(name: str, path: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path, **more}


def _definition(
    *,
    kind: str,
    plural: str,
    short_name: str,
    description: str,
    spec: type[ApiModel],
    status: type[ApiModel],
    columns: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Helm must not delete the definitions with a release: all results would go with them.
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short_name],
                "categories": ["rl"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": description,
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": {
                                    "type": "string",
                                    "description": "Version of the schema of this object.",
                                },
                                "kind": {"type": "string", "description": f"Always {kind}."},
                                "metadata": {"type": "object"},
                                "spec": model_schema(spec),
                                "status": model_schema(status),
                            },
                        }
                    },
                }
            ],
        },
    }


def definitions() -> dict[str, dict[str, Any]]:
    """File name -> CustomResourceDefinition, for all resources."""
    return {
        f"{GROUP}_episodes.yaml": _definition(
            kind="Episode",
            plural="episodes",
            short_name="epi",
            description="One run of an agent on a task in a sandbox, scored by a verifier.",
            spec=EpisodeSpec,
            status=EpisodeStatus,
            columns=[
                _column("Phase", ".status.phase"),
                _column("Verdict", ".status.verdict"),
                _column("Reward", ".status.reward", "number"),
                _column("Turns", ".status.turns", "integer"),
                _column("Reason", ".status.reason"),
                _column("Attempt", ".status.attempt", "integer", priority=1),
                _column("Pod", ".status.podName", priority=1),
                _column("Age", ".metadata.creationTimestamp", "date"),
            ],
        ),
        f"{GROUP}_episoderesults.yaml": _definition(
            kind="EpisodeResult",
            plural="episoderesults",
            short_name="epr",
            description="What an Episode gave: reward, messages and exact tokens.",
            spec=EpisodeResultSpec,
            status=EpisodeResultStatus,
            columns=[
                _column("Episode", ".spec.episode.name"),
                _column("Verdict", ".spec.verdict"),
                _column("Reward", ".spec.reward", "number"),
                _column("Turns", ".spec.counts.turns", "integer"),
                _column("Tokens", ".spec.counts.tokens", "integer"),
                _column("Reason", ".spec.reason"),
                _column("Delivery", ".status.delivery", priority=1),
                _column("Age", ".metadata.creationTimestamp", "date"),
            ],
        ),
    }
