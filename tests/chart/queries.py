"""What the chart's alerts and its dashboard ask Prometheus."""

import json
from collections.abc import Iterator
from typing import Any

import promql_parser

from tests.chart.cases import RELEASE, named, of_kind


def groups() -> list[dict[str, Any]]:
    """The groups of rules, one for each component."""
    (rule,) = of_kind("everything", "PrometheusRule")
    found: list[dict[str, Any]] = rule["spec"]["groups"]
    return found


def alerts() -> list[dict[str, Any]]:
    """The alerts of all components."""
    return [alert for group in groups() for alert in group["rules"]]


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana reads it."""
    config_map = named("everything", "ConfigMap", f"{RELEASE}-dashboard")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = config_map["data"].values()
    loaded = json.loads(text)
    assert isinstance(loaded, dict)
    return loaded


def panels() -> list[dict[str, Any]]:
    """Its panels, rows left out."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    """Where a query stands, and the query."""
    for alert in alerts():
        yield alert["alert"], alert["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """What a query reads."""
    found: list[promql_parser.VectorSelector] = []

    def visit(part: promql_parser.Expr) -> None:
        if isinstance(part, promql_parser.VectorSelector):
            found.append(part)

    promql_parser.walk(promql_parser.parse(query.replace("$__rate_interval", "5m")), visit)
    return found


def metrics(query: str) -> set[str]:
    """Names of the metrics that a query reads; a histogram's is that of all its series."""
    return {str(one.name).removesuffix("_bucket") for one in selectors(query)}
