"""Spans are read from files that anything may stand in, of which there may be much."""

import json
from pathlib import Path

import pytest
from hightide_local.traces.span_files import FILES_MAX, read_spans
from hightide_local.traces.trace_lookup import failovers, traces_of
from hightide_runtime.telemetry import span_kinds


def line(span_id: str, name: str = "failover", *, parent: str = "", **fields: object) -> str:
    span = {
        "trace_id": "t", "span_id": span_id, "parent_id": parent, "name": name, "service": "controller",
        "instance": "1", "start_us": 1, "end_us": 2, "ok": True, "attributes": {},
    }  # fmt: skip
    return json.dumps(span | fields) + "\n"


def test_of_a_long_file_only_the_end_is_read(tmp_path: Path) -> None:
    lines = [line(f"{at:04}") for at in range(1_000)]
    (tmp_path / "controller-1.jsonl").write_text("".join(lines))
    found = read_spans(tmp_path, file_bytes_max=10 * len(lines[0]) + 7)
    assert [span.span_id for span in found] == [f"{at:04}" for at in range(990, 1_000)]


def test_of_very_many_files_the_latest_are_read(tmp_path: Path) -> None:
    import os

    for at in range(FILES_MAX + 5):
        path = tmp_path / f"client-{at}.jsonl"
        path.write_text(line(str(at)))
        os.utime(path, (at, at))
    assert {int(span.span_id) for span in read_spans(tmp_path)} == set(range(5, FILES_MAX + 5))


@pytest.mark.parametrize(
    "nonsense",
    [
        "not json\n",
        "[]\n",
        "[" * 100_000 + "\n",
        "\xff\xfe\n",
        line("a", start_us=-1),
        line("a", end_us=10**30),
        line("a", start_us=float("inf")),
        line("a", start_us="soon"),
        line("a", start_us=None),
        '{"trace_id":"t"}\n',
    ],
)
def test_what_is_no_span_is_passed_over(tmp_path: Path, nonsense: str) -> None:
    (tmp_path / "broker-1.jsonl").write_text(nonsense + line("b"))
    assert [span.span_id for span in read_spans(tmp_path)] == ["b"]


def test_a_number_that_is_no_json_is_text(tmp_path: Path) -> None:
    (tmp_path / "broker-1.jsonl").write_text(
        line("a", attributes={"ms": float("nan"), "bytes": float("inf"), "took_ms": 1.5, "count": 10**400})
    )
    (span,) = read_spans(tmp_path)
    assert span.attributes == {"ms": "nan", "bytes": "inf", "took_ms": 1.5, "count": 10**400}


def test_what_is_read_can_be_printed(tmp_path: Path) -> None:
    written = line(
        "a", "\x1b[2Jfailover\n", attributes={"topic\x07": "\x1b]0;x", "count": 3, "deep": {"a": [1]}}
    )
    (tmp_path / "broker-1.jsonl").write_text(written)
    (span,) = read_spans(tmp_path)
    assert span.name == "?[2Jfailover?"
    assert span.attributes == {"topic?": "?]0;x", "count": 3, "deep": "{'a': [1]}"}


def test_a_clock_that_was_set_back_makes_no_negative_time(tmp_path: Path) -> None:
    (tmp_path / "broker-1.jsonl").write_text(line("a", start_us=50, end_us=20))
    assert read_spans(tmp_path)[0].duration_us == 0


def test_a_directory_that_is_deleted_meanwhile_has_no_spans(tmp_path: Path) -> None:
    assert read_spans(tmp_path / "gone") == []


def test_a_root_that_two_controllers_wrote_is_one_span(tmp_path: Path) -> None:
    first = line("r", start_us=100, end_us=150, attributes={"broker_ids": "2", "controller_epoch": 4})
    second = line(
        "r", start_us=120, end_us=300, attributes={"controller_epoch": 5, "carried_on": True}, instance="2"
    )
    step = line("s", span_kinds.BROKER_DOWN, parent="r", start_us=100, end_us=110)
    (tmp_path / "controller-1.jsonl").write_text(first + step)
    (tmp_path / "controller-2.jsonl").write_text(second)
    (trace,) = failovers(tmp_path)
    (root,) = trace.roots
    assert (root.span.start_us, root.span.end_us, root.span.instance) == (100, 300, "2")
    assert root.span.attributes == {"broker_ids": "2", "controller_epoch": 5, "carried_on": True}
    assert [child.span.span_id for child in root.children] == ["s"]


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["reassignment"], "reassignment"),
        (["coordinator_failover.load", "group_rebalance.stop"], "coordinator_failover"),
        (["send flights"], "send"),
        (["inform_broker"], "inform_broker"),
    ],
)
def test_a_trace_is_of_the_kind_of_its_root_or_else_of_its_steps(
    tmp_path: Path, names: list[str], kind: str
) -> None:
    written = "".join(line(str(at), name, parent="lost") for at, name in enumerate(names))
    (tmp_path / "broker-1.jsonl").write_text(written)
    (trace,) = traces_of(read_spans(tmp_path))
    assert trace.kind == kind


def test_parents_without_end_are_cut(tmp_path: Path) -> None:
    chain = "".join(line(str(at), parent=str(at - 1) if at else "") for at in range(5_000))
    (tmp_path / "broker-1.jsonl").write_text(chain)
    (trace,) = traces_of(read_spans(tmp_path))
    assert 0 < len(trace.spans) < 5_000
