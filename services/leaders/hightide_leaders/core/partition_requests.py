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

from hightide_runtime.znodes.in_sync import who_has_most
from hightide_runtime.znodes.paths import isr_path, reassigned_path

from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Effects, Outcome
from hightide_leaders.core.elections import end_of_term, fenced_by, may_lead, narrowed, resignation, trusted
from hightide_leaders.core.events import ElectionRequested, ReassignmentRequested
from hightide_leaders.core.queues import send
from hightide_leaders.core.state import LeadersState, Request, Step
from hightide_leaders.core.values import (
    ChangeKind,
    Lives,
    PartitionNodes,
    TopicNodes,
    TopicPartition,
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
        return Outcome.UNKNOWN_PARTITION if found.node.partition_count else Outcome.TOPIC_BEING_DELETED
    asked = request.asked
    if isinstance(asked, ReassignmentRequested):
        return _reassign(state, request, found, nodes, lives)
    assert isinstance(asked, ElectionRequested)
    if asked.unclean:
        return _elect_unclean(state, request, found, nodes, lives)
    return _elect_preferred(state, request, nodes, lives)


# --- moves ---------------------------------------------------------------------------------------


def _reassign(
    state: LeadersState, request: Request, found: TopicNodes, nodes: PartitionNodes, lives: Lives
) -> Effects | Outcome:
    assert request.name is not None
    assert isinstance(request.asked, ReassignmentRequested)
    wanted = request.asked.replicas
    # A partition that is to move to where it is stays there.
    target = None if wanted == nodes.replicas else wanted
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
    closes = send(leaving, ChangeKind.CLOSE_REPLICA, request.name, nodes)
    return state.write_for(request, Step.FINISHING, _retargeted(request.name, found, nodes, target, closes))


def _leaving(nodes: PartitionNodes, target: tuple[int, ...] | None) -> tuple[int, ...]:
    """The replicas that were to be added, and are not any more."""
    added = nodes.assigned[len(nodes.replicas) :]
    return tuple(each for each in added if each not in (target or ()))


def may_leave(nodes: PartitionNodes, leaving: tuple[int, ...]) -> bool:
    """Whether these may go: somebody in sync stays, and as many have what is committed as
    min.insync.replicas promises, or all that are left. Nor do those go that have records which all that stay
    may have lost: nobody has allowed an unclean election."""
    if nodes.isr is not None and who_has_most(nodes.isr, nodes.assigned).issubset(leaving):
        return False
    if nodes.isr is None or not set(leaving).intersection((*nodes.isr.isr, *nodes.isr.eligible)):
        return True
    before = trusted(nodes)
    rest = before.difference(leaving)
    enough = min(nodes.min_insync_replicas, len(nodes.assigned) - len(leaving), len(before))
    return bool(rest.intersection(nodes.isr.isr)) and len(rest) >= enough


def _retargeted(
    name: TopicPartition,
    found: TopicNodes,
    nodes: PartitionNodes,
    target: tuple[int, ...] | None,
    closes: wr.Operations,
) -> wr.Operations:
    operations: list[wr.Operation] = [*wr.check_topic(name.topic, found.version, found.topic_id)]
    if closes and nodes.isr is not None:
        assigned = (*nodes.replicas, *(target or ()))
        operations.append(wr.Put(isr_path(*name), narrowed(nodes.isr, assigned), fenced_by(nodes)))
        operations += end_of_term(name, nodes)
    path = reassigned_path(*name)
    if target is None:
        operations.append(wr.Delete(path, nodes.reassigned_version))
    elif nodes.reassigned is None:
        operations.append(wr.Create(path, target))
    else:
        operations.append(wr.Put(path, target, nodes.reassigned_version))
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
    if preferred not in lives.live - lives.drained or not may_lead(nodes, preferred):
        return Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if nodes.leader is None:
        return Outcome.DONE
    return state.write_for(request, Step.FINISHING, resignation(request.name, nodes))


def _elect_unclean(
    state: LeadersState, request: Request, found: TopicNodes, nodes: PartitionNodes, lives: Lives
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
    name = request.name
    only = replace(nodes.isr, isr=(chosen,), eligible=(), recovered=(), unclean_epoch=nodes.isr.epoch + 1)
    write = (
        *wr.check_topic(name.topic, found.version, found.topic_id),
        *end_of_term(name, nodes),
        wr.Put(isr_path(*name), only, fenced_by(nodes)),
        *send([chosen], ChangeKind.START_REPLICA, name, nodes),
    )
    return state.write_for(request, Step.FINISHING, write)
