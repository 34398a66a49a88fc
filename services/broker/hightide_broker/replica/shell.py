"""The shell of the replication cores: it feeds them events and performs their effects.

Rules of this file:
1. `feed` is the only place where a replica's state is replaced.
2. It never awaits, so nothing happens between reading a state and acting on its step's result.
3. Effects are performed in the order given. If the log fails, the step has not happened: the state stays,
   later effects are dropped, and the caller gets the storage's error.
4. File writes are made inline (0.3 ms/MB into the page cache). Fsync, recovery and deletion are not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from hightide.batch.errors import BatchError
from hightide.batch.header import BatchHeader, Buffer
from hightide_runtime.clock import Clock
from hightide_runtime.telemetry.span_kinds import TRUNCATE_LOG
from hightide_runtime.telemetry.tracing import Attribute, Telemetry

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract import convert
from hightide_broker.core import effects as fx
from hightide_broker.core.events import Event, FsyncDone, SettingsChanged, Ticked
from hightide_broker.core.fetch_session import LeaderSession, LeaderSessions
from hightide_broker.core.machine import step
from hightide_broker.core.refusals import Refusal
from hightide_broker.replica.counters import Counters
from hightide_broker.replica.deadlines import Deadlines
from hightide_broker.replica.group_commit import FsyncRounds
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.replica.parking import ParkedFetch
from hightide_broker.storage import AppendInfo, StorageError
from hightide_broker.storage import StorageFailed as LogFailed

log = logging.getLogger(__name__)

NEXT_STEP: Final = 'see docs/operating.md, "When a follower keeps what its leader lacks"'

_ON_THE_LOG: Final = (
    fx.PersistEpoch, fx.TruncateTo, fx.TruncateAndStartAt, fx.Append, fx.AppendFetched, fx.MoveLogStart,
)  # fmt: skip


class FetchingPort(Protocol):
    """What a follower's replicas need of the fetchers (`fetchers.Fetchers`)."""

    def start(self, replica: HostedReplica, effect: fx.StartFetching) -> None:
        """Fetch the partition from its leader."""
        ...

    def stop(self, replica: HostedReplica) -> None:
        """Stop fetching the partition."""
        ...

    def ask(self, replica: HostedReplica, effect: fx.AskEpochEnd) -> None:
        """Ask the leader where an epoch ended."""
        ...

    def resume(self, replica: HostedReplica) -> None:
        """Continue to fetch: what was fetched is on disk."""
        ...


class IsrPort(Protocol):
    """What leaders need of ZooKeeper (`isr_store.IsrStore`)."""

    def store(self, replica: HostedReplica, effect: fx.StoreIsr) -> None:
        """Write the ISR conditionally, and feed the outcome back."""
        ...

    def read(self, replica: HostedReplica) -> None:
        """Read the znode, and feed its content back."""
        ...


class DivergencePort(Protocol):
    """Reports replicas to the controller whose logs their leaders contradict
    (`failed_replicas.FailedReplicas`)."""

    def report_divergence(self, key: PartitionKey, divergence: Divergence) -> None:
        """Report that a replica keeps records which its leader lacks."""
        ...

    def diverges_no_more(self, key: PartitionKey) -> None:
        """Report that the replica follows again, or leads."""
        ...


class LogStartPort(Protocol):
    """Stores where logs begin (`log_starts.LogStarts`)."""

    def moved(self, replica: HostedReplica) -> None:
        """Store the log start soon: it has moved in memory."""
        ...


class StoppedReplicaPort(Protocol):
    """Removes a stopped replica (`control.ControlHandler`)."""

    def stopped(self, replica: HostedReplica, delete: bool) -> None:
        """Take note that the replica has stopped. With `delete` its data goes into quarantine."""
        ...


class FeedPort(Protocol):
    """Who is told what became of an ISR (`ReplicaShell`, or a decider that listens to it)."""

    def feed(self, replica: HostedReplica, event: Event) -> fx.Effects:
        """Feed the event to the replica."""
        ...


@dataclass(frozen=True, slots=True)
class EffectPorts:
    """The objects that perform those effects that the shell does not perform itself."""

    fetching: FetchingPort
    isr: IsrPort
    stopped: StoppedReplicaPort
    log_starts: LogStartPort
    divergences: DivergencePort
    group_commit: FsyncRounds[HostedReplica]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The truncation that a replica did not make: from `offset` on, although it knows that everything below
    `high_watermark` is committed."""

    offset: int
    high_watermark: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Payload:
    """The bytes of a ProduceArrived (with their headers) or of a BatchesReceived."""

    batches: Buffer
    headers: Sequence[BatchHeader]


class ReplicaShell:
    """Feeds events to replicas. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self,
        clock: Clock,
        sessions: LeaderSessions[PartitionKey],
        telemetry: Telemetry,
        on_storage_failed: Callable[[Exception], None],
    ) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._sessions = sessions
        self._on_storage_failed = on_storage_failed
        self._deadlines = Deadlines(clock, self._tick)
        self.parked_rounds: dict[LeaderSession[PartitionKey], ParkedFetch] = {}
        """The fetch sessions of followers that wait for an append. Kept by `replica_server`."""
        self.counters = Counters()
        self.ports: EffectPorts
        """Set by `perform_with`, before the first event."""
        self._diverged: set[PartitionKey] = set()
        self.performs: dict[type[Any], Callable[[HostedReplica, Any, Payload | None], None]] = {
            fx.PersistEpoch: self._persist_epoch,
            fx.TruncateTo: self._truncate_to,
            fx.TruncateAndStartAt: self._truncate_and_start_at,
            fx.Append: self._append,
            fx.AppendFetched: self._append_fetched,
            fx.MoveLogStart: self._move_log_start,
            fx.StoreIsr: lambda replica, effect, _: self.ports.isr.store(replica, effect),
            fx.AwaitFetch: lambda replica, effect, _: sessions.want(effect.replica_id, replica.key),
            fx.ReadLeaderAndIsr: lambda replica, _effect, _: self.ports.isr.read(replica),
            fx.AdvanceHighWatermark: self._advance_high_watermark,
            fx.AnswerProduces: self._answer_produces,
            fx.AbandonWaiters: self._abandon_waiters,
            fx.StopFetching: lambda replica, _effect, _: self.ports.fetching.stop(replica),
            fx.AskEpochEnd: lambda replica, effect, _: self.ports.fetching.ask(replica, effect),
            fx.StartFetching: self._start_fetching,
            fx.ReportDivergence: self._report_divergence,
            fx.ReplicaStopped: lambda replica, effect, _: self.ports.stopped.stopped(replica, effect.delete),
            # The caller of `feed` reads these effects and answers itself.
            fx.Refuse: lambda _replica, _effect, _: None,
            fx.AnswerEpochEnd: lambda _replica, _effect, _: None,
        }

    def perform_with(self, ports: EffectPorts) -> None:
        """Perform effects by these ports. Called once, by `Assembly`: the ports feed the shell, so they
        are built after it."""
        self.ports = ports

    def feed(self, replica: HostedReplica, event: Event, payload: Payload | None = None) -> fx.Effects:
        """Feed the event to the replica, and perform the effects. Called for every event.

        Returns the effects, so that the caller finds its answer in them. Raises StorageError if the log
        failed, BatchError if a leader sent a damaged batch. The event has then not happened.
        """
        before = replica.state
        replica.state, effects = step(before, event)
        try:
            for effect in effects:
                self.performs[type(effect)](replica, effect, payload)
        except (StorageError, BatchError) as error:
            replica.state = before
            log.error("%s: %s failed: %s", replica, type(event).__name__, error)
            _begin_where_it_did(replica)
            if isinstance(error, LogFailed):
                self._on_storage_failed(error)
            raise
        except Exception:
            # A bug. If the log did nothing, the event has not happened. If a later effect failed, the log
            # stays as it is.
            if isinstance(effect, _ON_THE_LOG):
                replica.state = before
                _begin_where_it_did(replica)
            raise
        state = replica.state
        if state.is_leader:
            self._deadlines.note(replica)
            if state.leader_epoch != before.leader_epoch:
                self.counters.leaderships_begun += 1
                self._diverges_no_more(replica)
                self._touch_followers(replica, wake=True)
        elif before.is_leader:
            self._leads_no_more(replica)
        return effects

    def flushed(self, replica: HostedReplica) -> None:
        """Take note that a round of fsync covered the replica's log. Called by `GroupCommit`."""
        may_have_waited = replica.state.fetch_offset is None
        self.feed(replica, FsyncDone(replica.log.durable_end_offset))
        self.cover_unflushed(replica)
        # If the replica fetched on meanwhile, its position is not set again: its leader would send the same
        # batches twice.
        if may_have_waited and replica.state.is_follower:
            self.ports.fetching.resume(replica)

    def cover_unflushed(self, replica: HostedReplica) -> None:
        """With flush=fsync, request a sync for records that no request covers.

        A round during which the log was truncated proves nothing. A replica may also get flush=fsync, or
        begin to follow, with records that were never synced.
        """
        state = replica.state
        if state.settings.flush_on_disk and state.durable_end_offset < state.log_end_offset:
            self.ports.group_commit.cover((replica,))

    def wait_for_no_disk(self, replica: HostedReplica) -> None:
        """Let records of a replica count before they are on disk. Called when its topic has flush=replicated,
        and the checkpoint says no more that all that was acknowledged is on disk."""
        self.feed(replica, SettingsChanged(replica.settings.min_insync_replicas, flush_on_disk=False))
        if replica.state.is_follower:
            # It need not wait any more for the flush it was waiting for.
            self.ports.fetching.resume(replica)

    def close(self) -> None:
        """Stop the timer."""
        self._deadlines.close()

    def _tick(self, replica: HostedReplica) -> None:
        self.feed(replica, Ticked(self._clock.monotonic_ms()))

    def _leads_no_more(self, replica: HostedReplica) -> None:
        self.counters.leaderships_lost += 1
        if replica.first_commit is not None:
            replica.first_commit.give_up()
            replica.first_commit = None
        self._touch_followers(replica, wake=True)

    # --- the log ---------------------------------------------------------------------------------

    def _persist_epoch(
        self, replica: HostedReplica, effect: fx.PersistEpoch, payload: Payload | None
    ) -> None:
        # With a payload it is a follower's append. Its log stores the epochs of the batches itself, each
        # before its first batch, because an answer can begin with batches of the epoch before.
        if payload is None:
            replica.log.assign_epoch(effect.epoch, effect.start_offset)

    def _truncate_to(self, replica: HostedReplica, effect: fx.TruncateTo, _: Payload | None) -> None:
        end_offset = replica.log.log_end_offset
        self.counters.truncated(end_offset - effect.offset)
        if effect.lost_committed:
            log.error(
                "%s: cutting the log from %d to %d goes below the high watermark %d: committed records go",
                replica, end_offset, effect.offset, replica.state.high_watermark,
            )  # fmt: skip
        else:
            log.info("%s: cutting the log from %d to %d", replica, end_offset, effect.offset)
        if not replica.traceparent:
            replica.log.truncate_to(effect.offset, durable=effect.lost_committed)
            return
        attributes: dict[str, Attribute] = {
            "partition": str(replica), "from_offset": end_offset, "to_offset": effect.offset,
        }  # fmt: skip
        with self._telemetry.span(TRUNCATE_LOG, parent=replica.traceparent, attributes=attributes):
            replica.log.truncate_to(effect.offset, durable=effect.lost_committed)

    def _truncate_and_start_at(
        self, replica: HostedReplica, effect: fx.TruncateAndStartAt, _: Payload | None
    ) -> None:
        if effect.lost_committed:
            log.error(
                "%s: the leader's log is another one from %d on: committed records go", replica, effect.offset
            )
        else:
            log.warning("%s: the leader has nothing before %d: starting again there", replica, effect.offset)
        replica.log.truncate_and_start_at(effect.offset)

    def _append(self, replica: HostedReplica, effect: fx.Append, payload: Payload | None) -> None:
        assert payload is not None
        appended = replica.log.append_as_leader(payload.batches, payload.headers, effect.leader_epoch)
        assert (appended.base_offset, appended.end_offset) == (effect.base_offset, effect.end_offset), replica
        self.counters.append(replica.topic, len(payload.batches), effect.end_offset - effect.base_offset)
        self._touch_followers(replica, wake=True)
        self._flush_after(replica, appended)

    def _append_fetched(
        self, replica: HostedReplica, effect: fx.AppendFetched, payload: Payload | None
    ) -> None:
        assert payload is not None
        batches = _from_offset(payload, effect.base_offset)
        appended = replica.log.append_as_follower(batches)
        assert appended.end_offset == effect.end_offset, replica
        self.counters.replicated_in.add(len(batches), effect.end_offset - effect.base_offset)
        self._flush_after(replica, appended)

    def _move_log_start(self, replica: HostedReplica, effect: fx.MoveLogStart, _: Payload | None) -> None:
        log.info("%s: nobody reads below %d any more", replica, effect.offset)
        replica.log.move_start(effect.offset)
        self.ports.log_starts.moved(replica)
        if replica.state.is_leader:
            self._touch_followers(replica, wake=True)

    def _flush_after(self, replica: HostedReplica, appended: AppendInfo) -> None:
        """Sync a closed segment even if no request waits for the disk. Recovery after a crash reads
        everything that is not known to be on disk, and should read no more than the last segment."""
        if replica.state.settings.flush_on_disk or appended.rolled:
            self.ports.group_commit.cover((replica,))

    def _start_fetching(self, replica: HostedReplica, effect: fx.StartFetching, _: Payload | None) -> None:
        self.ports.fetching.start(replica, effect)
        self.cover_unflushed(replica)
        self._diverges_no_more(replica)

    def _report_divergence(
        self, replica: HostedReplica, effect: fx.ReportDivergence, _: Payload | None
    ) -> None:
        state = replica.state
        log.error(
            "%s: leader %d in epoch %d has this log end at %d, and all below %d is committed: records are "
            "lost there, and no unclean election tells why; it is kept as it is and follows nobody (%s)",
            replica, state.leader, state.leader_epoch, effect.offset, state.high_watermark, NEXT_STEP,
        )  # fmt: skip
        divergence = Divergence(effect.offset, state.high_watermark, state.leader, state.leader_epoch)
        self._diverged.add(replica.key)
        self.ports.divergences.report_divergence(replica.key, divergence)

    def _diverges_no_more(self, replica: HostedReplica) -> None:
        if replica.key in self._diverged:
            self._diverged.discard(replica.key)
            self.ports.divergences.diverges_no_more(replica.key)

    # --- whoever waits ---------------------------------------------------------------------------

    def _touch_followers(self, replica: HostedReplica, wake: bool) -> None:
        """Wake the sessions of followers. A high watermark alone goes with the next answer."""
        for session in self._sessions.touch(replica.key):
            if wake and (parked := self.parked_rounds.get(session)) is not None:
                parked.wake()

    def _advance_high_watermark(
        self, replica: HostedReplica, effect: fx.AdvanceHighWatermark, _: Payload | None
    ) -> None:
        if replica.fetches:
            replica.wake_fetches()
        state = replica.state
        if not state.is_leader:
            return
        self._touch_followers(replica, wake=False)
        if replica.first_commit is None or state.leading is None:
            return
        if effect.high_watermark > state.leading.epoch_start_offset:
            replica.first_commit.happened(str(replica), state.leader_epoch, effect.high_watermark)
            replica.first_commit = None

    def _answer_produces(self, replica: HostedReplica, effect: fx.AnswerProduces, _: Payload | None) -> None:
        failure = None if effect.refusal is None else convert.error_code_of(effect.refusal)
        replica.acks.release(effect.end_offset, failure)

    def _abandon_waiters(self, replica: HostedReplica, effect: fx.AbandonWaiters, _: Payload | None) -> None:
        replica.acks.fail(convert.error_code_of(effect.refusal))
        replica.wake_fetches()


def _begin_where_it_did(replica: HostedReplica) -> None:
    """Let an empty log that was to begin inside a batch, which it did not take, begin where its core says."""
    state, opened = replica.state, replica.log
    was_empty = state.log_start_offset == state.log_end_offset
    is_empty = opened.log_start_offset == opened.log_end_offset
    if was_empty and is_empty and opened.log_end_offset != state.log_end_offset:
        with suppress(StorageError):  # A log that failed begins nowhere.
            opened.truncate_and_start_at(state.log_end_offset)


def refusal_in(effects: fx.Effects) -> Refusal | None:
    """The refusal among the effects of a step, or None if the event was accepted."""
    for effect in effects:
        if isinstance(effect, fx.Refuse):
            return effect.refusal
    return None


def _from_offset(payload: Payload, base_offset: int) -> Buffer:
    """The fetched batches from `base_offset` on. The log has the earlier ones already."""
    at = 0
    for header in payload.headers:
        if header.base_offset >= base_offset:
            break
        at += header.size_bytes
    return payload.batches if at == 0 else memoryview(payload.batches)[at:]
