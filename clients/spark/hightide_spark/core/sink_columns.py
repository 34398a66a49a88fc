"""The columns of a write: `value` and optionally `key`, `topic`, `partition` and `headers`, as of Spark's
Kafka sink, and also `timestamp`. Other columns are ignored, as there.

The partition of a row depends on the row alone, since a task that runs again may see its rows in another
order. It is the partition that the row names, else that of the SDK's partitioner for its key, else that of a
hash of its value.

Cost: for a row with a key one CRC-32C, by a C function mapped over the column, 0.1 us for a short key. All
other work is done by Arrow or numpy.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from hightide.batch.body import HEADERS_TYPE, TIMESTAMP_TYPE
from hightide.producing.partitioner import crc32c

from hightide_spark.errors import SparkConnectorError, UnsupportedSchemaError

_TEXT: Final = ("string", "binary")
_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
_SENT_AS: Final[Mapping[str, Any]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "timestamp": TIMESTAMP_TYPE,
    "headers": HEADERS_TYPE,
}

_WORD_BYTES: Final = 8
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)

Numbers = npt.NDArray[np.int64]


class UnsupportedRowError(SparkConnectorError, ValueError):
    """A row that cannot be written: it names no topic, or an unknown partition, or has a null in a column
    that allows none."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows for one partition, in their order; the columns are those that the SDK's send_arrow takes."""

    topic: str
    partition: int
    rows: Any


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The columns of a write, and the topic of all rows, if there is one."""

    names: frozenset[str]
    topic: str | None

    @property
    def has_timestamps(self) -> bool:
        """Whether rows have their timestamps."""
        return "timestamp" in self.names

    def share_out(
        self, rows: Any, partition_count: Callable[[str], int], row_name: Callable[[int], str]
    ) -> Iterator[Group]:
        """Divide rows, a `pyarrow.RecordBatch` from Spark, by partition. `row_name` names a row in errors by
        its index. Raises UnsupportedRowError, and what `partition_count` raises."""
        if not rows.num_rows:
            return
        self._check_nulls(rows, row_name)
        topics, topic_of = self._topics(rows, row_name)
        counts = np.array([partition_count(topic) for topic in topics], np.int64)
        partitions = self._partitions(rows, topics, topic_of, counts, row_name)
        firsts = np.cumsum(counts) - counts
        targets = partitions + (firsts[topic_of] if len(topics) > 1 else 0)
        kept = [name for name in _SENT_AS if name in self.names]
        sent = pa.RecordBatch.from_arrays([rows.column(name).cast(_SENT_AS[name]) for name in kept], kept)
        # Each partition's rows are copied separately, so that waiting rows of one keep none of another's in
        # memory.
        for target, group in _grouped(sent, targets, int(counts.sum())):
            number = int(np.searchsorted(firsts, target, side="right")) - 1
            yield Group(topics[number], target - int(firsts[number]), group)

    def _check_nulls(self, rows: Any, row_name: Callable[[int], str]) -> None:
        if self.has_timestamps:
            times = rows.column("timestamp")
            if times.null_count:
                raise UnsupportedRowError(
                    f"{row_name(_first(times.is_null()))} has no timestamp; give every row one, or leave the "
                    "column out, so that it is the time of the write"
                )
            early = pc.less(times.cast(pa.int64()), 0)
            if pc.any(early).as_py():
                raise UnsupportedRowError(
                    f"{row_name(_first(early))} has the timestamp {times[_first(early)].as_py()}, before 1970"
                )
        if "headers" not in self.names:
            return
        headers = rows.column("headers")
        names = headers.flatten().field(0) if headers.flatten().null_count == 0 else None
        if names is None or names.null_count:
            row = next(
                at
                for at, each in enumerate(headers.to_pylist())
                if each is not None and any(header is None or header["key"] is None for header in each)
            )
            raise UnsupportedRowError(f"{row_name(row)} has a header without a key")

    def _topics(self, rows: Any, row_name: Callable[[int], str]) -> tuple[list[str], Numbers]:
        """The topics of these rows, and the topic of each row."""
        if self.topic is not None:
            return [self.topic], np.zeros(rows.num_rows, np.int64)
        column = rows.column("topic")
        if column.null_count:
            raise UnsupportedRowError(
                f"{row_name(_first(column.is_null()))} has a null topic; give every row one, or set option "
                "topic"
            )
        encoded = column.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)

    def _partitions(
        self, rows: Any, topics: list[str], topic_of: Numbers, counts: Numbers, row_name: Callable[[int], str]
    ) -> Numbers:
        counts_of = counts[topic_of] if len(topics) > 1 else counts[0]
        if "partition" not in self.names or rows.column("partition").null_count == rows.num_rows:
            hashed: Numbers = self._hashes(rows, counts) % counts_of
            return hashed
        named = rows.column("partition")
        partitions: Numbers = named.fill_null(0).to_numpy().astype(np.int64)
        bad = (partitions < 0) | (partitions >= counts_of)
        if bad.any():
            at = int(bad.argmax())
            topic = int(topic_of[at])
            raise UnsupportedRowError(
                f"{row_name(at)} names partition {partitions[at]} of topic {topics[topic]}, which has the "
                f"partitions 0 to {counts[topic] - 1}"
            )
        if named.null_count:
            free = named.is_null().to_numpy(zero_copy_only=False)
            partitions[free] = (self._hashes(rows, counts) % counts_of)[free]
        return partitions

    def _hashes(self, rows: Any, counts: Numbers) -> Numbers:
        """The number of each row that decides its partition."""
        if counts.max() == 1:
            return np.zeros(rows.num_rows, np.int64)
        keys = rows.column("key").cast(pa.binary()) if "key" in self.names else None
        values = rows.column("value").cast(pa.binary())
        if keys is None or keys.null_count == len(keys):
            return value_hashes(values)
        filled = (keys.fill_null(b"") if keys.null_count else keys).to_pylist()
        hashes: Numbers = np.fromiter(map(crc32c, filled), np.int64, len(filled))
        if keys.null_count:
            keyless = keys.is_null().to_numpy(zero_copy_only=False)
            hashes[keyless] = value_hashes(values.filter(pa.array(keyless)))
        return hashes


def sink_columns(schema: Mapping[str, str], topic: str | None) -> SinkColumns:
    """The columns of a write, from their names and Spark's names of their types. Raises
    UnsupportedSchemaError."""
    if "value" not in schema:
        raise UnsupportedSchemaError(
            f"a write to hightide needs the column value (string or binary); the columns are "
            f"{', '.join(schema) or 'none'}"
        )
    if topic is None and "topic" not in schema:
        raise UnsupportedSchemaError(
            'a write to hightide needs .option("topic", …) or a column topic (string); the columns are '
            + ", ".join(schema)
        )
    for name, allowed in _ALLOWED.items():
        if name in schema and schema[name] not in allowed:
            raise UnsupportedSchemaError(
                f"column {name} is {schema[name]}; a write to hightide takes {' or '.join(allowed)}; cast it"
            )
    return SinkColumns(frozenset(name for name in _ALLOWED if name in schema), topic)


def _first(mask: Any) -> int:
    return int(pc.index(mask, True).as_py())


def _grouped(rows: Any, targets: Numbers, target_count: int) -> Iterator[tuple[int, Any]]:
    """(target, its rows in their order) for each target that has rows."""
    if target_count <= 1 << 16:
        # numpy sorts 16-bit numbers by radix.
        targets = targets.astype(np.uint16)
    ends = np.cumsum(np.bincount(targets, minlength=target_count))
    order: Numbers | None = None
    start = 0
    for target, end in enumerate(ends.tolist()):
        if end - start == rows.num_rows:
            yield target, rows
            return
        if end > start:
            order = np.argsort(targets, kind="stable") if order is None else order
            yield target, rows.take(pa.array(order[start:end]))
            start = end


def value_hashes(values: Any) -> Numbers:
    """A number from 0 to 2^31 - 1 of each of these binary values, by its bytes alone.

    It is the sum of the value's 64-bit words, each times a factor that belongs to the word's place. Zeros pad
    the last word. So the hash does not depend on how far a value is padded with zeros to fill a matrix.
    """
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
    hashes = np.empty(len(lengths), np.int64)
    left = np.arange(len(lengths))
    while len(left):
        # All values of one matrix are padded to its longest one, so a few long values get one of their own.
        are_alike = lengths[left] <= max(_WORD_BYTES, 2 * lengths[left].mean())
        alike, left = left[are_alike], left[~are_alike]
        part = values if len(alike) == len(lengths) else values.take(pa.array(alike))
        hashes[alike] = _alike_hashes(part, int(lengths[alike].max()))
    return hashes


def _alike_hashes(values: Any, length_max: int) -> Numbers:
    word_count = length_max // _WORD_BYTES + 1
    # Arrow pads only strings. It does not check that they are text, and ascii_rpad counts bytes.
    text = (values.fill_null(b"") if values.null_count else values).view(pa.string())
    filled = pc.ascii_rpad(text, word_count * _WORD_BYTES, padding="\0")
    start = filled.offset * word_count
    words = np.frombuffer(filled.buffers()[2], np.uint64)[start : start + len(filled) * word_count]
    factors = np.cumprod(np.full(word_count, _FACTOR, np.uint64))
    sums = words.reshape(-1, word_count) @ factors
    sums = (sums ^ (sums >> np.uint64(32))) * _FACTOR
    hashes: Numbers = (sums >> np.uint64(33)).astype(np.int64)
    return hashes
