"""How a producer chooses the partition of a record with a key: by a hash of the key modulo the number of
partitions, or by a function of the user.

Rules of this file: no clock, no I/O.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import google_crc32c

from hightide.errors import InvalidArgumentError

#: Called with topic, key and the number of partitions; returns the partition, from 0.
Partitioner = Callable[[str, bytes, int], int]
PartitionerName = Literal["crc32c", "murmur2", "crc32"]

crc32c = google_crc32c.value

_MURMUR2_SEED: Final = 0x9747B28C
_MURMUR2_FACTOR: Final = 0x5BD1E995
_UINT32: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed and without its sign, as in `Utils.toPositive(murmur2(key))`
    of Kafka's Java client."""
    length = len(key)
    found = _MURMUR2_SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _MURMUR2_FACTOR & _UINT32
        word = (word ^ word >> 24) * _MURMUR2_FACTOR & _UINT32
        found = found * _MURMUR2_FACTOR & _UINT32 ^ word
    if whole < length:
        found = (found ^ int.from_bytes(key[whole:], "little")) * _MURMUR2_FACTOR & _UINT32
    found = (found ^ found >> 13) * _MURMUR2_FACTOR & _UINT32
    return (found ^ found >> 15) & 0x7FFFFFFF


HASHES: Final[Mapping[str, Callable[[bytes], int]]] = {
    "crc32c": crc32c,
    "murmur2": murmur2,
    "crc32": zlib.crc32,
}


class KeyPartitioning:
    """The choice of partitions of one producer. `hash` is None if a function of the user chooses."""

    __slots__ = ("_choose", "hash")

    def __init__(self, partitioner: PartitionerName | Partitioner) -> None:
        """Raises InvalidArgumentError, naming the value and what it may be."""
        self.hash: Callable[[bytes], int] | None = None
        self._choose: Partitioner | None = None
        if isinstance(partitioner, str) and partitioner in HASHES:
            self.hash = HASHES[partitioner]
        elif callable(partitioner):
            self._choose = partitioner
        else:
            names = ", ".join(f'"{each}"' for each in HASHES)
            raise InvalidArgumentError(
                f"partitioner is {partitioner!r}; it may be {names}, or a function of topic, key and the "
                "number of partitions"
            )

    def partition_of(self, topic: str, key: bytes, partition_count: int) -> int:
        """The partition of a record with this key, in [0, partition_count). Called for every record with a
        key that is sent to no partition by its number, and for a table once for each different key. Raises
        InvalidArgumentError if the user's function returns no partition of the topic, and what it raises."""
        assert partition_count > 0, "a topic has at least one partition"
        if self.hash is not None:
            return self.hash(key) % partition_count
        assert self._choose is not None, "there is a hash or a function"
        chosen: Any = self._choose(topic, key, partition_count)
        if type(chosen) is not int or not 0 <= chosen < partition_count:
            raise InvalidArgumentError(
                f"the partitioner chose {chosen!r} for key {key[:100]!r} of topic {topic}, which has the "
                f"partitions 0 to {partition_count - 1}; let it return one of them as an int"
            )
        return chosen


BY_CRC32C: Final = KeyPartitioning("crc32c")


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a record with this key by default: CRC-32C modulo the number of partitions. Equal keys
    go to one partition, as long as the number of partitions stays the same."""
    assert partition_count > 0, "a topic has at least one partition"
    return int(crc32c(key)) % partition_count
