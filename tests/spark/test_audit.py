"""Replicas that are the same pass; one that was altered on the disk is told with its offset and broker."""

from typing import TYPE_CHECKING

from flight_topics import flights, write_rows
from hightide import Admin
from hightide.batch.header import parse
from hightide_local.cluster import LocalCluster
from hightide_spark.pipelines.audit import audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_an_altered_replica_is_told(spark: "SparkSession", cluster: LocalCluster, topic: str) -> None:
    rows = flights()[:2_000]
    write_rows(cluster.bootstrap, topic, rows)
    clean = audit(spark, cluster.bootstrap, [topic])
    assert clean.is_clean
    assert (clean.partitions, clean.records) == (2, len(rows))
    assert clean.batches > 0
    assert clean.batches % 3 == 0

    with Admin(cluster.bootstrap) as admin:
        (described,) = admin.describe_topics([topic])
    part = described.partitions[1]
    follower = next(broker_id for broker_id in part.replicas if broker_id != part.leader)
    (folder,) = (
        found
        for directory in cluster.data_directories(follower)
        for found in directory.glob(f"{described.topic_id.hex()}-1")
    )
    (segment,) = folder.glob("*.log")
    with segment.open("r+b") as log:
        # The CRC covers neither offset nor leader epoch: this is an append by another leader.
        header = parse(log.read(80))
        log.seek(0)
        log.write(header.stamped(header.base_offset, header.leader_epoch + 1).pack())
    altered = audit(spark, cluster.bootstrap, [topic])
    assert not altered.is_clean
    (found,) = altered.divergences
    assert (found.topic, found.partition, found.offset) == (topic, 1, header.base_offset)
    assert found.differing == ("leader_epoch",)
    assert f"{header.leader_epoch + 1} on broker {follower}" in found.sentence()

    with segment.open("r+b") as log:
        log.seek(header.size_bytes - 1)
        last = log.read(1)[0]
        log.seek(header.size_bytes - 1)
        log.write(bytes([last ^ 0xFF]))
    broken = audit(spark, cluster.bootstrap, [topic])
    (unread,) = broken.unread
    assert (unread.topic, unread.partition, unread.broker_id, unread.offset) == (topic, 1, follower, 0)
    assert "CRC" in unread.reason
