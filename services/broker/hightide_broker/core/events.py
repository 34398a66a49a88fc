"""The events of a replica, for `machine.step`.

Rules of this file: an event is a fact that the shell saw, in offsets, epochs and milliseconds; it has no
bytes, no topic and no address. `now_ms` is a monotonic clock of the shell; a core never reads one. `dummy()`
builds an event with fitting defaults, for tests.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec import Struct

from hightide_broker.core.effects import AskEpochEnd
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Decision


class BatchSpan(NamedTuple):
    """One record batch as replication sees it: its first offset, its number of records, and its epoch."""

    base_offset: int
    record_count: int
    leader_epoch: int

    @property
    def end_offset(self) -> int:
        """The offset after the batch's last record."""
        return self.base_offset + self.record_count


class LeaderAndIsrDecided(Struct, frozen=True):
    """A decision about this partition, from the controller's LeaderAndISR or from ZooKeeper at startup (V3 C,
    E)."""

    decision: Decision
    now_ms: int

    @staticmethod
    def dummy(
        leader: int,
        leader_epoch: int,
        isr: tuple[int, ...] = (1, 2, 3),
        *,
        controller_epoch: int = 1,
        replicas: tuple[int, ...] = (1, 2, 3),
        partition_epoch: int | None = None,
        now_ms: int = 0,
        eligible: tuple[int, ...] = (),
        recovered: tuple[RecoveredLog, ...] = (),
        unclean_epoch: int = 0,
    ) -> LeaderAndIsrDecided:
        """A decision over three replicas; the partition epoch is the leader epoch unless given."""
        version = leader_epoch if partition_epoch is None else partition_epoch
        decision = Decision(
            controller_epoch, leader, leader_epoch, isr, replicas, version, eligible, recovered, unclean_epoch
        )
        return LeaderAndIsrDecided(decision, now_ms)


class StopRequested(Struct, frozen=True):
    """The controller's StopReplica (V3 C): stop, and if `delete` is set, give up the data as well.

    `partition_epoch` is the one with which the replica was not assigned any more; None if the topic or the
    partition is gone for good.
    """

    controller_epoch: int
    leader_epoch: int
    delete: bool
    partition_epoch: int | None = None


class ProduceArrived(Struct, frozen=True):
    """Checked batches of one produce request for this partition, with `record_count` records in all.

    `leader_epoch` is the one that the producer knows, -1 if it names none.
    """

    record_count: int
    acks_all: bool
    leader_epoch: int
    now_ms: int

    @staticmethod
    def dummy(
        record_count: int = 1, *, acks_all: bool = True, leader_epoch: int = -1, now_ms: int = 0
    ) -> ProduceArrived:
        """One record with acks=all from a producer that names no epoch."""
        return ProduceArrived(record_count, acks_all, leader_epoch, now_ms)


class FsyncDone(Struct, frozen=True):
    """The log is on disk up to `offset`. The shell sends it for any role; it matters with flush=fsync."""

    offset: int


class FollowerFetched(Struct, frozen=True):
    """A follower named this partition in a ReplicaFetch: it has everything below `fetch_offset` (V3 G).

    `incarnation` is the life of the follower that sent it. A later life may have less (docs/protocol.md, "A
    restarted broker is not trusted"). `partition_epoch` is that of the newest decision that the follower
    knows. A leader that knows an older one may count a follower as in sync that has left since.
    """

    replica_id: int
    leader_epoch: int
    fetch_offset: int
    now_ms: int
    incarnation: int = 0
    partition_epoch: int = 0


class EpochEndAsked(Struct, frozen=True):
    """A follower asks where `epoch` ended in this log; it follows under `current_leader_epoch` (KIP-101,
    320)."""

    current_leader_epoch: int
    epoch: int


class IsrStored(Struct, frozen=True):
    """The conditional set of the last StoreIsr succeeded; the znode's version is now `partition_epoch`."""

    partition_epoch: int


class IsrStoreRefused(Struct, frozen=True):
    """The conditional set failed because of its version: another process has written, or an earlier attempt
    succeeded.

    `for_good` if it failed because a follower that should join has begun another incarnation. Incarnations
    only rise, so no attempt of the same write that is still under way can succeed any more.
    """

    expected_partition_epoch: int
    for_good: bool = False


class IsrStoreUnknown(Struct, frozen=True):
    """The connection broke: it is not known whether the conditional set happened, or still will."""

    expected_partition_epoch: int


class LeaderAndIsrRead(Struct, frozen=True):
    """The content of the leaderAndISR znode: the answer to the effect ReadLeaderAndIsr."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    now_ms: int
    eligible: tuple[int, ...] = ()
    recovered: tuple[RecoveredLog, ...] = ()


class Ticked(Struct, frozen=True):
    """Time passed. Sent when `leader.next_deadline_ms` is reached; does no harm at any other time."""

    now_ms: int


class FollowersGone(Struct, frozen=True):
    """These brokers are not registered any more. Sent to a leader without a controller, which would take them
    out of the ISR. Does no harm at any other time: who lives joins again with a fetch."""

    broker_ids: frozenset[int]


class EpochEndReceived(Struct, frozen=True):
    """The leader's answer to a question of this replica.

    `epoch` is the largest epoch in the leader's log at or below the one in the question, -1 if there is none.
    """

    question: AskEpochEnd
    epoch: int
    end_offset: int


class BatchesReceived(Struct, frozen=True):
    """The part of the leader's ReplicaFetch answer about this partition; `spans` may be empty (only a new
    HW)."""

    leader: int
    leader_epoch: int
    spans: tuple[BatchSpan, ...]
    high_watermark: int
    log_start_offset: int


class FetchRefused(Struct, frozen=True):
    """The leader refused this partition's fetch or epoch question; `leader_epoch` is the one in the question.

    `log_start_offset` is the leader's, from the answer; it matters with OFFSET_OUT_OF_RANGE only.
    """

    leader: int
    leader_epoch: int
    refusal: Refusal
    log_start_offset: int = 0


class DeleteRecordsArrived(Struct, frozen=True):
    """An operator deletes the records before `before_offset`; -1: all that are committed (KIP-107)."""

    before_offset: int


class RecordsExpired(Struct, frozen=True):
    """Retention has found that the records below `log_start_offset` may go."""

    log_start_offset: int


class SettingsChanged(Struct, frozen=True):
    """The topic's settings changed (they come with each LeaderAndISR; send this before it)."""

    min_insync_replicas: int
    flush_on_disk: bool


class DirectoryFailed(Struct, frozen=True):
    """An I/O error that is final: the replica is out of service until the broker is started again."""


Event: TypeAlias = (
    LeaderAndIsrDecided
    | StopRequested
    | ProduceArrived
    | FsyncDone
    | FollowerFetched
    | EpochEndAsked
    | IsrStored
    | IsrStoreRefused
    | IsrStoreUnknown
    | LeaderAndIsrRead
    | Ticked
    | EpochEndReceived
    | BatchesReceived
    | FetchRefused
    | DeleteRecordsArrived
    | RecordsExpired
    | SettingsChanged
    | DirectoryFailed
    | FollowersGone
)
