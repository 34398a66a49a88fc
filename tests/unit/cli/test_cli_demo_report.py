"""The demo's last line says what was found, and it is well only when all of it is."""

from dataclasses import replace

import pytest
from hightide_cli.comparison import Comparison
from hightide_cli.demonstration.report import MeasuredFailover, Report
from hightide_cli.demonstration.script import Failover, Return, Victim
from hightide_local.traces import FailoverSummary

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
    Failover(Victim.BROKER, "broker-2", 1.0, 1000.0, 30, 2, "broker-1, broker-3", 180.0), TRACE, (20.0, 170.4)
)
CONTROLLER = MeasuredFailover(
    Failover(Victim.CONTROLLER, "controller-1", 2.0, 2000.0, 70, 0, "controller-2", 4600.0, 4500.0),
    None,
    (15.0,),
)
REPORT = Report(100, PERFECT, (BROKER, CONTROLLER), (Return("broker-2", 50, 900.0),))


def test_the_last_line_is_the_proof() -> None:
    assert REPORT.last_line() == (
        "demo: produced=100 consumed=100 lost=0 duplicated=0 reordered=0 failovers=2 unavailable_ms_max=170"
    )
    assert REPORT.is_well


@pytest.mark.parametrize("flaw", ["lost", "duplicated", "reordered", "foreign"])
def test_one_flaw_is_enough_not_to_be_well(flaw: str) -> None:
    flawed = replace(REPORT, comparison=replace(PERFECT, **{flaw: 1}))
    assert not flawed.is_well


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


def test_programs_get_the_same() -> None:
    document = REPORT.document()
    assert document["unavailable_ms_max"] == 170.4
    assert document["failovers"] == 2
