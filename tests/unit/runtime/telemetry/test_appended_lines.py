"""Lines of months in a file that never gets long."""

from pathlib import Path

import pytest
from hightide_local.traces.span_files import read_spans
from hightide_local.traces.trace_lookup import traces_of
from hightide_runtime.telemetry import span_lines
from hightide_runtime.telemetry.appended_lines import AppendedLines
from hightide_runtime.telemetry.tracing import Telemetry


def lines_in(directory: Path) -> list[str]:
    """Of the file from before, and of the one that is written."""
    return [line for path in sorted(directory.iterdir()) for line in path.read_text().splitlines()]


def test_a_file_that_is_full_begins_again_and_the_one_before_is_kept(tmp_path: Path) -> None:
    lines = AppendedLines(tmp_path / "broker-1.jsonl", bytes_max=100)
    for number in range(1_000):
        lines.append(f"line {number:04}\n")
        assert all(path.stat().st_size <= 100 for path in tmp_path.iterdir())
    lines.close()
    assert {path.name for path in tmp_path.iterdir()} == {"broker-1.jsonl", "broker-1.before.jsonl"}
    kept = lines_in(tmp_path)
    assert kept == [f"line {number:04}" for number in range(1_000 - len(kept), 1_000)]
    assert len(kept) >= 10


def test_a_process_that_comes_back_goes_on_behind_what_is_there(tmp_path: Path) -> None:
    for number in range(30):
        lines = AppendedLines(tmp_path / "broker-1.jsonl", bytes_max=100)
        lines.append(f"line {number:04}\n")
        lines.close()
    assert len(lines_in(tmp_path)) == 10 + 10
    assert lines_in(tmp_path)[-1] == "line 0029"


def test_what_is_closed_takes_no_more_and_leaves_what_is_there(tmp_path: Path) -> None:
    lines = AppendedLines(tmp_path / "broker-1.jsonl", bytes_max=15)
    lines.append("line 0000\n")
    lines.close()
    with pytest.raises(ValueError, match="closed"):
        lines.append("line 0001\n")
    assert lines_in(tmp_path) == ["line 0000"]


def test_a_trace_is_read_from_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_lines, "AppendedLines", lambda path: AppendedLines(path, bytes_max=400))
    telemetry = Telemetry.set_up("controller", "1", directory=tmp_path)
    root = telemetry.span("failover", parent="")
    for number in range(2):
        telemetry.span(f"step {number}", parent=root.traceparent).end()
    root.end()
    telemetry.shut_down()
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    (trace,) = traces_of(read_spans(tmp_path))
    assert trace.root.name == "failover"
