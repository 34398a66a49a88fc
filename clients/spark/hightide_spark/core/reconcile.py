"""Exactly once: an attempt's knowledge of one log partition, and the rows of its task that it must still
send.

Rules of this file: no clock, no I/O, no threads. `sink.partition_writer` makes the calls for it.

Theory of operation. All attempts of one task are one producer to the log (the same id and epoch). A sequence
is a compare-and-set: a batch is appended only if the log holds exactly as many rows of this producer as the
attempt assumes. So an attempt sends its rows, from sequence 0 on, until a batch is refused.

A refusal means that another attempt wrote, earlier or at the same time. The attempt can learn which rows it
wrote, and in which order and batches, only if it reads them back. It counts them as a multiset. For each of
them it leaves out one equal row of its own. It sends the rest after all rows that it read, again as a
compare-and-set. So no row is in the log twice, even if attempts run at the same time or died before.

When an attempt ends, each row that others wrote must be equal to one of its own. Otherwise the attempts did
not have the same rows, which is an error. In a log partition for which it has no rows an attempt meets no
conflict, so it asks about these at the end: an attempt before the topic grew may have written there.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from hightide.calls.backoff import Backoff

from hightide_spark.errors import SparkConnectorError

SEQUENCE_MODULUS: Final = 1 << 31
#: After so many looks at a partition without news the attempt fails. Together with the pauses they take some
#: seconds, since a deposed leader that does not know it yet gives old answers.
ROUNDS_WITHOUT_NEWS_MAX: Final = 16
LOOK_AGAIN: Final = Backoff(initial_ms=10, maximum_ms=1_000)

_DIGEST_BYTES: Final = 16
_PLACES_SHOWN_MAX: Final = 2
_ABSENT: Final = -1
_LENGTHS: Final = struct.Struct("<qqqq")

Digests = npt.NDArray[np.bytes_]


class ExactlyOnceError(SparkConnectorError):
    """The root of the errors that prevent writing each row exactly once."""


class NewerWriterError(ExactlyOnceError):
    """A newer micro-batch, or a newer txnVersion, took over from this one."""

    next_step = (
        "If this is the newest, its checkpoint or version was set back: give the query a new checkpoint, or "
        "write under a higher txnVersion."
    )


class OtherRowsWrittenError(ExactlyOnceError):
    """An earlier attempt of the same task wrote rows that this one does not have."""

    next_step = (
        "A re-run must have the same rows in the same Spark partitions: the source or a function has to be "
        "deterministic, and the numbers of Spark partitions and of the topic's partitions as before. Else "
        "write with delivery=at-least-once."
    )


class WrittenRowsGoneError(ExactlyOnceError):
    """Rows that an earlier attempt wrote cannot be read back whole, so the missing rows are not known."""

    next_step = "Compare the topic with its source, or write this batch with delivery=at-least-once."


class ConflictPersistsError(ExactlyOnceError):
    """The log refuses this attempt's rows, and holds nothing that explains it."""

    next_step = "Look into the logs of the brokers."


class Known(Protocol):
    """The state that a log keeps of a producer (the SDK's ProducerState)."""

    @property
    def producer_epoch(self) -> int: ...  # noqa: D102
    @property
    def first_sequence(self) -> int: ...  # noqa: D102
    @property
    def first_offset(self) -> int: ...  # noqa: D102
    @property
    def next_sequence(self) -> int: ...  # noqa: D102
    @property
    def end_offset(self) -> int: ...  # noqa: D102


class RowMultiset:
    """Rows by their digests, each with its count. Takes 24 bytes for each row."""

    def __init__(self) -> None:
        self._digests: Digests = np.empty(0, f"S{_DIGEST_BYTES}")
        self._left: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._added: list[Digests] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, digests: Digests) -> None:
        """Add these rows."""
        self._added.append(digests)
        self._count += len(digests)

    def _merge(self) -> None:
        before, after = len(self._digests), [self._digests, *self._added]
        self._digests, places = np.unique(np.concatenate(after), return_inverse=True)
        left = np.bincount(places[before:], minlength=len(self._digests))
        left[places[:before]] += self._left
        self._left, self._added = left, []

    def strike(self, digests: Digests) -> npt.NDArray[np.bool_]:
        """Find which of these rows are in the set, and count each of those down."""
        if self._added:
            self._merge()
        if not len(self._digests):
            return np.zeros(len(digests), np.bool_)
        kinds, kind_of, counts = np.unique(digests, return_inverse=True, return_counts=True)
        places = np.minimum(np.searchsorted(self._digests, kinds), len(self._digests) - 1)
        struck_of = np.where(self._digests[places] == kinds, np.minimum(self._left[places], counts), 0)
        # Of equal rows the first ones are taken.
        in_order = np.argsort(kind_of, kind="stable")
        rank = np.empty(len(digests), np.int64)
        rank[in_order] = np.arange(len(digests)) - np.repeat(np.cumsum(counts) - counts, counts)
        np.subtract.at(self._left, places, struck_of)
        self._count -= int(struck_of.sum())
        struck: npt.NDArray[np.bool_] = rank < struck_of[kind_of]
        return struck


def digests_of(rows: Any, with_timestamps: bool) -> Digests:
    """A digest of each row of an Arrow table. Called only after a conflict, since it looks at row after
    row."""
    count = rows.num_rows
    names = rows.schema.names
    keys = rows.column("key").to_pylist() if "key" in names else [None] * count
    values = rows.column("value").to_pylist()
    times = rows.column("timestamp").cast("int64").to_pylist() if with_timestamps else [_ABSENT] * count
    headers = rows.column("headers").to_pylist() if "headers" in names else [None] * count
    joined = b"".join(map(_digest, keys, values, times, headers))
    return np.frombuffer(joined, f"S{_DIGEST_BYTES}")


def _digest(
    key: bytes | None, value: bytes | None, time_us: int, headers: list[dict[str, Any]] | None
) -> bytes:
    parts = [
        _LENGTHS.pack(
            _ABSENT if key is None else len(key),
            _ABSENT if value is None else len(value),
            time_us,
            _ABSENT if headers is None else len(headers),
        ),
        key or b"",
        value or b"",
    ]
    for header in headers or ():
        name, content = header["key"].encode(), header["value"]
        lengths = (len(name), _ABSENT if content is None else len(content), 0, 0)
        parts += (_LENGTHS.pack(*lengths), name, content or b"")
    return hashlib.blake2b(b"".join(parts), digest_size=_DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Read:
    """Order to read these offsets, then look again. They may have disappeared with the only leader that had
    them."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GoOn:
    """Order to send these rows in this order, the first of them under this sequence."""

    next_sequence: int
    tables: tuple[Any, ...]


class PartitionAttempt:
    """One attempt's knowledge of one log partition. `who` names the attempt in errors."""

    def __init__(
        self, who: str, place: str, producer_id: int, producer_epoch: int, *, with_timestamps: bool
    ) -> None:
        self._who = who
        self._place = place
        self._identity = (producer_id, producer_epoch)
        self._with_timestamps = with_timestamps
        # The ranges of offsets of this attempt's acknowledged rows, rising, adjacent ones joined.
        self._own: list[tuple[int, int]] = []
        self._elsewhere = RowMultiset()
        self._refused: list[Any] = []
        # The offset at which the rows of this task begin, the number of them that were read, and up to which
        # offset.
        self._first_offset = -1
        self._read_count = 0
        self._read_to = 0
        self._has_gone_on = False
        self._rounds_without_news = 0

    # -- sending ---------------------------------------------------------------------------------------------

    def unwritten(self, rows: Any) -> Any:
        """The rows to send, without those that another attempt wrote, as far as is known."""
        if not len(self._elsewhere) or not rows.num_rows:
            return rows
        struck = self._elsewhere.strike(digests_of(rows, self._with_timestamps))
        return rows.filter(np.logical_not(struck)) if struck.any() else rows

    def acknowledged(self, base_offset: int, record_count: int) -> None:
        """Note that rows of this attempt are in the log, committed, from this offset on."""
        if self._own and self._own[-1][1] == base_offset:
            base_offset, record_count = self._own[-1][0], base_offset + record_count - self._own[-1][0]
            self._own.pop()
        assert not self._own or self._own[-1][1] < base_offset, "what is sent later lies further back"
        self._own.append((base_offset, base_offset + record_count))
        self._rounds_without_news = 0

    def refused(self, rows: Any) -> None:
        """Note that the log did not take these rows from this attempt: another attempt wrote there."""
        self._refused.append(rows)

    @property
    def is_refused(self) -> bool:
        """Whether rows were refused: then call `look` until it says to go on."""
        return bool(self._refused)

    # -- finding the rows of others --------------------------------------------------------------------------

    @property
    def pause_ms(self) -> int:
        """The pause before the next `look`: none for the first, longer after each without news."""
        if not self._rounds_without_news:
            return 0
        return LOOK_AGAIN.pause_ms(self._rounds_without_news)

    def look(self, known: Known | None) -> Read | GoOn:
        """The next step, by the present state of the log: read on (each batch goes to `saw`) and look again,
        or send, when all that the log remembers was read. Called only while no row of this attempt is under
        way. Raises ExactlyOnceError."""
        if known is not None and known.producer_epoch > self._identity[1]:
            raise taken_over(self._who, self._place)
        self._rounds_without_news += 1
        if known is None or known.producer_epoch < self._identity[1]:
            return self._look_at_nothing()
        if known.first_sequence != 0:
            raise WrittenRowsGoneError(
                f"{self._who}: {self._place} remembers what this task wrote only from its row "
                f"{known.first_sequence} on"
            )
        if known.first_offset != self._first_offset:
            self._begin_reading(known.first_offset)
        if self._read_to < known.end_offset:
            self._check_rounds()
            return Read(self._read_to, known.end_offset)
        if self._read_count % SEQUENCE_MODULUS == known.next_sequence:
            return self._go_on(known.next_sequence)
        if self._rounds_without_news > ROUNDS_WITHOUT_NEWS_MAX:
            raise WrittenRowsGoneError(
                f"{self._who}: {self._place} holds {self._read_count} rows of this task between offset "
                f"{known.first_offset} and {known.end_offset}, and should hold {known.next_sequence}"
            )
        return Read(self._read_to, self._read_to)

    def _look_at_nothing(self) -> Read | GoOn:
        """Handle a log without the rows that caused the conflict. They were not committed, and disappeared
        with their leader, or the broker that answers no longer leads."""
        if self._own or self._read_count:
            if self._rounds_without_news > ROUNDS_WITHOUT_NEWS_MAX:
                raise WrittenRowsGoneError(f"{self._who}: {self._place} has forgotten what this task wrote")
            return Read(self._read_to, self._read_to)
        self._begin_reading(0)
        return self._go_on(0)

    def _begin_reading(self, first_offset: int) -> None:
        """Begin to read the rows of this task. Their start is only certain once they are committed."""
        if self._has_gone_on and self._read_count:
            raise WrittenRowsGoneError(
                f"{self._who}: the rows of this task in {self._place} began at offset {self._first_offset}, "
                f"and now begin at {first_offset}"
            )
        self._first_offset = self._read_to = first_offset
        self._read_count = 0
        self._elsewhere = RowMultiset()

    def _check_rounds(self) -> None:
        if self._rounds_without_news > ROUNDS_WITHOUT_NEWS_MAX:
            raise ConflictPersistsError(
                f"{self._who}: {self._place} refused what was sent {ROUNDS_WITHOUT_NEWS_MAX} times over, and "
                "nothing new is there"
            )

    def saw(self, producer_id: int, producer_epoch: int, base_offset: int, rows: Any) -> None:
        """Take in a batch that was read, or the part of it in the range, whichever producer wrote it. Batches
        come in the order of their offsets."""
        assert base_offset >= self._read_to, "nothing is read twice"
        self._read_to = base_offset + rows.num_rows
        if (producer_id, producer_epoch) != self._identity:
            return
        self._read_count += rows.num_rows
        if not any(start <= base_offset < end for start, end in self._own):
            self._elsewhere.add(digests_of(rows, self._with_timestamps))
            self._rounds_without_news = 0

    def _go_on(self, next_sequence: int) -> GoOn:
        self._check_rounds()
        self._has_gone_on = True
        refused, self._refused = self._refused, []
        unwritten = [self.unwritten(rows) for rows in refused]
        return GoOn(next_sequence, tuple(rows for rows in unwritten if rows.num_rows))

    # -- the end ---------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """End the attempt, whose rows are all in the log. Raises OtherRowsWrittenError if others are, too."""
        assert not self._refused, "what was refused is sent again first"
        if len(self._elsewhere):
            raise OtherRowsWrittenError(
                f"{self._who}: an earlier attempt wrote {len(self._elsewhere)} rows into {self._place} that "
                "this one does not have"
            )


def taken_over(who: str, place: str) -> NewerWriterError:
    """The error of a writer whose epoch the log refuses as old."""
    return NewerWriterError(f"{who}: a newer micro-batch or txnVersion of the same writer took over {place}")


def refuse_rows_elsewhere(
    who: str, producer_epoch: int, known: Iterable[tuple[str, Sequence[Known]]]
) -> None:
    """Check, at the end of an attempt, the log partitions for which it has no rows. Raises
    OtherRowsWrittenError if another attempt wrote rows there."""
    found = [
        place for place, states in known if any(each.producer_epoch == producer_epoch for each in states)
    ]
    if not found:
        return
    places = ", ".join(found[:_PLACES_SHOWN_MAX])
    if len(found) > _PLACES_SHOWN_MAX:
        places += f" and {len(found) - _PLACES_SHOWN_MAX} more"
    raise OtherRowsWrittenError(
        f"{who}: an earlier attempt wrote rows into {places}, where this one has none, so that they may be "
        "in the topic twice; the topic's number of partitions may have changed in between"
    )
