"""Compares the logs of all replicas of a partition on disk, byte by byte.

It reads the segments itself and not through the broker's storage, so that a mistake in the broker's writes is
not hidden by the same mistake in its reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hightide.batch.header import HEADER_SIZE_BYTES, BatchError, parse, verify_crc

from hightide_local.histories.violation import require


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch on disk. `content` has all its bytes, with the base offset and the leader epoch that the
    leader set."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    content: bytes

    def __str__(self) -> str:
        return (
            f"[{self.base_offset}, {self.next_offset}) epoch {self.leader_epoch}, {len(self.content)} bytes"
        )


def partition_directory(data_directories: Sequence[Path], topic_id: bytes, partition: int) -> Path:
    """The directory of a partition, in one of a broker's data directories. Raises ViolationError if it is in
    several."""
    places = [path / f"{topic_id.hex()}-{partition}" for path in data_directories]
    found = [place for place in places if place.exists()]
    require(len(found) <= 1, "a partition is in one directory", found)
    return found[0] if found else places[0]


def stored_batches(directory: Path, high_watermark: int) -> Iterator[StoredBatch]:
    """The batches of one replica below the high watermark, in order, each with a valid CRC. Raises BatchError
    at the first batch that is not complete. Bytes after the high watermark are not read."""
    reached = 0
    for segment in sorted(directory.glob("*.log")):
        content = memoryview(segment.read_bytes())
        at = 0
        while at < len(content) and reached < high_watermark:
            header = parse(content, at)
            verify_crc(content, at, header)
            size = header.size_bytes
            if size < HEADER_SIZE_BYTES:
                raise BatchError(f"a batch of {size} bytes at {at}")
            yield StoredBatch(
                header.base_offset, header.next_offset, header.leader_epoch, bytes(content[at : at + size])
            )
            at += size
            reached = header.next_offset


def read_below(directory: Path, high_watermark: int) -> tuple[list[StoredBatch], list[str]]:
    """The batches of one replica below the high watermark, and the faults of this replica alone."""
    batches: list[StoredBatch] = []
    faults: list[str] = []
    try:
        for batch in stored_batches(directory, high_watermark):
            if batches and batch.base_offset != batches[-1].next_offset:
                faults.append(f"{directory}: {batches[-1]} is followed by {batch}")
            if batches and batch.leader_epoch < batches[-1].leader_epoch:
                faults.append(f"{directory}: the leader epoch falls from {batches[-1]} to {batch}")
            batches.append(batch)
    except BatchError as error:
        faults.append(f"{directory}: behind offset {batches[-1].next_offset if batches else 0}: {error}")
    end = batches[-1].next_offset if batches else 0
    if end < high_watermark:
        faults.append(f"{directory}: it ends at {end}, below the high watermark {high_watermark}")
    if end > high_watermark:
        faults.append(f"{directory}: the high watermark {high_watermark} is inside of {batches[-1]}")
    return batches, faults


def differences(replicas: Mapping[int, Path], high_watermark: int) -> list[str]:
    """The differences between the replicas of one partition below the high watermark, and their faults. Empty
    if they are byte-identical.

    `replicas` are the partition's directories by broker. Offsets that retention has deleted on one of them
    are not compared.
    """
    if high_watermark == 0:
        return []
    read = {broker_id: read_below(directory, high_watermark) for broker_id, directory in replicas.items()}
    found = [fault for _, faults in read.values() for fault in faults]
    logs = {broker_id: batches for broker_id, (batches, _) in read.items() if batches}
    start = max((batches[0].base_offset for batches in logs.values()), default=0)
    first_broker, *others = logs or [-1]
    expected = [batch for batch in logs.get(first_broker, []) if batch.base_offset >= start]
    for broker_id in others:
        actual = [batch for batch in logs[broker_id] if batch.base_offset >= start]
        if actual == expected:
            continue
        pair = next(((a, b) for a, b in zip(expected, actual, strict=False) if a != b), None)
        where = f"{pair[0]} and {pair[1]}" if pair else f"{len(expected)} and {len(actual)} batches"
        found.append(f"brokers {first_broker} and {broker_id} differ ({replicas[broker_id].name}): {where}")
    return found
