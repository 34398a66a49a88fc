"""The object that send() returns in asyncio: a light promise that can be awaited."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from hightide.errors import DeliveryPendingError, HightideError
from hightide.producing.delivery import pieces_of
from hightide.producing.pending_batch import PendingBatch
from hightide.records import DeliveredPiece, RecordMetadata, RecordRange


class Delivery:
    """The promise of one record. Made by `Producer.send`. Awaiting it gives the RecordMetadata, or raises the
    error of the delivery. Awaiting ends the linger: the batch is sent at once."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: PendingBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the record is acknowledged or failed."""
        batch, _ = self._batch.holder_of(self._index)
        return batch.is_done

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            yield from until_done(
                lambda callback: self._batch.when_done(callback, self._index), [self._batch]
            )
        batch, index = self._batch.holder_of(self._index)
        if batch.error is not None:
            raise batch.error
        return batch.metadata_of(index)

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Call the function with this Delivery on the loop once it is done; at once if it already is."""
        self._batch.when_done(lambda: callback(self), self._index)


class BulkDelivery:
    """The promise of all rows of one `send_arrow`. Awaiting it gives the places of the rows, or raises the
    first failure."""

    __slots__ = ("_batches",)

    def __init__(self, batches: tuple[PendingBatch, ...]) -> None:
        self._batches = batches

    @property
    def record_count(self) -> int:
        """The number of rows."""
        return sum(batch.record_count for batch in self._batches)

    def done(self) -> bool:
        """Whether all rows are acknowledged or failed."""
        return all(leaf.is_done for batch in self._batches for leaf in batch.leaves())

    def __await__(self) -> Generator[Any, None, tuple[RecordRange, ...]]:
        yield from self._until_done()
        errors: list[HightideError] = [
            leaf.error for batch in self._batches for leaf in batch.leaves() if leaf.error is not None
        ]
        if errors:
            raise errors[0]
        return tuple(leaf.record_range() for batch in self._batches for leaf in batch.leaves())

    def _until_done(self) -> Generator[Any, None, None]:
        for batch in self._batches:
            if not all(leaf.is_done for leaf in batch.leaves()):
                yield from until_done(_waiting_for(batch), [batch])

    def pieces(self) -> tuple[DeliveredPiece, ...]:
        """The outcome of all rows; see `hightide.BulkDelivery.pieces`."""
        return pieces_of(self._batches)

    async def settled(self, timeout_s: float | None = None) -> None:
        """Wait until all are done, whether acknowledged or failed. Raises DeliveryPendingError when the time
        runs out first."""
        try:
            async with asyncio.timeout(timeout_s):
                for batch in self._batches:
                    if not all(leaf.is_done for leaf in batch.leaves()):
                        await _Settled(batch)
        except TimeoutError:
            raise DeliveryPendingError(
                f"not acknowledged after {timeout_s} s; it is still being sent"
            ) from None


class _Settled:
    __slots__ = ("_batch",)

    def __init__(self, batch: PendingBatch) -> None:
        self._batch = batch

    def __await__(self) -> Generator[Any, None, None]:
        yield from until_done(_waiting_for(self._batch), [self._batch])


def _waiting_for(batch: PendingBatch) -> Callable[[Callable[[], object]], None]:
    return lambda callback: batch.when_done(callback, None)


def until_done(
    when_done: Callable[[Callable[[], object]], None], batches: list[PendingBatch]
) -> Generator[Any, None, None]:
    """End the batch's linger, and await it."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle() -> None:
        if not future.done():
            future.set_result(None)

    when_done(settle)
    for batch in batches:
        batch.hurry()
    yield from future.__await__()
