"""A pipeline shows how far it is on a terminal, and nowhere else; without rich it is silent."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hightide_spark.pipelines.run_progress import Shown, Stage, StreamCourse, offsets_of, shown_of

ARCHIVE = "hightide_spark.pipelines.archive"


def archive_on_a_terminal(*arguments: str, path: str = "") -> tuple[int, str, str]:
    """Run the archive's command with a terminal as stderr; its exit code, stdout, and what came there."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": path}
    program = [sys.executable, "-m", ARCHIVE, *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=theirs, env=environment) as run:
        os.close(theirs)
        assert run.stdout is not None
        printed, seen = run.stdout.read().decode(), b""
        try:
            while more := os.read(ours, 65_536):
                seen += more
        except OSError:
            pass  # A terminal whose other side is closed ends with an error and not with its end.
        os.close(ours)
        return run.wait(100), printed, seen.decode()


def test_a_program_of_its_own_shows_a_bar_on_a_terminal_and_its_result_on_stdout(tmp_path: Path) -> None:
    code, printed, seen = archive_on_a_terminal(str(tmp_path))
    assert (code, printed) == (0, "archive: records=0 files=0 merged=0 flaws=0\n")
    assert "archive" in seen
    assert "━" in seen


def test_nobody_is_shown_a_bar_who_does_not_want_one(tmp_path: Path) -> None:
    assert archive_on_a_terminal(str(tmp_path), "--no-progress")[2] == ""


def test_there_is_no_bar_without_a_terminal(tmp_path: Path) -> None:
    program = [sys.executable, "-m", ARCHIVE, str(tmp_path)]
    assert subprocess.run(program, capture_output=True, timeout=100, check=True).stderr == b""


def test_without_rich_it_is_silent(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(name='rich')")
    code, _, seen = archive_on_a_terminal(str(tmp_path / "archive"), path=str(tmp_path))
    assert (code, seen) == (0, "")


def test_the_tasks_of_all_stages_that_run_are_counted_together() -> None:
    assert shown_of([], None) == Shown(None, "")
    assert shown_of([Stage(4, 6, 2), Stage(3, 10, 9)], None) == Shown((3, 4), "11 of 16 tasks", 11, 16)


def test_a_stream_with_more_to_read_is_counted_in_records() -> None:
    stages = [Stage(1, 2, 1)]
    assert shown_of(stages, (3_000, 10_000)) == Shown("records", "3,000 of 10,000 records", 3_000, 10_000)
    # A stream that has come to the end of the logs is busy with something else.
    assert shown_of(stages, (10_000, 10_000)).text == "1 of 2 tasks"


def test_what_was_read_before_this_run_does_not_count() -> None:
    course = StreamCourse()
    latest = {("t", 0): 100, ("t", 1): 50}
    assert course.records({("t", 0): 40}, {("t", 0): 60, ("t", 1): 0}, latest, 20) == (20, 110)
    assert course.records({("t", 0): 60}, {("t", 0): 100, ("t", 1): 30}, latest, 20) == (90, 110)


@pytest.mark.parametrize("written", [None, "", "null", "None", "7", "[]", '{"t": 3}', '{"t": {}}'])
def test_offsets_that_are_not_ours_are_none(written: str | None) -> None:
    assert offsets_of(written) == {}


def test_of_a_new_stream_the_first_micro_batch_counts_by_its_rows() -> None:
    course = StreamCourse()
    latest = {("t", 0): 1_100}
    assert course.records({}, {("t", 0): 1_040}, latest, 40) == (40, 100)
    assert course.records({("t", 0): 1_040}, {("t", 0): 1_080}, latest, 40) == (80, 100)


def test_the_offsets_of_the_source_are_read() -> None:
    written = '{"t": {"id": "000102030405060708090a0b0c0d0e0f", "offsets": {"0": 12, "1": 3}}}'
    assert offsets_of(written) == {("t", 0): 12, ("t", 1): 3}
