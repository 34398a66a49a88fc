"""The partition of a record: crc32c(key) modulo the number of partitions, the same in every client."""

import google_crc32c

crc32c = google_crc32c.value


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a record with this key, in [0, partition_count). Called by every producer for every
    keyed record; equal keys always go to one partition, as long as the number of partitions stays the
    same."""
    assert partition_count > 0, "a topic has at least one partition"
    return int(crc32c(key)) % partition_count
