"""The wide tables of topics tell what is on disk, and who is behind."""

from hightide import (
    PartitionDescription,
    ReplicaDescription,
    ReplicaListing,
    TopicDescription,
    TopicPartition,
)
from hightide_cli.topic.tables import wide_listing, wide_partitions

TOPIC = TopicDescription(
    "t",
    b"i" * 16,
    (PartitionDescription(0, 1, 3, (1, 2), (1, 2), 5), PartitionDescription(1, None, 1, (2, 1), (2,), 2)),
    {"flush": "fsync"},
)


def replica(
    broker: int, partition: int, end: int, *, leads: bool = False, epoch: int = 3, topic_id: bytes = b"i" * 16
) -> ReplicaDescription:
    here = TopicPartition("t", partition)
    return ReplicaDescription(here, topic_id, broker, leads, epoch, 10, end, end - 1, end * 100)


LISTING = ReplicaListing(
    (
        replica(1, 0, 50, leads=True),
        replica(2, 0, 40),
        # It was deposed and does not know it, and there is a namesake of the topic that is not gone yet.
        replica(2, 0, 99, leads=True, epoch=2),
        replica(3, 0, 7, leads=True, epoch=9, topic_id=b"j" * 16),
    )
)


def test_a_listing_tells_what_is_unwell_and_how_much_there_is() -> None:
    listing = ReplicaListing(LISTING.replicas[:2])
    heading, row = wide_listing([TOPIC], listing).splitlines()
    assert heading.split()[:6] == [
        "TOPIC",
        "PARTITIONS",
        "REPLICAS",
        "OFFLINE",
        "UNDER-REPLICATED",
        "RECORDS",
    ]
    assert row.split() == ["t", "2", "2", "1", "1", "39", "9", "kB", (b"i" * 16).hex(), "flush=fsync"]


def test_a_partition_tells_how_far_its_log_went_and_who_is_behind() -> None:
    _, led, offline = wide_partitions(TOPIC, LISTING).splitlines()
    assert led.split() == ["0", "1", "3", "5", "1,2", "1,2", "10", "49", "50", "5", "kB", "2:10"]
    assert offline.split() == ["1", "-", "1", "2", "2,1", "2", *["-"] * 5]
