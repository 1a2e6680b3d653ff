"""Alerts and dashboard: queries that can be read, metrics that are there, a runbook for each."""

import re
from pathlib import Path

import pytest

from episode_operator.api.reasons import NoVerdictReason
from tests.chart.cases import NAMESPACE, RELEASE, matching, named, of_kind, pods
from tests.chart.queries import alerts, dashboard, groups, metrics, panels, queries, selectors

DOCS = Path(__file__).parents[2] / "docs"
RUNBOOK = (DOCS / "runbook.md").read_text()
METRIC = re.compile(r"`((?:episode_operator_|trainer_bridge_|vllm:)[a-z0-9_]+)`")


def section(heading: str) -> str:
    """What stands in the runbook under a heading, up to the next one."""
    _, found, rest = RUNBOOK.partition(f"\n### {heading}\n")
    assert found, f"docs/runbook.md has no section {heading}"
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_queries_can_be_read_and_ask_for_metrics_that_are_documented() -> None:
    told = {
        name
        for page in ("operations.md", "metrics-bridge.md")
        for name in METRIC.findall((DOCS / page).read_text())
    }
    for where, query in queries():
        read = metrics(query)
        assert read, where
        assert read <= told | {"up"}, where


def test_alerts_are_about_the_releases_own_targets() -> None:
    for alert in alerts():
        for selector in selectors(alert["expr"]):
            labels = {one.name: one.value for one in selector.matchers.matchers}
            assert labels["namespace"] == NAMESPACE
            monitor = named("everything", "ServiceMonitor", labels["service"])
            assert named("everything", "Service", labels["service"])
            assert monitor["spec"]["selector"]["matchLabels"]


def test_every_alert_says_what_is_wrong_and_has_a_runbook() -> None:
    assert len(alerts()) == len({alert["alert"] for alert in alerts()})
    for alert in alerts():
        name, annotations = alert["alert"], alert["annotations"]
        assert annotations["summary"] and annotations["description"]
        assert annotations["runbook_url"] == f"docs/runbook.md#{name.lower()}"
        told = section(name)
        assert "Look: " in told
        assert "Do: " in told or "| do |" in told
        assert alert["labels"]["severity"] in {"warning", "critical"}
        assert alert["labels"]["release"] == RELEASE


def test_the_runbook_has_a_section_for_alerts_only() -> None:
    told = RUNBOOK.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    assert re.findall(r"^### (.+)$", told, re.MULTILINE) == [one["alert"] for one in alerts()]


def test_the_runbook_has_a_row_for_every_reason() -> None:
    reasons = RUNBOOK.partition("\n## Reasons of NoVerdict\n")[2]
    rows = [line.strip("| ").split(" | ") for line in reasons.splitlines() if line[:3] == "| `"]
    assert sorted(row[0] for row in rows) == sorted(f"`{reason}`" for reason in NoVerdictReason)
    assert all(len(row) == 4 and all(row) for row in rows)


def test_monitors_scrape_a_port_of_their_service() -> None:
    monitors = of_kind("everything", "ServiceMonitor")
    assert len(monitors) == 3
    for monitor in monitors:
        selector = monitor["spec"]["selector"]["matchLabels"]
        (service,) = (
            one
            for one in of_kind("everything", "Service")
            if selector.items() <= one["metadata"]["labels"].items()
        )
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        assert len(matching(service["spec"]["selector"], "everything")) == 1
        assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_nothing_of_it_is_there_unless_asked_for() -> None:
    assert of_kind("Atropos", "ServiceMonitor", "PrometheusRule") == []
    assert {one["metadata"]["name"] for one in of_kind("defaults", "Service")} == set()


def test_panels_are_one_beside_the_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "what", ["Verdicts", "No verdict, by reason", "Episodes by phase", "Live Episodes", "Groups"]
)
def test_the_dashboard_shows(what: str) -> None:
    assert what in {panel["title"] for panel in panels()}


def test_the_dashboard_asks_in_the_chosen_namespaces() -> None:
    for panel in panels():
        for target in panel["targets"]:
            for selector in selectors(target["expr"]):
                labels = {one.name: one.value for one in selector.matchers.matchers}
                assert labels["namespace"] == "$namespace", panel["title"]


def test_components_with_metrics_have_alerts() -> None:
    components = {group["name"].rpartition("-")[2] for group in groups()}
    assert components == set(pods("everything")) - {"test", "atropos"}
