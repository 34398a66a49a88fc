"""What rounds say of two systems: medians, spreads, and ratios that are above 1 where Hightide is ahead."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hightide_bench.peers.comparison import (
    RowResult,
    Spread,
    document_of,
    lines_of,
    readable,
    table_rows,
)
from hightide_bench.peers.rows.row import (
    ALL_ENTRANTS,
    HIGHTIDE,
    KAFKA_TUNED,
    Entrant,
    EntrantName,
    Figure,
    Figures,
    Row,
    Stage,
)
from hypothesis import given
from hypothesis import strategies as st


class SomeRow(Row):
    name = "some-row"
    title = "some row"
    figures = (Figure("mb_per_s", "MB/s", "higher"), Figure("p50_ms", "p50 ms", "lower"))
    entrants = ALL_ENTRANTS

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        yield lambda entrant: {}


def result(*rounds: tuple[float, float, float]) -> RowResult:
    """The rate of Hightide, of Kafka by default, of Kafka tuned, in each round, with latencies that fit."""
    names = [entrant.name for entrant in ALL_ENTRANTS]
    return RowResult(
        SomeRow(),
        [
            {name: {"mb_per_s": rate, "p50_ms": 1000 / rate} for name, rate in zip(names, each, strict=True)}
            for each in rounds
        ],
    )


def test_a_line_has_the_median_and_the_extremes_of_each_entrant() -> None:
    rate, _ = lines_of(result((100, 10, 50), (120, 20, 60), (80, 30, 40)))
    assert rate.entrants == {
        "hightide": Spread(100, 80, 120),
        "kafka default": Spread(20, 10, 30),
        "kafka tuned": Spread(50, 40, 60),
    }


def test_a_ratio_is_that_of_each_round_so_that_a_slow_minute_hits_both() -> None:
    rate, _ = lines_of(result((100, 10, 50), (50, 5, 25), (100, 10, 50)))
    assert rate.ratio == Spread(2, 2, 2)


def test_a_ratio_above_one_means_ahead_for_rates_and_for_times() -> None:
    rate, latency = lines_of(result((100, 10, 50)))
    assert rate.ratio == latency.ratio == Spread(2, 2, 2)


def test_the_ratio_is_to_the_better_kafka_figure_by_figure() -> None:
    behind, _ = lines_of(result((100, 200, 50)))
    assert (behind.against, behind.ratio) == ("kafka default", Spread(0.5, 0.5, 0.5))


def test_a_system_that_failed_has_no_figure_and_no_ratio() -> None:
    rounds = result((100, 10, 50)).rounds
    del rounds[0]["hightide"]
    rate, _ = lines_of(RowResult(SomeRow(), rounds))
    assert "hightide" not in rate.entrants
    assert (rate.ratio, rate.against) == (None, None)


def test_a_round_without_a_figure_does_not_count_for_it() -> None:
    rounds = result((100, 10, 50), (300, 10, 50)).rounds
    rounds[1]["hightide"]["mb_per_s"] = None
    rate, _ = lines_of(RowResult(SomeRow(), rounds))
    assert rate.entrants["hightide"] == Spread(100, 100, 100)
    assert rate.ratio == Spread(2, 2, 2)


def test_nothing_measured_is_no_figure() -> None:
    assert [(line.entrants, line.ratio) for line in lines_of(RowResult(SomeRow()))] == [({}, None)] * 2


def test_the_table_titles_a_row_once_and_shows_the_spread_where_there_is_one() -> None:
    first, second = table_rows(lines_of(result((100, 10, 50), (120, 20, 60), (80, 30, 40))))
    assert first[:3] == ("some row", "MB/s", "100 [80–120]")
    assert second[0] == ""
    assert table_rows(lines_of(result((100, 10, 50))))[0] == ("some row", "MB/s", "100", "10", "50", "2")


def test_the_document_has_a_line_for_each_figure_and_null_for_what_was_not_measured() -> None:
    only: dict[EntrantName, Figures] = {
        HIGHTIDE.name: {"mb_per_s": 100.0},
        KAFKA_TUNED.name: {"mb_per_s": 50.0},
    }
    rate, latency = document_of(lines_of(RowResult(SomeRow(), [only])))
    assert rate["ratio"] == {"median": 2, "low": 2, "high": 2}
    assert (rate["kafka_default"], rate["against"]) == (None, "kafka tuned")
    assert (latency["hightide"], latency["ratio"], latency["against"]) == (None, None, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.012345, "0.0123"),
        (1.2345, "1.23"),
        (12.345, "12.3"),
        (999.6, "1,000"),
        (1_234_567, "1,230,000"),
    ],
)
def test_numbers_are_written_with_three_digits_that_count(value: float, text: str) -> None:
    assert readable(value) == text


@given(st.floats(1e-3, 1e7))
def test_a_number_that_is_read_back_is_nearly_the_same(value: float) -> None:
    assert float(readable(value).replace(",", "")) == pytest.approx(value, rel=0.006)
