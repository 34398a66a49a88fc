"""Two replicas that are both whole and differ: the controller says which, and where, and elects nobody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide import Admin, PartitionDescription, Producer, TopicPartition
from hightide.batch.checksum import crc32c
from hightide.batch.header import CRC_COVERS_FROM, parse, verify_crc
from hightide_local.cluster import LocalCluster
from hightide_local.histories.replica_logs import partition_directory
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

HEALED_S = 60.0
CRC_AT = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, broker_arguments=("--scrub-interval-ms", "500")) as running:
        yield running


def forge(path: Path) -> None:
    """Let the first batch of a segment hold another value, under a CRC that fits."""
    content = bytearray(path.read_bytes())
    header = parse(content, 0)
    at = content.index(b"right", 0, header.size_bytes)
    content[at : at + 5] = b"wrong"
    crc = crc32c(memoryview(content)[CRC_COVERS_FROM : header.size_bytes])
    content[CRC_AT : CRC_AT + 4] = crc.to_bytes(4, "little")
    verify_crc(content, 0, parse(content, 0))
    path.write_bytes(content)


def test_a_follower_that_has_other_records_than_its_leader_is_told_with_where_they_are(
    cluster: LocalCluster,
) -> None:
    with Admin(cluster.bootstrap) as admin:
        topic = admin.create_topic("forged", assignment=[[1, 2, 3]])
        with Producer(cluster.bootstrap, linger_ms=0) as producer:
            for _ in range(3):
                producer.send("forged", b"right", partition=0).result(HEALED_S)
        cluster.terminate("broker-2")
        place = partition_directory(cluster.data_directories(2), topic.topic_id, 0)
        forge(place / f"{0:020d}.log")
        cluster.restart("broker-2")

        def complaints() -> dict[str, str]:
            found = admin.describe_cluster().complaints
            return {each.subject: each.message for each in found if "forged-0" in each.subject}

        told = wait_until("the difference is told", complaints, HEALED_S)
        ((subject, message),) = told.items()
        assert "broker 2" in subject
        assert "other batches than its leader, broker 1, somewhere in the offsets 0 to " in message
        (partition,) = admin.describe_topics(["forged"])[0].partitions
        assert (partition.leader, set(partition.isr)) == (1, {1, 2, 3}), "nobody can say which is right"

        controller = cluster.active_controller()
        cluster.kill(controller)
        assert cluster.active_controller(HEALED_S) != controller
        wait_until("the next controller hears of it, too", complaints, HEALED_S)
        cluster.restart(controller, wait=False)

        cluster.terminate("broker-2")
        shutil.rmtree(place)
        cluster.restart("broker-2")
        wait_until("it is made anew, and well", lambda: not complaints(), HEALED_S)


def test_where_the_follower_is_right_it_leads_and_the_other_is_made_anew(cluster: LocalCluster) -> None:
    """The second way of docs/operating.md, "When two replicas differ"."""
    with Admin(cluster.bootstrap) as admin:
        topic = admin.create_topic("forged-leader", assignment=[[1, 2]])
        partition = TopicPartition("forged-leader", 0)
        with Producer(cluster.bootstrap, linger_ms=0) as producer:
            for _ in range(3):
                producer.send("forged-leader", b"right", partition=0).result(HEALED_S)
        cluster.terminate("broker-1")
        place = partition_directory(cluster.data_directories(1), topic.topic_id, 0)
        forge(place / f"{0:020d}.log")
        cluster.restart("broker-1")

        def described() -> PartitionDescription:
            return admin.describe_topics(["forged-leader"])[0].partitions[0]

        def subjects() -> set[str]:
            found = admin.describe_cluster().complaints
            return {each.subject for each in found if "forged-leader-0" in each.subject}

        wait_until("both are in sync", lambda: set(described().isr) == {1, 2}, HEALED_S)
        admin.elect_leaders("preferred", [partition])
        wait_until("the forged one leads", lambda: described().leader == 1, HEALED_S)
        wait_until("the other differs", lambda: any("broker 2" in each for each in subjects()), HEALED_S)

        admin.reassign_partitions({partition: [2, 1]})
        admin.elect_leaders("preferred", [partition])
        wait_until("the other leads", lambda: described().leader == 2, HEALED_S)
        wait_until(
            "the forged one differs, and nobody else",
            lambda: ["broker 1" in each for each in subjects()] == [True],
            HEALED_S,
        )
        cluster.terminate("broker-1")
        shutil.rmtree(place)
        cluster.restart("broker-1")
        wait_until("it is made anew, and well", lambda: not subjects(), HEALED_S)
