"""Names, labels and the generated CRDs."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from episode_operator.api.crd import definitions
from episode_operator.api.labels import label_value, pod_name, unique_name

ROOT = Path(__file__).parents[2]
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@pytest.mark.parametrize("name", ["a", "hello", "a.b", "x" * 63, "x" * 253, "a-" * 100 + "b"])
def test_names_are_valid_and_differ_by_attempt(name: str) -> None:
    assert LABEL.fullmatch(label_value(name))
    names = {pod_name(name, attempt) for attempt in range(11)}
    assert len(names) == 11
    assert all(DNS_LABEL.fullmatch(pod) for pod in names)
    assert len(unique_name(name, "0f5e2f8e-8f1e")) <= 253


def test_names_with_dots_stay_apart_from_names_with_dashes() -> None:
    assert pod_name("a.b", 0) != pod_name("a-b", 0)


def test_long_names_that_share_a_prefix_stay_apart() -> None:
    assert pod_name("x" * 200 + "1", 0) != pod_name("x" * 200 + "2", 0)
    assert label_value("x" * 200 + "1") != label_value("x" * 200 + "2")


def walk(schema: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, schema)]
    for name, value in schema.get("properties", {}).items():
        found += walk(value, f"{path}.{name}")
    if "items" in schema:
        found += walk(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        found += walk(schema["additionalProperties"], f"{path}{{}}")
    return found


@pytest.mark.parametrize("name", definitions())
def test_schemas_are_structural_and_described(name: str) -> None:
    version = definitions()[name]["spec"]["versions"][0]
    nodes = walk(version["schema"]["openAPIV3Schema"])
    assert len(nodes) > 30
    for path, schema in nodes:
        assert schema.get("type") or schema.get("x-kubernetes-preserve-unknown-fields"), path
        assert "$ref" not in schema, path
        assert "anyOf" not in schema, path
        if not path.endswith(("[]", "{}", ".metadata")):
            assert schema.get("description"), f"{path} has no description"


@pytest.mark.parametrize("folder", ["crds", "charts/episode-operator/files/crds"])
def test_crds_are_not_stale(folder: str) -> None:
    for name, definition in definitions().items():
        assert yaml.safe_load((ROOT / folder / name).read_text()) == definition, name
