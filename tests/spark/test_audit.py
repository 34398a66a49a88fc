"""Replicas that are the same pass; one that was altered on the disk is told with its offset and broker."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flight_topics import flights, write_rows
from hightide import Admin
from hightide.batch.checksum import crc32c
from hightide.batch.header import CRC_COVERS_FROM, HEADER_SIZE_BYTES, BatchHeader, parse
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_spark.pipelines.audit import audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def alter_the_first_batch(segment: Path) -> BatchHeader:
    """Make 2013 another year in some of its values, and its CRC a good one again."""
    content = bytearray(segment.read_bytes())
    header = parse(content)
    at = content.index(b'"year":2013', HEADER_SIZE_BYTES, header.size_bytes) + len(b'"year":201')
    content[at : at + 1] = b"4"
    altered = replace(header, crc=crc32c(memoryview(content)[CRC_COVERS_FROM : header.size_bytes]))
    content[:HEADER_SIZE_BYTES] = altered.pack()
    segment.write_bytes(content)
    return altered


def test_an_altered_replica_is_told(spark: "SparkSession", cluster: LocalCluster, topic: str) -> None:
    rows = flights()[:2_000]
    write_rows(cluster.bootstrap, topic, rows)
    with Admin(cluster.bootstrap) as admin:

        def all_in_sync() -> bool:
            (described,) = admin.describe_topics([topic])
            return all(set(each.isr) == set(each.replicas) for each in described.partitions)

        wait_until("all replicas are in sync", all_in_sync, 60)
        clean = audit(spark, cluster.bootstrap, [topic])
        assert clean.is_clean
        assert (clean.partitions, clean.records) == (2, len(rows))
        assert clean.batches > 0
        assert clean.batches % 3 == 0

        (described,) = admin.describe_topics([topic])
        altered_one = described.partitions[1]
        follower = next(each for each in altered_one.replicas if each != altered_one.leader)
        cluster.terminate(f"broker-{follower}")
        (segment,) = (
            found
            for directory in cluster.data_directories(follower)
            for found in directory.glob(f"{described.topic_id.hex()}-1/*.log")
        )
        header = alter_the_first_batch(segment)
        cluster.restart(f"broker-{follower}")
        wait_until("all replicas are in sync again", all_in_sync, 60)
    altered = audit(spark, cluster.bootstrap, [topic])
    (found,) = altered.divergences
    assert not altered.is_clean
    assert (found.topic, found.partition, found.offset) == (topic, 1, header.base_offset)
    assert found.differing == ("crc", "content")
    assert f"{header.crc:08x} on broker {follower}" in found.sentence()
