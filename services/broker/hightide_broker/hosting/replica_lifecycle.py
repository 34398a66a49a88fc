"""The replicas that this broker holds: starting, replacing and stopping them (V3 C, H).

Rules of this file: a method that awaits waits for a disk, and its caller has the partition's turn
(`partition_queue`). A log is never created over an older one, and never deleted. A log that is not wanted any
more goes into quarantine.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from hightide.v1.errors_pb2 import ErrorCode
from msgspec import Struct

from hightide_broker.cluster.partition_decisions import PartitionDecision, PartitionKey
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.contract import convert
from hightide_broker.core.events import LeaderAndIsrDecided, SettingsChanged, StopRequested
from hightide_broker.core.lineage import NO_EPOCH
from hightide_broker.core.replica import Decision, Replica, ReplicaSettings
from hightide_broker.directories.log_directories import LogDirectories
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import ReplicaShell, refusal_in
from hightide_broker.storage import Log, StorageError, StorageFailed

log = logging.getLogger(__name__)

OK: Final = ErrorCode.ERROR_CODE_UNSPECIFIED


class ReplicaOrder(Struct, frozen=True):
    """One decision of a request, with the replica that it is about."""

    key: PartitionKey
    topic: str
    settings: TopicSettings
    told: PartitionDecision


class FrontMissing(StorageFailed):
    """A log lacks its oldest records. Others have them, and count on this broker for them too."""


class ReplicaLifecycle:
    """Starts and stops replicas. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        replicas: HostedReplicas,
        shell: ReplicaShell,
        directories: LogDirectories,
        replica_lag_time_max_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._shell = shell
        self._directories = directories
        self._replica_lag_time_max_ms = replica_lag_time_max_ms
        self._stood: set[PartitionKey] = set()
        """The leader epochs that were decided before this life of the broker began."""

    def is_at_hand(self, order: ReplicaOrder) -> bool:
        """Whether `replica_for` need not wait for a disk: the replica runs, or there is no log of it yet."""
        replica = self._replicas.get(order.key)
        if replica is None:
            return not self._directories.holds(order.key)
        return not self._why_aside(replica, order.told)

    async def replica_for(self, order: ReplicaOrder, *, is_live: bool) -> HostedReplica | None:
        """The replica that a decision is about, started if it does not run (V3 startReplica); None if the
        decision does not name this broker.

        A replica of a removed partition with the same number is put into quarantine first, and so is one that
        lacks its oldest records once others have all. `is_live` is true for a decision of a controller, and
        false at startup, when stored decisions are read. Raises StorageError.
        """
        key, settings, told = order.key, order.settings, order.told
        decision = told.decision
        replica = self._replicas.get(key)
        was_here = replica is not None or self._directories.holds(key)
        why_aside = "" if replica is None else self._why_aside(replica, told)
        if replica is not None and not why_aside:
            return replica
        if self._broker_id not in decision.replicas:
            return None
        if replica is not None:
            log.warning("%s is put aside: %s", replica, why_aside)
            self._stop(replica, decision.controller_epoch)
            await self.put_aside(key)
        # ZooKeeper's content at the start was decided before, whatever its epoch. An earlier life may have
        # led. So an empty log, or a missing one, may be one that lost all of its records.
        is_first = told.is_first and is_live
        if not is_live:
            self._stood.add(key)
        opened = await self._open(order, is_first=is_first)
        home = self._directories.home_of(key)
        was_synced = home is not None and home.data.acks_were_synced(*key)
        state = Replica.opened(
            ReplicaSettings(
                self._broker_id, self._replica_lag_time_max_ms, settings.min_insync_replicas,
                settings.flush_on_disk or was_synced,  # As in `change_settings`.
            ),
            log_start_offset=opened.log_start_offset,
            log_end_offset=opened.log_end_offset,
            high_watermark=opened.high_watermark_checkpoint,
            epochs=tuple((entry.epoch, entry.start_offset) for entry in opened.epochs.entries),
            is_new=not was_here and key not in self._stood and is_first,
        )  # fmt: skip
        replica = HostedReplica(key, order.topic, settings, state, opened)
        self._replicas.add(replica)
        # It is reported in the next turn of the loop, and fetches nothing before.
        replica.is_damaged = opened.at_rest.report_gaps()
        return replica

    async def _open(self, order: ReplicaOrder, *, is_first: bool) -> Log:
        key, topic, first_leader_epoch = order.key, order.topic, order.told.first_leader_epoch
        if self._directories.holds(key):
            opened = await self._directories.open_log(key, topic, order.settings.log)
            epochs = tuple(entry.epoch for entry in opened.epochs.entries)
            if _is_older(epochs, opened.log_end_offset, first_leader_epoch):
                log.warning(
                    "%s-%d on disk is of a removed partition of that number (leader epochs %s, this one "
                    "begins with %d): it is put aside",
                    topic, key[1], list(epochs[:3]), first_leader_epoch,
                )  # fmt: skip
            elif not self._is_to_be_fetched_anew(order, opened):
                return opened
            await self.put_aside(key)
        return await self._directories.create_log(key, topic, order.settings.log, is_first)

    def _is_to_be_fetched_anew(self, order: ReplicaOrder, opened: Log) -> bool:
        """Whether a log lacks its oldest records, and others have all. A follower never fetches what lies
        before its log, and as a leader it would pass the gap on. `restart_checks` does the same at the start,
        for what is assigned then and can be opened. Raises FrontMissing as long as others count on it."""
        others = order.told.decision.trusted - {self._broker_id}
        if not opened.lacks_front or not others:
            return False
        name = f"{order.topic}-{order.key[1]}"
        if self._broker_id in order.told.decision.trusted:
            raise FrontMissing(f"{name} lacks its oldest records, and is not served before others lead it")
        log.error("%s lacks its oldest records: it is fetched anew", name)
        return True

    def _why_aside(self, replica: HostedReplica, told: PartitionDecision) -> str:
        """Why a decision has a log put aside whose replica runs; empty if it is kept."""
        if told.decision.controller_epoch < replica.state.decision.controller_epoch:
            return ""
        if _is_of_a_removed_partition(replica.state, told.first_leader_epoch):
            return "it was removed and added again"
        if self._is_to_be_replaced(replica, told.decision):
            return "it lacks its oldest records, and is fetched anew from others"
        return ""

    def _is_to_be_replaced(self, replica: HostedReplica, decision: Decision) -> bool:
        """Whether a replica that runs and lacks its oldest records is to be fetched anew: a decision that it
        did not know yet says that others have all, and that nobody counts on this one."""
        return (
            replica.log.lacks_front
            and replica.is_damaged  # Else they were deleted since.
            and decision.partition_epoch > replica.state.decision.partition_epoch
            and bool(decision.trusted)
            and self._broker_id not in decision.trusted
            and all(log.broker_id != self._broker_id for log in decision.recovered)
        )

    def change_settings(self, replica: HostedReplica, settings: TopicSettings) -> None:
        """Run a replica under other settings of its topic from now on.

        One with flush=fsync counts nothing that is not on its disk before its checkpoint has ceased to say so
        of all that was acknowledged (`Maintenance`). A power cut would find it trusted for what it lost, if
        the topic has flush=fsync again by then.
        """
        replica.settings = settings
        replica.log.update_settings(settings.log)
        flush_on_disk = settings.flush_on_disk or replica.state.settings.flush_on_disk
        self._shell.feed(replica, SettingsChanged(settings.min_insync_replicas, flush_on_disk))
        self._shell.cover_unflushed(replica)

    # --- removing --------------------------------------------------------------------------------

    def stopped(self, replica: HostedReplica, delete: bool) -> None:
        """Take note that the replica's core has stopped. With `delete` the broker does not hold it any more,
        and its data goes into quarantine (docs/protocol.md, "Nothing is deleted by omission"); `put_aside`
        waits for that."""
        if not delete:
            return
        self._replicas.remove(replica)
        self._directories.quarantine(replica.key)

    async def put_aside(self, key: PartitionKey) -> None:
        """Put a partition's data on disk into quarantine, or wait until that is done.

        The work goes on if the caller is cancelled. Raises StorageError: the data is still there, and the
        next search for strays puts it into quarantine.
        """
        assert self._replicas.get(key) is None, "a replica is stopped before its log is put aside"
        await asyncio.shield(self._directories.quarantine(key))

    def _stop(self, replica: HostedReplica, controller_epoch: int) -> None:
        event = StopRequested(controller_epoch, replica.state.leader_epoch, delete=True)
        if self.feed(replica, event) != OK:
            raise StorageFailed(f"{replica}: its data directory failed, so nothing is begun in its place")

    def feed(self, replica: HostedReplica, event: LeaderAndIsrDecided | StopRequested) -> ErrorCode.ValueType:
        """Feed the controller's order to a replica. Returns the reason if that failed, or
        ERROR_CODE_UNSPECIFIED."""
        try:
            refusal = refusal_in(self._shell.feed(replica, event))
        except StorageError as error:
            return error.code
        if refusal is None:
            return OK
        log.info("%s: %s is refused: %s", replica, type(event).__name__, refusal.name)
        return convert.error_code_of(refusal)


def _is_of_a_removed_partition(state: Replica, first_leader_epoch: int) -> bool:
    if state.leader_epoch >= first_leader_epoch:
        return False
    epochs = tuple(entry.epoch for entry in state.epochs.entries)
    return state.leader_epoch != NO_EPOCH or _is_older(epochs, state.log_end_offset, first_leader_epoch)


def _is_older(epochs: tuple[int, ...], log_end_offset: int, first_leader_epoch: int) -> bool:
    """Whether a log with these leader epochs belongs to an earlier partition than the one that began with
    this epoch.

    A log without any epoch may begin where retention had left the removed one. It has nothing to lose.
    """
    if first_leader_epoch == 0:
        return False
    return epochs[0] < first_leader_epoch if epochs else log_end_offset > 0
