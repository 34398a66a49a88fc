"""Each round of a benchmark is told: in a file of CSV, and by a bar where somebody looks."""

from pathlib import Path

import pytest
from hightide_bench.commands.rounds import reported_rounds
from hightide_bench.loads.produce_load import _records_a_turn
from hightide_cli.printing.progress import WorkDone, is_shown, progress, waiting


def test_a_file_has_a_line_for_each_round(tmp_path: Path) -> None:
    path = tmp_path / "rounds.csv"
    with reported_rounds("measuring", 2, path) as on_round:
        on_round("arrow", {"mb_per_s": 12.5, "broker_cpu_s_per_gb": None})
        on_round("records", {"mb_per_s": 3.0, "broker_cpu_s_per_gb": 0.25})
    assert path.read_text().splitlines() == [
        "round,of,mb_per_s,broker_cpu_s_per_gb",
        "1,arrow,12.5,",
        "2,records,3,0.25",
    ]


def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        reported_rounds("measuring", 2, tmp_path / "nowhere" / "rounds.csv"),
    ):
        pytest.fail("it was measured")


def test_without_a_terminal_there_is_no_bar_and_nothing_slow_is_imported() -> None:
    assert not is_shown()
    with progress("reading", 10) as done, waiting("for nothing"):
        assert type(done) is WorkDone
        done.advance(3)
        done.reach(10)


@pytest.mark.parametrize(
    ("records_per_s", "count"), [(None, 256), (1.0, 1), (5_000.0, 50), (1_000_000.0, 256)]
)
def test_what_is_sent_at_a_rate_does_not_go_out_in_bursts(records_per_s: float | None, count: int) -> None:
    assert _records_a_turn(256, records_per_s) == count
