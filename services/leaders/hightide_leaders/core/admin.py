"""What a broker does as an admin, for a client: create, grow, shrink and delete topics (V2 "Create topic",
"Delete partition / topic"). What is about one partition is in partition_requests.py.

Theory of operation. A topic's znode says how many partitions there are, and names who adds more until that
is done. A creation is a growth from no partition on, and a deletion leaves none. Whatever there is above the
number, without an attempt whose broker is still in that life, goes: whoever creates, grows, shrinks or
deletes a topic of that name closes it and removes its znodes. So two admins do not undo each other's work,
and a dead one is in nobody's way. Each step depends on what was read, and names its version; after an
unknown outcome the topic is read again.

Nobody waits for a broker that is dead. Its state changes stay in its queue. The topic id keeps them from a
later topic of the same name, and the first epoch keeps the log from a later partition of the same number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from hightide_runtime.znodes.led_nodes import TopicNode
from hightide_runtime.znodes.paths import (
    isr_path,
    leader_path,
    partition_path,
    reassigned_path,
    replicas_path,
    topic_id_path,
    topic_path,
)

from hightide_leaders.core import events as ev
from hightide_leaders.core import partition_requests
from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Answer, Effects, Outcome, ReadQueues, ReadTopic
from hightide_leaders.core.queues import send, undone
from hightide_leaders.core.state import LeadersState, Request, Step
from hightide_leaders.core.values import (
    ChangeKind,
    Life,
    Lives,
    PartitionNodes,
    StateChange,
    TopicNodes,
    TopicPartition,
)


def requested(state: LeadersState, event: ev.Requested, now_ms: int) -> Effects:
    """Begin what a client asks for."""
    assert event.request_id not in state.requests
    if isinstance(event, ev.ReassignmentRequested | ev.ElectionRequested):
        request = Request(event.request_id, event.name.topic, event, name=event.name)
    else:
        request = Request(event.request_id, event.topic, event, topic_id=event.topic_id)
    if isinstance(event, ev.AdditionRequested):
        request.deadline_ms = now_ms + state.settings.keep_in_sync_time_ms
        if not event.creates and _is_at_it(state, event.topic):
            return (Answer(event.request_id, Outcome.TOPIC_BEING_CREATED),)
    state.requests[request.request_id] = request
    return _read(request)


def _read(request: Request) -> Effects:
    """Read what a request is about: its topic, or one partition of it."""
    partition = None if request.name is None else request.name.partition
    return (ReadTopic(request.request_id, request.topic, partition),)


def _is_at_it(state: LeadersState, topic: str, but_for: Request | None = None) -> bool:
    """Whether this broker creates or grows the topic for another client: the attempt would be the same."""
    requests = state.requests.values()
    others = (each.asked for each in requests if each.topic == topic and each is not but_for)
    return any(isinstance(asked, ev.AdditionRequested) for asked in others)


def end(state: LeadersState, request: Request, outcome: Outcome) -> Effects:
    """Answer the client."""
    del state.requests[request.request_id]
    return (Answer(request.request_id, outcome),)


def topic_read(state: LeadersState, event: ev.TopicRead, now_ms: int) -> Effects:
    """The topic of a request was read: the next step, by what is there."""
    request = state.requests.get(event.request_id)
    if request is None:
        return ()
    found, lives = event.found, event.lives
    if found is not None and not found.topic_id:
        is_new = isinstance(request.asked, ev.AdditionRequested) and request.asked.creates
        return end(state, request, Outcome.TOPIC_ALREADY_EXISTS if is_new else Outcome.UNKNOWN_TOPIC)
    match request.asked:
        case ev.AdditionRequested():
            return _add(state, request, found, lives, now_ms)
        case ev.DeletionRequested():
            return _delete(state, request, found, lives, now_ms)
        case _:
            decided = partition_requests.next_step(state, request, found, lives)
            return end(state, request, decided) if isinstance(decided, Outcome) else decided


# --- create and grow -----------------------------------------------------------------------------


def _add(
    state: LeadersState, request: Request, found: TopicNodes | None, lives: Lives, now_ms: int
) -> Effects:
    """Create a topic, or add partitions to it."""
    assigned = tuple(_assigned(request))
    assert isinstance(request.asked, ev.AdditionRequested)
    creates = request.asked.creates
    if found is None and not creates:
        return end(state, request, Outcome.UNKNOWN_TOPIC)
    if found is None:
        if request.answers is not None or request.step in (Step.WAITING, Step.FINISHING):
            return end(state, request, request.answers or Outcome.TIMED_OUT)
        return _start(state, request, None, lives)
    count, attempt = found.node.partition_count, found.node.attempt
    is_mine = attempt == (state.me, state.incarnation)
    if request.topic_id not in ("", found.topic_id):
        # Another topic has the name: it is there, or what is left of it goes.
        if count or not creates:
            return end(state, request, Outcome.TOPIC_ALREADY_EXISTS if creates else Outcome.UNKNOWN_TOPIC)
        if is_under_way(state, request, attempt, lives):
            return end(state, request, Outcome.TOPIC_BEING_CREATED)
        return _remove(state, request, found, Step.CLEANING)
    request.topic_id = found.topic_id
    if attempt is None:
        if (creates or request.step is Step.FINISHING) and assigned and count > assigned[-1][0].partition:
            return end(state, request, Outcome.DONE)
        if request.answers is None and (creates or request.step in (Step.WAITING, Step.FINISHING)):
            # Somebody took this broker for dead, and cleaned up.
            return end(state, request, Outcome.TIMED_OUT)
        if not (count or creates):
            return end(state, request, request.answers or Outcome.TOPIC_BEING_DELETED)
        if creates or found.beyond(request.topic, count):
            return _remove(state, request, found, Step.CLEANING)
        if request.answers is not None:
            return end(state, request, request.answers)
        if assigned and count != assigned[0][0].partition:
            return end(state, request, Outcome.TOPIC_CHANGED)
        return _start(state, request, found, lives)
    if is_mine and request.answers is None and (creates or request.step is not Step.CHECKING):
        return _go_on(state, request, found, lives, now_ms)
    if is_under_way(state, request, attempt, lives):
        return end(state, request, Outcome.TOPIC_BEING_CREATED)
    return _remove(state, request, found, Step.CLEANING)


def _start(state: LeadersState, request: Request, found: TopicNodes | None, lives: Lives) -> Effects:
    """Write RAR of each partition that is to be created and is not there, and tell those that are to have
    it."""
    assigned = tuple(_assigned(request))
    for _, replicas in assigned:
        if not replicas or len(set(replicas)) != len(replicas):
            return end(state, request, Outcome.INVALID_ASSIGNMENT)
        if not lives.live.issuperset(replicas):
            return end(state, request, Outcome.REPLICA_NOT_ONLINE)
    if not assigned:
        return end(state, request, Outcome.INVALID_ASSIGNMENT)
    attempt = (state.me, state.incarnation)
    if found is None:
        assert isinstance(request.asked, ev.AdditionRequested)
        configs = dict(request.asked.configs)
        node = TopicNode(bytes.fromhex(request.topic_id), attempt, 0, configs)
        first, version = wr.create_topic(request.topic, node), 0
    elif found.node.attempt is None:
        node = replace(found.node, attempt=attempt)
        put = wr.Put(topic_path(request.topic), node, found.version)
        first, version = (wr.Check(topic_id_path(request.topic_id)), put), found.version + 1
    else:
        first, version = (), found.version
    groups: list[wr.Operations] = []
    request.sent = ()
    for name, replicas in assigned:
        start = StateChange(ChangeKind.START_REPLICA, name, request.topic_id, 0)
        starts = tuple(wr.Enqueue(broker_id, start) for broker_id in replicas)
        request.sent += starts
        if found is None or name.partition not in found.partitions:
            made = wr.Create(partition_path(*name)), wr.Create(reassigned_path(*name), replicas)
            groups.append((*made, *starts))
    check = wr.check_topic(request.topic, version, request.topic_id)
    return state.write_for(request, Step.WRITING, first or check, groups, check)


def _assigned(request: Request) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
    asked = request.asked
    assert isinstance(asked, ev.AdditionRequested)
    for number, replicas in enumerate(asked.assignment, asked.first):
        yield TopicPartition(request.topic, number), replicas


def is_under_way(state: LeadersState, request: Request, attempt: Life | None, lives: Lives) -> bool:
    """Whether somebody else creates or grows the topic: a broker that is still in that life; of this one, for
    another client. One that was written late, after its client had its answer, is nobody's."""
    if attempt == (state.me, state.incarnation):
        return _is_at_it(state, request.topic, request)
    return attempt in lives.of


def _go_on(state: LeadersState, request: Request, found: TopicNodes, lives: Lives, now_ms: int) -> Effects:
    """The attempt is this request's: wait for its starts, if all of them are written."""
    if any(name.partition not in found.partitions for name, _ in _assigned(request)):
        return _start(state, request, found, lives)
    request.found = found
    return _wait(state, request, now_ms)


def _complete(state: LeadersState, request: Request) -> Effects:
    """AR of each partition, and the end of the attempt."""
    found, assigned = request.found, tuple(_assigned(request))
    assert found is not None
    check = wr.check_topic(request.topic, found.version, found.topic_id)
    groups: list[wr.Operations] = [
        (wr.Create(replicas_path(*name), replicas), wr.Delete(reassigned_path(*name)))
        for name, replicas in assigned
        if not found.partitions[name.partition].replicas
    ]
    node = replace(found.node, attempt=None, partition_count=found.node.partition_count + len(assigned))
    groups.append((wr.Put(topic_path(request.topic), node, found.version),))
    return state.write_for(request, Step.FINISHING, check, groups, check)


# --- delete and shrink ---------------------------------------------------------------------------


def _delete(
    state: LeadersState, request: Request, found: TopicNodes | None, lives: Lives, now_ms: int
) -> Effects:
    """Delete a topic, or its last partitions."""
    assert isinstance(request.asked, ev.DeletionRequested)
    keep, is_new = request.asked.keep, request.step is Step.CHECKING and not request.sent
    if found is None:
        return end(state, request, Outcome.UNKNOWN_TOPIC if is_new else Outcome.DONE)
    count, going = found.node.partition_count, found.beyond(request.topic, keep)
    is_other = count != keep or found.node.attempt is not None
    is_done = keep > 0 and is_other and request.step in (Step.WAITING, Step.FINISHING)
    if is_done or request.topic_id not in ("", found.topic_id):
        # What came afterwards is another topic of the name, or are other partitions.
        return end(state, request, Outcome.DONE)
    request.topic_id = found.topic_id
    if is_under_way(state, request, found.node.attempt, lives):
        return end(state, request, Outcome.TOPIC_BEING_CREATED)
    if count < keep:
        return end(state, request, Outcome.TOPIC_CHANGED)
    if any(nodes.garbage for _, nodes in going):
        return end(state, request, Outcome.UNREADABLE)
    if count > keep > 0 and any(nodes.replicas and nodes.reassigned for _, nodes in going):
        return end(state, request, Outcome.REASSIGNMENT_IN_PROGRESS)
    request.sent = tuple(chain.from_iterable(_closes(*each) for each in going))
    if count > keep or found.node.attempt is not None or any(nodes.reassigned != () for _, nodes in going):
        return _mark(state, request, found, keep, Step.WRITING)
    if keep and not going:
        return end(state, request, Outcome.DONE)
    if request.step is Step.FINISHING:
        return _remove(state, request, found, Step.FINISHING)
    return _wait(state, request, now_ms)


def _mark(state: LeadersState, request: Request, found: TopicNodes, keep: int, step: Step) -> Effects:
    """Count so many partitions; and an empty RAR for each other one, and its state changes."""
    marks = [
        (wr.reassign(name, (), nodes), *_closes(name, nodes))
        for name, nodes in found.beyond(request.topic, keep)
        if nodes.reassigned != ()
    ]
    first, check = _counted(request.topic, found, keep)
    return state.write_for(request, step, first, marks, check)


def _counted(
    topic: str, found: TopicNodes, count: int, first_epochs: Mapping[int, int] | None = None
) -> tuple[wr.Operations, wr.Operations]:
    """The write after which a topic has so many partitions, and nobody adds more; and the check that it is
    so. What was decided about its partitions before, and is not written yet, is never written."""
    node, version, topic_id = found.node, found.version, found.topic_id
    epochs = {**node.first_leader_epochs, **(first_epochs or {})}
    removals = node.removals + 1
    after = replace(node, attempt=None, partition_count=count, removals=removals, first_leader_epochs=epochs)
    marker = wr.Put(topic_id_path(topic_id), topic, node.removals)
    first = (marker, wr.Put(topic_path(topic), after, version))
    return first, wr.check_topic(topic, version + 1, topic_id)


def _remove(state: LeadersState, request: Request, found: TopicNodes, step: Step) -> Effects:
    """Remove the znodes of partitions that a topic does not count, and close what may have started of them;
    those of the topic too, if it has no others. Where one of them was led, a later partition of its number
    begins with the next epoch: nobody leads it any more, since it is not counted.

    RAR is no child of the partition, and another admin may be writing it. So each has one before it goes.
    """
    topic, count = request.topic, found.node.partition_count
    going = found.beyond(topic, count)
    if any(nodes.garbage for _, nodes in going):
        return end(state, request, Outcome.UNREADABLE)
    if any(nodes.reassigned is None for _, nodes in going):
        return _mark(state, request, found, count, step)
    groups: list[wr.Operations] = []
    for name, nodes in going:
        closes = () if nodes.reassigned == () else _closes(name, nodes)
        request.sent += closes
        groups.append((*closes, *_deletion(name, nodes)))
    if not count:
        check = wr.check_topic(topic, found.version, found.topic_id)
        last = wr.delete_topic(topic, found.version, found.topic_id)
        return state.write_for(request, step, check, [*groups, last], check)
    epochs = {name.partition: nodes.epoch + 1 for name, nodes in going if nodes.isr is not None}
    first, check = _counted(topic, found, count, epochs)
    return state.write_for(request, step, first, groups, check)


def _closes(name: TopicPartition, nodes: PartitionNodes) -> tuple[wr.Enqueue, ...]:
    """A close-replica for each replica of a partition."""
    return send(nodes.assigned, ChangeKind.CLOSE_REPLICA, name, nodes)


def _deletion(name: TopicPartition, nodes: PartitionNodes) -> wr.Operations:
    """The znodes of a partition."""
    there = (
        (nodes.leader, wr.Delete(leader_path(*name))),
        (nodes.isr, wr.Delete(isr_path(*name), nodes.version)),
        (nodes.replicas or None, wr.Delete(replicas_path(*name))),
        (nodes.reassigned, wr.Delete(reassigned_path(*name))),
    )
    return (*(gone for znode, gone in there if znode is not None), wr.Delete(partition_path(*name)))


# --- queues, writes, time ------------------------------------------------------------------------


def _wait(state: LeadersState, request: Request, now_ms: int) -> Effects:
    """Wait until the brokers have done what is in their queues."""
    if request.deadline_ms is None:
        request.deadline_ms = now_ms + state.settings.keep_in_sync_time_ms
    request.step = Step.WAITING
    return (ReadQueues(request.request_id, tuple(sorted({each.broker_id for each in request.sent}))),)


def awaited(sent: Sequence[wr.Enqueue], lives: Lives) -> Sequence[wr.Enqueue]:
    """The state changes that an admin waits for: those to brokers that are alive. By the text: all."""
    return tuple(each for each in sent if each.broker_id in lives.live)


def queues_read(state: LeadersState, event: ev.QueuesRead) -> Effects:
    """The queues that a request waits for were read. They are read as often as a watch fires, and the reads
    overlap: one that belongs to an earlier step changes nothing."""
    request = state.requests.get(event.request_id)
    if request is None or request.step is not Step.WAITING:
        return ()
    if undone(awaited(request.sent, event.lives), event.queues):
        return ()
    if isinstance(request.asked, ev.DeletionRequested):
        request.step = Step.FINISHING
        return _read(request)
    return _complete(state, request)


def look_again(state: LeadersState) -> Effects:
    """Read again what clients ask about: the session is another one, or its watches are gone."""
    return tuple(read for request in state.requests.values() for read in _read(request))


def write_ended(state: LeadersState, request_id: int, ending: ev.Ending) -> Effects:
    """A write of a request ended: read the topic again, and go on from what is there."""
    request = state.requests.get(request_id)
    if request is None:
        return ()
    if ending is ev.Ending.COMMITTED and request.name is not None:
        return end(state, request, Outcome.DONE)
    if ending is ev.Ending.QUEUE_FULL:
        full = Outcome.FOLLOWER_STATE_CHANGE_QUEUE_FULL
        is_begun = request.step is Step.WRITING and not isinstance(request.asked, ev.DeletionRequested)
        return _fail(request, full) if is_begun else end(state, request, full)
    if request.step is Step.CLEANING:
        request.step = Step.CHECKING
    return _read(request)


def _fail(request: Request, outcome: Outcome) -> Effects:
    """Clean up what a creation or a growth has begun, then answer this."""
    request.step, request.answers = Step.CHECKING, outcome
    return _read(request)


def time_passed(state: LeadersState, now_ms: int) -> Effects:
    """An admin does not wait longer than KeepInSyncTime. A creation or a growth failed then, and is cleaned
    up; a deletion goes on, since what is in the queues will be done."""
    effects: Effects = ()
    for request in list(state.requests.values()):
        if request.deadline_ms is None or now_ms < request.deadline_ms:
            continue
        request.deadline_ms = None
        if isinstance(request.asked, ev.DeletionRequested):
            request.step = Step.FINISHING
            effects += _read(request)
        else:
            effects += _fail(request, Outcome.TIMED_OUT)
    return effects
