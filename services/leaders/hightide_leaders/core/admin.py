"""What a broker does as an admin, for a client: create, grow and delete topics (V2 "Create topic", "Delete
partition / topic"). What is about one partition is in partition_requests.py.

Theory of operation. A topic's znode names who creates or grows it until that is done, and how many
partitions are done. A creation is a growth from no partition on. An attempt whose broker is gone, or has
begun another life, is cleaned up by whoever creates, grows or deletes a topic of that name:
close-replica at epoch -1 to the brokers of what is not done, and its znodes go. So two admins do not undo
each other's work, and a dead one is in nobody's way. Each step depends on what was read, and names its
version; after an unknown outcome the topic is read again.

Nobody waits for a broker that is dead. Its state changes stay in its queue, and the topic id keeps them
from a later topic of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

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
    Attempt,
    ChangeKind,
    Lives,
    StateChange,
    TopicNode,
    TopicNodes,
    TopicPartition,
)

FAILED_ATTEMPT = -1
"""The epoch of a close-replica that cleans up."""


def requested(state: LeadersState, event: ev.Requested, now_ms: int) -> Effects:
    """Begin what a client asks for."""
    assert event.request_id not in state.requests
    if isinstance(event, ev.ReassignmentRequested | ev.ElectionRequested):
        request = Request(event.request_id, event.name.topic, event, name=event.name)
    else:
        request = Request(event.request_id, event.topic, event)
    if isinstance(event, ev.CreateTopicRequested | ev.GrowTopicRequested):
        request.deadline_ms = now_ms + state.settings.keep_in_sync_time_ms
    if isinstance(event, ev.GrowTopicRequested) and _is_at_it(state, event.topic):
        return (Answer(event.request_id, Outcome.TOPIC_BEING_CREATED),)
    if isinstance(event, ev.CreateTopicRequested | ev.DeleteTopicRequested):
        request.topic_id = event.topic_id
    state.requests[request.request_id] = request
    return _read(request)


def _read(request: Request) -> Effects:
    """Read what a request is about: its topic, or one partition of it."""
    partition = None if request.name is None else request.name.partition
    return (ReadTopic(request.request_id, request.topic, partition),)


def _is_at_it(state: LeadersState, topic: str) -> bool:
    """Whether this broker creates or grows the topic for another client: the attempt would be the same."""
    others = (each.asked for each in state.requests.values() if each.topic == topic)
    return any(isinstance(asked, ev.CreateTopicRequested | ev.GrowTopicRequested) for asked in others)


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
        is_new = isinstance(request.asked, ev.CreateTopicRequested)
        return end(state, request, Outcome.TOPIC_ALREADY_EXISTS if is_new else Outcome.UNKNOWN_TOPIC)
    match request.asked:
        case ev.CreateTopicRequested() | ev.GrowTopicRequested():
            return _add(state, request, found, lives, now_ms)
        case ev.DeleteTopicRequested():
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
    creates = isinstance(request.asked, ev.CreateTopicRequested)
    if found is not None and creates and found.topic_id != request.topic_id:
        return _meet(state, request, found, lives)
    if not creates and (found is None or request.topic_id not in ("", found.topic_id)):
        return end(state, request, Outcome.UNKNOWN_TOPIC)
    count, attempt = 0, None
    if found is not None:
        request.topic_id, count, attempt = found.topic_id, found.node.partition_count, found.node.attempt
        if found.is_deleted and not creates:
            return end(state, request, Outcome.TOPIC_BEING_DELETED)
    if found is None or attempt is None:
        before = assigned[0][0].partition if assigned else 0
        if (
            found is not None
            and (creates or request.step is Step.FINISHING)
            and count >= before + len(assigned)
        ):
            return end(state, request, Outcome.DONE)
        if request.answers is not None or request.step in (Step.WAITING, Step.FINISHING):
            # Without an answer, somebody took this broker for dead, and cleaned up.
            return end(state, request, request.answers or Outcome.TIMED_OUT)
        return (
            _start(state, request, found, lives)
            if count == before
            else end(state, request, Outcome.TOPIC_CHANGED)
        )
    is_mine = attempt == Attempt(state.me, state.incarnation)
    if is_mine and request.answers is None and (creates or request.step is not Step.CHECKING):
        return _go_on(state, request, found, lives, now_ms)
    if not is_mine and is_under_way(attempt, lives):
        return end(state, request, Outcome.TOPIC_BEING_CREATED)
    return _clean_up(state, request, found)


def _meet(state: LeadersState, request: Request, found: TopicNodes, lives: Lives) -> Effects:
    """Another topic has the name: it is there, or what is left of it goes."""
    attempt = found.node.attempt
    if found.node.partition_count if attempt is not None else not found.is_deleted:
        return end(state, request, Outcome.TOPIC_ALREADY_EXISTS)
    if attempt is not None and is_under_way(attempt, lives):
        return end(state, request, Outcome.TOPIC_BEING_CREATED)
    return _clean_up(state, request, found)


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
    attempt = Attempt(state.me, state.incarnation)
    if found is None:
        assert isinstance(request.asked, ev.CreateTopicRequested)
        node = TopicNode(request.topic_id, attempt, 0, request.asked.configs)
        first, version = wr.create_topic(request.topic, node), 0
    elif found.node.attempt is None:
        node = replace(found.node, attempt=attempt)
        put = wr.Put(topic_path(request.topic), node, found.version)
        first, version = (wr.Check(topic_id_path(request.topic_id)), put), found.version + 1
    else:
        first, version = (), found.version
    request.sent, groups = (), []
    for name, replicas in assigned:
        start = StateChange(ChangeKind.START_REPLICA, name, request.topic_id, 0)
        starts = tuple((broker_id, start) for broker_id in replicas)
        request.sent += starts
        if found is None or name.partition not in found.partitions:
            made = wr.Create(partition_path(*name)), wr.Create(reassigned_path(*name), replicas)
            groups.append((*made, *send(starts)))
    check = wr.check_topic(request.topic, version, request.topic_id)
    return _write(state, request, Step.WRITING, first or check, groups, check)


def _assigned(request: Request) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
    asked = request.asked
    assert isinstance(asked, ev.CreateTopicRequested | ev.GrowTopicRequested)
    first = asked.first if isinstance(asked, ev.GrowTopicRequested) else 0
    for number, replicas in enumerate(asked.assignment, first):
        yield TopicPartition(request.topic, number), replicas


def is_under_way(attempt: Attempt, lives: Lives) -> bool:
    """Whether the life of the broker that creates or grows a topic is still there."""
    return tuple(attempt) in lives.of


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
    return _write(state, request, Step.FINISHING, check, groups, check)


# --- delete --------------------------------------------------------------------------------------


def _delete(
    state: LeadersState, request: Request, found: TopicNodes | None, lives: Lives, now_ms: int
) -> Effects:
    if found is None:
        is_new = request.step is Step.CHECKING and not request.sent
        return end(state, request, Outcome.UNKNOWN_TOPIC if is_new else Outcome.DONE)
    if request.topic_id and request.topic_id != found.topic_id:
        return end(state, request, Outcome.DONE)  # That is a later topic of the same name.
    request.topic_id = found.topic_id
    if found.node.attempt is not None and is_under_way(found.node.attempt, lives):
        return end(state, request, Outcome.TOPIC_BEING_CREATED)
    closes = {number: _closes(request.topic, found, number) for number in sorted(found.partitions)}
    request.sent = tuple(chain.from_iterable(closes.values()))
    check = wr.check_topic(request.topic, found.version, found.topic_id)
    if not found.is_deleted:
        # An empty RAR for each partition, and its state changes.
        marks = [
            (wr.reassign(TopicPartition(request.topic, number), (), nodes), *send(closes[number]))
            for number, nodes in sorted(found.partitions.items())
            if not nodes.is_being_deleted
        ]
        return _write(state, request, Step.WRITING, check, marks, check)
    if request.step is Step.FINISHING:
        gone = [_deletion(request.topic, number, found) for number in closes]
        last = wr.delete_topic(request.topic, found.version, found.topic_id)
        return _write(state, request, Step.FINISHING, check, [*gone, last], check)
    return _wait(state, request, now_ms)


def _closes(
    topic: str, found: TopicNodes, number: int, epoch: int | None = None
) -> tuple[tuple[int, StateChange], ...]:
    """A close-replica for each replica of a partition."""
    nodes = found.partitions[number]
    at = nodes.epoch if epoch is None else epoch
    close = StateChange(ChangeKind.CLOSE_REPLICA, TopicPartition(topic, number), found.topic_id, at)
    return tuple((broker_id, close) for broker_id in nodes.assigned)


def _deletion(topic: str, number: int, found: TopicNodes) -> wr.Operations:
    """The znodes of a partition."""
    name, nodes = TopicPartition(topic, number), found.partitions[number]
    there = (
        (nodes.leader, wr.Delete(leader_path(*name))),
        (nodes.isr, wr.Delete(isr_path(*name), nodes.version)),
        (nodes.replicas or None, wr.Delete(replicas_path(*name))),
        (nodes.reassigned, wr.Delete(reassigned_path(*name))),
    )
    return (*(gone for znode, gone in there if znode is not None), wr.Delete(partition_path(*name)))


# --- queues, writes, time ------------------------------------------------------------------------


def _write(
    state: LeadersState,
    request: Request,
    step: Step,
    first: wr.Operations,
    groups: Sequence[wr.Operations],
    check: wr.Operations,
) -> Effects:
    """Write in as many multis as it takes, a group in each or several."""
    request.step = step
    return (state.write(request.request_id, first, tuple(groups), check),)


def _wait(state: LeadersState, request: Request, now_ms: int) -> Effects:
    """Wait until the brokers have done what is in their queues."""
    if request.deadline_ms is None:
        request.deadline_ms = now_ms + state.settings.keep_in_sync_time_ms
    request.step = Step.WAITING
    return (ReadQueues(request.request_id, tuple(sorted({target for target, _ in request.sent}))),)


def _clean_up(state: LeadersState, request: Request, found: TopicNodes) -> Effects:
    """A failed attempt: close what its brokers may have started, and remove its znodes; those of the topic
    too, if nothing else is left."""
    first, topic = found.unfinished_from, request.topic
    groups: list[wr.Operations] = []
    for number in sorted(number for number in found.partitions if number >= first):
        closes = _closes(topic, found, number, FAILED_ATTEMPT)
        request.sent += closes
        groups.append((*send(closes), *_deletion(topic, number, found)))
    last = wr.delete_topic(topic, found.version, found.topic_id)
    if first > 0:
        last = (wr.Put(topic_path(topic), replace(found.node, attempt=None), found.version),)
    check = wr.check_topic(topic, found.version, found.topic_id)
    return _write(state, request, Step.CLEANING, check, [*groups, last], check)


def awaited(sent: Sequence[tuple[int, StateChange]], lives: Lives) -> tuple[tuple[int, StateChange], ...]:
    """The state changes that an admin waits for: those to brokers that are alive. By the text: all."""
    return tuple(each for each in sent if each[0] in lives.live)


def queues_read(state: LeadersState, event: ev.QueuesRead) -> Effects:
    """The queues that a request waits for were read. They are read as often as a watch fires, and the reads
    overlap: one that belongs to an earlier step changes nothing."""
    request = state.requests.get(event.request_id)
    if request is None or request.step is not Step.WAITING:
        return ()
    if undone(awaited(request.sent, event.lives), event.queues):
        return ()
    if isinstance(request.asked, ev.DeleteTopicRequested):
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
        is_begun = request.step is Step.WRITING and not isinstance(request.asked, ev.DeleteTopicRequested)
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
        if isinstance(request.asked, ev.DeleteTopicRequested):
            request.step = Step.FINISHING
            effects += _read(request)
        else:
            effects += _fail(request, Outcome.TIMED_OUT)
    return effects
