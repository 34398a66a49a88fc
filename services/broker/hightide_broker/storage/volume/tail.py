"""The newest batches of each log in memory, so that followers and consumers that keep up need no file read.

Theory of operation. The tail holds the very buffers that were received: nothing is copied on the way in or
out. A view keeps its whole message alive. So a batch that is less than half of its message is copied
(`worth_keeping`), and the tail takes at most twice the memory that it counts. All tails of a data directory
share one budget; over it, the log that was appended to longest ago drops its tail first.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from hightide.batch.header import Buffer

__all__ = ["Tail", "TailBatch", "TailMemory", "worth_keeping"]


class TailBatch(NamedTuple):
    """One batch in memory, in one or more pieces."""

    base_offset: int
    next_offset: int
    size_bytes: int
    pieces: tuple[Buffer, ...]


def worth_keeping(view: memoryview) -> bool:
    """Whether a view is at least half of the message that it keeps alive."""
    whole = view.obj
    return isinstance(whole, bytes | bytearray) and len(view) * 2 >= len(whole)


class TailMemory:
    """The budget that the tails of one data directory share. Any thread."""

    def __init__(self, bytes_max: int, bytes_per_log_max: int) -> None:
        assert 0 <= bytes_per_log_max <= bytes_max
        self.bytes_per_log_max = bytes_per_log_max
        self.lock = threading.Lock()
        self._bytes_max = bytes_max
        self.size_bytes = 0
        # Tails that hold something, the one appended to longest ago first.
        self._tails: OrderedDict[Tail, None] = OrderedDict()

    def grew(self, tail: Tail, by: int) -> None:
        """Only for `Tail`, under `lock`: account for an append, and make room."""
        self.size_bytes += by
        self._tails[tail] = None
        self._tails.move_to_end(tail)
        while self.size_bytes > self._bytes_max:
            oldest = next(iter(self._tails))
            oldest.give_up(self.size_bytes - self._bytes_max)

    def shrank(self, tail: Tail, by: int, is_empty: bool) -> None:
        """Account for what was removed. Only `Tail` calls it, under `lock`."""
        self.size_bytes -= by
        assert self.size_bytes >= 0
        if is_empty:
            self._tails.pop(tail, None)


class Tail:
    """The newest batches of one log, without gaps, up to its end."""

    __slots__ = ("_bases", "_batches", "_memory", "size_bytes")

    def __init__(self, memory: TailMemory) -> None:
        self._memory = memory
        self._bases: list[int] = []
        self._batches: list[TailBatch] = []
        self.size_bytes = 0

    def append(self, batches: Sequence[TailBatch]) -> None:
        """Add batches that follow the last one; called by the log for each append."""
        with self._memory.lock:
            if self._batches and self._batches[-1].next_offset != batches[0].base_offset:
                self._drop(0, len(self._batches))
            self._batches.extend(batches)
            self._bases.extend(batch.base_offset for batch in batches)
            size_bytes = sum(batch.size_bytes for batch in batches)
            self.size_bytes += size_bytes
            self._memory.grew(self, size_bytes)
            if self.size_bytes > self._memory.bytes_per_log_max:
                # An eighth more than needed, so that not every append moves the lists.
                slack = self._memory.bytes_per_log_max // 8
                self.give_up(self.size_bytes - self._memory.bytes_per_log_max + slack)

    def read(self, offset: int, max_bytes: int, end_offset: int) -> list[Buffer] | None:
        """The same as `Log.read`; None if `offset` is not in memory."""
        with self._memory.lock:
            place = bisect_right(self._bases, offset) - 1
            if place < 0 or offset >= self._batches[-1].next_offset:
                return None
            pieces: list[Buffer] = []
            taken = 0
            for batch in self._batches[place:] if place else self._batches:
                if batch.next_offset > end_offset or (taken and taken + batch.size_bytes > max_bytes):
                    break
                pieces.extend(batch.pieces)
                taken += batch.size_bytes
            return pieces

    def truncate_to(self, offset: int) -> None:
        """Drop batches that do not end at or before `offset`."""
        with self._memory.lock:
            keep = len(self._batches)
            while keep and self._batches[keep - 1].next_offset > offset:
                keep -= 1
            self._drop(keep, len(self._batches))

    def clear(self) -> None:
        """Drop everything."""
        self.truncate_to(-1)

    def give_up(self, size_bytes: int) -> None:
        """Only for itself and `TailMemory`, under the lock: drop the oldest batches of at least this size."""
        count = dropped = 0
        while dropped < size_bytes and count < len(self._batches):
            dropped += self._batches[count].size_bytes
            count += 1
        self._drop(0, count)

    def _drop(self, start: int, stop: int) -> None:
        dropped = sum(batch.size_bytes for batch in self._batches[start:stop])
        del self._batches[start:stop]
        del self._bases[start:stop]
        self.size_bytes -= dropped
        self._memory.shrank(self, dropped, not self._batches)
