"""The demo's last line says what was found, and it is well only when all of it is."""

from dataclasses import replace

import pytest
from hightide_bench.measuring.comparison import Comparison
from hightide_demo.group_history import GroupFindings
from hightide_demo.report import DemoReport, MeasuredFailover
from hightide_demo.script import BrokerReturn, Failover, GroupKill, KilledProcess
from hightide_demo.spark import SparkFindings
from hightide_local.traces.trace_lookup import FailoverSummary

PERFECT = Comparison(produced=100, consumed=100, lost=0, duplicated=0, reordered=0, foreign=0)
TRACE = FailoverSummary(
    trace_id="f" * 32,
    broker_id=2,
    partitions=2,
    detect_ms=12.0,
    elect_ms=6.0,
    zookeeper_ms=5.0,
    fan_out_ms=9.0,
    first_commit_ms=140.0,
)
BROKER = MeasuredFailover(
    Failover(KilledProcess.BROKER, "broker-2", 1.0, 1000.0, 30, 2, "broker-1, broker-3", 180.0),
    TRACE,
    (20.0, 170.4),
)
CONTROLLER = MeasuredFailover(
    Failover(KilledProcess.CONTROLLER, "controller-1", 2.0, 2000.0, 70, 0, "controller-2", 4600.0, 4500.0),
    None,
    (15.0,),
)
GROUP = GroupFindings(rebalances=2, double_owned=0, skipped=0, redelivered=7, vanished=0)
GROUP_KILLS = (
    GroupKill("consumer-3", 1.5, 40, 2, "consumer-1, consumer-2", 2100.4),
    GroupKill("coordinator-1", 1.7, 60, 6, "coordinator-2", 310.0),
)
SPARK = SparkFindings(rows=100, archived=100, flaws=0, chart="demo/delays.png")
REPORT = DemoReport(
    100, PERFECT, (BROKER, CONTROLLER), (BrokerReturn("broker-2", 50, 900.0),), GROUP, GROUP_KILLS, SPARK
)


def test_the_last_line_is_the_proof() -> None:
    assert REPORT.last_line() == (
        "demo: produced=100 consumed=100 lost=0 duplicated=0 reordered=0 failovers=2 unavailable_ms_max=170 "
        "groups: rebalances=2 double_owned=0 skipped=0 redelivered=7 spark: rows=100 archived=100"
    )
    assert REPORT.is_well


@pytest.mark.parametrize("flaw", ["lost", "duplicated", "reordered", "foreign"])
def test_one_flaw_is_enough_not_to_be_well(flaw: str) -> None:
    flawed = replace(REPORT, comparison=replace(PERFECT, **{flaw: 1}))
    assert not flawed.is_well


@pytest.mark.parametrize("flaw", ["double_owned", "skipped", "vanished"])
def test_one_flaw_of_the_group_is_enough_not_to_be_well(flaw: str) -> None:
    assert not replace(REPORT, group=replace(GROUP, **{flaw: 1})).is_well


@pytest.mark.parametrize("flaw", ["rows", "archived", "flaws"])
def test_what_spark_misses_or_finds_twice_is_not_well(flaw: str) -> None:
    flawed = replace(REPORT, spark=replace(SPARK, **{flaw: 101}))  # type: ignore[arg-type]
    assert not flawed.is_well
    assert ("101 gaps or overlaps" in flawed.remarks()) == (flaw == "flaws")


def test_a_group_in_which_nothing_happened_proves_nothing() -> None:
    assert not replace(REPORT, group=replace(GROUP, rebalances=1)).is_well
    assert not replace(REPORT, group_kills=GROUP_KILLS[:1]).is_well


def test_records_of_the_group_that_are_not_in_the_log_are_told() -> None:
    flawed = replace(REPORT, group=replace(GROUP, vanished=3))
    assert "3 records that the group read are not in the log" in flawed.remarks()


def test_a_foreign_row_shows_in_the_last_line() -> None:
    flawed = replace(REPORT, comparison=replace(PERFECT, foreign=1))
    assert "duplicated=1" in flawed.last_line()
    assert "never written" in flawed.remarks()


def test_rows_that_were_not_acknowledged_or_a_failover_that_is_missing_are_not_well() -> None:
    assert not replace(REPORT, rows_total=101).is_well
    assert not replace(REPORT, failovers=(BROKER,)).is_well


def test_the_table_has_a_row_for_each_kill() -> None:
    _, broker, controller = REPORT.table().splitlines()
    assert broker.split()[:3] == ["broker-2", "30", "2"]
    assert "broker-1, broker-3" in broker
    assert "140" in broker
    assert "max 170, median 95" in broker
    assert controller.split()[:4] == ["controller-1", "70", "0", "controller-2"]
    assert "4600" in controller


def test_an_election_that_left_no_span_has_no_time_in_the_table() -> None:
    """It had the time of the detection, as if the election had taken no time."""
    lost = replace(BROKER, trace=replace(TRACE, elect_ms=None))
    _, broker = replace(REPORT, failovers=(lost,)).table().splitlines()
    assert broker.split()[5:8] == ["12", "-", "140"]


def test_what_was_killed_of_the_group_has_a_table_of_its_own() -> None:
    _, consumer, coordinator = REPORT.group_table().splitlines()
    assert consumer.split() == ["consumer-3", "40", "2", "consumer-1,", "consumer-2", "2100"]
    assert coordinator.split() == ["coordinator-1", "60", "6", "coordinator-2", "310"]


def test_every_failover_that_was_traced_can_be_shown() -> None:
    assert REPORT.remarks().endswith("every step: hightide trace show ffffffff")
    traced = replace(REPORT, coordinator_trace_id="a" * 32)
    assert traced.remarks().endswith("every step: hightide trace show ffffffff, hightide trace show aaaaaaaa")


def test_programs_get_the_same() -> None:
    document = REPORT.document()
    assert document["unavailable_ms_max"] == 170.4
    assert document["failovers"] == 2
    assert document["spark"] == {"rows": 100, "archived": 100, "flaws": 0, "chart": "demo/delays.png"}
    groups = document["groups"]
    assert isinstance(groups, dict)
    assert (groups["rebalances"], groups["redelivered"]) == (2, 7)
    assert [each["killed"] for each in groups["kills"]] == ["consumer-3", "coordinator-1"]
