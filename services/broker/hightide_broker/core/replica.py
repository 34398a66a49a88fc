"""The state of one replica of a partition on this broker (V3, "Terminologies", as a value).

Rules of this file: only data and values computed from it. Everything is frozen; `machine.step` returns a new
value. State that changes at every produce and fetch is in few fields of small objects, because a step is on
the hot path.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, TypedDict, Unpack

from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec import Struct
from msgspec.structs import replace

from hightide_broker.core.isr_state import IsrState
from hightide_broker.core.lineage import NO_EPOCH, EpochLineage, EpochStart

NO_LEADER: Final = -1
"""The leader of an offline partition, and of a partition without a decision so far."""

UNKNOWN_OFFSET: Final = -1
"""The log end offset of a follower that has not fetched in this leader epoch."""

UNTOLD_EPOCH: Final = 2**31 - 1
"""Stands for the epoch of a decision that has not come yet; no epoch is as large."""


class Role(Enum):
    """What this replica does at present."""

    IDLE = auto()
    """Meaning: the broker started and has obeyed no decision yet. Transitions: any decision."""
    LEADER = auto()
    """Meaning: appends, commits, serves. Transitions: newer decision => any role; znode shows a newer
    epoch => SUPERSEDED."""
    TRUNCATING = auto()
    """Meaning: follows, and is finding out where its log parts from the leader's. Transitions: the
    leader's answer matches => FETCHING; newer decision => any role."""
    FETCHING = auto()
    """Meaning: follows and copies. Transitions: its end is beyond the leader's => TRUNCATING; newer
    decision => any role."""
    OFFLINE = auto()
    """Meaning: the partition has no leader; the log waits. Transitions: newer decision => any role."""
    DIVERGED = auto()
    """Meaning: its leader's log lacks what is committed here, which is evidence of a loss; follows nobody and
    keeps its log. Transitions: the same decision again => TRUNCATING, to ask once more; newer decision => any
    role."""
    SUPERSEDED = auto()
    """Meaning: led, and found in ZooKeeper that another epoch has begun; does nothing until told what it is.
    Transitions: newer decision => any role."""
    STOPPED = auto()
    """Meaning: told to stop (V3 StopReplica). Transitions: newer decision => any role."""
    FAILED = auto()
    """Meaning: the log directory failed; final for this life of the broker. Transitions: none."""


_DECIDED: Final = frozenset(set(Role) - {Role.FAILED})
VALID_PREDECESSORS: Final[dict[Role, frozenset[Role]]] = {
    Role.IDLE: frozenset(),
    Role.LEADER: _DECIDED,
    Role.TRUNCATING: _DECIDED,
    Role.FETCHING: _DECIDED,
    Role.OFFLINE: _DECIDED,
    Role.DIVERGED: frozenset({Role.TRUNCATING, Role.FETCHING}),
    Role.SUPERSEDED: frozenset({Role.LEADER}),
    Role.STOPPED: _DECIDED,
    Role.FAILED: frozenset(Role),
}
"""role → the roles that it may be entered from; `machine.step` asserts it."""


class ReplicaSettings(Struct, frozen=True):
    """The settings that a replica gets at its start, or when the topic's settings change."""

    broker_id: int
    replica_lag_time_max_ms: int = 10_000
    min_insync_replicas: int = 1
    flush_on_disk: bool = False
    """flush=fsync: only records on a replica's disk count as held by it."""


class Decision(Struct, frozen=True):
    """The controller's decision about one partition, as the core and the shell know it."""

    controller_epoch: int = -1
    """The epoch of the controller that sent it; at startup, of the one that wrote the znode."""
    leader: int = NO_LEADER
    """NO_LEADER if the partition is offline."""
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    partition_epoch: int = -1
    eligible: tuple[int, ...] = ()
    """Replicas out of the ISR that hold all committed records (KIP-966)."""
    recovered: tuple[RecoveredLog, ...] = ()
    """The logs of replicas that may have lost the end."""
    unclean_epoch: int = 0
    """The last leader epoch whose election may have lost records; 0 if there was none."""

    @property
    def trusted(self) -> frozenset[int]:
        """The replicas that should have all committed records, and have not written otherwise."""
        return frozenset((*self.isr, *self.eligible)).difference(log.broker_id for log in self.recovered)


class FollowerProgress(Struct, frozen=True):
    """The progress of one follower, as its leader knows it."""

    replica_id: int
    log_end_offset: int
    """Everything below is in the follower's log (on its disk, with flush=fsync); UNKNOWN_OFFSET at first."""
    caught_up_ms: int
    """The last time at which the follower is known to have had all records of the leader. Kept for laggards
    only: a follower whose log ends where the leader's does is caught up, whatever this says."""
    fetched_ms: int
    leader_end_at_fetch: int
    """The leader's log end offset when it last fetched; having reached it means: was caught up at
    `fetched_ms`."""
    incarnation: int
    """The life of the follower that fetched last; its reports bind no other life."""
    partition_epoch: int = -1
    """The newest partition epoch that the follower has reported."""


class Leading(Struct, frozen=True):
    """The state that only a leader has."""

    isr: IsrState
    progress: tuple[FollowerProgress, ...]
    """One for each assigned replica but this one, by replica id."""
    epoch_start_offset: int
    """The log end offset at which this replica became leader."""
    waiting: tuple[int, ...] = ()
    """Followers that a fetch qualified for the ISR while a write of it was under way."""

    @property
    def is_behind(self) -> bool:
        """Whether a follower has heard of a newer version of the znode than the one that this leader knows,
        so that the ISR may be another one by now."""
        known = self.isr.partition_epoch
        return any(progress.partition_epoch > known for progress in self.progress)

    def progress_of(self, replica_id: int) -> FollowerProgress | None:
        """The progress of one follower; None if it is not an assigned replica."""
        for progress in self.progress:
            if progress.replica_id == replica_id:
                return progress
        return None


class _LogFields(TypedDict, total=False):
    """What a replica knows of its log."""

    epochs: EpochLineage
    log_start_offset: int
    log_end_offset: int
    durable_end_offset: int
    high_watermark: int


class Replica(Struct, frozen=True):
    """One replica. Offsets fall on batch boundaries. Invariants: see invariants.py."""

    settings: ReplicaSettings
    role: Role
    decision: Decision
    """The newest accepted one; for an IDLE replica, the declined one, without a leader."""
    epochs: EpochLineage
    log_start_offset: int
    log_end_offset: int
    durable_end_offset: int
    high_watermark: int
    spent_epoch: int
    """The newest epoch in which this replica must not lead: none that an earlier life may have led in. The
    log may have lost its tail, and leading on would write other records under offsets that followers hold
    (docs/protocol.md, "A restarted broker is not trusted"). A clean start of this life proves nothing: the
    life before it may have found a shortened log and been stopped before it heard of a newer epoch. And an
    ISR that the earlier life asked for may still be stored, while no broker counts it as possible any more.
    The loss may include the knowledge of the epoch: so the epoch in the first decision of this life is spent,
    and all before it. UNTOLD_EPOCH until that decision."""
    leading: Leading | None = None
    past_epoch: int = 0
    """The leader epoch of the last unclean election that this life knew when it led or fetched."""

    @staticmethod
    def opened(
        settings: ReplicaSettings,
        *,
        log_start_offset: int = 0,
        log_end_offset: int = 0,
        high_watermark: int = 0,
        epochs: tuple[tuple[int, int], ...] = (),
        is_new: bool = True,
    ) -> Replica:
        """A replica as the broker finds it on disk at startup, or new. Called once for each by the shell.

        `high_watermark` is the checkpointed one; `epochs` are (epoch, start offset) of the storage;
        `is_new` says that no earlier life of this broker had the replica. A log that was just opened counts
        as durable to its end (recovery syncs it).
        """
        assert log_start_offset <= log_end_offset
        lineage = EpochLineage(tuple(EpochStart(*e) for e in epochs if e[1] <= log_end_offset))
        return Replica(
            settings,
            Role.IDLE,
            Decision(),
            lineage,
            log_start_offset,
            log_end_offset,
            log_end_offset,
            min(max(high_watermark, log_start_offset), log_end_offset),
            NO_EPOCH if is_new else UNTOLD_EPOCH,
        )

    @property
    def leader(self) -> int:
        """The broker that leads, as far as this one knows; NO_LEADER if there is none."""
        return self.decision.leader

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the newest decision."""
        return self.decision.leader_epoch

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads."""
        return self.role is Role.LEADER

    @property
    def is_follower(self) -> bool:
        """Whether this replica follows (truncating or fetching)."""
        return self.role is Role.TRUNCATING or self.role is Role.FETCHING

    @property
    def in_sync_minimum(self) -> int:
        """The number of members that an ISR needs to commit: min.insync.replicas, or all if there are fewer
        replicas."""
        return min(self.settings.min_insync_replicas, len(self.decision.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether this leader may acknowledge acks=all with the ISR that is stored for certain."""
        assert self.leading is not None
        return len(self.leading.isr.isr) >= self.in_sync_minimum

    @property
    def reliable_end_offset(self) -> int:
        """The end of the records that this replica may vouch for: its durable end with flush=fsync, otherwise
        its log end."""
        return self.durable_end_offset if self.settings.flush_on_disk else self.log_end_offset

    @property
    def fetch_offset(self) -> int | None:
        """The offset from which a FETCHING replica is to fetch now; None while its records are not yet on
        disk.

        The shell passes it to the fetch session after StartFetching, after each AppendFetched, and with
        flush=fsync after the FsyncDone that makes it not None.
        """
        if self.role is not Role.FETCHING or self.reliable_end_offset < self.log_end_offset:
            return None
        return self.log_end_offset

    def with_leading(self, leading: Leading, high_watermark: int, log_end_offset: int = -1) -> Replica:
        """The leader after a produce or a fetch."""
        end = self.log_end_offset if log_end_offset == -1 else log_end_offset
        return replace(self, leading=leading, high_watermark=high_watermark, log_end_offset=end)

    def with_log(self, **log: Unpack[_LogFields]) -> Replica:
        """The replica with another log."""
        return replace(self, **log)

    def with_role(self, role: Role) -> Replica:
        """The follower in its other phase."""
        return enter(self, role, self.decision)

    def with_decision(self, decision: Decision) -> Replica:
        """The replica in the same role under a newer decision about the ISR or the assignment."""
        return _decided(self, self.role, decision, self.leading)


def enter(replica: Replica, role: Role, decision: Decision, leading: Leading | None = None) -> Replica:
    """The replica in another role; asserts that the table allows it."""
    assert replica.role in VALID_PREDECESSORS[role], f"{replica.role} does not lead to {role}"
    assert (leading is not None) == (role is Role.LEADER)
    return _decided(replica, role, decision, leading)


def _decided(replica: Replica, role: Role, decision: Decision, leading: Leading | None) -> Replica:
    """The replica in a role under a decision."""
    knows_unclean = role is Role.LEADER or role is Role.FETCHING
    past_epoch = decision.unclean_epoch if knows_unclean else replica.past_epoch
    return replace(replica, role=role, decision=decision, leading=leading, past_epoch=past_epoch)
