"""A call to a disk that does not return, which the broker's event loop does not notice where it waits for no
disk: what clients wait for is led by others, and what never comes back is offline, also from the start on."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hightide_local.cluster import LocalCluster
from hightide_local.histories.anomalies import READS_OF_A_DEPOSED_LEADER
from hightide_local.histories.drill import HEALED_S, FaultDrill
from hightide_local.histories.replica_logs import partition_directory
from hightide_local.histories.waiting import wait_until
from hightide_runtime.znodes.coordination_znode import Coordination

pytestmark = pytest.mark.cluster

PROGRAM = "hightide_bench.campaign.broker_on_faulty_disks"
DISK_TIMEOUT_MS = 3_000
SESSION_TIMEOUT_MS = 12_000
"""Long enough for its half to outlast what a busy machine stands still."""


def cluster_of(
    directory: Path,
    disks: int,
    disk_timeout_ms: int = DISK_TIMEOUT_MS,
    coordination: Coordination = Coordination.CONTROLLER,
) -> LocalCluster:
    return LocalCluster(
        directory,
        data_directories_per_broker=disks,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        broker_program=(sys.executable, "-m", PROGRAM),
        broker_arguments=("--disk-timeout-ms", str(disk_timeout_ms)),
        coordination=coordination,
    )


@contextmanager
def stuck(directory: Path, fault: str = "STUCK") -> Iterator[None]:
    """In the with-block, no sync on this disk returns; with HUNG no call at all."""
    switch = directory.with_name(f"{directory.name}.{fault}")
    switch.touch()
    try:
        yield
    finally:
        switch.unlink()


def homes_of(drill: FaultDrill, broker_id: int) -> dict[int, Path]:
    """The data directory that each partition of the drill's topic has on a broker."""
    (described,) = drill.admin.describe_topics([drill.topic])
    directories = drill.cluster.data_directories(broker_id)
    return {
        each.partition: partition_directory(directories, described.topic_id, each.partition).parent
        for each in described.partitions
    }


@pytest.fixture(scope="module", params=[Coordination.CONTROLLER, Coordination.LEADERS], ids=str)
def two_disks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    with cluster_of(tmp_path_factory.mktemp("stuck"), disks=2, coordination=request.param) as cluster:
        yield cluster


def test_what_lives_on_a_disk_whose_sync_does_not_return_is_led_by_others(two_disks: LocalCluster) -> None:
    cluster = two_disks
    with FaultDrill(cluster, "stuck-sync", flush="fsync", request_timeout_ms=2_000) as drill:
        leader = drill.leader()
        homes = homes_of(drill, leader)
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
        FaultDrill(cluster, "only-disk", flush="fsync", request_timeout_ms=2_000) as drill,
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


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two disks, which are given up after ten minutes."""
    with cluster_of(tmp_path_factory.mktemp("patient"), disks=2, disk_timeout_ms=600_000) as cluster:
        yield cluster


def test_others_lead_within_the_session_timeout_until_the_disk_answers(patient: LocalCluster) -> None:
    with FaultDrill(patient, "handed-over", flush="fsync", request_timeout_ms=2_000) as drill:
        leader = drill.leader()
        homes = homes_of(drill, leader)
        gone = {number for number, home in homes.items() if home == homes[1]}
        pid = patient.running()[f"broker-{leader}"]
        began = time.monotonic()
        with stuck(homes[1]):
            wait_until(
                "others lead what lives there",
                lambda: all(
                    each.leader not in (None, leader) for each in drill.describe() if each.partition in gone
                ),
                HEALED_S,
            )
            took_s = time.monotonic() - began
            print(f"led by others {took_s:.1f} s after the disk hung")
            drill.wait_for_progress()
            kept = [each for each in drill.describe() if each.partition not in gone]
            assert all(each.leader == leader for each in kept), "its other disk is well"
            complaints = drill.admin.describe_cluster().complaints
            assert all("waits for its disk" in each.message for each in complaints)
            assert len(complaints) == len(gone)
        drill.wait_for_isr(3)
        wait_until(
            "nothing is complained about", lambda: not drill.admin.describe_cluster().complaints, HEALED_S
        )
        assert patient.running()[f"broker-{leader}"] == pid, "it need not be started again"
        drill.admin.elect_leaders("preferred", drill.partitions)
        drill.wait_for_progress()
        assert drill.leader(min(gone)) == leader, "it may lead again"
    # A dead process is noticed after the session timeout, too; half of it is for a busy machine.
    assert took_s < 1.5 * SESSION_TIMEOUT_MS / 1000, f"{took_s:.1f} s"


def test_a_leader_whose_disk_takes_no_write_is_replaced_within_the_session_timeout(
    patient: LocalCluster,
) -> None:
    """With flush=replicated, the default. Its event loop waits for the disk, while another thread keeps its
    session with ZooKeeper."""
    with FaultDrill(
        patient, "no-write", request_timeout_ms=2_000, allowed=READS_OF_A_DEPOSED_LEADER
    ) as drill:
        leader = drill.leader()
        pid = patient.running()[f"broker-{leader}"]
        began = time.monotonic()
        with ExitStack() as all_disks:
            for directory in patient.data_directories(leader):
                all_disks.enter_context(stuck(directory, "HUNG"))
            drill.wait_for_other_leaders(leader)
            took_s = time.monotonic() - began
            print(f"led by others {took_s:.1f} s after the disk hung")
            drill.wait_for_progress()
        drill.wait_for_isr(3)
        assert patient.running()[f"broker-{leader}"] == pid, "it need not be started again"
    # A dead process is noticed after the session timeout, too; half of it is for a busy machine.
    assert took_s < 1.5 * SESSION_TIMEOUT_MS / 1000, f"{took_s:.1f} s"


def test_a_disk_that_hangs_while_the_broker_starts_is_offline_and_the_other_serves(
    two_disks: LocalCluster,
) -> None:
    cluster = two_disks
    with FaultDrill(cluster, "hung-at-start", flush="fsync", request_timeout_ms=2_000) as drill:
        leader = drill.leader()
        homes = homes_of(drill, leader)
        broken = homes[1]
        gone = {number for number, home in homes.items() if home == broken}
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        with stuck(broken, "HUNG"):
            drill.restart(leader)
            wait_until(
                "what lives on its other disk is in sync again",
                lambda: all(leader in each.isr for each in drill.describe() if each.partition not in gone),
                HEALED_S,
            )
            assert all(leader not in each.isr for each in drill.describe() if each.partition in gone)
            assert f"data directory {broken} does not answer" in cluster.log_tail(f"broker-{leader}", 200)
            drill.wait_for_progress()
            cluster.kill(f"broker-{leader}")
        drill.restart(leader)
        drill.wait_for_isr(3)


def test_a_broker_whose_only_disk_hangs_at_the_start_says_so_and_ends(tmp_path: Path) -> None:
    with cluster_of(tmp_path, disks=1) as cluster:
        cluster.kill("broker-1")
        with stuck(cluster.data_directory(1), "HUNG"):
            cluster.restart("broker-1", wait=False)
            wait_until("it has ended", lambda: "broker-1" not in cluster.running(), HEALED_S)
            assert "does not answer" in cluster.log_tail("broker-1", 20)
