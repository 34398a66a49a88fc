"""What the shell must do after a step: the effects of `machine.step`.

Rules of this file. The effects of one step are performed in the order given, which is the durability order:

1. PersistEpoch, TruncateTo, TruncateAndStartAt, Append, AppendFetched, MoveLogStart touch the log, each
   handed to the file, in this order, before the next effect is looked at. As a rule none of them waits
   for the disk: what a power cut may take of them, or bring back, changes no answer (below);
2. StoreIsr and ReadLeaderAndIsr go to ZooKeeper; their outcome comes back as an event, nothing waits for it;
   AwaitFetch is noted;
3. AdvanceHighWatermark, then the answers (AnswerProduces, AnswerEpochEnd, AbandonWaiters, Refuse);
4. StopFetching, AskEpochEnd, StartFetching, ReportDivergence concern this replica's own fetcher.

What is synced, and when. The log's flush (FsyncDone tells of it) puts records on disk, and with them the
epochs in which they were written. Two things may go wrong at a power cut, and change no answer. An epoch
without a record may be lost: its leader does not lead in it after a restart, and the next epoch would take
its place. A truncation may come undone: the follower then asks its leader again, and cuts again. Where that
would not do, the truncation is synced: of committed records, since this replica may be in the ISR by then,
and would show them as committed again; below the recovery point, which recovery trusts without reading; and
before records of an older epoch than was cut off are appended, since with that epoch at its end again the
log would seem newer than those that have the records. While a truncation may come undone, the storage syncs
the log before it writes down a log start beyond what is on disk. What TruncateAndStartAt deletes never comes
back; where the log begins then is on disk after the next flush.

If an effect of the first kind fails, the step has not happened: the shell keeps the replica that it had
before, drops the effects that follow, and answers the caller with the storage's error (and sends
StorageFailed where it is final).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec import Struct

from hightide_broker.core.lineage import EpochEnd
from hightide_broker.core.refusals import Refusal


class EffectMatcher:
    """Equal to every effect of one type whose named fields have the given values; for tests."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, effect_type: type, fields: dict[str, Any]) -> None:
        self._type = effect_type
        self._fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self._type) and all(
            getattr(other, name) == value for name, value in self._fields.items()
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"{self._type.__name__}.match({shown})"


class Matchable(Struct, frozen=True):
    """Gives each effect its `match`."""

    @classmethod
    def match(cls, **fields: Any) -> EffectMatcher:
        """Something equal to any effect of this type with these fields, whatever the others are."""
        return EffectMatcher(cls, fields)


class PersistEpoch(Matchable, frozen=True):
    """Note (epoch, start offset) for the log's `leader_epochs` file. The log writes it when it appends the
    first batch of the epoch, and the flush that follows puts both on disk.

    A leader's epoch comes alone. A follower's epochs come with the AppendFetched of the same step, whose
    batches name their epochs, so the shell does nothing. The rule: docs/protocol.md, "Truncate by epoch".
    """

    epoch: int
    start_offset: int


class TruncateTo(Matchable, frozen=True):
    """Truncate the log to `offset` and drop the epochs that begin at or after it. Usually this is not synced
    (see the top of this file).

    `lost_committed` is True if that is below the high watermark known here, which happens only after an
    unclean election. Then it is synced, and the shell logs an error with both offsets.
    """

    offset: int
    lost_committed: bool = False


class TruncateAndStartAt(Matchable, frozen=True):
    """Delete the whole log and begin again, empty, at `offset`: the leader has nothing older, or nothing of
    this log.

    `lost_committed` as in TruncateTo. That the records are gone is always synced; the new start is not, so
    nothing of the log is durable before the next FsyncDone.
    """

    offset: int
    lost_committed: bool = False


class Append(Matchable, frozen=True):
    """Stamp the arrived batches with offsets from `base_offset` on and this leader epoch, and append them."""

    base_offset: int
    leader_epoch: int
    end_offset: int


class AppendFetched(Matchable, frozen=True):
    """Append the fetched batches as they are; they begin at `base_offset`, which is the log end offset.

    If the leader's answer has batches below `base_offset` (duplicates), skip those.
    """

    base_offset: int
    end_offset: int


class MoveLogStart(Matchable, frozen=True):
    """Serve no records below `offset` from now on. The shell stores it durably afterwards, before a leader
    answers the request, and deletes the segments below."""

    offset: int


class StoreIsr(Matchable, frozen=True):
    """Set the ISR in the leaderAndISR znode if its version is `expected_partition_epoch` (V3 G).

    The answer is IsrStored, IsrStoreRefused or IsrStoreUnknown. The znode also gets this leader and leader
    epoch and the controller epoch of the decision that made it leader. `joining` are (broker, incarnation) of
    the followers that join. Each must still be in that incarnation when the set happens, which the same multi
    checks. If one is not, the answer is IsrStoreRefused for good (KIP-841, KIP-903).
    """

    isr: tuple[int, ...]
    expected_partition_epoch: int
    leader_epoch: int
    controller_epoch: int
    joining: tuple[tuple[int, int], ...] = ()
    eligible: tuple[int, ...] = ()
    """Other replicas that may be elected: those that leave an ISR smaller than min.insync.replicas
    (KIP-966)."""
    recovered: tuple[RecoveredLog, ...] = ()
    """The recorded log ends of replicas that may have lost some."""
    unclean_epoch: int = 0
    """The unclean epoch of the decision."""


class AwaitFetch(Matchable, frozen=True):
    """Get this follower's position again with its session's next round: it is out of the ISR by a decision
    that is not the leader's.

    The shell calls `LeaderSessions.want`. A follower that has everything has no reason to name its position,
    and only a fetch proves that it is alive and lets it back in.
    """

    replica_id: int


class ReadLeaderAndIsr(Matchable, frozen=True):
    """Read the leaderAndISR znode and answer with LeaderAndIsrRead. After a failure, pause and read again."""


class AdvanceHighWatermark(Matchable, frozen=True):
    """Raise the high watermark: wake consumers that wait for it, and send it to followers with the next
    answer."""

    high_watermark: int


class AnswerProduces(Matchable, frozen=True):
    """Answer the acks=all produces whose end offset is ≤ `end_offset`; with an error if `refusal` is set."""

    end_offset: int
    refusal: Refusal | None = None


class AnswerEpochEnd(Matchable, frozen=True):
    """Answer the EpochEndAsked of this step."""

    end: EpochEnd


class AbandonWaiters(Matchable, frozen=True):
    """Answer every parked produce and fetch of the partition with `refusal`: this replica does not lead any
    more."""

    refusal: Refusal


class Refuse(Matchable, frozen=True):
    """Answer the request of this step with an error; the state has not changed."""

    refusal: Refusal


class StopFetching(Matchable, frozen=True):
    """Remove the partition from its fetch session; answers still under way are ignored."""


class AskEpochEnd(Matchable, frozen=True):
    """Ask the leader where `epoch` ended in its log, under this leader epoch; repeat until it answers.

    The answer is EpochEndReceived, which returns this question, or FetchRefused. `log_end_offset` is where
    this log ends. Only this replica uses it, to see which state of its log an answer is about.
    """

    leader: int
    leader_epoch: int
    epoch: int
    log_end_offset: int


class StartFetching(Matchable, frozen=True):
    """Fetch from the leader from `offset` on, under this leader epoch."""

    leader: int
    leader_epoch: int
    offset: int


class ReportDivergence(Matchable, frozen=True):
    """Report that this replica would have to truncate what it knows to be committed, and that no unclean
    election explains it. It keeps its log as it is, and stops following (Role.DIVERGED). The shell reports it
    to the controller, which complains.

    `offset` is where it would have to truncate, or to begin anew.
    """

    offset: int


class ReplicaStopped(Matchable, frozen=True):
    """The replica has stopped; if `delete` is set, its data goes into quarantine (docs/protocol.md, "Nothing
    is deleted by omission")."""

    delete: bool


Effect: TypeAlias = (
    PersistEpoch
    | TruncateTo
    | TruncateAndStartAt
    | Append
    | AppendFetched
    | MoveLogStart
    | StoreIsr
    | AwaitFetch
    | ReadLeaderAndIsr
    | AdvanceHighWatermark
    | AnswerProduces
    | AnswerEpochEnd
    | AbandonWaiters
    | Refuse
    | StopFetching
    | AskEpochEnd
    | StartFetching
    | ReportDivergence
    | ReplicaStopped
)
Effects: TypeAlias = tuple[Effect, ...]
