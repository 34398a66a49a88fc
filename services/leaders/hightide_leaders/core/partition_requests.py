"""What a client asks about one partition: to move it, to take a move back, to elect a leader (V2
"Reassignment"; the rest is what V3 lets operators do).

Theory of operation. A move is asked for by RAR, and the leader carries it out. The answer comes when it is
written down. To take it back, or to give it another target, may leave replicas that were to be added
without a place, and some may be in sync. So the ISR without them, RAR, the end of the leader's term and the
close-replicas are one multi, which the version of the ISR znode fences: the leader cannot have shrunk the
ISR to those that go.
"""

from __future__ import annotations

from dataclasses import replace

from hightide_leaders.core.effects import Effects, Outcome, ReadQueues
from hightide_leaders.core.elections import fenced_by, may_lead, narrowed, resignation
from hightide_leaders.core.events import ElectionRequested, ReassignmentRequested
from hightide_leaders.core.state import LeadersState, Request, Step
from hightide_leaders.core.values import (
    ChangeKind,
    Lives,
    PartitionNodes,
    StateChange,
    TopicNodes,
)
from hightide_leaders.core.writes import (
    CheckTopic,
    DeleteLeader,
    DeleteReassigned,
    Operation,
    Operations,
    PutIsr,
    PutReassigned,
)


def next_step(
    state: LeadersState, request: Request, found: TopicNodes | None, lives: Lives
) -> Effects | Outcome:
    """What comes next for a request whose topic was read; an outcome ends it."""
    if found is None:
        return Outcome.UNKNOWN_TOPIC
    assert request.name is not None
    nodes = found.partitions.get(request.name.partition)
    if nodes is None or not nodes.replicas:
        return Outcome.UNKNOWN_PARTITION
    if nodes.is_being_deleted:
        return Outcome.TOPIC_BEING_DELETED
    asked = request.asked
    if isinstance(asked, ReassignmentRequested):
        return _reassign(state, request, found, nodes, lives)
    assert isinstance(asked, ElectionRequested)
    if asked.unclean:
        return _elect_unclean(request, found, nodes, lives)
    return _elect_preferred(state, request, nodes, lives)


# --- moves ---------------------------------------------------------------------------------------


def _target(request: Request, nodes: PartitionNodes) -> tuple[int, ...] | None:
    """RAR as it is to be; None: the partition stays where it is, also if it is to move to where it is."""
    asked = request.asked
    assert isinstance(asked, ReassignmentRequested)
    return None if asked.replicas == nodes.replicas else asked.replicas


def _reassign(
    state: LeadersState, request: Request, found: TopicNodes, nodes: PartitionNodes, lives: Lives
) -> Effects | Outcome:
    assert request.name is not None
    assert isinstance(request.asked, ReassignmentRequested)
    wanted = request.asked.replicas
    target = _target(request, nodes)
    if nodes.reassigned == target:
        is_nothing = wanted is None and request.step is not Step.FINISHING
        return Outcome.NO_REASSIGNMENT if is_nothing else Outcome.DONE
    if wanted is not None and (not wanted or len(set(wanted)) != len(wanted)):
        return Outcome.INVALID_ASSIGNMENT
    if not lives.live.issuperset(wanted or ()):
        return Outcome.REPLICA_NOT_ONLINE
    leaving = _leaving(nodes, target)
    if not may_leave(nodes, leaving):
        return Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE
    request.sent = tuple(
        (broker_id, StateChange(ChangeKind.CLOSE_REPLICA, request.name, found.topic_id, nodes.epoch))
        for broker_id in leaving
    )
    if leaving:
        return _read_queues(request)
    request.step = Step.FINISHING
    return (state.write(request.request_id, _retargeted(request, found, nodes, target, ())),)


def _leaving(nodes: PartitionNodes, target: tuple[int, ...] | None) -> tuple[int, ...]:
    """The replicas that were to be added, and are not any more."""
    added = nodes.assigned[len(nodes.replicas) :]
    return tuple(each for each in added if each not in (target or ()))


def may_leave(nodes: PartitionNodes, leaving: tuple[int, ...]) -> bool:
    """Whether somebody in sync stays where these go: else what is committed would go with them."""
    if not leaving or nodes.isr is None:
        return True
    return bool(set(nodes.isr.isr) - set(leaving) - nodes.isr.doubted)


def _retargeted(
    request: Request,
    found: TopicNodes,
    nodes: PartitionNodes,
    target: tuple[int, ...] | None,
    closes: Operations,
) -> Operations:
    name = request.name
    assert name is not None
    operations: list[Operation] = [CheckTopic(name.topic, found.version, found.topic_id)]
    if closes and nodes.isr is not None:
        assigned = (*nodes.replicas, *(target or ()))
        operations.append(PutIsr(name, narrowed(nodes.isr, assigned), fenced_by(nodes)))
        if nodes.leader is not None:
            operations.append(DeleteLeader(name))
    if target is None:
        operations.append(DeleteReassigned(name))
    else:
        operations.append(PutReassigned(name, target, create=nodes.reassigned is None))
    return (*operations, *closes)


# --- elections -----------------------------------------------------------------------------------


def _elect_preferred(
    state: LeadersState, request: Request, nodes: PartitionNodes, lives: Lives
) -> Effects | Outcome:
    """The leader's term ends if the preferred replica can follow it, which then comes first in the race."""
    assert request.name is not None
    preferred = nodes.replicas[0]
    if nodes.leader is not None and nodes.leader.broker_id == preferred:
        return Outcome.DONE
    if preferred not in lives.live or not may_lead(nodes, preferred):
        return Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if nodes.leader is None:
        return Outcome.DONE
    request.step = Step.FINISHING
    return (state.write(request.request_id, resignation(request.name, nodes)),)


def _elect_unclean(
    request: Request, found: TopicNodes, nodes: PartitionNodes, lives: Lives
) -> Effects | Outcome:
    """No replica that may lead is alive: one that is alive is made the only one in sync, and told to look.
    What it does not have is lost."""
    assert request.name is not None
    is_led = nodes.leader is not None and nodes.leader.broker_id >= 0
    if (
        is_led
        or nodes.isr is None
        or any(may_lead(nodes, each) for each in nodes.assigned if each in lives.live)
    ):
        return Outcome.DONE if request.step is Step.FINISHING else Outcome.ELECTION_NOT_NEEDED
    alive = [each for each in nodes.replicas if each in lives.live]
    if not alive:
        return Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE
    ends = {log.broker_id: (log.leader_epoch, log.log_end_offset) for log in nodes.isr.recovered}
    chosen = max(alive, key=lambda each: ends.get(each, (-1, -1)))
    start = StateChange(ChangeKind.START_REPLICA, request.name, found.topic_id, nodes.epoch)
    request.sent = ((chosen, start),)
    return _read_queues(request)


def _unclean_election(
    request: Request, found: TopicNodes, nodes: PartitionNodes, starts: Operations
) -> Operations:
    name, ((chosen, _),) = request.name, request.sent
    assert name is not None
    assert nodes.isr is not None
    only = replace(nodes.isr, isr=(chosen,), eligible=(), recovered=(), unclean_epoch=nodes.isr.epoch + 1)
    leader: Operations = (DeleteLeader(name),) if nodes.leader is not None else ()
    return (
        CheckTopic(name.topic, found.version, found.topic_id),
        *leader,
        PutIsr(name, only, fenced_by(nodes)),
        *starts,
    )


# --- the write, after the queues were read -------------------------------------------------------


def _read_queues(request: Request) -> Effects:
    request.step = Step.QUEUING
    brokers = tuple(sorted(broker_id for broker_id, _ in request.sent))
    assert request.name is not None
    return (ReadQueues(request.request_id, brokers, request.topic, partition=request.name.partition),)


def write_with(request: Request, found: TopicNodes, sends: Operations) -> Operations:
    """The write of a request that puts state changes into queues; none if the partition is not any more what
    they were made for."""
    assert request.name is not None
    nodes = found.partitions.get(request.name.partition)
    if nodes is None or not nodes.replicas or nodes.is_being_deleted:
        return ()
    told = tuple(broker_id for broker_id, _ in request.sent)
    if isinstance(request.asked, ElectionRequested):
        is_needed = nodes.isr is not None and nodes.epoch == request.sent[0][1].epoch
        return _unclean_election(request, found, nodes, sends) if is_needed else ()
    target = _target(request, nodes)
    is_same = _leaving(nodes, target) == told and nodes.epoch == request.sent[0][1].epoch
    if not is_same or not may_leave(nodes, told):
        return ()
    return _retargeted(request, found, nodes, target, sends)
