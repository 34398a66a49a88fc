"""The records of a poll(), made of Arrow's columns when they are looked at.

Rules of this file: nothing is done per record until somebody iterates.

Theory of operation. A record that exists costs more than its making: Python's garbage collector looks at each
object that stays, and the bytes of a value are a copy. So a poll() returns columns, and iterating makes
records of some hundred rows at a time, in C, of which each dies when the user is done with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Final, overload

import pyarrow as pa

from hightide.records import ReadHeaders, Record

#: The number of rows that are records at a time. Their values stay in the processor's cache; the fixed cost
#: of a piece, some 8 us, is little for each of them.
_PIECE_ROWS: Final = 512


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Rows of one partition with consecutive offsets: `columns` is a `pyarrow.RecordBatch` in a schema of
    batches."""

    topic: str
    partition: int
    first_offset: int
    columns: Any

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def slice(self, start: int, count: int) -> "RecordColumns":
        """Some of the rows, over the same bytes."""
        rows = self.columns.slice(start, count)
        return RecordColumns(self.topic, self.partition, self.first_offset + start, rows)

    def records(self) -> Iterator[Record]:
        """The rows as records, made one by one in C."""
        columns = self.columns
        keys = columns.column(0)
        headers = _headers(columns.column(3)) if columns.num_columns > 3 else repeat(())
        rows = zip(
            repeat(self.topic),
            repeat(self.partition),
            range(self.first_offset, self.first_offset + len(self)),
            columns.column(2).view(pa.int64()).to_pylist(),
            repeat(None) if keys.null_count == len(keys) else keys.to_pylist(),
            columns.column(1).to_pylist(),
            headers,
            strict=False,
        )
        # What Record(…) does for one row, without a frame of Python for each.
        return map(tuple.__new__, repeat(Record), rows)


class ColumnarRecords(Sequence[Record]):
    """The records of one poll(), in order. Compares and adds like a list of them."""

    __slots__ = ("_count", "_parts", "_ready")

    def __init__(self, parts: Sequence[RecordColumns] = ()) -> None:
        self._parts = tuple(parts)
        self._count = sum(map(len, self._parts))
        # The records made last for an index, and the index of the first.
        self._ready: tuple[int, list[Record]] = (0, [])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        return chain.from_iterable(piece.records() for piece in self._pieces())

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            if step == 1:
                return ColumnarRecords(tuple(self._between(start, stop)))
            return [self[at] for at in range(start, stop, step)]
        at = index if index >= 0 else self._count + index
        if not 0 <= at < self._count:
            raise IndexError(f"record {index} of {self._count}")
        first, ready = self.around(at)
        return ready[at - first]

    def around(self, index: int) -> tuple[int, list[Record]]:
        """Some records, of which one has this index, and the index of the first. They are made once for all
        indexes among them, so this is for who takes a few at a time."""
        first, ready = self._ready
        if not first <= index < first + len(ready):
            first = index - index % _PIECE_ROWS
            ready = [each for part in self._between(first, first + _PIECE_ROWS) for each in part.records()]
            self._ready = (first, ready)
        return first, ready

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ColumnarRecords | list):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == others for mine, others in zip(self, other, strict=True)
        )

    def __add__(self, other: Sequence[Record]) -> list[Record]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Record]) -> list[Record]:
        return [*other, *self]

    def __repr__(self) -> str:
        return repr(list(self))

    @property
    def parts(self) -> tuple[RecordColumns, ...]:
        """The columns that the records are made of."""
        return self._parts

    def _pieces(self) -> Iterator[RecordColumns]:
        for part in self._parts:
            for start in range(0, len(part), _PIECE_ROWS):
                yield part.slice(start, _PIECE_ROWS)

    def _between(self, start: int, stop: int) -> Iterator[RecordColumns]:
        """The rows from `start` to before `stop`."""
        for part in self._parts:
            first, end = max(start, 0), min(stop, len(part))
            if first < end:
                yield part.slice(first, end - first)
            start, stop = start - len(part), stop - len(part)


def joined(taken: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """What several takes gave, as one sequence; an empty list for nothing. Called by poll()."""
    if len(taken) == 1:
        return taken[0]
    columnar = [each for each in taken if isinstance(each, ColumnarRecords)]
    if columnar and len(columnar) == len(taken):
        return ColumnarRecords([part for each in columnar for part in each.parts])
    return [record for each in taken for record in each]


def _headers(column: Any) -> list[ReadHeaders]:
    """The headers of each row. Each has a name (`CorruptBatches`), and some no value."""
    return [
        tuple((header["key"], header["value"]) for header in row if header is not None) if row else ()
        for row in column.to_pylist()
    ]
