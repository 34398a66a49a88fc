"""One partition's log: what is appended, read, cut off at either end, and made durable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hightide.batch.header import BatchHeader, Buffer
from hightide_broker.storage.leader_epochs import LeaderEpochs
from hightide_broker.storage.producer_states import ProducerStates
from hightide_broker.storage.settings import LogSettings

__all__ = ["AppendInfo", "Log", "TimestampFound"]


@dataclass(frozen=True, slots=True)
class AppendInfo:
    """What an append did. `end_offset` is the log end offset after it; `headers` are as appended, one a
    batch."""

    base_offset: int
    end_offset: int
    size_bytes: int
    headers: tuple[BatchHeader, ...]
    # The append closed a segment: call `flush` in a thread soon, so that recovery after a crash stays short.
    rolled: bool


@dataclass(frozen=True, slots=True)
class TimestampFound:
    """The first record at or after a timestamp."""

    offset: int
    timestamp_us: int


class Log:
    """One partition's log; made by `DataDirectory.log`.

    Any thread may call any method; a lock inside keeps them apart, and is never held over an fsync or a
    deletion. Calls are meant for the event loop (tens of microseconds, a page-cache write or read) but for
    `flush`, `apply_retention` and `close`, which belong in a thread. Raises StorageFailed after the data
    directory's first I/O error, from every method that writes, and LogClosed from every method once closed.
    """

    topic_id: bytes
    partition: int
    settings: LogSettings
    # As of the last checkpoint; 0 where there is none. What the broker's high watermark starts from.
    high_watermark_checkpoint: int
    epochs: LeaderEpochs

    @property
    def log_start_offset(self) -> int:
        """The first offset that exists."""
        raise NotImplementedError

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will have."""
        raise NotImplementedError

    @property
    def durable_end_offset(self) -> int:
        """Everything below is on disk (fsynced)."""
        raise NotImplementedError

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        raise NotImplementedError

    @property
    def producers(self) -> ProducerStates:
        """The producers' states; read from disk on first use."""
        raise NotImplementedError

    def append_as_leader(
        self, batches: Buffer, headers: Sequence[BatchHeader], leader_epoch: int
    ) -> AppendInfo:
        """Stamp and append batches that `check_from_producer` and `producers.check_all` have passed.

        `headers` are what `check_from_producer(batches, …)` returned. One write call. The log may keep
        `batches` alive for its tail; it never changes them. Raises DiskFull (nothing was appended),
        StorageFailed.
        """
        raise NotImplementedError

    def append_as_follower(self, batches: Buffer) -> AppendInfo:
        """Append what a leader sent, as it is. Checks CRCs, that it starts at the log end, and that epochs
        rise.

        Assigns leader epochs as they appear in the batches. Raises BatchError, AppendOutOfOrder, DiskFull,
        StorageFailed; in all cases nothing was appended.
        """
        raise NotImplementedError

    def read(self, offset: int, max_bytes: int, end_offset: int) -> list[Buffer]:
        """Whole batches from the one that contains `offset` on, all below `end_offset`.

        At most `max_bytes`, but always one batch where there is one; may end sooner, at the end of a
        segment. Pieces of batches in order, to be joined; a piece need not be a batch. Empty where `offset`
        is at or above `end_offset`. Raises OffsetOutOfRange below the log start offset or above the log end
        offset.
        """
        raise NotImplementedError

    def truncate_to(self, offset: int) -> int:
        """Cut off everything from `offset` on; give the new log end offset. Called by a follower (DESIGN
        6.1).

        Where `offset` is inside a batch, the whole batch goes. At or above the log end it does nothing.
        """
        raise NotImplementedError

    def truncate_and_start_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`; called by a follower whose log ends below its leader's log
        start."""
        raise NotImplementedError

    def find_timestamp(self, timestamp_us: int, end_offset: int) -> TimestampFound | None:
        """The first record at or after a timestamp, below `end_offset`; None where there is none.

        Opens one batch by pyarrow, which is imported then. Call it in a thread.
        """
        raise NotImplementedError

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note where an epoch starts; called on becoming leader, before the first append (DESIGN 6.1).
        Persisted.

        A log that has nothing on disk yet keeps it in memory until its first append. Same as `epochs.assign`.
        """
        raise NotImplementedError

    def flush(self) -> int:
        """Bring everything appended so far to disk; give the durable end offset. Call it in a thread.

        A failed fsync is final for the data directory: StorageFailed, now and from every later write.
        """
        raise NotImplementedError

    def apply_retention(self, now_us: int, high_watermark: int) -> int:
        """Delete old segments by age and size, none with an offset at or above `high_watermark`; give the
        log start.

        Also closes a segment that is older than segment_ms, and forgets producers. Call it in a thread.
        """
        raise NotImplementedError

    def roll(self) -> None:
        """Close the active segment, so that the next append starts a new one. Does nothing where it is
        empty."""
        raise NotImplementedError

    def update_settings(self, settings: LogSettings) -> None:
        """Take over changed settings; they hold from the next call on."""
        raise NotImplementedError

    def close(self) -> None:
        """Flush, write indexes and the producer snapshot, and let go of files. Again is harmless."""
        raise NotImplementedError
