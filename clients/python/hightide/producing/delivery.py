"""What send() hands back: a light promise of one record's place in the log.

One is made for every record, so it holds no lock and no event of its own: it knows its batch and its index
there, and asks the batch. Waiting is rare, so what waiting needs is made by the first one who waits.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from hightide.errors import DeliveryPendingError, HightideError
from hightide.records import DeliveredPiece, RecordMetadata, RecordRange

if TYPE_CHECKING:
    from hightide.producing.pending_batch import PendingBatch


class Delivery:
    """The promise of one record. Made by `Producer.send`; may be asked from any thread."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: "PendingBatch", index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the record is acknowledged or failed."""
        batch, _ = self._batch.holder_of(self._index)
        return batch.is_done

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait and return where the record went. Asking ends the linger: the batch is sent at once. Raises
        what delivery failed with (DeliveryTimeoutError, a server's error), or DeliveryPendingError when
        timeout_s ran out first."""
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        batch, index = self._batch.holder_of(self._index)
        return batch.metadata_of(index)

    def exception(self, timeout_s: float | None = None) -> HightideError | None:
        """Wait and return why delivery failed; None where the record is acknowledged. Raises
        DeliveryPendingError when timeout_s ran out first."""
        if not self.done():
            wait_for(self.add_done_callback, self._batch, timeout_s)
        batch, _ = self._batch.holder_of(self._index)
        return batch.error

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Call back with this Delivery once it is done; at once if it is. Callbacks run on the sender's
        thread: they must be short and must not block."""
        self._batch.when_done(lambda: callback(self), self._index)


class BulkDelivery:
    """The promise of all rows of one `send_arrow`."""

    __slots__ = ("_batches",)

    def __init__(self, batches: "tuple[PendingBatch, ...]") -> None:
        self._batches = batches

    @property
    def record_count(self) -> int:
        """The number of rows."""
        return sum(batch.record_count for batch in self._batches)

    def done(self) -> bool:
        """Whether all rows are acknowledged or failed."""
        return all(leaf.is_done for batch in self._batches for leaf in batch.leaves())

    def result(self, timeout_s: float | None = None) -> tuple[RecordRange, ...]:
        """Wait and return where the rows went. Raises the first failure, after all are done."""
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        return tuple(leaf.record_range() for batch in self._batches for leaf in batch.leaves())

    def exception(self, timeout_s: float | None = None) -> HightideError | None:
        """Wait until all are done and return the first failure; None where there is none."""
        if not self.done():
            wait_for(self.add_done_callback, self._batches[0], timeout_s)
        errors = (leaf.error for batch in self._batches for leaf in batch.leaves())
        return next((error for error in errors if error is not None), None)

    def pieces(self) -> tuple[DeliveredPiece, ...]:
        """What became of all rows, batch by batch; those that were sent to one partition by name stand in
        their order. Once all are done; raises DeliveryPendingError before."""
        return pieces_of(self._batches)

    def add_done_callback(self, callback: Callable[["BulkDelivery"], object]) -> None:
        """Call back with this once all rows are done; at once if they are."""
        left = _Countdown(len(self._batches), lambda: callback(self))
        for batch in self._batches:
            batch.when_done(left.one_done, None)
        if not self._batches:
            callback(self)


def pieces_of(batches: "tuple[PendingBatch, ...]") -> tuple[DeliveredPiece, ...]:
    """The ends of batches and of what they were split into. Raises DeliveryPendingError."""
    leaves = [leaf for batch in batches for leaf in batch.leaves()]
    for leaf in leaves:
        if not leaf.is_done:
            raise DeliveryPendingError("it is still being sent", topic=leaf.topic, partition=leaf.partition)
    return tuple(DeliveredPiece(leaf.record_count, leaf.base_offset, leaf.error) for leaf in leaves)


class _Countdown:
    """Calls back when it was counted down to zero, from any threads."""

    __slots__ = ("_callback", "_left", "_lock")

    def __init__(self, left: int, callback: Callable[[], object]) -> None:
        self._left = left
        self._callback = callback
        self._lock = threading.Lock()

    def one_done(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._callback()


def wait_for(
    add_done_callback: Callable[[Callable[[object], object]], None],
    batch: "PendingBatch",
    timeout_s: float | None,
) -> None:
    """Block until a delivery is done, having hurried its batch."""
    done = threading.Event()
    add_done_callback(lambda _: done.set())
    batch.hurry()
    if not done.wait(timeout_s):
        raise DeliveryPendingError(
            f"not acknowledged after {timeout_s} s; it is still being sent",
            topic=batch.topic,
            partition=batch.partition,
        )
