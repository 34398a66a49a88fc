"""A trace is drawn as a waterfall: children below parents, bars where they happened."""

from dataclasses import replace

import pytest
from hightide_cli.trace.commands import KINDS
from hightide_cli.trace.waterfall import BAR_WIDTH, heading, title, waterfall
from hightide_local.traces.trace_lookup import SpanRecord, traces_of
from hightide_runtime.telemetry import span_kinds


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
    span("zookeeper_multi", "failover.leadership_change", 120, 180),
    span("become_leader", "failover", 200, 300, "broker", "3"),
]


def test_children_stand_below_their_parents_in_order_of_start() -> None:
    (trace,) = traces_of(FAILOVER)
    lines = waterfall(trace).split("\n\n")[1].splitlines()[1:]
    assert [line.split()[0] for line in lines] == [each.name for each in FAILOVER]
    indents = [len(line) - len(line.lstrip()) for line in lines]
    assert indents == [0, 2, 2, 4, 2]


def test_a_bar_begins_and_ends_where_the_span_did() -> None:
    (trace,) = traces_of(FAILOVER)
    rows = {line.split()[0]: line for line in waterfall(trace).split("\n\n")[1].splitlines()[1:]}
    assert rows["failover"].count("█") == BAR_WIDTH
    assert rows["failover.broker_down"].count("█") == BAR_WIDTH // 4
    assert rows["become_leader"].count("█") == BAR_WIDTH // 4
    assert rows["become_leader"].index("█") - rows["failover"].index("█") == BAR_WIDTH // 2


def test_every_line_names_its_process_and_the_heading_the_broker() -> None:
    (trace,) = traces_of(FAILOVER)
    assert heading(trace).startswith(
        "failover of broker 2 (process died) · 2023-11-14 22:13:20Z · 400.0 ms · trace ffff"
    )
    assert "broker-3" in waterfall(trace)


def test_a_takeover_by_another_coordinator_names_the_one_before() -> None:
    took_over = replace(span("coordinator_failover", "", 0, 100), attributes={"previous_coordinator": 2})
    (trace,) = traces_of([took_over, span("coordinator_failover.load", "coordinator_failover", 10, 20)])
    assert heading(trace).startswith("coordinator failover after coordinator 2 · ")


def test_a_span_whose_parent_was_not_written_is_drawn_all_the_same() -> None:
    (trace,) = traces_of([span("become_leader", "lost", 0, 0)])
    assert "become_leader" in waterfall(trace)
    assert "▏" in waterfall(trace)


def test_below_it_stands_where_the_time_went_and_who_felt_it() -> None:
    committed = [
        span("first_commit", "become_leader", 350, 350, "broker", "3"),
        replace(span("send flights", "failover", 1, 352, "client", "77"), attributes={"partition_count": 4}),
        replace(span("poll flights", "failover", 1, 300, "client", "78"), attributes={"partition_count": 4}),
    ]
    (trace,) = traces_of([*FAILOVER, *committed])
    assert waterfall(trace).splitlines()[-2:] == [
        "unavailable 350 ms: detect 100, elect 100, fan-out 100, first commit 50",
        "clients waited up to 351 ms: send flights, 4 partitions, client-77",
    ]


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        (
            "failover",
            {"broker_ids": "2,1", "reason": "process_died"},
            "failover of brokers 2, 1 (process died)",
        ),
        ("controller_failover", {"lost_controller_id": 1}, "controller failover after controller 1"),
        (
            "group_rebalance",
            {"group": "readers", "reason": "my_app joined"},
            "group rebalance of readers (my_app joined)",
        ),
        ("topic_creation", {"topic": "flights"}, "topic creation of flights"),
        ("reassignment", {"partition_count": 3}, "reassignment of 3 partitions"),
        ("failover.broker_down", {}, "failover (unfinished)"),
        ("send flights", {}, "send flights"),
    ],
)
def test_every_kind_of_trace_has_a_title(name: str, attributes: dict[str, str | int], expected: str) -> None:
    (trace,) = traces_of([replace(span(name, "", 0, 1), attributes=dict(attributes))])
    assert title(trace) == expected


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (["flights-0"], "reassignment of flights-0"),
        (["flights-0", "flights-1"], "reassignment of 2 partitions of flights"),
        (["a-0", "b-b-1", "c-0", "d-0"], "reassignment of 4 partitions of a, b-b, c, …"),
    ],
)
def test_a_reassignment_names_what_it_moves(partitions: list[str], expected: str) -> None:
    root = replace(span("reassignment", "", 0, 9), attributes={"partition_count": len(partitions)})
    steps = [
        replace(
            span("reassignment.begin", "reassignment", 0, 1), span_id=name, attributes={"partition": name}
        )
        for name in partitions
    ]
    (trace,) = traces_of([root, *steps])
    assert title(trace) == expected


def test_what_is_empty_is_not_shown() -> None:
    empty = replace(span("failover", "", 0, 9), attributes={"partition_sample": "", "partition_count": 0})
    (trace,) = traces_of([empty])
    assert "partition_sample" not in waterfall(trace)
    assert "partition_count=0" in waterfall(trace)


def test_the_commands_kinds_are_those_that_are_written() -> None:
    assert KINDS == span_kinds.TRACE_KINDS
