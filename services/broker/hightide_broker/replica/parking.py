"""Requests that wait: produce requests for in-sync replicas, fetches for something to read.

A parked request costs one future, and all of them one timer. It is woken by the event that it waits for, and
never polls. Belongs to the event loop's thread. Only `ParkedProduce.wait` and `ParkedFetch.wait` await.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter

from hightide.v1.errors_pb2 import ErrorCode


@contextmanager
def _woken_after(future: asyncio.Future[None], wait_ms: int) -> Iterator[None]:
    """Resolve the future when the time is up, at the price of one timer handle."""
    timer = future.get_loop().call_later(wait_ms / 1000, _resolve, future)
    try:
        yield
    finally:
        timer.cancel()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class ParkedProduce:
    """One produce request with acks=all, until each of its partitions is settled."""

    __slots__ = ("_future", "_outstanding", "failures")

    def __init__(self) -> None:
        self._outstanding: dict[int, AckQueue] = {}
        self._future: asyncio.Future[None] | None = None
        self.failures: dict[int, ErrorCode.ValueType] = {}
        """Why a partition (its index in the request) was not acknowledged after its append."""

    def expect(self, index: int, queue: AckQueue, end_offset: int) -> None:
        """Wait for the partition at `index` of the request to be committed up to `end_offset`."""
        assert index not in self._outstanding, index
        self._outstanding[index] = queue
        queue.add(end_offset, self, index)

    def settle(self, index: int, failure: ErrorCode.ValueType | None = None) -> None:
        """Settle the partition: it is committed, or cannot be any more. Called by an `AckQueue`."""
        del self._outstanding[index]
        if failure is not None:
            self.failures[index] = failure
        if not self._outstanding and self._future is not None:
            _resolve(self._future)

    async def wait(self, timeout_ms: int) -> None:
        """Return when all partitions are settled. After `timeout_ms`, or when cancelled, the rest is given
        up."""
        try:
            if self._outstanding:
                self._future = asyncio.get_running_loop().create_future()
                with _woken_after(self._future, timeout_ms):
                    await self._future
        finally:
            for index, queue in list(self._outstanding.items()):
                queue.drop(self)
                self.failures[index] = ErrorCode.ERROR_CODE_TIMED_OUT
            self._outstanding.clear()


class AckQueue:
    """The produce requests that wait for one partition's high watermark, in offset order.

    A list, of which the first few go at once: a deque that is empty takes 600 bytes, and a broker has ten
    thousand of these.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[int, ParkedProduce, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, produce: ParkedProduce, index: int) -> None:
        """Queue a produce request. A duplicate is answered with its old offsets, and may be out of order."""
        if not self._waiting or self._waiting[-1][0] <= end_offset:
            self._waiting.append((end_offset, produce, index))
        else:
            self._waiting.insert(self._count_below(end_offset), (end_offset, produce, index))

    def release(self, high_watermark: int, failure: ErrorCode.ValueType | None = None) -> None:
        """Settle all that is committed below `high_watermark`.

        `failure` is set if the offsets are committed by fewer replicas than required
        (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
        """
        self._settle_first(self._count_below(high_watermark), failure)

    def fail(self, failure: ErrorCode.ValueType) -> None:
        """Settle all as failed: this broker no longer leads, or stops."""
        self._settle_first(len(self._waiting), failure)

    def _count_below(self, offset: int) -> int:
        """How many wait for no more than this offset."""
        return bisect_right(self._waiting, offset, key=itemgetter(0))

    def _settle_first(self, count: int, failure: ErrorCode.ValueType | None) -> None:
        if count == 0:
            return
        settled = self._waiting[:count]
        del self._waiting[:count]
        for _, produce, index in settled:
            produce.settle(index, failure)

    def drop(self, produce: ParkedProduce) -> None:
        """Remove a produce request whose time is up. The oldest expire first, so this checks few entries."""
        for at, (_, queued, _) in enumerate(self._waiting):
            if queued is produce:
                del self._waiting[at]
                return


class ParkedFetch:
    """One fetch, or one round of a replica session, until something that it asked for has moved."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        """Wake the fetch: a high watermark or a leadership moved. May be called twice."""
        _resolve(self._future)

    async def wait(self, timeout_ms: int) -> None:
        """Return when woken, or after `timeout_ms`."""
        with _woken_after(self._future, timeout_ms):
            await self._future
