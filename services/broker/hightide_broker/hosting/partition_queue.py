"""The queue of orders for each partition: a later order does not overtake one that waits for a disk.

A decision may have to wait for the recovery of a log, and a stop for its quarantine. Later orders for the
same partition wait for their turn. Other partitions are not held up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from hightide_broker.cluster.partition_decisions import PartitionKey


class PartitionQueues:
    """First come, first served, for each partition. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self.last: dict[PartitionKey, asyncio.Future[None]] = {}
        """The end of the last turn that was taken, for each partition that is busy."""

    def is_free(self, key: PartitionKey) -> bool:
        """Whether no order for the partition is under way."""
        return key not in self.last

    def take(self, key: PartitionKey) -> QueuePlace:
        """Join the queue of one partition."""
        return QueuePlace(self, (key,), self.last.get(key))

    def take_free(self, keys: Iterable[PartitionKey]) -> QueuePlace:
        """Take one turn for several partitions, all of which are free."""
        return QueuePlace(self, tuple(keys), None)


class QueuePlace:
    """A place in the queue. `end` must be called, also by a caller that gives up waiting."""

    __slots__ = ("_before", "_ended", "_keys", "_queues")

    def __init__(
        self, queues: PartitionQueues, keys: tuple[PartitionKey, ...], before: asyncio.Future[None] | None
    ) -> None:
        """Called by `PartitionQueues`."""
        self._queues = queues
        self._keys = keys
        self._before = before
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queues.last.update(dict.fromkeys(keys, self._ended))

    async def begin(self) -> None:
        """Wait for the turns before this one."""
        if self._before is not None and not self._before.done():
            await asyncio.wait([self._before])

    def end(self) -> None:
        """Let the next turn begin, but not before the earlier ones have ended. May be called twice."""
        if self._before is None or self._before.done():
            self._end()
        else:
            self._before.add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        if self._ended.done():
            return
        self._ended.set_result(None)
        for key in self._keys:
            if self._queues.last.get(key) is self._ended:
                del self._queues.last[key]
