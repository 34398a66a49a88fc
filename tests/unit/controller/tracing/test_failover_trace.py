"""What the root of a failover's trace says about where the time went."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hand_clock import HandClock
from hightide_controller.core.effects import (
    Decision,
    LeaderAndIsrWrite,
    ReadStates,
    SendLeaderAndIsr,
    StoreLeaderAndIsr,
)
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_controller.tracing.control_trace import ControlTrace
from hightide_controller.tracing.span_table import TraceMark
from hightide_local.traces.span_files import read_spans
from hightide_local.traces.trace_lookup import FailoverSummary, failovers, summarise_failover
from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE
from hightide_runtime.telemetry.span_kinds import CONTROLLER_FAILOVER, FAILOVER, TOPIC_DELETION
from hightide_runtime.telemetry.trace_context import root_traceparent
from hightide_runtime.telemetry.tracing import Attribute, Telemetry

BROKE_MS = 1_000
ROOT = root_traceparent("failover", "cluster", 1, 0, 0)
LED = [TopicPartition("t", number) for number in range(3)]


@pytest.fixture
def clock() -> HandClock:
    return HandClock(now_ms=BROKE_MS)


@pytest.fixture
def telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Telemetry]:
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(tmp_path))
    built = Telemetry.set_up("controller", "1")
    yield built
    built.shut_down()


def begin(clock: HandClock, telemetry: Telemetry) -> ControlTrace:
    """A process that broke at 0 ms and was noticed at 2 ms; the core is told now."""
    marks = {TraceMark.BEGAN: 1_000_000, TraceMark.NOTICED: 1_002_000, TraceMark.TOLD: clock.now_us}
    attributes: dict[str, Attribute] = {"reason": "process_died", "controller_epoch": 7}
    return ControlTrace(FAILOVER, ROOT, marks, telemetry, attributes, lost=((1, 10),), leaderless=LED)


def multi(store_id: int, *names: TopicPartition) -> StoreLeaderAndIsr:
    decided = LeaderAndIsr(2, 1, (2, 3), 7, 1)
    return StoreLeaderAndIsr(
        store_id, 0, tuple(LeaderAndIsrWrite(name, 0, decided) for name in names), "cause"
    )


def decision(name: TopicPartition, leader: int) -> Decision:
    return Decision(name, "ab" * 16, (1, 2, 3), LeaderAndIsr(leader, 1, (2, 3), 7, 1))


def summary_of(directory: Path) -> FailoverSummary:
    (trace,) = failovers(directory)
    return summarise_failover(trace)


def test_electing_takes_until_all_is_stored_and_zookeeper_what_it_works_of_that(
    clock: HandClock, telemetry: Telemetry, tmp_path: Path
) -> None:
    clock.now_ms = BROKE_MS + 5
    trace = begin(clock, telemetry)
    broke_us = BROKE_MS * 1000
    trace.wants(multi(1, *LED[:2]), broke_us + 10_000)
    trace.wants(multi(2, LED[2]), broke_us + 20_000)
    trace.write_ended(1, "StoreCommitted", broke_us + 30_000)
    trace.write_ended(2, "StoreRefused", broke_us + 50_000)
    trace.wants(ReadStates((LED[2],)), broke_us + 60_000)
    assert not trace.finish_if_done(broke_us + 60_000), "what came back is read, to be decided anew"
    trace.read_ended(ReadStates, broke_us + 65_000)
    trace.wants(multi(3, LED[2]), broke_us + 65_000)
    trace.write_ended(3, "StoreCommitted", broke_us + 75_000)
    assert trace.finish_if_done(broke_us + 75_000)
    found = summary_of(tmp_path)
    assert (found.partitions, found.elect_ms) == (3, 70.0)
    assert found.zookeeper_ms == 40.0 + 15.0


def test_a_sample_of_partitions_is_their_names_and_their_leaders_stand_apart(
    clock: HandClock, telemetry: Telemetry, tmp_path: Path
) -> None:
    trace = begin(clock, telemetry)
    trace.wants(multi(1, *LED[:2]), clock.now_us)
    trace.write_ended(1, "StoreCommitted", clock.now_us)
    trace.finish(clock.now_us)
    (found,) = failovers(tmp_path)
    assert found.root.attributes["partition_sample"] == "t-0, t-1"
    assert found.root.attributes["leader_sample"] == "t-0: 2 in 1; t-1: 2 in 1"


def test_where_no_partition_is_known_none_is_named(
    clock: HandClock, telemetry: Telemetry, tmp_path: Path
) -> None:
    begin(clock, telemetry).finish(clock.now_us)
    (found,) = failovers(tmp_path)
    assert "" not in found.root.attributes.values()


def test_the_deletion_of_a_topic_names_its_partitions(
    clock: HandClock, telemetry: Telemetry, tmp_path: Path
) -> None:
    traceparent = root_traceparent(TOPIC_DELETION, "cluster", "ab")
    told = {"topic": "t", "topic_id": "ab"}
    trace = ControlTrace(
        TOPIC_DELETION, traceparent, {TraceMark.BEGAN: 0}, telemetry, told, partition_count=12
    )
    trace.finish(1)
    (span,) = read_spans(tmp_path)
    assert span.attributes["partition_count"] == 12
    assert span.attributes["partition_sample"] == ", ".join(f"t-{number}" for number in range(10))


def test_all_is_led_when_the_last_new_leader_has_said_so(
    clock: HandClock, telemetry: Telemetry, tmp_path: Path
) -> None:
    clock.now_ms = BROKE_MS + 5
    trace = begin(clock, telemetry)
    trace.obeyed(3, [decision(LED[0], leader=2)], clock.now_us + 20_000)
    trace.obeyed(2, [decision(name, leader=2) for name in LED[:2]], clock.now_us + 20_000)
    trace.obeyed(3, [decision(LED[2], leader=3)], clock.now_us + 40_000)
    late = [decision(LED[2], leader=3), decision(TopicPartition("t", 9), leader=2)]
    trace.obeyed(2, late, clock.now_us + 90_000)
    trace.finish(clock.now_us + 90_000)
    assert summary_of(tmp_path).all_led_ms == 40.0


def test_where_no_partition_was_led_none_has_to_be_led_again(
    clock: HandClock, telemetry: Telemetry, tmp_path: Path
) -> None:
    trace = begin(clock, telemetry)
    trace.obeyed(2, [decision(TopicPartition("t", 9), leader=2)], clock.now_us)
    trace.finish(clock.now_us)
    assert summary_of(tmp_path).all_led_ms is None


def test_a_takeover_counts_from_detection_and_has_read_everything_by_then(
    clock: HandClock, telemetry: Telemetry, tmp_path: Path
) -> None:
    marks = {
        TraceMark.BEGAN: 1_000_000,
        TraceMark.NOTICED: 1_002_000,
        TraceMark.ELECTED: 1_050_000,
        TraceMark.TOLD: 1_102_000,
    }
    told: dict[str, Attribute] = {"reason": "controller_failover", "controller_id": 2, "controller_epoch": 11}
    trace = ControlTrace(CONTROLLER_FAILOVER, ROOT, marks, telemetry, told)
    trace.wants(SendLeaderAndIsr(2, 50, 1, ()), 1_102_000)
    trace.acknowledged((2, 50), 1, 1_152_000)
    assert trace.finish_if_done(1_160_000)
    found = summary_of(tmp_path)
    assert (found.detect_ms, found.takeover_ms) == (2.0, 150.0)
    assert found.zookeeper_ms == 100.0
    assert found.all_led_ms is None
