"""Past rebalances of a group, from the traces of its coordinator."""

from hightide_console.views.rebalances import rebalance_rows
from hightide_local.traces.span_files import SpanRecord
from hightide_local.traces.trace_lookup import Trace, traces_of


def span(trace: str, name: str, start_ms: int, **attributes: str | int) -> SpanRecord:
    start_us = start_ms * 1000
    return SpanRecord(
        trace,
        f"{name}-{start_ms}",
        "",
        name,
        "coordinator",
        "1",
        start_us,
        start_us + 25_000,
        attributes=dict(attributes),
    )


def traces(*spans: SpanRecord) -> list[Trace]:
    return traces_of(spans)


JOINED = span(
    "a" * 32,
    "group_rebalance",
    1_000,
    group="billing",
    reason="consumer b joined",
    generation=2,
    partition_count=3,
    state="STABLE",
)
LEFT = span("b" * 32, "group_rebalance", 5_000, group="billing", reason="consumer \u202eb left", generation=3)
OTHER = span("c" * 32, "group_rebalance", 6_000, group="audit", reason="consumer a joined")


def test_a_group_has_its_own_rebalances_the_newest_first_with_their_reasons() -> None:
    rows = rebalance_rows(traces(JOINED, LEFT, OTHER), "billing")
    assert [(each.reason, each.generation) for each in rows] == [
        ("consumer \\u202eb left", "3"),
        ("consumer b joined", "2"),
    ]
    assert (rows[1].took, rows[1].partitions, rows[1].state) == ("25 ms", "3", "stable")
    assert rows[1].trace_id == "a" * 32
    assert rows[0].state == "–"


def test_a_rebalance_that_a_new_coordinator_began_is_a_part_of_that_failover() -> None:
    failover = span("d" * 32, "coordinator_failover", 900)
    within = span("d" * 32, "group_rebalance", 1_000, group="billing", reason="the coordinator was lost")
    (row,) = rebalance_rows(traces(failover, within), "billing")
    assert row.trace_id == failover.trace_id


def test_a_group_that_no_trace_tells_of_has_none() -> None:
    assert rebalance_rows(traces(OTHER), "billing") == ()
