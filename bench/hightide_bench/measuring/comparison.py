"""Compares the rows read back with those written: every row, and the order for each key."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class RecordRow(NamedTuple):
    """One record's key and value. A tuple, because the demo holds 336,776 of them."""

    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The findings. All but the first two should be 0."""

    produced: int
    consumed: int
    lost: int
    """Rows written and acknowledged that were not read back."""
    duplicated: int
    """Rows read back once more than they were written."""
    reordered: int
    """Rows read back after a later row of the same key."""
    foreign: int
    """Rows read back that were never written: another key, or other bytes."""

    @property
    def is_perfect(self) -> bool:
        """Whether exactly the written rows were read back, in order."""
        return not (self.lost or self.duplicated or self.reordered or self.foreign)


class Comparer:
    """Takes the rows written, then every row read back in the order of reading.

    Rows may be equal to one another; then they stand for each other, first written first read. An
    `unsure` row is one that was sent and not acknowledged: it may come back or not, and is never lost.
    """

    def __init__(self, written: Iterable[RecordRow], unsure: Iterable[RecordRow] = ()) -> None:
        self._expected: dict[RecordRow, deque[int]] = {}
        self._produced = 0
        for row in written:
            self._expected.setdefault(row, deque()).append(self._produced)
            self._produced += 1
        self._unsure = set(unsure)
        self._latest: dict[bytes | None, int] = {}
        self._consumed = self._duplicated = self._reordered = self._foreign = 0

    def read_back(self, row: RecordRow) -> None:
        """Compare one row with the source. Rows of one key must come in the order in which they were read."""
        self._consumed += 1
        positions = self._expected.get(row)
        if positions is None:
            self._take_unsure_or_foreign(row)
        elif not positions:
            self._duplicated += 1
        else:
            position = positions.popleft()
            if position < self._latest.get(row.key, -1):
                self._reordered += 1
            else:
                self._latest[row.key] = position

    def result(self) -> Comparison:
        """Return the findings so far; rows not read back yet count as lost."""
        return Comparison(
            produced=self._produced,
            consumed=self._consumed,
            lost=sum(map(len, self._expected.values())),
            duplicated=self._duplicated,
            reordered=self._reordered,
            foreign=self._foreign,
        )

    def _take_unsure_or_foreign(self, row: RecordRow) -> None:
        if row in self._unsure:
            # It is there once, which is allowed; from here on another copy of it is a duplicate.
            self._unsure.remove(row)
            self._expected[row] = deque()
        else:
            self._foreign += 1
