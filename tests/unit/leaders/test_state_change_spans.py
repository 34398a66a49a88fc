"""The life of state changes as spans of one trace: requested, received, completed."""

from __future__ import annotations

from pathlib import Path

from hightide_leaders.core import effects as fx
from hightide_leaders.core import writes as wr
from hightide_leaders.core.values import ChangeKind, QueuedChange, StateChange, TopicPartition
from hightide_leaders.state_change_spans import StateChangeSpans
from hightide_local.traces.span_files import SpanRecord, read_spans
from hightide_runtime.telemetry.span_kinds import (
    STATE_CHANGE,
    STATE_CHANGE_COMPLETED,
    STATE_CHANGE_RECEIVED,
)
from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.znodes.paths import topic_id_path
from unit.leaders.one_broker import ID, NAME, change, queued_for

OTHER = TopicPartition("tide", 1)
START = ChangeKind.START_REPLICA


class Traced:
    """A leader and a broker whose queue it writes to, each with its spans."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.telemetries = [Telemetry.set_up("broker", str(each), directory=directory) for each in (1, 2)]
        self.leader, self.follower = map(StateChangeSpans, self.telemetries)

    def sent(self, *changes: StateChange) -> tuple[QueuedChange, ...]:
        """What stands in the queue of the follower after the leader has written."""
        sent = queued_for((2, each) for each in changes)
        write, span = self.leader.requested(fx.Write(1, (wr.Check(topic_id_path(ID)), sent[0]), (sent[1:],)))
        span.end()
        queued = [each.change for each in write.everything if isinstance(each, wr.Enqueue)]
        return tuple(QueuedChange(f"change-{number:010}", each) for number, each in enumerate(queued))

    def spans(self) -> dict[str, list[SpanRecord]]:
        for telemetry in self.telemetries:
            telemetry.shut_down()
        found: dict[str, list[SpanRecord]] = {}
        for span in read_spans(self.directory):
            found.setdefault(span.name, []).append(span)
        return found


def test_the_life_of_a_state_change_is_one_trace(tmp_path: Path) -> None:
    traced = Traced(tmp_path)
    queue = traced.sent(change(START, epoch=7), change(START, epoch=5, name=OTHER))
    traced.follower.received(queue)
    traced.follower.received(queue)  # It is read again, before it is empty.
    traced.follower.written((wr.Dequeue(2, queue[0].znode),))
    traced.follower.written((wr.Dequeue(2, queue[1].znode),))
    spans = traced.spans()
    (root,), (received,), (completed,) = (
        spans[name] for name in (STATE_CHANGE, STATE_CHANGE_RECEIVED, STATE_CHANGE_COMPLETED)
    )
    assert root.attributes["broker_ids"] == "2"
    for span in (received, completed):
        assert (span.trace_id, span.parent_id) == (root.trace_id, root.span_id)
        assert span.instance == "2"
    for span in (root, received, completed):
        assert span.attributes["partition_sample"] == "tide-0, tide-1"
        assert span.attributes["leader_epoch"] == 7
        assert span.attributes["state_changes"] == "start-replica"


def test_what_is_not_out_of_the_queue_is_not_completed(tmp_path: Path) -> None:
    traced = Traced(tmp_path)
    queue = traced.sent(change(START), change(START, name=OTHER))
    traced.follower.received(queue)
    traced.follower.written((wr.Dequeue(2, queue[0].znode), wr.Dequeue(2, "change-0000000009")))
    assert STATE_CHANGE_COMPLETED not in traced.spans()


def test_two_writes_are_two_traces(tmp_path: Path) -> None:
    traced = Traced(tmp_path)
    first, second = traced.sent(change(START)), traced.sent(change(START, name=OTHER))
    queue = (*first, QueuedChange("change-0000000001", second[0].change))
    traced.follower.received(queue)
    spans = traced.spans()
    assert len({span.trace_id for span in spans[STATE_CHANGE_RECEIVED]}) == len(spans[STATE_CHANGE]) == 2


def test_a_broker_that_does_not_trace_names_no_trace_in_the_queue() -> None:
    spans = StateChangeSpans(Telemetry.off())
    write = fx.Write(1, queued_for([(2, change(START))]))
    assert spans.requested(write)[0] is write
    spans.received([QueuedChange("change-0000000000", change(START)), QueuedChange("x", None)])
    spans.written((wr.Dequeue(1, "change-0000000000"),))


def test_a_state_change_is_the_same_whatever_its_trace() -> None:
    traced = StateChange(START, NAME, ID, 3, f"00-{1:032x}-{2:016x}-01")
    assert traced == change(START)
