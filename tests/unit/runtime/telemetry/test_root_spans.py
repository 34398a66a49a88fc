"""Traces whose ids follow from what they are about, so that two processes write one root."""

import json
from pathlib import Path

import pytest
from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE
from hightide_runtime.telemetry.span_kinds import ATTRIBUTES, FAILOVER, SPANS, TOPIC_CREATION, TRACE_KINDS
from hightide_runtime.telemetry.trace_context import (
    is_root,
    is_traceparent,
    new_root_traceparent,
    root_traceparent,
    trace_id_of,
)
from hightide_runtime.telemetry.tracing import Telemetry


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(tmp_path))
    return tmp_path


def test_two_processes_that_finish_one_failover_write_the_same_root(directory: Path) -> None:
    root = root_traceparent(FAILOVER, "cluster", 2, 7)
    for instance in ("1", "2"):
        telemetry = Telemetry.set_up("controller", instance)
        span = telemetry.root(FAILOVER, root, attributes={"controller_epoch": 5})
        assert span.traceparent == root
        telemetry.span("zookeeper_multi", parent=root).end()
        span.end()
        telemetry.shut_down()
    spans = [json.loads(line) for file in directory.iterdir() for line in file.read_text().splitlines()]
    assert {span["trace_id"] for span in spans} == {trace_id_of(root)}
    assert [span["span_id"] for span in spans if span["name"] == FAILOVER] == [root[36:52]] * 2
    assert {span["parent_id"] for span in spans if span["name"] != FAILOVER} == {root[36:52]}


def test_only_the_root_has_the_given_ids(directory: Path) -> None:
    telemetry = Telemetry.set_up("controller", "1")
    root = telemetry.root(FAILOVER, root_traceparent(FAILOVER, "cluster", 2, 7))
    others = {telemetry.span("a", parent="").traceparent for _ in range(3)}
    assert len(others) == 3
    assert all(trace_id_of(each) != trace_id_of(root.traceparent) for each in others)
    telemetry.shut_down()


def test_whatever_a_trace_is_about_tells_it_from_others() -> None:
    seeds: list[tuple[str, ...]] = [
        (FAILOVER, "cluster", "1", "2"),
        (FAILOVER, "cluster", "12", ""),
        (FAILOVER, "cluster", "12"),
        (FAILOVER, "cluste", "r1", "2"),
        (TOPIC_CREATION, "cluster", "1", "2"),
    ]
    assert len({root_traceparent(*seed) for seed in seeds}) == len(seeds)
    assert root_traceparent(FAILOVER, "cluster", 1, 2) == root_traceparent(*seeds[0])


def test_a_root_is_known_by_its_ids_alone() -> None:
    made = new_root_traceparent()
    assert is_traceparent(made)
    assert is_root(made)
    assert is_root(root_traceparent(FAILOVER, "cluster", 1))
    assert not is_root(made[:36] + "00f067aa0ba902b7" + made[52:])
    assert not is_root("")


def test_each_span_and_each_attribute_is_told_once() -> None:
    assert len({kind.name for kind in SPANS}) == len(SPANS)
    assert len({attribute.name for attribute in ATTRIBUTES}) == len(ATTRIBUTES)
    assert set(TRACE_KINDS) <= {kind.name for kind in SPANS}
    for kind in SPANS:
        assert kind.service in {"broker", "controller", "coordinator", "client"}
        assert kind.description.endswith(".")
