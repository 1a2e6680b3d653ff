"""Values: what the schema refuses, and that schema, values and documentation name the same ones."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.cases import ATROPOS, BRIDGE, CASES, NAMESPACE, RELEASE, Values
from tests.testbed import chart
from tests.testbed.errors import TestbedError
from trainer_bridge.config import BridgeConfig

VALUES: Values = yaml.safe_load((chart.CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((chart.CHART / "values.schema.json").read_text())
PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
CONFIG = "bridge.config"
"""The bridge's own file: its fields are documented in bridge.md."""

ROW = re.compile(r"^\| (`[^|]+`) \|", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


def values_of(node: Values, prefix: str = "") -> Iterator[str]:
    """Paths of all values; a mapping with something in it is not a value, but has some."""
    for key, value in node.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value and path != CONFIG:
            yield from values_of(value, f"{path}.")
        else:
            yield path


def properties(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Paths of all that the schema lists, `definitions` left out."""
    for key, one in schema["properties"].items():
        path = f"{prefix}{key}"
        if "properties" in one and path != CONFIG:
            assert one["additionalProperties"] is False, path
            yield from properties(one, f"{path}.")
        else:
            yield path


def documented() -> list[str]:
    """Paths in the table of values; `.name` stands beside the one before it."""
    table = PAGE.partition("\n### Values\n")[2].partition("\n\n")[0]
    found: list[str] = []
    for cell in ROW.findall(table):
        for name in CODE.findall(cell):
            if name.startswith("."):
                found.append(found[-1].rpartition(".")[0] + name)
            else:
                found.append(name)
    return found


def covers(path: str, value: str) -> bool:
    return value == path or value.startswith(f"{path}.")


def test_the_schema_lists_every_value_and_no_other() -> None:
    assert SCHEMA["additionalProperties"] is False
    listed = set(properties(SCHEMA)) - {"global"}
    values = set(values_of(VALUES))
    assert {one for one in values if not any(covers(path, one) for path in listed)} == set()
    assert {path for path in listed if not any(covers(path, one) for one in values)} == set()


def test_every_value_is_documented_and_no_other() -> None:
    told, values = documented(), set(values_of(VALUES))
    assert {one for one in values if not any(covers(path, one) for path in told)} == set()
    assert {path for path in told if not any(covers(path, one) for one in values)} == set()
    assert len(told) == len(set(told))


def test_the_bridges_file_has_the_fields_of_its_model() -> None:
    fields = SCHEMA["properties"]["bridge"]["properties"]["config"]["properties"]
    assert set(fields) == set(BridgeConfig.model_fields)


def with_bridge(**config: Any) -> Values:
    """A bridge whose file has also these fields; one that is None is not there at all."""
    fields = {**BRIDGE["config"], **config}
    return {"bridge": {**BRIDGE, "config": {k: v for k, v in fields.items() if v is not None}}}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"operater": {}}, ["'operater' not allowed"]),
        ({"operator": {"imge": "a"}}, ["/operator", "'imge' not allowed"]),
        ({"operator": {"logLevel": "loud"}}, ["/operator/logLevel", "'debug', 'info'"]),
        ({"operator": {"watchNamespaces": "team-a"}}, ["/operator/watchNamespaces", "array"]),
        ({"operator": {"ignoreNamespaces": ["Team"]}}, ["/operator/ignoreNamespaces/0"]),
        ({"operator": {"requireNetworkPolicy": "no"}}, ["/operator/requireNetworkPolicy"]),
        ({"operator": {"sandbox": {"blockedCIDRs": ["203.0.113.7"]}}}, ["blockedCIDRs/0"]),
        (
            {"operator": {"resources": {"limits": {"memory": "2 Gi"}}}},
            ["/operator/resources/limits/memory"],
        ),
        ({"objectStore": {"url": "results"}}, ["/objectStore/url"]),
        ({"bridge": {"mode": "train"}}, ["/bridge/mode", "'serve', 'process', 'evaluate'"]),
        (with_bridge(run="My run"), ["/bridge/config/run"]),
        (with_bridge(metrics_port=99_999), ["/bridge/config/metrics_port"]),
        (with_bridge(task={}), ["/bridge/config", "'task' not allowed"]),
        ({"vllm": {"gpus": "two"}}, ["/vllm/gpus", "want integer"]),
        ({"vllm": {"sessionAffinity": "Cookie"}}, ["/vllm/sessionAffinity", "'ClientIP'"]),
        ({"vllm": {"autoscaling": {"enabled": True}}}, ["/vllm/autoscaling/metrics", "minItems"]),
        ({"vllm": {"cache": {"hostPath": "models"}}}, ["/vllm/cache/hostPath"]),
        ({"vllm": {"env": [{"HF_TOKEN": "a"}]}}, ["/vllm/env/0", "'name'"]),
        ({"atropos": {"enabled": True}}, ["/atropos/image"]),
        (
            {"monitoring": {"rules": {"noVerdictShare": 10}}},
            ["/monitoring/rules/noVerdictShare"],
        ),
        (
            {"vllm": {"enabled": True, "cache": {"existingClaim": "a", "hostPath": "/a"}}},
            ["vllm.cache: set existingClaim or hostPath, not both"],
        ),
        (
            {"monitoring": {"rules": {"enabled": True}}},
            ["monitoring.rules needs monitoring.serviceMonitor.enabled"],
        ),
        ({"bridge": {"enabled": True}}, ["bridge.config.run must be set"]),
        (with_bridge(tasks=None), ["bridge.config.tasks must be set"]),
        (with_bridge(sink=None), ["bridge.config.sink must be set"]),
    ],
)
def test_mistakes_are_refused_with_the_fields_name(values: Values, told: list[str]) -> None:
    with pytest.raises(TestbedError) as caught:
        chart.manifests(RELEASE, NAMESPACE, values)
    for text in told:
        assert text in str(caught.value)


def test_as_a_part_of_another_chart_global_values_are_taken() -> None:
    assert chart.manifests(RELEASE, NAMESPACE, {"global": {"anything": 1}, "atropos": ATROPOS})


@pytest.mark.parametrize("case", CASES)
def test_the_chart_lints(case: str) -> None:
    chart.helm("lint", "--strict", str(chart.CHART), values=CASES[case])
