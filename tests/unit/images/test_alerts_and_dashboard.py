"""The alerting rules and the dashboard ask for figures that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import hightide_broker.metrics
import hightide_controller.metrics
import hightide_coordinator.metrics
import pytest
import yaml
from hightide_runtime.process import process_metrics
from hightide_runtime.serving import rpc_metrics
from hightide_runtime.telemetry.metric_declarations import MetricDeclaration, MetricKind

REPOSITORY = Path(__file__).resolve().parents[3]
OBSERVABILITY = REPOSITORY / "docker" / "observability"
OPERATING = REPOSITORY / "docs" / "operating.md"
METRICS: tuple[MetricDeclaration, ...] = (
    *hightide_broker.metrics.METRICS,
    *hightide_controller.metrics.METRICS,
    *hightide_coordinator.metrics.METRICS,
    *process_metrics.METRICS,
    *rpc_metrics.METRICS,
)
METRIC = re.compile(r"\b((?:hightide|rpc_server|process|cpython)_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)="')


def samples() -> dict[str, MetricDeclaration]:
    """By what it is called in a query."""
    named: dict[str, MetricDeclaration] = {}
    for figure in METRICS:
        suffixes = ("_bucket", "_sum", "_count") if figure.kind is MetricKind.HISTOGRAM else ("",)
        named |= {figure.prometheus_name + suffix: figure for suffix in suffixes}
    return named


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((OBSERVABILITY / "dashboard.json").read_text())["panels"]
    return found


def queries() -> list[str]:
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [rule["expr"] for rule in alerts()] + asked


@pytest.mark.parametrize("query", queries())
def test_each_query_asks_for_a_figure_and_labels_that_are_declared(query: str) -> None:
    known = samples()
    found = METRIC.findall(query)
    assert found
    for name, selected in found:
        figure = known[name]
        labels = {attribute.replace(".", "_") for attribute in figure.attributes}
        assert set(LABEL.findall(selected)) <= labels


def test_each_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning"), rule
        assert rule["annotations"].keys() == {"summary", "description"}, rule


@pytest.mark.parametrize("query", queries())
def test_processes_are_told_apart_by_job_and_instance(query: str) -> None:
    """By a collector the instance is the id alone, so that broker 1 and controller 1 have the same one."""
    assert re.search(r"by \(instance", query) is None


def test_that_nobody_is_active_is_told_also_where_nobody_is_left_who_has_figures() -> None:
    """The sum of no series is no series, which is equal to nothing."""
    asks_for_none = [rule["expr"] for rule in alerts() if rule["alert"].startswith("HightideNoActive")]
    assert len(asks_for_none) == 2
    for query in asks_for_none:
        assert query.endswith(" or vector(0)) == 0")


def test_the_page_on_operating_has_the_same_alerts_as_the_rules() -> None:
    rows = [line.strip("| ").split(" | ") for line in OPERATING.read_text().splitlines()]
    told = {row[0].strip("`"): row[1:3] for row in rows if row[0].startswith("`Hightide")}
    assert list(told) == [rule["alert"] for rule in alerts()]
    for rule in alerts():
        when, patience = told[rule["alert"]]
        assert patience == rule.get("for", "at once")
        # A quantile is told in words.
        assert when.strip("`") == rule["expr"] or "quantile" in rule["expr"]


def test_panels_stand_side_by_side() -> None:
    places: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not places & cells, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        places |= cells
