"""The chart's alerts against time series, by the unit tests of Prometheus' own promtool."""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.chart.cases import NAMESPACE, RELEASE
from tests.chart.queries import alerts, groups

OPERATOR, BRIDGE, VLLM = (f"{RELEASE}-{name}" for name in ("metrics", "bridge-metrics", "vllm"))
"""Services whose names the ServiceMonitors put into the label `service`."""

_TEMPLATE = re.compile(r"\{\{.*?\}\}")


@dataclass(frozen=True)
class Case:
    """An alert at a moment of some series; the interval is a minute.

    Attributes:
        alert: its name.
        series: series in promtool's notation -> values.
        at: the moment, as in `45m`.
        told: what takes the places of the templates in its description, one after the other, if it
            fires; None if it does not.
        labels: labels of the alert besides those of its rule.
    """

    alert: str
    series: Mapping[str, str]
    at: str
    told: tuple[str, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def series(name: str, service: str, **labels: str) -> str:
    """A series of a target of the release, with the labels that a ServiceMonitor gives."""
    target = {
        "namespace": NAMESPACE,
        "service": service,
        "job": service,
        "pod": f"{service}-0",
        "instance": "192.0.2.1:9090",
    }
    pairs = ",".join(f"{key}={json.dumps(value)}" for key, value in {**target, **labels}.items())
    return f"{name}{{{pairs}}}"


def write(folder: Path) -> Path:
    """A file of the rules, as the Prometheus operator would make it of the PrometheusRule."""
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": groups()}))
    return file


def judge(promtool: str, folder: Path, case: Case) -> str:
    """What promtool finds wrong with the case; nothing if the rules do as it says."""
    write(folder)
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": one} for name, one in case.series.items()],
        "alert_rule_test": [
            {"eval_time": case.at, "alertname": case.alert, "exp_alerts": _expected(case)}
        ],
    }
    file = folder / "test.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]})
    )
    ran = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def _expected(case: Case) -> list[dict[str, Any]]:
    if case.told is None:
        return []
    (alert,) = (one for one in alerts() if one["alert"] == case.alert)
    told = iter(case.told)
    description = _TEMPLATE.sub(lambda _: next(told), alert["annotations"]["description"])
    assert next(told, None) is None, f"{case.alert} tells less than {case.told}"
    annotations = {**alert["annotations"], "description": description}
    labels = {**case.labels, **alert["labels"]}
    return [{"exp_labels": labels, "exp_annotations": annotations}]
