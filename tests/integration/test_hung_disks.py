"""A sync that does not return: what lives on that disk is led by others, and the broker's event loop never
notices, since it waits for no sync."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S, Drill
from hightide_local.histories.replica_logs import partition_directory
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

PROGRAM = "hightide_bench.campaign.broker_on_faulty_disks"
DISK_TIMEOUT_MS = 3_000


def cluster_of(directory: Path, disks: int) -> LocalCluster:
    return LocalCluster(
        directory,
        data_directories_per_broker=disks,
        session_timeout_ms=8_000,
        broker_program=(sys.executable, "-m", PROGRAM),
        broker_arguments=("--disk-timeout-ms", str(DISK_TIMEOUT_MS)),
    )


@contextmanager
def stuck(directory: Path) -> Iterator[None]:
    """In the with-block, no sync on this disk returns."""
    switch = directory.with_name(f"{directory.name}.STUCK")
    switch.touch()
    try:
        yield
    finally:
        switch.unlink()


@pytest.fixture(scope="module")
def two_disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with cluster_of(tmp_path_factory.mktemp("stuck"), disks=2) as cluster:
        yield cluster


def test_what_lives_on_a_disk_whose_sync_does_not_return_is_led_by_others(two_disks: LocalCluster) -> None:
    cluster = two_disks
    with Drill(cluster, "stuck-sync", flush="fsync", request_timeout_ms=2_000) as drill:
        leader = drill.leader()
        (described,) = drill.admin.describe_topics([drill.topic])
        homes = {
            each.partition: partition_directory(
                cluster.data_directories(leader), described.topic_id, each.partition
            ).parent
            for each in described.partitions
        }
        broken = homes[1]
        gone = {number for number, home in homes.items() if home == broken}
        pid = cluster.running()[f"broker-{leader}"]
        with stuck(broken):
            wait_until(
                "others lead what lives there",
                lambda: all(
                    each.leader not in (None, leader) for each in drill.describe() if each.partition in gone
                ),
                HEALED_S,
            )
            drill.wait_for_progress()
            assert cluster.running()[f"broker-{leader}"] == pid
            kept = [each for each in drill.describe() if each.partition not in gone]
            assert all(each.leader == leader for each in kept), "its other disk is well"
        drill.restart(leader)
        drill.wait_for_isr(3)


def test_a_broker_whose_only_disk_hangs_in_a_sync_gives_its_registration_up(tmp_path: Path) -> None:
    with (
        cluster_of(tmp_path, disks=1) as cluster,
        Drill(cluster, "only-disk", flush="fsync", request_timeout_ms=2_000) as drill,
    ):
        leader = drill.leader()
        with stuck(cluster.data_directory(leader)):
            drill.wait_for_other_leaders(leader)
            drill.wait_for_progress()
            wait_until(
                "it is registered no more",
                lambda: all(
                    each.broker_id != leader or not each.alive
                    for each in drill.admin.describe_cluster().brokers
                ),
                HEALED_S,
            )
        drill.restart(leader)
        drill.wait_for_isr(3)
