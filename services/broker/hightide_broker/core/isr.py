"""The in-sync replicas: followers that join the ISR or leave it, and the outcomes of the writes to ZooKeeper
(V3 section G; KIP-497, KIP-966).

Rules of this file: every function here is for a replica in role LEADER unless it says otherwise. Names of
actions are those of the published models (KafkaReplication, Kip320, AsyncIsr), in snake case.

Theory of operation. At most one write of the ISR is under way. While its outcome is unknown both sets count
(`isr_state`). A follower joins because of a fetch of its own. It leaves by time (KIP-16), or if the
controller removed it; without a controller, if it is not registered any more. Each change of the ISR ends
with the high watermark, which it may move.
"""

from __future__ import annotations

from msgspec.structs import replace

from hightide_broker.core.effects import (
    AbandonWaiters,
    AnswerProduces,
    AwaitFetch,
    Effects,
    ReadLeaderAndIsr,
    StoreIsr,
)
from hightide_broker.core.events import (
    FollowersGone,
    IsrStored,
    IsrStoreRefused,
    IsrStoreUnknown,
    LeaderAndIsrRead,
)
from hightide_broker.core.high_watermark import leader_inc_high_watermark
from hightide_broker.core.isr_state import CommittedIsr, PendingExpand, PendingShrink, expand, settle, shrink
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import (
    FollowerProgress,
    Leading,
    Replica,
    Role,
    enter,
)

Step = tuple[Replica, Effects]


def may_join(replica: Replica, leading: Leading, progress: FollowerProgress) -> bool:
    """Whether a follower has all committed records: it is at or past HW *and* the start of this epoch
    (KAFKA-7128).

    The second condition is needed because a new leader's HW may be behind what its predecessor committed.
    Everything that can have been committed before is below the start of the epoch.
    """
    return progress.log_end_offset >= max(replica.high_watermark, leading.epoch_start_offset)


def read_if_behind(leading: Leading) -> Effects:
    """Read the znode if a follower knows a newer version of it. A write under way is answered in any case,
    and if it failed the znode is read then."""
    return (ReadLeaderAndIsr(),) if isinstance(leading.isr, CommittedIsr) and leading.is_behind else ()


def leader_expand_isr(replica: Replica, leading: Leading) -> tuple[Leading, Effects]:
    """Ask ZooKeeper to add the followers that wait to join and still may, unless a write is under way.

    A follower waits because of a fetch of its own, never because of what the leader remembers of it: it may
    be dead. It may also have died since, and come back with less. So it joins in the life that fetched, or
    not at all.
    """
    state = leading.isr
    if not isinstance(state, CommittedIsr) or not leading.waiting or leading.is_behind:
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
    """Ask ZooKeeper to remove the members that were last caught up too long ago, unless a write is under way.

    Only time counts, not bytes (KIP-16). A member that has everything is in sync however long it is silent.
    """
    state = leading.isr
    if not isinstance(state, CommittedIsr):
        return leading, ()
    lag_time_max_ms = replica.settings.replica_lag_time_max_ms
    leaving = tuple(
        p.replica_id
        for p in leading.progress
        if p.replica_id in state.isr
        and p.log_end_offset < replica.log_end_offset
        and now_ms - p.caught_up_ms > lag_time_max_ms
    )
    return leader_remove_from_isr(replica, leading, state, leaving)


def leader_remove_from_isr(
    replica: Replica, leading: Leading, state: CommittedIsr, leaving: tuple[int, ...]
) -> tuple[Leading, Effects]:
    """Ask ZooKeeper to remove these members; nothing if there are none."""
    if not leaving:
        return leading, ()
    pending = shrink(state, leaving, replica.in_sync_minimum)
    waiting = tuple(r for r in leading.waiting if r not in leaving)
    leading = Leading(pending, leading.progress, leading.epoch_start_offset, waiting)
    return leading, (store(replica, pending),)


def leader_settle_isr(replica: Replica, leading: Leading) -> tuple[Leading, Effects]:
    """Ask ZooKeeper to remove the eligible replicas if this ISR may commit without them. For nearly every
    partition, or while a write is under way, there is nothing to do."""
    state = leading.isr
    pending = settle(state, replica.in_sync_minimum) if isinstance(state, CommittedIsr) else None
    if pending is None:
        return leading, ()
    leading = Leading(pending, leading.progress, leading.epoch_start_offset, leading.waiting)
    return leading, (store(replica, pending),)


def store(replica: Replica, pending: PendingExpand | PendingShrink) -> StoreIsr:
    """The conditional write of an ISR, under the epochs of the decision that made this replica leader."""
    decision = replica.decision
    return StoreIsr(
        pending.wanted,
        pending.partition_epoch,
        decision.leader_epoch,
        decision.controller_epoch,
        lives_that_join(pending),
        pending.wanted_eligible,
        pending.wanted_recovered,
        unclean_epoch=decision.unclean_epoch,
    )


def lives_that_join(pending: PendingExpand | PendingShrink) -> tuple[tuple[int, int], ...]:
    """(broker id, incarnation) of each that joins: it joins in the life that fetched, or not at all (KIP-841,
    KIP-903)."""
    if not isinstance(pending, PendingExpand):
        return ()
    return tuple(zip(pending.joining, pending.incarnations, strict=True))


def tick(replica: Replica, now_ms: int) -> Step:
    """Handle the passing of time: remove members that lag for too long. Any role; only a leader has something
    to do."""
    leading = replica.leading
    if leading is None:
        return replica, ()
    leading, effects = leader_shrink_isr(replica, leading, now_ms)
    if not effects:
        return replica, ()
    ticked, advanced = leader_inc_high_watermark(replica, leading)
    return ticked, (*effects, *advanced)


def followers_gone(replica: Replica, event: FollowersGone) -> Step:
    """Handle the end of brokers: ask ZooKeeper to remove those that are members, also one that has
    everything, since the next append would wait for it. One that lives joins again with its next
    fetch, also if that fetch brings nothing new. While a write is under way nothing happens; the shell
    says it again. Any role; only a leader has something to do."""
    leading = replica.leading
    if leading is None or not isinstance(leading.isr, CommittedIsr):
        return replica, ()
    gone = event.broker_ids - {replica.settings.broker_id}
    leaving = tuple(member for member in leading.isr.isr if member in gone)
    if not leaving:
        return replica, ()
    leading, effects = leader_remove_from_isr(replica, leading, leading.isr, leaving)
    removed = replica.with_leading(leading, replica.high_watermark)
    return removed, (*effects, *(AwaitFetch(member) for member in leaving))


def next_deadline_ms(replica: Replica) -> int | None:
    """When the shell has to send Ticked: when the first lagging ISR member is to be removed.

    None while no member lags or an ISR write is under way. Most partitions have no deadline, so timers cost
    nothing. It may be in the past. Any role.
    """
    leading = replica.leading
    if leading is None or not isinstance(leading.isr, CommittedIsr):
        return None
    lagging = [
        p.caught_up_ms
        for p in leading.progress
        if p.log_end_offset < replica.log_end_offset and p.replica_id in leading.isr.isr
    ]
    return min(lagging) + replica.settings.replica_lag_time_max_ms + 1 if lagging else None


def isr_stored(replica: Replica, event: IsrStored) -> Step:
    """Handle the success of a write: the requested ISR is in the znode."""
    leading = replica.leading
    if leading is None or isinstance(leading.isr, CommittedIsr):
        return replica, ()
    if event.partition_epoch != leading.isr.partition_epoch + 1:
        return replica, ()  # The answer to a write that a later decision has made void.
    pending = leading.isr
    stored = CommittedIsr(
        pending.wanted, event.partition_epoch, pending.wanted_eligible, pending.wanted_recovered
    )
    return adopt_isr(replica, stored)


def isr_store_failed(replica: Replica, event: IsrStoreRefused | IsrStoreUnknown) -> Step:
    """Handle a write that failed, or has an unknown outcome: read the znode. Until then both sets count."""
    leading = replica.leading
    if leading is None or isinstance(leading.isr, CommittedIsr):
        return replica, ()
    if event.expected_partition_epoch != leading.isr.partition_epoch:
        return replica, ()
    if isinstance(event, IsrStoreRefused) and event.for_good and isinstance(leading.isr, PendingExpand):
        void = replace(leading.isr, is_void=True)
        leading = Leading(void, leading.progress, leading.epoch_start_offset, leading.waiting)
        replica = replica.with_leading(leading, replica.high_watermark)
    return replica, (ReadLeaderAndIsr(),)


def leader_and_isr_read(replica: Replica, event: LeaderAndIsrRead) -> Step:
    """Handle the content of the znode after a failed write: a newer epoch means that another leader was
    elected.

    V3 discussion 3: "broker A will realize that it's no longer the leader any more". If the version is the
    one that the write expected, the write has not happened *yet*. The same write is then sent again, so that
    it becomes certain which of the two sets is stored (a later version proves that no earlier write can still
    happen).
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
    read = CommittedIsr(event.isr, event.partition_epoch, event.eligible, event.recovered)
    if isinstance(state, CommittedIsr):
        if event.partition_epoch > state.partition_epoch:
            return adopt_isr(replica, read)
        return replica, read_if_behind(leading)
    if event.partition_epoch < state.partition_epoch:
        return replica, (ReadLeaderAndIsr(),)  # A ZooKeeper server that is behind; ask again.
    if event.partition_epoch == state.partition_epoch:
        if isinstance(state, PendingExpand) and state.is_void:
            return abandon_join(replica, state)
        return replica, (store(replica, state),)
    return adopt_isr(replica, read)


def abandon_join(replica: Replica, void: PendingExpand) -> Step:
    """Return to the previous ISR: it is certain that no attempt of the write has happened or can still
    happen.

    Those that should have joined need another fetch, even if only one of them has begun another life.
    """
    leading = replica.leading
    assert leading is not None
    waiting = tuple(r for r in leading.waiting if r not in void.joining)
    state = CommittedIsr(void.isr, void.partition_epoch, void.eligible, void.recovered)
    leading = Leading(state, leading.progress, leading.epoch_start_offset, waiting)
    leading, effects = leader_change_isr(replica, leading)
    abandoned, advanced = leader_inc_high_watermark(replica, leading)
    return abandoned, (
        *effects, *read_if_behind(leading), *(AwaitFetch(r) for r in void.joining), *advanced,
    )  # fmt: skip


def adopt_isr(replica: Replica, stored: CommittedIsr) -> Step:
    """Adopt the stored ISR, which is known again: commit by it, and request the next change that waits.

    A follower whose join did not succeed still waits, and so does one that fetched while the leader's own
    write removed it. One that the controller removed may be dead: only a new fetch lets it back in.
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
    """The next change, now that the stored ISR is known: replicas that join, else replicas that are no longer
    eligible."""
    leading, effects = leader_expand_isr(replica, leading)
    if effects:
        return leading, effects
    return leader_settle_isr(replica, leading)


def refuse_waiting(replica: Replica) -> Effects:
    """Answer the producers that wait for acks=all that the ISR has become too small, instead of letting them
    wait until they give up. Their records are committed when it has grown again, and they may send them
    again."""
    assert replica.leading is not None
    if replica.has_enough_in_sync:
        return ()
    return (AnswerProduces(replica.log_end_offset, Refusal.NOT_ENOUGH_REPLICAS_AFTER_APPEND),)
