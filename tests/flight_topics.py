"""Flights written into topics and read back, for the tests of the pipelines on Spark."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hightide import Consumer, Producer, Record
from hightide_bench.measuring.comparison import RecordRow
from hightide_demo.flights import flights_file, read_flights

ROWS_MAX = 4_000


@cache
def flights() -> list[RecordRow]:
    """The first flights of January 2013."""
    return read_flights(flights_file(), ROWS_MAX)


def write_rows(bootstrap: str, topic: str, rows: Sequence[RecordRow]) -> None:
    with Producer(bootstrap) as producer:
        deliveries = [producer.send(topic, row.value, row.key) for row in rows]
        producer.flush()
        for each in deliveries:
            each.result(0)


def read_back(bootstrap: str, topic: str) -> list[Record]:
    with Consumer(bootstrap, topics=[topic]) as consumer:
        return list(consumer.read_to_end())


def forget_from(checkpoint: Path, batch_id: int) -> None:
    """Leave Spark's checkpoint as it is when the driver dies after a micro-batch and before noting it."""
    for folder, first in (("commits", batch_id), ("offsets", batch_id + 1)):
        for path in (checkpoint / folder).glob("[0-9]*"):
            if int(path.name) >= first:
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def by_key(rows: Sequence[RecordRow | Record]) -> dict[bytes | None, list[bytes | None]]:
    """The values of each key in their order."""
    found: dict[bytes | None, list[bytes | None]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row.value)
    return found
