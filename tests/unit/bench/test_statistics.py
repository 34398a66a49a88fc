"""Figures of several rounds become one by percentiles and medians."""

import pytest
from hightide_bench.measuring.statistics import latency_figures, medians, percentile, rate_figures, rounded
from hypothesis import given
from hypothesis import strategies as st


def test_percentiles_are_values_that_were_measured() -> None:
    hundred = [float(value) for value in range(1, 101)]
    assert latency_figures(hundred) == {"p50_ms": 50, "p99_ms": 99, "p999_ms": 100}
    assert percentile([3.0], 99.9) == 3.0


def test_without_measurements_there_is_no_percentile() -> None:
    assert latency_figures([]) == {"p50_ms": None, "p99_ms": None, "p999_ms": None}


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.1, 100))
def test_that_share_of_the_values_does_not_exceed_a_percentile(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found is not None
    assert sum(value <= found for value in values) >= len(values) * percent / 100


def test_rates_count_a_gigabyte_as_ten_to_the_nine_bytes() -> None:
    figures = rate_figures(
        records=1_000_000, size_bytes=500_000_000, elapsed_s=4.0, client_cpu_s=2.0, broker_cpu_s=3.0
    )
    assert figures == {
        "records_per_s": 250_000,
        "mb_per_s": 125,
        "client_cpu_s_per_gb": 4,
        "broker_cpu_s_per_gb": 6,
    }


def test_brokers_on_another_machine_have_no_processor_time() -> None:
    figures = rate_figures(records=1, size_bytes=1, elapsed_s=1.0, client_cpu_s=1.0, broker_cpu_s=None)
    assert figures["broker_cpu_s_per_gb"] is None


def test_rounds_become_their_median_figure_by_figure() -> None:
    rounds: list[dict[str, float | None]] = [
        {"a": 1.0, "b": 9.0},
        {"a": 3.0, "b": None},
        {"a": 2.0, "b": 7.0},
    ]
    assert medians(rounds) == {"a": 2.0, "b": 8.0}
    assert medians([{"a": None}]) == {"a": None}


def test_no_round_is_no_result() -> None:
    with pytest.raises(AssertionError):
        medians([])


def test_figures_are_rounded_for_reading() -> None:
    assert rounded({"records_per_s": 1234.6, "mb_per_s": 1.23456, "p50_ms": None}) == {
        "records_per_s": 1235,
        "mb_per_s": 1.235,
        "p50_ms": None,
    }
