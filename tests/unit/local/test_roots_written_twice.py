"""Traces that two processes wrote: one was killed, another one carried its work on."""

from hightide_local.traces.trace_lookup import SpanRecord, traces_of
from hightide_runtime.telemetry import span_kinds


def span(
    span_id: str,
    parent_id: str,
    name: str,
    start_us: int,
    end_us: int,
    instance: str = "1",
    **attributes: int | str,
) -> SpanRecord:
    return SpanRecord(
        "t", span_id, parent_id, name, "controller", instance, start_us, end_us, attributes=dict(attributes)
    )


def test_a_root_that_was_written_twice_is_one_span_from_the_first_start_to_the_last_end() -> None:
    (trace,) = traces_of(
        [
            span("r", "", span_kinds.FAILOVER, 500, 900, "2", controller_epoch=2),
            span("r", "", span_kinds.FAILOVER, 100, 400, "1", controller_epoch=1, detect_ms=3),
            span("a", "r", span_kinds.BROKER_DOWN, 100, 200),
        ]
    )
    (root,) = trace.roots
    assert (root.span.start_us, root.span.end_us, root.span.instance) == (100, 900, "2")
    assert root.span.attributes == {"controller_epoch": 2, "detect_ms": 3}
    assert [child.span.span_id for child in root.children] == ["a"]


def test_what_a_root_is_about_is_told_by_who_began_it_and_what_became_of_it_by_who_ended_it() -> None:
    (trace,) = traces_of(
        [
            span(
                "r", "", span_kinds.FAILOVER, 300, 900, "2", carried_on=True, reason="controller_replaced",
                broker_ids="2", broker_epochs="-1", controller_epoch=2, partition_count=6,
            ),
            span(
                "r", "", span_kinds.FAILOVER, 100, 400, "1", reason="session_ended",
                broker_ids="2,1", broker_epochs="77,76", controller_epoch=1, partition_count=4,
            ),
        ]
    )  # fmt: skip
    assert trace.root.attributes == {
        "reason": "session_ended",
        "broker_ids": "2,1",
        "broker_epochs": "77,76",
        "controller_epoch": 2,
        "partition_count": 6,
        "carried_on": True,
    }


def test_what_lost_its_parent_hangs_below_the_root() -> None:
    (trace,) = traces_of(
        [
            span("r", "", span_kinds.FAILOVER, 500, 900, "2"),
            span("b", "died with its controller", span_kinds.BECOME_LEADER, 200, 300),
        ]
    )
    (root,) = trace.roots
    assert [child.span.span_id for child in root.children] == ["b"]


def test_without_a_root_each_stands_for_itself() -> None:
    (trace,) = traces_of([span(each, "lost", span_kinds.INFORM_BROKER, 1, 2) for each in "ab"])
    assert [root.span.span_id for root in trace.roots] == ["a", "b"]
