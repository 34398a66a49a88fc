"""The leader's side of replication (V3 becomeLeader and section G).

Rules of this file: every function here is for a replica in role LEADER unless it says otherwise. The content
of a message is compared with the leader epoch before anything else. Names of actions are those of the
published models (KafkaReplication, Kip320, AsyncIsr), in snake case.

`high_watermark` decides what is committed, and `isr` which replicas are in sync. Both are called whenever a
record or a fetch comes in.
"""

from __future__ import annotations

from hightide_broker.core.effects import (
    AnswerEpochEnd,
    Append,
    Effect,
    Effects,
    PersistEpoch,
    Refuse,
    StopFetching,
)
from hightide_broker.core.events import (
    EpochEndAsked,
    FollowerFetched,
    FsyncDone,
    ProduceArrived,
)
from hightide_broker.core.high_watermark import leader_inc_high_watermark
from hightide_broker.core.isr import (
    leader_expand_isr,
    leader_settle_isr,
    may_join,
    read_if_behind,
    refuse_waiting,
)
from hightide_broker.core.isr_state import CommittedIsr
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import (
    UNKNOWN_OFFSET,
    Decision,
    FollowerProgress,
    Leading,
    Replica,
    Role,
    enter,
)

Step = tuple[Replica, Effects]


def become_leader(replica: Replica, decision: Decision, now_ms: int) -> Step:
    """Lead in a new epoch (V3 becomeLeader). The followers' positions are unknown until they fetch in this
    epoch.

    The epoch's start offset is persisted before the first append (KAFKA-7415): a leader that dies without
    having written anything must still tell followers where its epoch began. Parked produces from an earlier
    epoch that this broker led stay parked. Its log is not truncated, so they are answered once they are
    committed.
    """
    assert decision.leader == replica.settings.broker_id
    assert decision.leader in decision.isr
    leading = Leading(
        CommittedIsr(decision.isr, decision.partition_epoch, decision.eligible, decision.recovered),
        progress_of(replica, decision.replicas, (), now_ms),
        replica.log_end_offset,
    )
    effects: list[Effect] = [PersistEpoch(decision.leader_epoch, replica.log_end_offset)]
    if replica.is_follower:
        effects.append(StopFetching())
    led = enter(replica, Role.LEADER, decision, leading)
    led = led.with_log(epochs=led.epochs.assign(decision.leader_epoch, led.log_end_offset))
    leading, settled = leader_settle_isr(led, leading)
    led, advanced = leader_inc_high_watermark(led, leading)
    return led, (*effects, *settled, *advanced, *refuse_waiting(led))


def progress_of(
    replica: Replica, replicas: tuple[int, ...], known: tuple[FollowerProgress, ...], now_ms: int
) -> tuple[FollowerProgress, ...]:
    """The progress of every assigned replica but this one, keeping what is known."""
    by_id = {progress.replica_id: progress for progress in known}
    return tuple(
        by_id.get(r) or FollowerProgress(r, UNKNOWN_OFFSET, now_ms, now_ms, replica.log_end_offset, -1)
        for r in sorted(replicas)
        if r != replica.settings.broker_id
    )


def produce(replica: Replica, event: ProduceArrived) -> Step:
    """Append the producer's batches (LeaderWrite), unless acks=all could not be kept
    (min.insync.replicas)."""
    refusal = refuse_produce(replica, event.acks_all, event.leader_epoch)
    if refusal is not None:
        return replica, (Refuse(refusal),)
    leading = replica.leading
    assert leading is not None
    assert event.record_count > 0
    old_end = replica.log_end_offset
    new_end = old_end + event.record_count
    for progress in leading.progress:
        if progress.log_end_offset == old_end:
            leading = _start_lagging(leading, old_end, event.now_ms)
            break
    append = Append(old_end, replica.decision.leader_epoch, new_end)
    appended = replica.with_leading(leading, replica.high_watermark, log_end_offset=new_end)
    if len(leading.isr.electable) == 1:
        appended, advanced = leader_inc_high_watermark(appended, leading)
        return appended, (append, *advanced)
    return appended, (append,)


def refuse_produce(replica: Replica, acks_all: bool, leader_epoch: int) -> Refusal | None:
    """The reason why this replica may not acknowledge a produce now, whether it would append it or has it
    already; else None."""
    refusal = refuse_client(replica, leader_epoch)
    if refusal is not None:
        return refusal
    assert replica.leading is not None
    if acks_all and not replica.has_enough_in_sync:
        return Refusal.NOT_ENOUGH_REPLICAS
    return None


def _start_lagging(leading: Leading, log_end_offset: int, now_ms: int) -> Leading:
    """Take note that followers with everything were caught up until now: with this append they begin to
    lag."""
    progress = tuple(
        FollowerProgress(
            p.replica_id,
            p.log_end_offset,
            now_ms,
            p.fetched_ms,
            p.leader_end_at_fetch,
            p.incarnation,
            p.partition_epoch,
        )
        if p.log_end_offset == log_end_offset
        else p
        for p in leading.progress
    )
    return Leading(leading.isr, progress, leading.epoch_start_offset, leading.waiting)


def fsync_done(replica: Replica, event: FsyncDone) -> Step:
    """Take note that the log is durable further; with flush=fsync the leader's own end counts for more now.
    Any role."""
    assert event.offset <= replica.log_end_offset, "what is on disk was appended before"
    if event.offset <= replica.durable_end_offset:
        return replica, ()
    synced = replica.with_log(durable_end_offset=event.offset)
    if synced.leading is None or not synced.settings.flush_on_disk:
        return synced, ()
    return leader_inc_high_watermark(synced, synced.leading)


def fenced_follower_fetch(replica: Replica, event: FollowerFetched) -> Step:
    """Handle a follower's fetch: note its position, perhaps let it join the ISR, perhaps commit (V3
    on_ReplicaFetchRequest).

    Kip320, rule 3: only a follower that acknowledged this leader *and epoch* moves the high watermark.
    """
    refusal = refuse_epoch(replica, event.leader_epoch)
    if refusal is not None:
        return replica, (Refuse(refusal),)
    leading = replica.leading
    assert leading is not None
    log_end_offset = replica.log_end_offset
    if event.fetch_offset > log_end_offset or event.fetch_offset < replica.log_start_offset:
        return replica, (Refuse(Refusal.OFFSET_OUT_OF_RANGE),)
    before = leading.progress_of(event.replica_id)
    if before is None:
        return replica, (Refuse(Refusal.NOT_ASSIGNED),)
    if event.incarnation < before.incarnation:
        return replica, ()  # It is late, and of a life that may have had more.
    if event.fetch_offset == log_end_offset:
        caught_up_ms = event.now_ms
    elif event.fetch_offset >= before.leader_end_at_fetch and before.log_end_offset != UNKNOWN_OFFSET:
        caught_up_ms = max(before.caught_up_ms, before.fetched_ms)
    else:
        caught_up_ms = before.caught_up_ms
    told_epoch = newest_told_epoch(before, event)
    after = FollowerProgress(
        event.replica_id,
        event.fetch_offset,
        caught_up_ms,
        event.now_ms,
        log_end_offset,
        event.incarnation,
        told_epoch,
    )
    leading = Leading(
        leading.isr,
        tuple(after if p is before else p for p in leading.progress),
        leading.epoch_start_offset,
        leading.waiting,
    )
    effects: Effects = ()
    if event.replica_id not in leading.isr.wanted and may_join(replica, leading, after):
        waiting = tuple(sorted({*leading.waiting, event.replica_id}))
        leading = Leading(leading.isr, leading.progress, leading.epoch_start_offset, waiting)
        leading, effects = leader_expand_isr(replica, leading)
    if told_epoch > max(before.partition_epoch, leading.isr.partition_epoch):
        effects += read_if_behind(leading)
    fetched, advanced = leader_inc_high_watermark(replica, leading)
    return fetched, (*effects, *advanced)


def newest_told_epoch(before: FollowerProgress, event: FollowerFetched) -> int:
    """The newest partition epoch that the follower has sent. If it is newer than this leader's, another ISR
    is stored."""
    return max(before.partition_epoch, event.partition_epoch)


def epoch_end(replica: Replica, event: EpochEndAsked) -> Step:
    """Tell a follower where an epoch ended (KIP-279: the largest epoch ≤ the one asked for, and its end)."""
    refusal = refuse_epoch(replica, event.current_leader_epoch)
    if refusal is not None:
        return replica, (Refuse(refusal),)
    end = replica.epochs.end_offset_for(event.epoch, replica.log_start_offset, replica.log_end_offset)
    return replica, (AnswerEpochEnd(end),)


def refuse_epoch(replica: Replica, leader_epoch: int) -> Refusal | None:
    """The fences of followers' messages. Any role.

    Newer epochs come first: a sender with a newer epoch knows more than this replica, whatever its role.
    """
    return fence_epoch(replica, leader_epoch) or refuse_role(replica)


def refuse_client(replica: Replica, leader_epoch: int) -> Refusal | None:
    """The fences of clients, which may leave out the epoch (-1). Any role."""
    fenced = None if leader_epoch == -1 else fence_epoch(replica, leader_epoch)
    return fenced or refuse_role(replica)


def fence_epoch(replica: Replica, leader_epoch: int) -> Refusal | None:
    """The reason why a message of that leader epoch is refused; None if it is this replica's epoch. Any
    role."""
    mine = replica.decision.leader_epoch
    if leader_epoch > mine:
        return Refusal.UNKNOWN_LEADER_EPOCH
    if leader_epoch < mine:
        return Refusal.FENCED_LEADER_EPOCH
    return None


def refuse_role(replica: Replica) -> Refusal | None:
    """The reason why a replica in this role cannot serve as leader; None if it can. Any role."""
    if replica.role is Role.LEADER:
        return None
    if replica.role is Role.FAILED:
        return Refusal.STORAGE_FAILED
    return Refusal.PARTITION_OFFLINE if replica.role is Role.OFFLINE else Refusal.NOT_LEADER
