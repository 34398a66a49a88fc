import json
from pathlib import Path
from typing import Any

import pytest
from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE
from hightide_runtime.telemetry.trace_context import current_traceparent, is_traceparent
from hightide_runtime.telemetry.tracing import Telemetry


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(tmp_path))
    return Telemetry.set_up("broker", "1")


def written(tmp_path: Path) -> dict[str, dict[str, Any]]:
    lines = (tmp_path / "broker-1.jsonl").read_text().splitlines()
    return {span["name"]: span for span in map(json.loads, lines)}


def test_without_a_place_for_spans_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        TRACE_DIRECTORY_VARIABLE,
    ):
        monkeypatch.delenv(variable, raising=False)
    telemetry = Telemetry.set_up("broker", "1")
    with telemetry.span("a") as span:
        assert span.traceparent == ""
        assert current_traceparent() == ""
    assert not telemetry.enabled


def test_a_span_inside_another_is_its_child(traced: Telemetry, tmp_path: Path) -> None:
    with traced.span("outer") as outer, traced.span("inner", attributes={"partitions": 3}):
        assert is_traceparent(outer.traceparent)
    traced.shut_down()
    spans = written(tmp_path)
    assert spans["inner"]["parent_id"] == spans["outer"]["span_id"]
    assert spans["inner"]["attributes"] == {"partitions": 3}
    assert spans["outer"]["parent_id"] == ""


def test_a_span_is_on_disk_as_soon_as_it_ends_so_that_a_kill_loses_no_more(
    traced: Telemetry, tmp_path: Path
) -> None:
    traced.span("a").end()
    assert list(written(tmp_path)) == ["a"]
    traced.shut_down()


def test_a_span_joins_the_trace_that_a_znode_names(traced: Telemetry, tmp_path: Path) -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with traced.within(traceparent):
        traced.span("from_context").end()
    traced.span("from_argument", parent=traceparent).end()
    traced.shut_down()
    for span in written(tmp_path).values():
        assert (span["trace_id"], span["parent_id"]) == (traceparent[3:35], traceparent[36:52])


def test_a_new_trace_begins_where_no_parent_is_wanted(traced: Telemetry, tmp_path: Path) -> None:
    with traced.span("outer"):
        traced.span("elsewhere", parent="").end()
    traced.span("garbage", parent="no traceparent").end()
    traced.shut_down()
    spans = written(tmp_path)
    assert len({span["trace_id"] for span in spans.values()}) == 3


def test_a_span_can_start_and_end_in_the_past(traced: Telemetry, tmp_path: Path) -> None:
    traced.span("a", start_time_us=1_000_000).end(1_250_000)
    traced.shut_down()
    span = written(tmp_path)["a"]
    assert (span["start_us"], span["end_us"]) == (1_000_000, 1_250_000)


def test_a_failure_inside_a_span_is_told(traced: Telemetry, tmp_path: Path) -> None:
    with pytest.raises(KeyError), traced.span("a"):
        raise KeyError("x")
    traced.shut_down()
    assert written(tmp_path)["a"]["ok"] is False
    assert current_traceparent() == ""
