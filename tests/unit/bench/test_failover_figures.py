"""Rounds of a failover become one line; and how many partitions are wanted is read from the command line."""

import pytest
from click.testing import CliRunner
from hightide_bench.commands.bench import FAILOVER_KEYS, bench
from hightide_bench.measuring.failover import FailoverPlan, Figures, merged


def figures(**known: float | None) -> Figures:
    return {**dict.fromkeys(FAILOVER_KEYS, 1.0), **known}


def test_what_went_wrong_in_any_round_is_summed_up_and_the_worst_wait_and_size_are_kept() -> None:
    rounds = [
        figures(lost=1, unavailable_ms_max=90.0, broker_rss_mb=300.0, all_led_ms=5.0),
        figures(lost=2, unavailable_ms_max=10.0, broker_rss_mb=100.0, all_led_ms=9.0),
        figures(lost=0, unavailable_ms_max=20.0, broker_rss_mb=200.0, all_led_ms=7.0),
    ]
    found = merged(rounds)
    assert (found["lost"], found["unavailable_ms_max"], found["broker_rss_mb"]) == (3, 90.0, 300.0)
    assert found["all_led_ms"] == 7.0


def test_idling_is_that_of_the_one_round_that_measured_it() -> None:
    rounds = [figures(idle_cpu_percent=4.0), figures(idle_cpu_percent=None), figures(idle_cpu_percent=None)]
    assert merged(rounds)["idle_cpu_percent"] == 4.0


def test_where_all_partitions_are_loaded_waits_are_known_to_2_ms_else_the_load_is_kept_small() -> None:
    assert FailoverPlan(6).interval_ms == 2.0
    assert FailoverPlan(1_000).interval_ms == 10.0


@pytest.mark.parametrize("scale", ["", "1,", "0", "10001", "1 000", "-5", "a"])
def test_a_scale_that_is_no_list_of_sizes_is_refused_before_anything_starts(scale: str) -> None:
    result = CliRunner().invoke(bench, ["failover", "--scale", scale])
    assert result.exit_code == 2
    assert "100,1000" in result.output
