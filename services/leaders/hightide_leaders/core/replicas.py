"""One replica of this broker, whenever the znodes of its partition were read (V2 startReplica,
leaderElection, becomeLeader, becomeFollower, close-replica).

Theory of operation. Everything ends in a read of the partition: a watch that fired, a state change in the
queue, a write of whatever outcome, a session that ended, time. `look` compares what was read with what this
broker does, and does what is missing. So a lost notice or an unknown outcome needs no case of its own, and
no state change is obeyed that ZooKeeper does not bear out.
"""

from __future__ import annotations

from hightide_runtime.timer_wheel import NeverDue
from hightide_runtime.znodes.led_nodes import NO_VERSION, LeaderNode

from hightide_leaders.core import moves
from hightide_leaders.core.effects import CloseReplica, Decide, Effect, Effects, OpenReplica
from hightide_leaders.core.elections import (
    election,
    is_void,
    leaving,
    may_lead,
    resignation,
    trusted,
    waits_for_another,
)
from hightide_leaders.core.events import IsrChanged, LeadershipDeclined
from hightide_leaders.core.state import Hosted, LeadersState, Role
from hightide_leaders.core.values import (
    NO_LEADER,
    ChangeKind,
    Decision,
    Lives,
    PartitionNodes,
    StateChange,
    TopicPartition,
)


def look(
    state: LeadersState, name: TopicPartition, nodes: PartitionNodes | None, lives: Lives, now_ms: int
) -> Effects:
    """Do about a partition what its znodes say. Called for each partition that was read."""
    hosted = state.hosted.get(name)
    if nodes is not None and nodes.garbage:
        if hosted is not None:
            state.look_at(hosted, now_ms + state.settings.leader_election_wait_time_ms)
        return ()
    if nodes is None or not is_assigned(state, nodes):
        return close_replica(state, name, nodes)
    effects: list[Effect] = []
    if hosted is not None and hosted.nodes.life != nodes.life:
        effects += close_replica(state, name, None)
        hosted = None
    if hosted is None:
        hosted = state.hosted[name] = Hosted(name, nodes.topic_id, nodes)
        effects.append(OpenReplica(name, nodes))
    hosted.nodes = nodes
    hosted.armed_ms = NeverDue
    leader = nodes.leader
    if state.leaving is not None:
        return (*effects, *hand_over(state, hosted, state.leaving, lives))
    if leader is None or is_void(leader, state.me, state.session):
        return (*effects, *leader_election(state, hosted, lives, now_ms))
    hosted.races_at_ms = None
    if (leader.broker_id, leader.session) == (state.me, state.session):
        return (*effects, *become_leader(state, hosted, leader, lives, now_ms))
    return (*effects, *become_follower(hosted, leader))


def is_assigned(state: LeadersState, nodes: PartitionNodes) -> bool:
    """Whether this broker is to have a replica (V2 startReplica, step 1: else it refuses).

    The text looks at AR alone, though it sends start-replica to the brokers of RAR before they are in AR.
    """
    return state.me in nodes.assigned and not nodes.is_being_deleted


def leader_election(state: LeadersState, hosted: Hosted, lives: Lives, now_ms: int) -> Effects:
    """There is no leader: race for the leader znode, at once or after PreferredReplicaTime, or wait for
    one."""
    settings = state.settings
    effects = without_leader(state, hosted)
    if not may_lead(hosted.nodes, state.me):
        hosted.races_at_ms = None
        state.look_at(hosted, now_ms + settings.leader_election_wait_time_ms)
        return effects
    if hosted.races_at_ms is None:
        waits = waits_for_another(hosted.nodes, state.me, lives)
        wait_ms = settings.preferred_replica_time_ms if waits else 0
        hosted.races_at_ms = max(now_ms + wait_ms, hosted.abstains_until_ms)
    if now_ms < hosted.races_at_ms:
        state.look_at(hosted, hosted.races_at_ms)
        return effects
    state.look_at(hosted, now_ms + settings.leader_election_wait_time_ms)
    if hosted.writing is not None:
        return effects
    write = election(hosted.name, hosted.nodes, state.me, state.incarnation, lives)
    return (*effects, state.write(hosted.name, write))


def without_leader(state: LeadersState, hosted: Hosted) -> Effects:
    """The epoch of before is over. A replica that led stops; also one that was just opened is told, since
    it may not lead in an epoch that an earlier life may have led in."""
    was_void = hosted.role is Role.WAITING and hosted.decided is not None
    hosted.role = Role.WAITING
    hosted.started_for, hosted.watches_admins = None, False
    if was_void and hosted.epoch == hosted.nodes.epoch:
        return ()
    return decide(hosted, NO_LEADER, hosted.nodes.epoch)


def become_leader(
    state: LeadersState, hosted: Hosted, leader: LeaderNode, lives: Lives, now_ms: int
) -> Effects:
    """This broker won the race, or still leads. Reads and writes are enabled at once: nothing is committed
    before those of the ISR have it that V2 would wait for (KeepInSyncTime)."""
    nodes = hosted.nodes
    if now_ms < hosted.abstains_until_ms:
        return give_up(state, hosted, lives)
    if nodes.isr is None or state.me not in nodes.isr.isr or nodes.isr.epoch != leader.epoch:
        # Somebody has taken it out of the ISR. It gives its place to one that is in.
        stopped = without_leader(state, hosted)
        return (*stopped, *resign(state, hosted))
    is_new = hosted.role is not Role.LEADING or hosted.epoch != leader.epoch
    hosted.role = Role.LEADING
    if is_new:
        hosted.started_for = None
    decided = decide(hosted, state.me, leader.epoch)
    # Only a leader watches what admins ask of the partition, and it must not miss what they asked before. Nor
    # does it lead by an ISR that is older than the one it has heard of.
    if not hosted.watches_admins or nodes.version < hosted.newest_version:
        hosted.newest_version = NO_VERSION  # Once: who makes a znode anew by hand begins at 0.
        return (*decided, state.read(hosted.name))
    return (*decided, *moves.lead_on(state, hosted, lives, now_ms))


def become_follower(hosted: Hosted, leader: LeaderNode) -> Effects:
    """Another broker leads: follow it. The broker's core finds out by epochs where the logs part, and
    truncates there; the text truncates to the high watermark."""
    hosted.role = Role.FOLLOWING
    hosted.started_for, hosted.watches_admins = None, False
    return decide(hosted, leader.broker_id, leader.epoch)


def decide(hosted: Hosted, leader: int, epoch: int) -> Effects:
    """Hand a decision to the replica's core, unless it has it."""
    nodes = hosted.nodes
    decision = Decision(leader, epoch, nodes.known_isr, nodes.assigned, nodes.adding)
    if decision == hosted.decided:
        return ()
    hosted.decided, hosted.epoch = decision, epoch
    return (Decide(hosted.name, decision),)


def resign(state: LeadersState, hosted: Hosted) -> Effects:
    """Give up the leader znode, unless a write about the partition is under way; then look again."""
    if hosted.writing is not None:
        return ()
    return (state.write(hosted.name, resignation(hosted.name, hosted.nodes)),)


def hand_over(state: LeadersState, hosted: Hosted, remaining: set[TopicPartition], lives: Lives) -> Effects:
    """The broker stops: leave the ISR, if others are in sync, and wait for one that leads. What nobody else
    can lead stays, until the session ends."""
    if hosted.writing is not None:
        return ()  # It is read again when that has ended.
    write = leaving(hosted.name, hosted.nodes, state.me, state.incarnation, lives)
    if write is not None:
        return (state.write(hosted.name, write),)
    leader = hosted.nodes.leader
    if leader is None or is_void(leader, state.me, state.session):
        if not (trusted(hosted.nodes) & lives.live) - {state.me}:
            remaining.discard(hosted.name)
        return without_leader(state, hosted)
    remaining.discard(hosted.name)
    return () if leader.broker_id == state.me else become_follower(hosted, leader)


def close_replica(state: LeadersState, name: TopicPartition, nodes: PartitionNodes | None) -> Effects:
    """This broker is to have no replica of that partition, or of that topic id, any more. It does not keep
    a leader znode either, which would outlive its word."""
    hosted = state.hosted.pop(name, None)
    effects: list[Effect] = [] if hosted is None else [CloseReplica(name, hosted.topic_id)]
    leader = nodes.leader if nodes is not None else None
    if (
        nodes is not None
        and leader is not None
        and (leader.broker_id, leader.session) == (state.me, state.session)
    ):
        effects.append(state.write(name, resignation(name, nodes)))
    return tuple(effects)


def close_is_due(state: LeadersState, change: StateChange, nodes: PartitionNodes | None) -> bool:
    """Whether a close-replica is to be obeyed. By the text: always. But it may be about an earlier topic of
    the same name, or the partition may have come back to this broker; of one that nobody can read, nobody
    knows."""
    if nodes is not None and nodes.garbage:
        return False
    return nodes is None or nodes.topic_id != change.topic_id or not is_assigned(state, nodes)


def obey(state: LeadersState, change: StateChange, nodes: PartitionNodes | None) -> Effects:
    """Obey a state change of the queue, before the partition is looked at (V2 stateChangeListener). A
    start-replica asks for nothing that the look does not do. A close-replica reaches also what an earlier
    life left on disk."""
    if change.kind is not ChangeKind.CLOSE_REPLICA or not close_is_due(state, change, nodes):
        return ()
    hosted = state.hosted.get(change.name)
    if hosted is not None and hosted.topic_id == change.topic_id:
        return close_replica(state, change.name, nodes)
    return (CloseReplica(change.name, change.topic_id),)


def leadership_declined(state: LeadersState, event: LeadershipDeclined, now_ms: int) -> Effects:
    """The replica cannot lead: its disk failed or is full, or its log says that it must not. It leaves the
    race to others for a while; the read of the partition says what it has to give up."""
    hosted = state.hosted.get(event.name)
    if hosted is None or hosted.role is not Role.LEADING or hosted.epoch != event.leader_epoch:
        return ()
    stopped = without_leader(state, hosted)
    hosted.abstains_until_ms = now_ms + state.settings.leader_election_wait_time_ms
    return (*stopped, state.read(event.name))


def isr_changed(state: LeadersState, event: IsrChanged) -> Effects:
    """The ISR znode changed: read the partition if this broker leads it by an older ISR. A broker whose log
    may have lost its end leaves an ISR by a write of its own."""
    hosted = state.hosted.get(event.name)
    if hosted is None or hosted.topic_id != event.topic_id:
        return ()
    is_known = event.partition_epoch <= max(hosted.nodes.version, hosted.newest_version)
    hosted.newest_version = max(hosted.newest_version, event.partition_epoch)
    return () if is_known or hosted.role is not Role.LEADING else (state.read(event.name),)


def give_up(state: LeadersState, hosted: Hosted, lives: Lives) -> Effects:
    """This broker has the leader znode and cannot lead. It leaves the ISR too, if others are in sync: they
    would give way to it again at once, if it is the preferred replica."""
    write = leaving(hosted.name, hosted.nodes, state.me, state.incarnation, lives)
    if write is None or hosted.writing is not None:
        return resign(state, hosted)
    return (state.write(hosted.name, write),)
