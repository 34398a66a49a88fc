"""A group of consumer processes that read and commit all the time while coordinators and consumers die, stand
still and wake up again (§8, §10): every record is handed out, no partition has two owners in a generation, no
committed offset goes back, and in the end every partition has its owner."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_runtime.znodes.group_znodes import CoordinatorZnode
from histories.group_anomalies import Given
from histories.group_drill import GroupDrill
from histories.group_storm import GroupStorm
from integration.controller.session_theft import end_session_of
from integration.coordinator.group_reading import new_name

pytestmark = pytest.mark.cluster

SESSION_TIMEOUT_MS = 1_500


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("group-faults"),
        brokers=3,
        controllers=1,
        coordinators=2,
        session_timeout_ms=2_000,
        replica_lag_time_max_ms=1_000,
        coordinator_arguments=("--commit-interval-ms", "300"),
    ) as running:
        yield running


def drill(cluster: LocalCluster, tmp_path: Path, **settings: int) -> GroupDrill:
    return GroupDrill(cluster, tmp_path, new_name("drill"), session_timeout_ms=SESSION_TIMEOUT_MS, **settings)


def test_coordinators_that_are_killed_or_expire_or_wake_up_too_late_harm_no_group(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with drill(cluster, tmp_path) as group:
        for by_hand in (False, False, True):
            group.start(by_hand=by_hand)
        group.wait_until_whole()
        group.wait_for_progress()

        killed = cluster.active_coordinator()
        cluster.kill(killed)
        group.wait_for_progress()
        group.wait_until_whole()
        cluster.restart(killed, wait=False)

        zombie = cluster.active_coordinator()
        cluster.pause(zombie)
        wait_until("another one is active", lambda: cluster.active_coordinator(timeout_s=60) != zombie, 60)
        group.wait_for_progress()
        cluster.resume(zombie)
        group.wait_for_progress()
        group.wait_until_whole()

        end_session_of(cluster.zookeeper, CoordinatorZnode.path(0, 1))
        group.wait_for_progress()
        group.wait_until_whole()


def test_consumers_that_stood_still_with_records_in_hand_hand_out_and_commit_nothing_more_of_them(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with drill(cluster, tmp_path, partitions=4, records_per_s=1_600) as group:
        # So few of what they have fetched at a time, that there is much left when they stand still.
        polling, committing = (
            group.start(by_hand=by_hand, records_max=5, stands_still_after_polls=20)
            for by_hand in (False, True)
        )
        still = (polling, committing)
        wait_until(
            "they stand still", lambda: group.handed_out() and all(r.standstills_ms for r in still), 60
        )
        group.start()
        group.wait_for_progress()
        for reader in still:
            reader.signal(signal.SIGCONT)
        group.wait_until_whole()
        group.wait_for_progress()
    for reader in still:
        ((_, woken_ms),) = reader.standstills_ms
        after = [report for report in reader.reports if report.at_ms >= woken_ms]
        assert isinstance(after[0], Given), "nothing is handed out, or committed, before it has a share again"
    fenced = [each for each in committing.refusals if "FencedGeneration" in each or "UnknownMember" in each]
    assert fenced, committing.refusals


@pytest.mark.soak
def test_a_group_withstands_faults_in_the_order_of_a_seed(cluster: LocalCluster, tmp_path: Path) -> None:
    with drill(cluster, tmp_path) as group:
        GroupStorm(group, random.Random(11), print).rage(15)
