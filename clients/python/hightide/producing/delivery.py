"""The object that send() returns: a light promise of one record's place in the log.

One is made for every record, so it holds no lock and no event of its own: it knows its batch and its index
there, and asks the batch. Waiting is rare, so the first waiter makes what waiting needs.
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
        """Wait and return the record's place. The call ends the linger: the batch is sent at once. Raises the
        error of the delivery (DeliveryTimeoutError, a server's error), or DeliveryPendingError when timeout_s
        ran out first."""
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        batch, index = self._batch.holder_of(self._index)
        return batch.metadata_of(index)

    def exception(self, timeout_s: float | None = None) -> HightideError | None:
        """Wait and return the error of the delivery, or None if the record is acknowledged. Raises
        DeliveryPendingError when timeout_s ran out first."""
        if not self.done():
            wait_for(self.add_done_callback, self._batch, timeout_s)
        batch, _ = self._batch.holder_of(self._index)
        return batch.error

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Call the function with this Delivery once it is done; at once if it already is. Callbacks run on
        the sender's thread: they must be short and must not block."""
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
        """Wait and return the places of the rows. Raises the first failure, after all are done."""
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        return tuple(leaf.record_range() for batch in self._batches for leaf in batch.leaves())

    def exception(self, timeout_s: float | None = None) -> HightideError | None:
        """Wait until all are done and return the first failure, or None."""
        if not self.done():
            wait_for(self.add_done_callback, self._batches[0], timeout_s)
        errors = (leaf.error for batch in self._batches for leaf in batch.leaves())
        return next((error for error in errors if error is not None), None)

    def pieces(self) -> tuple[DeliveredPiece, ...]:
        """The outcome of all rows, batch by batch; rows that were sent to one named partition are in their
        order. Raises DeliveryPendingError before all are done."""
        return pieces_of(self._batches)

    def add_done_callback(self, callback: Callable[["BulkDelivery"], object]) -> None:
        """Call the function with this once all rows are done; at once if they already are."""
        left = _Countdown(len(self._batches), lambda: callback(self))
        for batch in self._batches:
            batch.when_done(left.one_done, None)
        if not self._batches:
            callback(self)


def pieces_of(batches: "tuple[PendingBatch, ...]") -> tuple[DeliveredPiece, ...]:
    """The outcomes of batches, and of the halves into which they were split. Raises DeliveryPendingError."""
    leaves = [leaf for batch in batches for leaf in batch.leaves()]
    for leaf in leaves:
        if not leaf.is_done:
            raise DeliveryPendingError("it is still being sent", topic=leaf.topic, partition=leaf.partition)
    return tuple(DeliveredPiece(leaf.record_count, leaf.base_offset, leaf.error) for leaf in leaves)


class _Countdown:
    """A counter that calls back when any threads have counted it down to zero."""

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
    """End the linger of a delivery's batch, and block until the delivery is done."""
    done = threading.Event()
    add_done_callback(lambda _: done.set())
    batch.hurry()
    if not done.wait(timeout_s):
        raise DeliveryPendingError(
            f"not acknowledged after {timeout_s} s; it is still being sent",
            topic=batch.topic,
            partition=batch.partition,
        )
