"""Replication of one partition: events in, effects out.

Rules of this file: 1. `step` is the only way in which a replica changes. It returns the next one: a Replica
is frozen, and the given one stays as it was, so that the shell goes back to it if the log fails. (The cores
of the controller and of the coordinator change their state in place.) 2. No clock, no I/O, no logging, no
randomness: the same events give the same effects. 3. Effects are ordered (effects.py says how); if one that
touches the log fails, the step has not happened.

Theory of operation. The controller chooses the leader (`LeaderAndIsrDecided`); each decision has a leader
epoch. A leader appends, learns its followers' progress from their fetches, and moves the high watermark to
the smallest end over the maximal ISR. A follower first finds where its log begins to differ from the
leader's, cuts it there, then copies. Every message carries the leader epoch: an older one is fenced, a newer
one means that *this* replica is stale.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from hightide_broker.core import decisions, follower, high_watermark, isr, leader, log_start
from hightide_broker.core.effects import AbandonWaiters, Effect, Effects, StopFetching
from hightide_broker.core.events import (
    BatchesReceived,
    DeleteRecordsArrived,
    DirectoryFailed,
    EpochEndAsked,
    EpochEndReceived,
    Event,
    FetchRefused,
    FollowerFetched,
    FollowersGone,
    FsyncDone,
    IsrStored,
    IsrStoreRefused,
    IsrStoreUnknown,
    LeaderAndIsrDecided,
    LeaderAndIsrRead,
    ProduceArrived,
    RecordsExpired,
    SettingsChanged,
    StopRequested,
    Ticked,
)
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Replica, Role, enter


def step(replica: Replica, event: Event) -> tuple[Replica, Effects]:
    """The replica after `event`, and what the shell must do, in order.

    Called by the shell for every event of the partition, one at a time. It never raises because of a message
    from outside: that is answered by Refuse, or dropped if it is outdated. The frequent events come first.
    """
    match event:
        case ProduceArrived():
            return leader.produce(replica, event)
        case FollowerFetched():
            return leader.fenced_follower_fetch(replica, event)
        case BatchesReceived():
            return follower.batches_received(replica, event)
        case FsyncDone():
            return leader.fsync_done(replica, event)
        case Ticked():
            return isr.tick(replica, event.now_ms)
        case LeaderAndIsrDecided():
            return decisions.leader_and_isr_decided(replica, event)
        case EpochEndAsked():
            return leader.epoch_end(replica, event)
        case EpochEndReceived():
            return follower.epoch_end_received(replica, event)
        case FetchRefused():
            return follower.fetch_refused(replica, event)
        case IsrStored():
            return isr.isr_stored(replica, event)
        case IsrStoreRefused() | IsrStoreUnknown():
            return isr.isr_store_failed(replica, event)
        case LeaderAndIsrRead():
            return isr.leader_and_isr_read(replica, event)
        case StopRequested():
            return decisions.stop_requested(replica, event)
        case DeleteRecordsArrived():
            return log_start.delete_records(replica, event)
        case RecordsExpired():
            return log_start.records_expired(replica, event)
        case SettingsChanged():
            return settings_changed(replica, event)
        case DirectoryFailed():
            return storage_failed(replica)
        case FollowersGone():
            return isr.followers_gone(replica, event)
        case _:
            assert_never(event)


def settings_changed(replica: Replica, event: SettingsChanged) -> tuple[Replica, Effects]:
    """Take over new topic settings; a change to flush=replicated may commit records that only waited for the
    disk."""
    settings = replace(
        replica.settings,
        min_insync_replicas=event.min_insync_replicas,
        flush_on_disk=event.flush_on_disk,
    )
    changed = replace(replica, settings=settings)
    if changed.leading is None:
        return changed, ()
    leading, effects = isr.leader_settle_isr(changed, changed.leading)
    settled, advanced = high_watermark.leader_inc_high_watermark(changed, leading)
    return settled, (*effects, *advanced, *isr.refuse_waiting(settled))


def storage_failed(replica: Replica) -> tuple[Replica, Effects]:
    """Stop serving and following until the broker is started again, because the log directory failed."""
    effects: list[Effect] = []
    if replica.is_leader:
        effects.append(AbandonWaiters(Refusal.STORAGE_FAILED))
    if replica.is_follower:
        effects.append(StopFetching())
    return enter(replica, Role.FAILED, replica.decision), tuple(effects)
