"""How a replica handles the controller's commands (V3 C, E): fence, then change its role.

Rules of this file: the fences come first and in one order: controller epoch, leader epoch, partition epoch,
then validity. A command that was carried out before has no effect.
"""

from __future__ import annotations

from msgspec.structs import replace

from hightide_broker.core.effects import AbandonWaiters, Effect, Effects, Refuse, ReplicaStopped, StopFetching
from hightide_broker.core.events import LeaderAndIsrDecided, StopRequested
from hightide_broker.core.follower import become_follower_and_truncate
from hightide_broker.core.isr import adopt_isr
from hightide_broker.core.isr_state import CommittedIsr
from hightide_broker.core.leader import become_leader, progress_of
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import NO_LEADER, UNTOLD_EPOCH, Decision, Leading, Replica, Role, enter

Step = tuple[Replica, Effects]


def leader_and_isr_decided(replica: Replica, event: LeaderAndIsrDecided) -> Step:
    """Carry out a LeaderAndISR for this partition, or refuse it (V3 on_LeaderAndISRCommand)."""
    decision = event.decision
    if replica.spent_epoch == UNTOLD_EPOCH:
        spent_epoch = max(decision.leader_epoch, replica.epochs.latest_epoch)
        replica = replace(replica, spent_epoch=spent_epoch)
    refusal = refuse_decision(replica, decision)
    if refusal is not None:
        return replica, (Refuse(refusal),)
    isr = tuple(sorted(decision.isr))
    if isr != decision.isr:
        decision = replace(decision, isr=isr)
    if decision.leader == replica.settings.broker_id and is_spent(replica, decision.leader_epoch):
        return decline(replica, decision)
    if decision.leader == NO_LEADER:
        return become_offline(replica, decision)
    if decision.leader_epoch == replica.leader_epoch and decision.leader == replica.leader:
        return same_leader_again(replica, decision, event.now_ms)
    if decision.leader == replica.settings.broker_id:
        return become_leader(replica, decision, event.now_ms)
    return become_follower_and_truncate(replica, decision)


def refuse_decision(replica: Replica, decision: Decision) -> Refusal | None:
    """The fences of decisions: an older controller or leader epoch is fenced, then the decision's validity is
    checked."""
    me = replica.settings.broker_id
    if replica.role is Role.FAILED:
        return Refusal.STORAGE_FAILED
    fenced = fence_decision(replica, decision)
    if fenced is not None:
        return fenced
    if me not in decision.replicas:
        return Refusal.NOT_ASSIGNED
    if decision.leader != me:
        return None
    is_behind = decision.leader_epoch < replica.epochs.latest_epoch
    return Refusal.INVALID_DECISION if is_behind or me not in decision.isr else None


def fence_decision(replica: Replica, decision: Decision) -> Refusal | None:
    """The reason why a decision is refused that is older than the known one, or contradicts it; None if it is
    neither (docs/protocol.md, "Fencing by epochs")."""
    known = replica.decision
    if decision.controller_epoch < known.controller_epoch:
        return Refusal.STALE_CONTROLLER_EPOCH
    if decision.leader_epoch < known.leader_epoch:
        return Refusal.FENCED_LEADER_EPOCH
    if decision.leader_epoch == known.leader_epoch:
        if decision.partition_epoch < known.partition_epoch:
            return Refusal.FENCED_LEADER_EPOCH
        if replica.role in (Role.STOPPED, Role.SUPERSEDED):
            return Refusal.FENCED_LEADER_EPOCH
        if decision.leader not in (known.leader, NO_LEADER) and replica.role is not Role.IDLE:
            return Refusal.INVALID_DECISION  # One epoch has one leader.
    return None


def is_spent(replica: Replica, leader_epoch: int) -> bool:
    """Whether an earlier life may have led in that epoch, so that this one does not
    (docs/protocol.md, "A restarted broker is not trusted")."""
    return leader_epoch <= replica.spent_epoch


def decline(replica: Replica, decision: Decision) -> Step:
    """Do not lead in a spent epoch: the controller gives this replica a new one (LeadershipDeclined).

    A replica that has carried out nothing in this life keeps the epochs of what it declined, because earlier
    decisions may arrive late. It would follow the leader before itself, and truncate what it committed since.
    """
    if replica.role is Role.IDLE:
        replica = replica.with_decision(replace(decision, leader=NO_LEADER))
    return replica, (Refuse(Refusal.FENCED_LEADER_EPOCH),)


def same_leader_again(replica: Replica, decision: Decision, now_ms: int) -> Step:
    """Handle a decision with the known leader and epoch; its ISR or assignment may be new (partition epoch).

    A leader adopts the ISR that the controller stored. The znode's version has passed the one that a write of
    its own would need, so that write cannot happen any more.
    """
    leading = replica.leading
    if leading is None and replica.role is Role.DIVERGED:
        return become_follower_and_truncate(replica, decision)
    if leading is None:
        return replica.with_decision(decision), ()
    if decision.leader not in decision.isr:
        return replica, (Refuse(Refusal.INVALID_DECISION),)
    progress = leading.progress
    if decision.replicas != replica.decision.replicas:
        progress = progress_of(replica, decision.replicas, progress, now_ms)
    waiting = tuple(r for r in leading.waiting if r in decision.replicas)
    leading = Leading(leading.isr, progress, leading.epoch_start_offset, waiting)
    led = enter(replica, Role.LEADER, decision, leading)
    if decision.partition_epoch <= leading.isr.partition_epoch:
        return led, ()
    stored = CommittedIsr(decision.isr, decision.partition_epoch, decision.eligible, decision.recovered)
    return adopt_isr(led, stored)


def become_offline(replica: Replica, decision: Decision) -> Step:
    """Wait, with the log as it is, because no member of the ISR is alive (docs/protocol.md, "Only an ISR
    member leads")."""
    effects: list[Effect] = []
    if replica.is_leader:
        effects.append(AbandonWaiters(Refusal.PARTITION_OFFLINE))
    if replica.is_follower:
        effects.append(StopFetching())
    return enter(replica, Role.OFFLINE, decision), tuple(effects)


def stop_requested(replica: Replica, event: StopRequested) -> Step:
    """Carry out a StopReplica, or refuse it: a late one must not stop a replica about which there was a
    decision since.

    The leader epoch alone does not show this (KIP-570): a replica that was moved away and back is assigned
    again in the same one. The partition epoch does, because it grows with every change of AR.
    """
    known = replica.decision
    refusal = fence_stop(replica, event)
    if refusal is None and replica.role is Role.FAILED:
        refusal = Refusal.STORAGE_FAILED
    if refusal is not None:
        return replica, (Refuse(refusal),)
    effects: list[Effect] = []
    if replica.is_leader:
        effects.append(AbandonWaiters(Refusal.NOT_LEADER))
    if replica.is_follower:
        effects.append(StopFetching())
    stopped = Decision(
        max(event.controller_epoch, known.controller_epoch),
        NO_LEADER,
        max(event.leader_epoch, known.leader_epoch),
        known.isr,
        known.replicas,
        known.partition_epoch,
    )
    return enter(replica, Role.STOPPED, stopped), (*effects, ReplicaStopped(event.delete))


def fence_stop(replica: Replica, event: StopRequested) -> Refusal | None:
    """The reason why a StopReplica is older than the known decision; None if it is not."""
    known = replica.decision
    if event.controller_epoch < known.controller_epoch:
        return Refusal.STALE_CONTROLLER_EPOCH
    assigned_since = event.partition_epoch is not None and event.partition_epoch < known.partition_epoch
    if event.leader_epoch < known.leader_epoch or assigned_since:
        return Refusal.FENCED_LEADER_EPOCH
    return None
