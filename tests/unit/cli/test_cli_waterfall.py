"""A trace is drawn as a waterfall: children below parents, bars where they happened."""

from dataclasses import replace

from hightide_cli.waterfall import BAR_WIDTH, heading, waterfall
from hightide_local.traces import SpanRecord, traces_of


def span(
    name: str, parent: str, start_ms: int, end_ms: int, service: str = "controller", instance: str = "1"
) -> SpanRecord:
    return SpanRecord(
        trace_id="f" * 32,
        span_id=name,
        parent_id=parent,
        name=name,
        service=service,
        instance=instance,
        start_us=1_700_000_000_000_000 + start_ms * 1000,
        end_us=1_700_000_000_000_000 + end_ms * 1000,
        attributes={"broker_ids": "2", "reason": "process_died"} if not parent else {},
    )


FAILOVER = [
    span("failover", "", 0, 400),
    span("failover.broker_down", "failover", 0, 100),
    span("failover.leadership_change", "failover", 100, 200),
    span("failover.zookeeper_multi", "failover.leadership_change", 120, 180),
    span("failover.become_leader", "failover", 200, 400, "broker", "3"),
]


def test_children_stand_below_their_parents_in_order_of_start() -> None:
    (trace,) = traces_of(FAILOVER)
    lines = waterfall(trace).splitlines()[3:]
    assert [line.split()[0] for line in lines] == [each.name for each in FAILOVER]
    indents = [len(line) - len(line.lstrip()) for line in lines]
    assert indents == [0, 2, 2, 4, 2]


def test_a_bar_begins_and_ends_where_the_span_did() -> None:
    (trace,) = traces_of(FAILOVER)
    rows = {line.split()[0]: line for line in waterfall(trace).splitlines()[3:]}
    assert rows["failover"].count("█") == BAR_WIDTH
    assert rows["failover.broker_down"].count("█") == BAR_WIDTH // 4
    assert rows["failover.become_leader"].count("█") == BAR_WIDTH // 2
    assert rows["failover.become_leader"].index("█") - rows["failover"].index("█") == BAR_WIDTH // 2


def test_every_line_names_its_process_and_the_heading_the_broker() -> None:
    (trace,) = traces_of(FAILOVER)
    assert heading(trace).startswith(
        "failover of broker 2 (process_died) · 2023-11-14 22:13:20Z · 400.0 ms · trace ffff"
    )
    assert "broker-3" in waterfall(trace)


def test_a_takeover_by_another_coordinator_names_the_one_before() -> None:
    took_over = replace(span("coordinator_failover", "", 0, 100), attributes={"previous_coordinator": 2})
    (trace,) = traces_of([took_over, span("coordinator_failover.load", "coordinator_failover", 10, 20)])
    assert heading(trace).startswith("coordinator_failover after coordinator 2 · ")


def test_a_span_whose_parent_was_not_written_is_drawn_all_the_same() -> None:
    (trace,) = traces_of([span("failover.become_leader", "lost", 0, 0)])
    assert "failover.become_leader" in waterfall(trace)
    assert "▏" in waterfall(trace)
