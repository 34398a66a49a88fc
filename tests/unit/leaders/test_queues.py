"""V2's sendStateChange, with the queue that shrinks, and stateChangeListener."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.queues import (
    EVERYTHING,
    FollowerStateChangeQueueFull,
    added_by,
    make_place,
    shrink,
    undone,
)
from hightide_leaders.core.values import (
    ChangeKind,
    PartitionNodes,
    QueuedChange,
    StateChange,
    TopicPartition,
)
from hightide_leaders.znode_operations import multis_for
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode
from hightide_runtime.znodes.paths import incarnation_path, topic_id_path
from hightide_runtime.zookeeper.operations import MAX_MULTI_OPERATIONS
from unit.leaders.one_broker import (
    ALL,
    ID,
    LATER_ID,
    NAME,
    OneBroker,
    change,
    kinds,
    partition,
    queued_for,
    the,
    written,
)

START, CLOSE = ChangeKind.START_REPLICA, ChangeKind.CLOSE_REPLICA
MARK = StateChange(ChangeKind.READ_ASSIGNMENTS, EVERYTHING, "", -1)
ISR = IsrNode(4, (1, 2, 3), version=9)


def queued(*changes: StateChange | None) -> tuple[QueuedChange, ...]:
    return tuple(QueuedChange(f"change-{number:010}", each) for number, each in enumerate(changes))


def test_a_change_goes_to_the_end_of_a_queue_that_has_place() -> None:
    assert queued_for([(2, change(START)), (2, change(CLOSE))]) == (
        wr.Enqueue(2, change(START)),
        wr.Enqueue(2, change(CLOSE)),
    )


def test_a_write_says_how_much_it_adds_to_each_queue() -> None:
    added = queued_for([(2, change(CLOSE)), (2, change(START)), (3, MARK)])
    assert added_by(fx.Write(1, added[:1], (added[1:],))) == {2: 2, 3: 1}


@pytest.mark.parametrize(
    "other",
    [replace(change(CLOSE), topic_id=LATER_ID), change(START), None],
    ids=["topic", "kind", "garbage"],
)
def test_an_admin_waits_for_no_change_that_it_did_not_send(other: StateChange | None) -> None:
    assert undone(queued_for([(2, change(CLOSE))]), {2: queued(other)}) == frozenset()


def test_a_full_queue_is_shrunk_to_the_newest_close_of_each_partition() -> None:
    other = TopicPartition("tide", 1)
    queue = queued(change(CLOSE, epoch=3), change(START), change(CLOSE, epoch=5), change(CLOSE, name=other))
    removed, added = shrink(queue)
    assert removed == ("change-0000000000", "change-0000000001")
    assert added == (MARK,)


def test_closes_of_two_topics_of_one_name_are_not_of_one_partition() -> None:
    removed, added = shrink(queued(change(CLOSE), change(CLOSE, topic_id=LATER_ID)))
    assert (removed, added) == ((), ())


CHECK = wr.Check(topic_id_path(ID))


def test_dropped_starts_are_made_good_by_a_look_at_all_assignments() -> None:
    queue = queued(change(START), change(START, epoch=4))
    write = fx.Write(1, (CHECK,), ((wr.Enqueue(2, change(CLOSE)),),))
    assert make_place(write, {2: queue}, limit=2) == fx.Write(
        1,
        (
            CHECK,
            wr.Dequeue(2, "change-0000000000"),
            wr.Dequeue(2, "change-0000000001"),
            wr.Enqueue(2, MARK),
        ),
        ((wr.Enqueue(2, change(CLOSE)),),),
    )


def test_more_starts_than_a_queue_has_place_for_are_one_look_at_all_assignments() -> None:
    starts = [change(START, name=TopicPartition("tide", number)) for number in range(3)]
    other = wr.Enqueue(3, starts[0])
    write = fx.Write(1, (CHECK,), (queued_for((2, each) for each in starts), (other,)))
    assert make_place(write, {2: ()}, limit=2) == fx.Write(1, (CHECK, wr.Enqueue(2, MARK)), ((), (other,)))


@pytest.mark.parametrize("full", [(2,), (2, 3)], ids=["one", "two"])
def test_of_a_long_queue_so_many_starts_are_dropped_as_one_multi_takes(full: tuple[int, ...]) -> None:
    """A thousand partitions are moved to one broker, and the next one comes."""
    names = [TopicPartition("tide", number) for number in range(1_000)]
    queue = queued(*(change(START, name=name) for name in names))
    write = fx.Write(1, (CHECK, *queued_for((broker_id, change(CLOSE)) for broker_id in full)))
    placed = make_place(write, dict.fromkeys(full, queue), limit=1_000)
    (multi,) = multis_for(placed)
    assert len(multi) <= MAX_MULTI_OPERATIONS
    assert {wr.Enqueue(broker_id, change(CLOSE)) for broker_id in full} <= set(placed.operations)
    assert {wr.Enqueue(broker_id, MARK) for broker_id in full} <= set(placed.operations)


def test_a_queue_that_cannot_shrink_is_full() -> None:
    queue = queued(change(CLOSE), change(CLOSE, topic_id=LATER_ID))
    with pytest.raises(FollowerStateChangeQueueFull):
        make_place(fx.Write(1, (CHECK, *queued_for([(2, change(START))]))), {2: queue}, limit=2)


def test_a_start_replica_is_obeyed_before_it_leaves_the_queue() -> None:
    broker = OneBroker()
    broker.serve()
    effects = broker.queue(change(START), nodes=partition(leader=LeaderNode(2, 4, 71), isr=ISR))
    assert kinds(effects) == [fx.OpenReplica, fx.Decide, fx.Write]
    assert wr.Dequeue(1, "change-0000000000") in written(effects)


def test_a_close_replica_of_an_earlier_topic_leaves_the_later_one_alone() -> None:
    broker = OneBroker()
    later = partition(leader=LeaderNode(2, 4, 71), isr=ISR, topic_id=LATER_ID)
    broker.serve(later)
    effects = broker.queue(change(CLOSE, topic_id=ID), nodes=later)
    assert effects[0] == fx.CloseReplica(NAME, ID)
    assert broker.replica.topic_id == LATER_ID


def test_a_close_replica_is_void_where_the_partition_has_come_back() -> None:
    broker = OneBroker()
    nodes = partition(leader=LeaderNode(2, 4, 71), isr=ISR)
    broker.serve(nodes)
    assert kinds(broker.queue(change(CLOSE, epoch=3), nodes=nodes)) == [fx.Write]


@pytest.mark.parametrize("is_hosted", [True, False])
def test_no_close_replica_is_obeyed_while_nobody_can_read_the_partition(is_hosted: bool) -> None:
    """It may have come back to this broker, and be in sync here."""
    broker = OneBroker()
    broker.serve(partition(leader=LeaderNode(2, 4, 71), isr=ISR) if is_hosted else None)
    effects = broker.queue(change(CLOSE, epoch=3), nodes=PartitionNodes("", garbage="no ISR"))
    assert kinds(effects) == [fx.Write]
    assert (NAME in broker.state.hosted) is is_hosted


def test_read_assignments_makes_the_broker_look_at_everything() -> None:
    broker = OneBroker()
    broker.serve()
    effects = broker.hear(ev.QueueRead(queued(MARK)))
    assert kinds(effects) == [fx.ReadAssignments, fx.Read]


def test_garbage_in_the_queue_is_taken_out() -> None:
    broker = OneBroker()
    broker.serve()
    effects = broker.hear(ev.QueueRead(queued(None)))
    read = the(fx.Read, effects)
    taken = broker.hear(ev.PartitionsRead(read.read_id, {}, ALL))
    assert wr.Dequeue(1, "change-0000000000") in written(taken)


def test_only_the_newest_life_of_a_broker_takes_from_its_queue() -> None:
    """Of two processes with one id the old one has obeyed; the new one still finds the change, and obeys
    too."""
    broker = OneBroker()
    broker.serve()
    effects = broker.queue(change(START), nodes=partition(leader=LeaderNode(2, 4, 71), isr=ISR))
    assert written(effects)[0] == wr.Check(incarnation_path(1), 0)
    assert kinds(broker.end(effects, ev.Ending.SUPERSEDED)) == [fx.StepAside]


def test_what_is_in_the_queue_is_looked_at_once_at_a_time() -> None:
    broker = OneBroker()
    broker.serve()
    first = broker.hear(ev.QueueRead(queued(change(START))))
    assert fx.Read in kinds(first)
    assert broker.hear(ev.QueueRead(queued(change(START), change(CLOSE)))) == ()
