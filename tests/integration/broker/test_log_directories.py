"""Disks fail and fill up under brokers that have two of them each; clients notice nothing but time.

The brokers are real processes; what the operating system tells them of a disk is made to fail
(`broker_on_faulty_disks`). Every test is a `FaultDrill`: nothing acknowledged is lost, no client sees an
error, and when all is mended the replicas are byte-identical.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from adversary.batches import good_batch
from adversary.raw_client import name_of
from adversary.target import Target, code_in, fetch_result, produce_result
from hightide import PartitionDescription
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S, FaultDrill
from hightide_local.histories.replica_logs import partition_directory
from hightide_local.histories.waiting import wait_until
from hightide_runtime.znodes.coordination_znode import Coordination

pytestmark = pytest.mark.cluster

PROGRAM = "hightide_bench.campaign.broker_on_faulty_disks"
EIO, ENOSPC = "EIO", "ENOSPC"


@pytest.fixture(
    scope="module",
    params=[Coordination.CONTROLLER, Coordination.LEADERS],
    ids=str,
)
def shared_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("disks"),
        data_directories_per_broker=2,
        session_timeout_ms=6_000,
        replica_lag_time_max_ms=3_000,
        broker_program=(sys.executable, "-m", PROGRAM),
        coordination=request.param,
    ) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster with disks that work, whatever a test before this one left."""
    yield shared_cluster
    for broker_id in shared_cluster.brokers:
        for directory in shared_cluster.data_directories(broker_id):
            for name in (EIO, ENOSPC):
                switch(directory, name).unlink(missing_ok=True)
    for name in set(shared_cluster.names) - set(shared_cluster.running()):
        shared_cluster.restart(name, wait=False)
    shared_cluster.wait_ready()


def switch(directory: Path, name: str) -> Path:
    """The file whose existence makes calls below the directory fail."""
    return directory.with_name(f"{directory.name}.{name}")


@contextmanager
def failing(directory: Path, name: str) -> Iterator[None]:
    """In the with-block, the disk of this data directory fails so."""
    switch(directory, name).touch()
    try:
        yield
    finally:
        switch(directory, name).unlink()


def homes(cluster: LocalCluster, drill: FaultDrill, broker_id: int) -> dict[int, Path]:
    """The data directory that each partition of the drill's topic has on a broker."""
    (described,) = drill.admin.describe_topics([drill.topic])
    return {
        partition.partition: partition_directory(
            cluster.data_directories(broker_id), described.topic_id, partition.partition
        ).parent
        for partition in described.partitions
    }


def wait_for(drill: FaultDrill, what: str, partitions: set[int], condition: object) -> None:
    """Wait until each of these partitions is as the condition says."""
    assert callable(condition)
    wait_until(
        f"{what}: partitions {sorted(partitions)} of {drill.topic}",
        lambda: all(condition(each) for each in drill.describe() if each.partition in partitions),
        HEALED_S,
    )


def test_a_disk_that_fails_takes_down_only_what_lives_there(cluster: LocalCluster) -> None:
    """The broker leads on from its other disk, in the same epoch; the rest is led by others at once."""
    with FaultDrill(cluster, "one-disk-fails") as drill:
        leader = drill.leader()
        where = homes(cluster, drill, leader)
        broken = where[1]
        gone = {partition for partition, home in where.items() if home == broken}
        kept = set(where) - gone
        assert kept, f"all partitions of broker {leader} are on one disk: {where}"
        pid = cluster.running()[f"broker-{leader}"]
        before = drill.describe()
        with failing(broken, EIO):
            wait_for(drill, "other leaders", gone, lambda each: each.leader not in (None, leader))
            wait_for(drill, "an ISR without the broker", gone, lambda each: leader not in each.isr)
            drill.wait_for_progress()
            for partition in kept:
                assert led(drill.describe()[partition]) == led(before[partition]), "it was touched"
            assert cluster.running()[f"broker-{leader}"] == pid
        drill.restart(leader)
        drill.wait_for_isr(3)
        drill.wait_for_progress()
        assert homes(cluster, drill, leader) == where


def led(partition: PartitionDescription) -> tuple[int | None, int]:
    return partition.leader, partition.leader_epoch


def test_a_disk_that_fails_under_followers_costs_them_the_isr_and_nobody_a_leader(
    cluster: LocalCluster,
) -> None:
    with FaultDrill(cluster, "follower-disk-fails", flush="fsync") as drill:
        leaders = [each.leader for each in drill.describe()]
        follower = next(each for each in cluster.brokers if each not in leaders)
        broken = homes(cluster, drill, follower)[0]
        with failing(broken, EIO):
            drill.wait_for_progress()
            wait_for(drill, "an ISR without the broker", {0}, lambda each: follower not in each.isr)
            drill.wait_for_progress()
            assert [each.leader for each in drill.describe()] == leaders
        drill.restart(follower)
        drill.wait_for_isr(3)


@pytest.mark.parametrize("ended_by", ["terminate", "kill"])
def test_a_broker_that_starts_without_one_disk_serves_the_other_and_begins_nothing_anew(
    cluster: LocalCluster, ended_by: str
) -> None:
    with FaultDrill(cluster, f"starts-without-after-{ended_by}") as drill:
        broker_id = drill.leader()
        where = homes(cluster, drill, broker_id)
        broken = where[1]
        gone = {partition for partition, home in where.items() if home == broken}
        end = cluster.terminate if ended_by == "terminate" else cluster.kill
        end(f"broker-{broker_id}")
        with failing(broken, EIO):
            drill.restart(broker_id)
            cluster.wait_ready()
            wait_for(drill, "an ISR with the broker", set(where) - gone, lambda each: broker_id in each.isr)
            wait_for(drill, "an ISR without the broker", gone, lambda each: broker_id not in each.isr)
            drill.wait_for_progress()
            # Any other name would be the first partition that is begun anew.
            assert homes(cluster, drill, broker_id) == where
            beside = f"created-{drill.topic}"
            drill.admin.create_topic(beside, assignment=[[broker_id]])
            assert Target(cluster.bootstrap, beside).leader_id == broker_id
        end(f"broker-{broker_id}")
        drill.restart(broker_id)
        drill.wait_for_isr(3)
        assert homes(cluster, drill, broker_id) == where


def test_without_any_disk_the_broker_ends_and_says_why(cluster: LocalCluster) -> None:
    with FaultDrill(cluster, "no-disk-left") as drill:
        leader = drill.leader()
        first, second = cluster.data_directories(leader)
        with failing(first, EIO), failing(second, EIO):
            wait_until("the broker ends", lambda: f"broker-{leader}" not in cluster.running(), HEALED_S)
            drill.wait_for_other_leaders(leader)
            drill.wait_for_progress()
        assert "no data directory is left" in cluster.log_tail(f"broker-{leader}", 50)
        drill.restart(leader)
        drill.wait_for_isr(3)


def test_a_full_disk_refuses_writes_and_not_reads_and_takes_writes_again_when_there_is_room(
    cluster: LocalCluster,
) -> None:
    with FaultDrill(cluster, "disk-full") as drill:
        leader = drill.leader()
        pid = cluster.running()[f"broker-{leader}"]
        before = [led(each) for each in drill.describe()]
        aside = Target.beside_others(cluster.bootstrap, drill.topic)
        assert aside.leader_id == leader
        first, second = cluster.data_directories(leader)
        with failing(first, ENOSPC), failing(second, ENOSPC):
            refused = good_batch(aside.topic_id, 0, [b"no room"])
            for acks in (broker_pb2.ACKS_ALL, broker_pb2.ACKS_LEADER):
                assert code_in(aside.send_produce(refused, acks=acks), produce_result) == "DISK_FULL"
            read = fetch_result(aside.send_fetch(0))
            assert name_of(read.error_code) == "OK"
            assert read.batches
        drill.wait_for_progress()
        assert [led(each) for each in drill.describe()] == before
        assert cluster.running()[f"broker-{leader}"] == pid
        aside.close()


def test_a_follower_whose_disk_is_full_leaves_the_isr_and_comes_back_by_itself(cluster: LocalCluster) -> None:
    with FaultDrill(cluster, "follower-disk-full") as drill:
        leaders = [each.leader for each in drill.describe()]
        follower = next(each for each in cluster.brokers if each not in leaders)
        first, second = cluster.data_directories(follower)
        with failing(first, ENOSPC), failing(second, ENOSPC):
            drill.wait_for_isr(2)
            drill.wait_for_progress()
        drill.wait_for_isr(3)
        drill.wait_for_progress()


def test_a_broker_starts_on_full_disks_and_serves_reads(cluster: LocalCluster) -> None:
    with FaultDrill(cluster, "starts-full") as drill:
        broker_id = drill.leader()
        first, second = cluster.data_directories(broker_id)
        with failing(first, ENOSPC), failing(second, ENOSPC):
            cluster.kill(f"broker-{broker_id}")
            drill.restart(broker_id)
            cluster.wait_ready()
            drill.wait_for_progress()
        drill.wait_for_isr(3)
        drill.wait_for_progress()
