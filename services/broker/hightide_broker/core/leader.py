"""What a leader does (V3 becomeLeader and section G, the leader's side).

Rules of this file: every function here holds for a replica in role LEADER unless it says otherwise; what
comes in a message is compared with the leader epoch before anything else. Names of actions are those of the
published models (KafkaReplication, Kip320, AsyncIsr), in snake case.

Theory of operation. Three things move the high watermark: a follower's fetch, the leader's own end (its
append, or its fsync where flush=fsync), and a change of the maximal ISR. Each ends in
`leader_inc_high_watermark`. One write of the ISR is under way at most; while its outcome is unknown both
sets count. An ISR below min.insync.replicas commits nothing (KIP-966): then whoever left it last has all that
is committed for as long as that lasts, and may be elected where the ISR is lost.
"""

from __future__ import annotations

from dataclasses import replace

from hightide_broker.core.effects import (
    AbandonWaiters,
    AdvanceHighWatermark,
    AnswerEpochEnd,
    AnswerProduces,
    Append,
    AwaitFetch,
    Effect,
    Effects,
    PersistEpoch,
    ReadLeaderAndIsr,
    Refuse,
    StopFetching,
    StoreIsr,
)
from hightide_broker.core.events import (
    EpochEndAsked,
    FollowerFetched,
    FsyncDone,
    IsrStored,
    IsrStoreRefused,
    IsrStoreUnknown,
    LeaderAndIsrRead,
    ProduceArrived,
)
from hightide_broker.core.isr import Committed, PendingExpand, PendingShrink, expand, settle, shrink
from hightide_broker.core.mends import SMALL_LAG_RECORDS
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
    """Lead in a new epoch (V3 becomeLeader). What followers have is unknown until they fetch in this epoch.

    The epoch's start offset is persisted before the first append (KAFKA-7415): a leader that dies without
    having written anything must still tell followers where its epoch began. Parked produces of an earlier
    epoch that this broker led stay parked: its log is not truncated, so they are answered once they commit.
    """
    assert decision.leader == replica.settings.broker_id
    assert decision.leader in decision.isr
    leading = Leading(
        Committed(decision.isr, decision.partition_epoch, decision.eligible, decision.recovered),
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
    """Why this replica may not acknowledge a produce now, whether it would append or has it already; else
    None."""
    refusal = refuse_client(replica, leader_epoch)
    if refusal is not None:
        return refusal
    assert replica.leading is not None
    if acks_all and not replica.has_enough_in_sync:
        return Refusal.NOT_ENOUGH_REPLICAS
    return None


def refuse_waiting(replica: Replica) -> Effects:
    """Tell the producers that wait for acks=all that the ISR has become too small, rather than let them wait
    until they give up: what they sent is committed when it has grown again, and they may send it again."""
    assert replica.leading is not None
    if replica.has_enough_in_sync or not replica.settings.mends.commits_by_min_insync:
        return ()
    return (AnswerProduces(replica.log_end_offset, Refusal.NOT_ENOUGH_REPLICAS_AFTER_APPEND),)


def _start_lagging(leading: Leading, log_end_offset: int, now_ms: int) -> Leading:
    """Followers that have everything begin to lag with this append: note that they were caught up till
    now."""
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
    """The log is durable further; where flush=fsync the leader's own word now counts for more. Any role."""
    assert event.offset <= replica.log_end_offset, "what is on disk was appended before"
    if event.offset <= replica.durable_end_offset:
        return replica, ()
    synced = replica.with_log(durable_end_offset=event.offset)
    if synced.leading is None or not synced.settings.flush_on_disk:
        return synced, ()
    return leader_inc_high_watermark(synced, synced.leading)


def fenced_follower_fetch(replica: Replica, event: FollowerFetched) -> Step:
    """A follower fetched: note how far it is, perhaps let it join the ISR, perhaps commit (V3
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
    if event.fetch_offset == log_end_offset:
        caught_up_ms = event.now_ms
    elif event.fetch_offset >= before.leader_end_at_fetch and before.log_end_offset != UNKNOWN_OFFSET:
        caught_up_ms = max(before.caught_up_ms, before.fetched_ms)
    else:
        caught_up_ms = before.caught_up_ms
    told_epoch = before.partition_epoch
    if event.partition_epoch > told_epoch and replica.settings.mends.heeds_newer_isr:
        told_epoch = event.partition_epoch
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
    if not replica.settings.mends.shrink_on_timer:
        leading, shrunk = leader_shrink_isr(replica, leading, event.now_ms)
        effects += shrunk
    fetched, advanced = leader_inc_high_watermark(replica, leading)
    return fetched, (*effects, *advanced)


def read_if_behind(leading: Leading) -> Effects:
    """Read the znode where a follower knows a newer version of it. A write that is under way is answered in
    any case, and if it failed the znode is read then."""
    return (ReadLeaderAndIsr(),) if isinstance(leading.isr, Committed) and leading.is_behind else ()


def may_join(replica: Replica, leading: Leading, progress: FollowerProgress) -> bool:
    """Whether a follower has all that is committed: at or past HW *and* the start of this epoch (KAFKA-7128).

    The second because a new leader's HW may lag behind what its predecessor committed; what lies below the
    start of the epoch is all that can have been committed before.
    """
    if not replica.settings.mends.join_at_epoch_start:
        ends = [p.log_end_offset for p in leading.progress if p.replica_id in leading.isr.isr]
        return progress.log_end_offset > min([replica.log_end_offset, *ends]) - SMALL_LAG_RECORDS
    return progress.log_end_offset >= max(replica.high_watermark, leading.epoch_start_offset)


def leader_expand_isr(replica: Replica, leading: Leading) -> tuple[Leading, Effects]:
    """Ask ZooKeeper to take in the followers that wait to join and still may, unless a write is under way.

    A follower waits because of a fetch of its own, never because of what is remembered of it: it may be dead.
    Or it may have died since, and come back with less: so it joins in the life that fetched, or not at all.
    """
    state = leading.isr
    if not isinstance(state, Committed) or not leading.waiting or leading.is_behind:
        return leading, ()
    joining = [
        p
        for p in leading.progress
        if p.replica_id in leading.waiting and p.replica_id not in state.isr and may_join(replica, leading, p)
    ]
    if not joining:
        return Leading(state, leading.progress, leading.epoch_start_offset), ()
    ids, lives = tuple(p.replica_id for p in joining), tuple(p.incarnation for p in joining)
    pending = expand(state, ids, lives, replica.in_sync_minimum)
    leading = Leading(pending, leading.progress, leading.epoch_start_offset)
    return leading, (store(replica, pending),)


def leader_shrink_isr(replica: Replica, leading: Leading, now_ms: int) -> tuple[Leading, Effects]:
    """Ask ZooKeeper to take out the members that were last caught up too long ago, unless a write is under
    way.

    Time only, no bytes (KIP-16). A member that has everything is in sync however long it is silent.
    """
    state = leading.isr
    if not isinstance(state, Committed):
        return leading, ()
    lag_time_max_ms = replica.settings.replica_lag_time_max_ms
    leaving = tuple(
        p.replica_id
        for p in leading.progress
        if p.replica_id in state.isr
        and p.log_end_offset < replica.log_end_offset
        and now_ms - p.caught_up_ms > lag_time_max_ms
    )
    if not leaving:
        return leading, ()
    pending = shrink(state, leaving, replica.in_sync_minimum)
    waiting = tuple(r for r in leading.waiting if r not in leaving)
    leading = Leading(pending, leading.progress, leading.epoch_start_offset, waiting)
    return leading, (store(replica, pending),)


def leader_settle_isr(replica: Replica, leading: Leading) -> tuple[Leading, Effects]:
    """Ask ZooKeeper to forget the eligible where this ISR may commit without them; nothing to do for nearly
    every partition, or while a write is under way."""
    state = leading.isr
    pending = settle(state, replica.in_sync_minimum) if isinstance(state, Committed) else None
    if pending is None:
        return leading, ()
    leading = Leading(pending, leading.progress, leading.epoch_start_offset, leading.waiting)
    return leading, (store(replica, pending),)


def store(replica: Replica, pending: PendingExpand | PendingShrink) -> StoreIsr:
    """The conditional write of an ISR, under the epochs of the decision that made this replica leader."""
    decision = replica.decision
    joining: tuple[tuple[int, int], ...] = ()
    if isinstance(pending, PendingExpand) and replica.settings.mends.fenced_joins:
        joining = tuple(zip(pending.joining, pending.incarnations, strict=True))
    return StoreIsr(
        pending.wanted,
        pending.partition_epoch,
        decision.leader_epoch,
        decision.controller_epoch,
        joining,
        pending.wanted_eligible,
        pending.wanted_recovered,
        unclean_epoch=decision.unclean_epoch,
    )


def leader_inc_high_watermark(replica: Replica, leading: Leading) -> Step:
    """The smallest end over the maximal ISR becomes the high watermark, which never falls
    (LeaderIncHighWatermark).

    Every member of whatever ISR is stored now has all records below it, so that any of them may lead next,
    and so has who is eligible. A follower's end counts from its fetches in this epoch only. Nothing is
    committed while the ISR that is stored for certain is below min.insync.replicas, nor while another one may
    be stored than this leader knows: who is in no ISR any more may have all, but is not trusted to.
    """
    mends = replica.settings.mends
    state = leading.isr
    before = replica.high_watermark
    if mends.commits_by_min_insync and len(state.isr) < replica.in_sync_minimum:
        return replica if leading is replica.leading else replica.with_leading(leading, before), ()
    counted = state.electable if mends.maximal_isr else state.wanted
    smallest_end = replica.reliable_end_offset
    for progress in leading.progress:
        if progress.partition_epoch > state.partition_epoch:
            return replica if leading is replica.leading else replica.with_leading(leading, before), ()
        if progress.log_end_offset < smallest_end and progress.replica_id in counted:
            smallest_end = progress.log_end_offset
    if mends.high_watermark_never_falls and smallest_end <= before:
        return replica if leading is replica.leading else replica.with_leading(leading, before), ()
    after = max(smallest_end, replica.log_start_offset)
    if after == before:
        return replica.with_leading(leading, before), ()
    return replica.with_leading(leading, after), (AdvanceHighWatermark(after), AnswerProduces(after))


def epoch_end(replica: Replica, event: EpochEndAsked) -> Step:
    """Tell a follower where an epoch ended (KIP-279: the largest epoch ≤ the one asked for, and its end)."""
    refusal = refuse_epoch(replica, event.current_leader_epoch)
    if refusal is not None:
        return replica, (Refuse(refusal),)
    end = replica.epochs.end_offset_for(event.epoch, replica.log_start_offset, replica.log_end_offset)
    return replica, (AnswerEpochEnd(end),)


def tick(replica: Replica, now_ms: int) -> Step:
    """Time passed: drop members that lag for too long. Any role; only a leader has something to do."""
    leading = replica.leading
    if leading is None or not replica.settings.mends.shrink_on_timer:
        return replica, ()
    leading, effects = leader_shrink_isr(replica, leading, now_ms)
    if not effects:
        return replica, ()
    ticked, advanced = leader_inc_high_watermark(replica, leading)
    return ticked, (*effects, *advanced)


def next_deadline_ms(replica: Replica) -> int | None:
    """When the shell shall send Ticked, if at all: when the first lagging ISR member is to be dropped.

    None while no member lags or an ISR write is under way; most partitions have none, so timers cost
    nothing. It may lie in the past. Any role.
    """
    leading = replica.leading
    if leading is None or not isinstance(leading.isr, Committed):
        return None
    lagging = [
        p.caught_up_ms
        for p in leading.progress
        if p.log_end_offset < replica.log_end_offset and p.replica_id in leading.isr.isr
    ]
    return min(lagging) + replica.settings.replica_lag_time_max_ms + 1 if lagging else None


def isr_stored(replica: Replica, event: IsrStored) -> Step:
    """The ISR that was asked for is in the znode."""
    leading = replica.leading
    if leading is None or isinstance(leading.isr, Committed):
        return replica, ()
    if event.partition_epoch != leading.isr.partition_epoch + 1:
        return replica, ()  # The answer to a write that a later decision has overtaken.
    pending = leading.isr
    stored = Committed(
        pending.wanted, event.partition_epoch, pending.wanted_eligible, pending.wanted_recovered
    )
    return adopt_isr(replica, stored)


def isr_store_failed(replica: Replica, event: IsrStoreRefused | IsrStoreUnknown) -> Step:
    """The write did not happen, or nobody knows: look at the znode. Until then both sets go on counting."""
    leading = replica.leading
    if leading is None or isinstance(leading.isr, Committed):
        return replica, ()
    if event.expected_partition_epoch != leading.isr.partition_epoch:
        return replica, ()
    if isinstance(event, IsrStoreRefused) and event.for_good and isinstance(leading.isr, PendingExpand):
        void = replace(leading.isr, is_void=True)
        leading = Leading(void, leading.progress, leading.epoch_start_offset, leading.waiting)
        replica = replica.with_leading(leading, replica.high_watermark)
    return replica, (ReadLeaderAndIsr(),)


def leader_and_isr_read(replica: Replica, event: LeaderAndIsrRead) -> Step:
    """The znode as it is, after a write that failed: a newer epoch means that another leader was decided on.

    V3 discussion 3: "broker A will realize that it's no longer the leader any more". If the version is the
    one that the write expected, the write has not happened *yet*: the same one is sent again, so that it is
    certain which of the two sets is stored (a later version proves that no earlier write can still happen).
    """
    leading = replica.leading
    if leading is None:
        return replica, ()
    decision = replica.decision
    state = leading.isr
    if event.leader_epoch > decision.leader_epoch or (
        event.partition_epoch > state.partition_epoch and decision.leader not in event.isr
    ):
        return enter(replica, Role.SUPERSEDED, decision), (AbandonWaiters(Refusal.NOT_LEADER),)
    read = Committed(event.isr, event.partition_epoch, event.eligible, event.recovered)
    if isinstance(state, Committed):
        if event.partition_epoch > state.partition_epoch:
            return adopt_isr(replica, read)
        return replica, read_if_behind(leading)
    if event.partition_epoch < state.partition_epoch:
        return replica, (ReadLeaderAndIsr(),)  # A ZooKeeper server that lags behind; ask again.
    if event.partition_epoch == state.partition_epoch:
        if isinstance(state, PendingExpand) and state.is_void:
            return abandon_join(replica, state)
        return replica, (store(replica, state),)
    return adopt_isr(replica, read)


def abandon_join(replica: Replica, void: PendingExpand) -> Step:
    """The ISR is what it was, for certain: no try of the write has happened, and none can any more.

    Those that were to join are heard anew, also the ones of which only another has begun another life.
    """
    leading = replica.leading
    assert leading is not None
    waiting = tuple(r for r in leading.waiting if r not in void.joining)
    state = Committed(void.isr, void.partition_epoch, void.eligible, void.recovered)
    leading = Leading(state, leading.progress, leading.epoch_start_offset, waiting)
    leading, effects = leader_change_isr(replica, leading)
    abandoned, advanced = leader_inc_high_watermark(replica, leading)
    return abandoned, (
        *effects, *read_if_behind(leading), *(AwaitFetch(r) for r in void.joining), *advanced,
    )  # fmt: skip


def adopt_isr(replica: Replica, stored: Committed) -> Step:
    """The stored ISR is known again: commit by it, and ask for the next change that waits.

    A follower whose join did not get through still waits, and so does one that fetched while the leader's
    own write took it out. One that the controller took out may be dead: only a new fetch lets it back in.
    """
    leading = replica.leading
    assert leading is not None
    assert stored.partition_epoch > leading.isr.partition_epoch, "the znode's version only rises"
    assert replica.settings.broker_id in stored.isr
    own = stored.isr == leading.isr.wanted and stored.partition_epoch == leading.isr.partition_epoch + 1
    removed = () if own else tuple(r for r in leading.isr.isr if r not in stored.isr)
    joining = leading.isr.joining if isinstance(leading.isr, PendingExpand) else ()
    if isinstance(leading.isr, PendingExpand) and leading.isr.is_void:
        removed = tuple(sorted({*removed, *joining} - set(stored.isr)))
    waiting = tuple(sorted({*leading.waiting, *joining} - {*removed, *stored.isr}))
    leading = Leading(stored, leading.progress, leading.epoch_start_offset, waiting)
    leading, effects = leader_change_isr(replica, leading)
    adopted, advanced = leader_inc_high_watermark(replica, leading)
    awaited = tuple(AwaitFetch(r) for r in removed)
    return adopted, (*effects, *read_if_behind(leading), *awaited, *advanced, *refuse_waiting(adopted))


def leader_change_isr(replica: Replica, leading: Leading) -> tuple[Leading, Effects]:
    """The next change that waits, now that the stored ISR is known: those that join, else what is to be
    forgotten."""
    leading, effects = leader_expand_isr(replica, leading)
    if effects:
        return leading, effects
    return leader_settle_isr(replica, leading)


def refuse_epoch(replica: Replica, leader_epoch: int) -> Refusal | None:
    """The fencing ladder for what followers send. Any role.

    Newer first: whoever speaks in a newer epoch knows more than this replica, whatever its role.
    """
    if replica.settings.mends.fence_by_epoch:
        mine = replica.decision.leader_epoch
        if leader_epoch > mine:
            return Refusal.UNKNOWN_LEADER_EPOCH
        if leader_epoch < mine:
            return Refusal.FENCED_LEADER_EPOCH
    return refuse_role(replica)


def refuse_client(replica: Replica, leader_epoch: int) -> Refusal | None:
    """The fencing ladder for clients, who may leave the epoch out (-1). Any role."""
    if leader_epoch != -1 and replica.settings.mends.fence_by_epoch:
        mine = replica.decision.leader_epoch
        if leader_epoch > mine:
            return Refusal.UNKNOWN_LEADER_EPOCH
        if leader_epoch < mine:
            return Refusal.FENCED_LEADER_EPOCH
    return refuse_role(replica)


def refuse_role(replica: Replica) -> Refusal | None:
    """Why a replica in this role cannot serve as leader; None where it can. Any role."""
    if replica.role is Role.LEADER:
        return None
    if replica.role is Role.FAILED:
        return Refusal.STORAGE_FAILED
    return Refusal.PARTITION_OFFLINE if replica.role is Role.OFFLINE else Refusal.NOT_LEADER
