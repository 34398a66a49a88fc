"""State changes in the queues of brokers (V2 sendStateChange, stateChangeListener).

Theory of operation. Each broker has a queue in ZooKeeper that outlives it, so a deletion reaches a broker
that was dead. What is in a queue is a reason to look, not an order: the broker reads the znodes of the
partition, and does what they say. So it does no harm that a state change comes late, twice, or about an
earlier topic of the name.

A queue has a limit. When it is full, the sender shrinks it: of each partition of each topic id the newest
close-replica stays, and start-replicas go. One read-assignments takes their place, which the text leaves
out: a broker that is slow, and not dead, would never start those replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from hightide_leaders.core.effects import Write
from hightide_leaders.core.values import ChangeKind, PartitionNodes, QueuedChange, StateChange, TopicPartition
from hightide_leaders.core.writes import Dequeue, Enqueue, Operation, Operations

FAILED_ATTEMPT = -1
"""The epoch of a close-replica that cleans up."""
EVERYTHING = TopicPartition("", 0)
"""The partition that a read-assignments names."""
TAKEN_MAX = 900
"""The state changes that a write takes out of full queues: they go in one multi."""


class FollowerStateChangeQueueFull(Exception):
    """A broker's queue has no place for state changes, though it was shrunk."""


def send(
    broker_ids: Iterable[int], kind: ChangeKind, name: TopicPartition, nodes: PartitionNodes
) -> tuple[Enqueue, ...]:
    """Put the same state change about a partition into the queues of some brokers (V2 sendStateChange): in
    the newest epoch; or at -1 if it is an attempt that failed (V2 "Create topic"), and has none."""
    change = StateChange(kind, name, nodes.topic_id, nodes.epoch if nodes.replicas else FAILED_ATTEMPT)
    return tuple(Enqueue(broker_id, change) for broker_id in broker_ids)


def added_by(write: Write) -> Counter[int]:
    """How many state changes a write adds to the queue of each broker."""
    return Counter(each.broker_id for each in write.everything if isinstance(each, Enqueue))


def make_place(write: Write, full: Mapping[int, Sequence[QueuedChange]], limit: int) -> Write:
    """A write with these queues shrunk, which have no place for what it adds; also its own start-replicas go
    then. It is refused if a broker has meanwhile done what a shrinking removes.

    Raises FollowerStateChangeQueueFull.
    """
    for broker_id, queue in sorted(full.items()):
        own = [each for each in write.everything if isinstance(each, Enqueue) and each.broker_id == broker_id]
        added = [QueuedChange(str(number), each.change) for number, each in enumerate(own)]
        removed, more = shrink([*queue, *added])
        gone = set(removed)
        taken = [each.znode for each in queue if each.znode in gone][: TAKEN_MAX // len(full)]
        staying = [each for each in added if each.znode not in gone]
        if len(queue) - len(taken) + len(staying) + len(more) > limit:
            raise FollowerStateChangeQueueFull
        dropped = {each for at, each in enumerate(own) if str(at) in gone}
        write = write.edited(partial(without, dropped))
        dequeued = (Dequeue(broker_id, znode) for znode in taken)
        instead = (Enqueue(broker_id, change) for change in more)
        write = replace(write, operations=(*write.operations, *dequeued, *instead))
    return write


def without(dropped: Collection[Operation], operations: Operations) -> Operations:
    """The other operations."""
    return tuple(each for each in operations if each not in dropped)


def shrink(queue: Sequence[QueuedChange]) -> tuple[tuple[str, ...], tuple[StateChange, ...]]:
    """The znodes that go from a full queue, and what comes in the place of the start-replicas."""
    newest: dict[tuple[TopicPartition, str], QueuedChange] = {}
    drops_starts = False
    for queued in queue:
        change = queued.change
        if change is None:
            continue
        if change.kind is not ChangeKind.CLOSE_REPLICA:
            drops_starts = True
            continue
        key = (change.name, change.topic_id)
        known = newest.get(key)
        if known is None or known.change is None or change.epoch >= known.change.epoch:
            newest[key] = queued
    staying = {queued.znode for queued in newest.values()}
    removed = tuple(queued.znode for queued in queue if queued.znode not in staying)
    return removed, instead_of_starts() if drops_starts else ()


def instead_of_starts() -> tuple[StateChange, ...]:
    """What tells a broker that start-replicas were dropped."""
    return (StateChange(ChangeKind.READ_ASSIGNMENTS, EVERYTHING, "", -1),)


def undone(sent: Sequence[Enqueue], queues: Mapping[int, Sequence[QueuedChange]]) -> frozenset[int]:
    """The brokers that have some of these state changes still in their queues, whatever the epoch in which
    they were asked for: an election meanwhile gives the partition another one."""
    return frozenset(
        each.broker_id
        for each in sent
        if any(_is_about_same(queued.change, each.change) for queued in queues.get(each.broker_id, ()))
    )


def _is_about_same(queued: StateChange | None, sent: StateChange) -> bool:
    wanted = (sent.kind, sent.name, sent.topic_id)
    return queued is not None and (queued.kind, queued.name, queued.topic_id) == wanted
