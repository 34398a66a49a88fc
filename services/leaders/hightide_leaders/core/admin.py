"""What a broker does as an admin, for a client: create and delete topics, ask for a reassignment (V2
"Create topic", "Delete partition / topic").

Theory of operation. A topic's znode names who creates it until it is created. An attempt whose broker is
gone, or has begun another life, is cleaned up by whoever creates or deletes a topic of that name:
close-replica at epoch -1 to all its brokers, and its znodes go. So two admins do not undo each other's
work, and a dead one is in nobody's way. Each step depends on what was read, and names its version; after an
unknown outcome the topic is read again.

Nobody waits for a broker that is dead. Its state changes stay in its queue, and the topic id keeps them
from a later topic of the same name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from hightide_leaders.core.effects import Answer, Effects, Outcome, ReadQueues, ReadTopic
from hightide_leaders.core.events import (
    CreateTopicRequested,
    DeleteTopicRequested,
    Ending,
    QueuesRead,
    ReassignmentRequested,
    TopicRead,
)
from hightide_leaders.core.queues import FollowerStateChangeQueueFull, send_state_changes, undone
from hightide_leaders.core.state import LeadersState, Request, RequestKind, Step
from hightide_leaders.core.values import (
    NO_VERSION,
    Attempt,
    ChangeKind,
    Lives,
    PartitionNodes,
    QueuedChange,
    StateChange,
    TopicNodes,
    TopicPartition,
)
from hightide_leaders.core.writes import (
    CheckTopic,
    CreatePartition,
    CreateTopic,
    DeletePartition,
    DeleteReassigned,
    DeleteTopic,
    Operation,
    Operations,
    PutReassigned,
    PutReplicas,
    PutTopic,
    weight,
)

OPERATIONS_MAX = 900
"""The operations of one multi; ZooKeeper's limit is in bytes, and this stays below it."""
NEW_VERSION = 0
"""The version of a topic's znode that was just created."""
FAILED_ATTEMPT = -1
"""The epoch of a close-replica that cleans up."""


def create_topic_requested(state: LeadersState, event: CreateTopicRequested, now_ms: int) -> Effects:
    """Begin to create a topic."""
    request = Request(event.request_id, RequestKind.CREATE, event.topic, topic_id=event.topic_id)
    request.assignment = event.assignment
    request.deadline_ms = now_ms + state.settings.keep_in_sync_time_ms
    return _begin(state, request)


def delete_topic_requested(state: LeadersState, event: DeleteTopicRequested) -> Effects:
    """Begin to delete a topic."""
    return _begin(state, Request(event.request_id, RequestKind.DELETE, event.topic))


def reassignment_requested(state: LeadersState, event: ReassignmentRequested) -> Effects:
    """Begin to ask the leader of a partition to move it."""
    request = Request(event.request_id, RequestKind.REASSIGN, event.name.topic, name=event.name)
    request.assignment = (event.replicas,)
    return _begin(state, request)


def _begin(state: LeadersState, request: Request) -> Effects:
    assert request.request_id not in state.requests
    state.requests[request.request_id] = request
    return (ReadTopic(request.request_id, request.topic),)


def _end(state: LeadersState, request: Request, outcome: Outcome) -> Effects:
    del state.requests[request.request_id]
    return (Answer(request.request_id, outcome),)


def topic_read(state: LeadersState, event: TopicRead, now_ms: int) -> Effects:
    """The topic of a request was read: the next step, by what is there."""
    request = state.requests.get(event.request_id)
    if request is None:
        return ()
    match request.kind:
        case RequestKind.CREATE:
            return _create(state, request, event.found, event.lives, now_ms)
        case RequestKind.DELETE:
            return _delete(state, request, event.found, event.lives, now_ms)
        case _:
            return _reassign(state, request, event.found, event.lives)


# --- create --------------------------------------------------------------------------------------


def _create(
    state: LeadersState, request: Request, found: TopicNodes | None, lives: Lives, now_ms: int
) -> Effects:
    if found is None:
        if request.step in (Step.WAITING, Step.FINISHING):
            return _end(
                state, request, Outcome.TIMED_OUT
            )  # Somebody took this broker for dead, and cleaned up.
        if request.answers is not None:
            return _end(state, request, request.answers)
        return _queue_starts(state, request, lives)
    is_mine = found.topic_id == request.topic_id
    if is_mine and found.attempt is None:
        return _end(state, request, Outcome.DONE)
    if is_mine and request.answers is None:
        return _wait(state, request, now_ms)
    if not is_mine and found.attempt is None and not _is_deleted(found):
        return _end(state, request, Outcome.TOPIC_ALREADY_EXISTS)
    if not is_mine and found.attempt is not None and is_under_way(found.attempt, lives):
        return _end(state, request, Outcome.TOPIC_BEING_CREATED)
    return _clean_up(request, found)


def _queue_starts(state: LeadersState, request: Request, lives: Lives) -> Effects:
    """There is no such topic: look at the queues of those that are to have it."""
    for replicas in request.assignment:
        if not replicas or len(set(replicas)) != len(replicas):
            return _end(state, request, Outcome.INVALID_ASSIGNMENT)
        if not lives.live.issuperset(replicas):
            return _end(state, request, Outcome.REPLICA_NOT_ONLINE)
    if not request.assignment:
        return _end(state, request, Outcome.INVALID_ASSIGNMENT)
    request.sent = tuple(
        (broker_id, StateChange(ChangeKind.START_REPLICA, name, request.topic_id, 0))
        for name, replicas in _assigned(request)
        for broker_id in replicas
    )
    return _read_queues(request)


def _assigned(request: Request) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
    for number, replicas in enumerate(request.assignment):
        yield TopicPartition(request.topic, number), replicas


def is_under_way(attempt: Attempt, lives: Lives) -> bool:
    """Whether the life of the broker that creates a topic is still there."""
    return tuple(attempt) in lives.of


def _creation(state: LeadersState, request: Request, starts: Operations) -> deque[Operations]:
    """The topic's znode, RAR of each partition, and the state changes; AR comes when the replicas have
    started."""
    attempt = Attempt(state.me, state.incarnation)
    first = CreateTopic(request.topic, request.topic_id, attempt)
    partitions = [CreatePartition(name, replicas) for name, replicas in _assigned(request)]
    return chunks((first,), (*partitions, *starts), CheckTopic(request.topic, NEW_VERSION))


def _completion(request: Request) -> deque[Operations]:
    """AR of each partition, and the end of the attempt."""
    operations: list[Operation] = []
    for name, replicas in _assigned(request):
        operations += [PutReplicas(name, replicas, create=True), DeleteReassigned(name)]
    check = CheckTopic(request.topic, NEW_VERSION)
    writes = chunks((check,), operations, check)
    writes[-1] = (*writes[-1], PutTopic(request.topic, request.topic_id, NEW_VERSION))
    return writes


def chunks(first: Operations, operations: Sequence[Operation], check: Operation) -> deque[Operations]:
    """The operations in multis that are small enough; each but the first begins with `check`."""
    writes: deque[Operations] = deque()
    chunk, size = [*first], 0
    for operation in operations:
        if size + weight(operation) > OPERATIONS_MAX:
            writes.append(tuple(chunk))
            chunk, size = [check], 0
        chunk.append(operation)
        size += weight(operation)
    writes.append(tuple(chunk))
    return writes


# --- delete --------------------------------------------------------------------------------------


def _delete(
    state: LeadersState, request: Request, found: TopicNodes | None, lives: Lives, now_ms: int
) -> Effects:
    if found is None:
        is_new = request.step is Step.CHECKING and not request.sent
        return _end(state, request, Outcome.UNKNOWN_TOPIC if is_new else Outcome.DONE)
    if request.topic_id and request.topic_id != found.topic_id:
        return _end(state, request, Outcome.DONE)  # That is a later topic of the same name.
    request.topic_id = found.topic_id
    if found.attempt is not None and is_under_way(found.attempt, lives):
        return _end(state, request, Outcome.TOPIC_BEING_CREATED)
    request.sent = _closes(request.topic, found)
    if not _is_deleted(found):
        return _read_queues(request)
    if request.step is Step.FINISHING:
        request.writes = _removal(request.topic, found)
        return (state.write(request.request_id, request.writes.popleft()),)
    return _wait(state, request, now_ms)


def _is_deleted(found: TopicNodes) -> bool:
    """Whether RAR says of each partition that it is deleted."""
    return bool(found.partitions) and all(nodes.is_being_deleted for nodes in found.partitions.values())


def _closes(topic: str, found: TopicNodes, epoch: int | None = None) -> tuple[tuple[int, StateChange], ...]:
    """A close-replica for each replica of a topic."""
    return tuple(
        (
            broker_id,
            StateChange(
                ChangeKind.CLOSE_REPLICA,
                TopicPartition(topic, number),
                found.topic_id,
                nodes.epoch if epoch is None else epoch,
            ),
        )
        for number, nodes in sorted(found.partitions.items())
        for broker_id in nodes.assigned
    )


def _marking(request: Request, found: TopicNodes, closes: Operations) -> deque[Operations]:
    """An empty RAR for each partition, and the state changes."""
    check = CheckTopic(request.topic, found.version)
    marks = [
        PutReassigned(TopicPartition(request.topic, number), (), create=nodes.reassigned is None)
        for number, nodes in sorted(found.partitions.items())
        if not nodes.is_being_deleted
    ]
    return chunks((check,), (*marks, *closes), check)


def _removal(topic: str, found: TopicNodes, also: Operations = ()) -> deque[Operations]:
    """All znodes of a topic."""
    check = CheckTopic(topic, found.version)
    partitions = [_deletion(topic, number, nodes) for number, nodes in sorted(found.partitions.items())]
    writes = chunks((check,), (*also, *partitions), check)
    writes[-1] = (*writes[-1], DeleteTopic(topic, found.version))
    return writes


def _deletion(topic: str, number: int, nodes: PartitionNodes) -> DeletePartition:
    return DeletePartition(
        TopicPartition(topic, number),
        nodes.leader is not None,
        nodes.isr.version if nodes.isr is not None else NO_VERSION,
        bool(nodes.replicas),
        nodes.reassigned is not None,
    )


# --- reassign ------------------------------------------------------------------------------------


def _reassign(state: LeadersState, request: Request, found: TopicNodes | None, lives: Lives) -> Effects:
    if found is None:
        return _end(state, request, Outcome.UNKNOWN_TOPIC)
    name, (replicas,) = request.name, request.assignment
    assert name is not None
    nodes = found.partitions.get(name.partition)
    if nodes is None or not nodes.replicas:
        return _end(state, request, Outcome.UNKNOWN_PARTITION)
    if nodes.reassigned is not None:
        is_mine = request.step is Step.FINISHING and nodes.reassigned == replicas
        return _end(state, request, Outcome.DONE if is_mine else Outcome.REASSIGNMENT_IN_PROGRESS)
    if not replicas or len(set(replicas)) != len(replicas):
        return _end(state, request, Outcome.INVALID_ASSIGNMENT)
    if not lives.live.issuperset(replicas):
        return _end(state, request, Outcome.REPLICA_NOT_ONLINE)
    if nodes.replicas == replicas:
        return _end(state, request, Outcome.DONE)
    request.step = Step.FINISHING
    asked = (CheckTopic(name.topic, found.version), PutReassigned(name, replicas))
    return (state.write(request.request_id, asked),)


# --- queues, writes, time ------------------------------------------------------------------------


def _read_queues(request: Request) -> Effects:
    request.step = Step.QUEUING
    return (ReadQueues(request.request_id, _targets(request), request.topic),)


def _targets(request: Request) -> tuple[int, ...]:
    return tuple(sorted({broker_id for broker_id, _ in request.sent}))


def _wait(state: LeadersState, request: Request, now_ms: int) -> Effects:
    """Wait until the brokers have done what is in their queues."""
    if request.deadline_ms is None:
        request.deadline_ms = now_ms + state.settings.keep_in_sync_time_ms
    request.step = Step.WAITING
    return (ReadQueues(request.request_id, _targets(request), request.topic, watch=True),)


def _clean_up(request: Request, found: TopicNodes) -> Effects:
    """A failed attempt: look at the queues of its brokers, to close what they may have started."""
    request.sent = _closes(request.topic, found, FAILED_ATTEMPT)
    request.step = Step.CLEANING
    return (ReadQueues(request.request_id, _targets(request), request.topic),)


def awaited(sent: Sequence[tuple[int, StateChange]], lives: Lives) -> tuple[tuple[int, StateChange], ...]:
    """The state changes that an admin waits for: those to brokers that are alive. By the text: all."""
    return tuple(each for each in sent if each[0] in lives.live)


def queues_read(state: LeadersState, request: Request, event: QueuesRead) -> Effects:
    """The queues of a request were read, and its topic with them. An answer that belongs to an earlier step
    changes nothing: reads with a watch are answered as often as it fires, and overlap."""
    if event.watched:
        is_done = not undone(awaited(request.sent, event.lives), event.queues)
        return _done(state, request) if request.step is Step.WAITING and is_done else ()
    if request.step not in (Step.QUEUING, Step.CLEANING):
        return ()
    try:
        return _send(state, request, event.queues, event.found)
    except FollowerStateChangeQueueFull:
        return _end(state, request, Outcome.FOLLOWER_STATE_CHANGE_QUEUE_FULL)


def _done(state: LeadersState, request: Request) -> Effects:
    """All brokers that are awaited have done what was in their queues."""
    request.step = Step.FINISHING
    if request.kind is RequestKind.DELETE:
        return (ReadTopic(request.request_id, request.topic),)
    request.writes = _completion(request)
    return (state.write(request.request_id, request.writes.popleft()),)


def _send(
    state: LeadersState,
    request: Request,
    queues: Mapping[int, Sequence[QueuedChange]],
    found: TopicNodes | None,
) -> Effects:
    sends = send_state_changes(request.sent, queues, state.settings.queue_max)
    if request.step is Step.CLEANING:
        if found is None:
            return (ReadTopic(request.request_id, request.topic),)
        request.writes = _removal(request.topic, found, sends)
    elif request.kind is RequestKind.CREATE:
        request.writes = _creation(state, request, sends)
    elif found is not None:
        request.writes = _marking(request, found, sends)
    else:
        return _end(state, request, Outcome.DONE)
    return (state.write(request.request_id, request.writes.popleft()),)


def look_again(state: LeadersState) -> Effects:
    """Read the topics of all requests again: the session is another one, and its watches are gone."""
    return tuple(ReadTopic(request.request_id, request.topic) for request in state.requests.values())


def write_ended(state: LeadersState, request_id: int, ending: Ending) -> Effects:
    """A write of a request ended: the next one, or read the topic again and go on from what is there."""
    request = state.requests.get(request_id)
    if request is None:
        return ()
    if ending is Ending.COMMITTED and request.writes:
        return (state.write(request_id, request.writes.popleft()),)
    if ending is Ending.COMMITTED and request.kind is RequestKind.REASSIGN:
        return _end(state, request, Outcome.DONE)
    request.writes.clear()
    if request.step is Step.CLEANING:
        request.step = Step.CHECKING
    return (ReadTopic(request_id, request.topic),)


def time_passed(state: LeadersState, now_ms: int) -> Effects:
    """An admin does not wait longer than KeepInSyncTime. A creation failed then, and is cleaned up; a
    deletion goes on, since what is in the queues will be done."""
    effects: Effects = ()
    for request in list(state.requests.values()):
        if request.deadline_ms is None or now_ms < request.deadline_ms:
            continue
        request.deadline_ms = None
        if request.kind is RequestKind.DELETE:
            request.step = Step.FINISHING
        elif request.kind is RequestKind.CREATE:
            request.step, request.answers = Step.CHECKING, Outcome.TIMED_OUT
        effects += (ReadTopic(request.request_id, request.topic),)
    return effects
