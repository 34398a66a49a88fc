import json
from pathlib import Path

import pytest
from hightide_local.traces.trace_lookup import (
    SpanRecord,
    failovers,
    read_spans,
    summarise_failover,
    traces_of,
)
from hightide_runtime.telemetry import span_kinds


def span(
    span_id: str,
    parent_id: str,
    name: str,
    start_us: int,
    end_us: int,
    trace: str = "t",
    **attributes: int | str,
) -> SpanRecord:
    return SpanRecord(
        trace, span_id, parent_id, name, "controller", "1", start_us, end_us, attributes=dict(attributes)
    )


def line(record: SpanRecord) -> str:
    fields = {name: getattr(record, name) for name in SpanRecord.__slots__}
    return json.dumps(fields) + "\n"


FAILOVER = [
    span("a", "", span_kinds.FAILOVER, 1_000, 41_000, broker_ids="2", partition_count=6),
    span("b", "a", span_kinds.BROKER_DOWN, 1_000, 11_000),
    span("c", "a", span_kinds.LEADERSHIP_CHANGE, 11_000, 21_000),
    span("d", "c", span_kinds.ZOOKEEPER_MULTI, 12_000, 15_000),
    span("e", "c", span_kinds.ZOOKEEPER_MULTI, 13_000, 20_000),
    span("f", "a", span_kinds.INFORM_BROKER, 21_000, 26_000),
    span("g", "a", span_kinds.INFORM_BROKER, 21_000, 29_000),
    span("h", "f", span_kinds.BECOME_LEADER, 22_000, 25_000),
    span("i", "h", span_kinds.FIRST_COMMIT, 60_000, 60_000),
    span("j", "h", span_kinds.FIRST_COMMIT, 31_000, 31_000),
]


def test_spans_become_a_tree_by_start_time() -> None:
    (trace,) = traces_of(list(reversed(FAILOVER)))
    (root,) = trace.roots
    assert [child.span.span_id for child in root.children] == ["b", "c", "f", "g"]
    assert [each.span_id for each in trace.spans] == ["a", "b", "c", "d", "e", "f", "h", "j", "i", "g"]
    assert (trace.start_us, trace.end_us) == (1_000, 60_000)


def test_a_failover_is_summed_up_from_its_spans() -> None:
    (trace,) = traces_of(FAILOVER)
    summary = summarise_failover(trace)
    assert (summary.broker_id, summary.partitions) == (2, 6)
    assert summary.detect_ms == pytest.approx(10.0)
    assert summary.elect_ms == pytest.approx(10.0)
    assert summary.zookeeper_ms == pytest.approx(8.0)
    assert summary.fan_out_ms == pytest.approx(8.0)
    assert summary.first_commit_ms == pytest.approx(30.0)


def test_multis_that_a_stale_version_rolled_back_are_counted() -> None:
    root = span("a", "", span_kinds.FAILOVER, 0, 9)
    outcomes = ("StoreCommitted", "StoreRefused", "StoreUnknown", "StoreRefused")
    multis = [
        span(f"m{at}", "a", span_kinds.ZOOKEEPER_MULTI, at, at + 1, outcome=outcome)
        for at, outcome in enumerate(outcomes)
    ]
    assert summarise_failover(traces_of([root, *multis])[0]).multis_refused == 2


def test_with_the_time_of_the_kill_detection_counts_from_it() -> None:
    (trace,) = traces_of(FAILOVER)
    summary = summarise_failover(trace, killed_at_s=0.0005)
    assert summary.detect_ms == pytest.approx(10.5)
    assert summary.first_commit_ms == pytest.approx(30.5)


def test_what_the_controller_measured_itself_is_taken_over() -> None:
    root = span("a", "", span_kinds.FAILOVER, 0, 9, broker_ids="3", elect_ms=4, zookeeper_ms=5, fan_out_ms=6)
    summary = summarise_failover(traces_of([root])[0])
    assert (summary.elect_ms, summary.zookeeper_ms, summary.fan_out_ms) == (4.0, 5.0, 6.0)


def test_steps_that_left_no_span_are_not_made_up() -> None:
    summary = summarise_failover(traces_of(FAILOVER[:1])[0])
    assert summary.detect_ms is None
    assert summary.first_commit_ms is None


def test_a_torn_last_line_of_a_killed_process_is_skipped(tmp_path: Path) -> None:
    whole = line(FAILOVER[0])
    (tmp_path / "controller-1.jsonl").write_text(whole + line(FAILOVER[1])[:40])
    (tmp_path / "broker-1.jsonl").write_text(whole.replace('"a"', '"z"') + "null\n[]\n{}\n")
    assert sorted(each.span_id for each in read_spans(tmp_path)) == ["a", "z"]


def test_a_trace_whose_root_died_with_its_controller_is_still_a_failover(tmp_path: Path) -> None:
    (tmp_path / "controller-1.jsonl").write_text("".join(map(line, FAILOVER[1:])))
    other = span("x", "", "something_else", 0, 1, trace="u")
    (tmp_path / "broker-1.jsonl").write_text(line(other))
    (trace,) = failovers(tmp_path)
    assert trace.trace_id == "t"


def test_failovers_come_oldest_first(tmp_path: Path) -> None:
    late = span("a", "", span_kinds.FAILOVER, 2_000_000, 2_000_001, trace="late")
    (tmp_path / "controller-1.jsonl").write_text(line(late) + "".join(map(line, FAILOVER)))
    assert [trace.trace_id for trace in failovers(tmp_path)] == ["t", "late"]


def test_a_directory_that_is_not_there_holds_no_failover(tmp_path: Path) -> None:
    assert failovers(tmp_path / "none") == []


def test_spans_that_name_each_other_as_parent_do_not_hang_the_reader() -> None:
    assert traces_of([span("a", "b", "x", 0, 1), span("b", "a", "y", 0, 1)]) == []
