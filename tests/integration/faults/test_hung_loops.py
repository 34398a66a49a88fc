"""The event loop of a process hangs while its session with ZooKeeper is pinged by another thread: it leads no
more, and when it goes on it is one of the cluster again."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hightide_bench.campaign.hung_loops import HungLoops, processes_that_can_hang
from hightide_local.cluster import LocalCluster
from hightide_local.histories.anomalies import READS_OF_A_DEPOSED_LEADER
from hightide_local.histories.drill import HEALED_S, FaultDrill
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

SESSION_TIMEOUT_MS = 12_000
"""Long enough for its half to outlast what a busy machine stands still."""


class Hang:
    """Lets the event loop of a process hang, and go on."""

    def __init__(self, hung_loops: HungLoops) -> None:
        self._hung_loops = hung_loops

    def begin(self, cluster: LocalCluster, name: str) -> float:
        """From now on until `end` is called; the monotonic time."""
        self.end = self._hung_loops.hang(cluster.running()[name])
        return time.monotonic()


@pytest.fixture(scope="module")
def hung_loops() -> Iterator[HungLoops]:
    with processes_that_can_hang() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, hung_loops: HungLoops) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("hung"), coordinators=2, session_timeout_ms=SESSION_TIMEOUT_MS
    ) as running:
        yield running


@pytest.fixture
def hang(hung_loops: HungLoops) -> Hang:
    return Hang(hung_loops)


def test_a_leader_whose_loop_hangs_is_replaced_within_the_session_timeout_and_follows_when_it_goes_on(
    cluster: LocalCluster, hang: Hang
) -> None:
    with FaultDrill(
        cluster, "hung-leader", request_timeout_ms=2_000, allowed=READS_OF_A_DEPOSED_LEADER
    ) as drill:
        assert drill.leader() == 1
        began = hang.begin(cluster, "broker-1")
        drill.wait_for_other_leaders(1)
        took_s = time.monotonic() - began
        print(f"led by others {took_s:.1f} s after the loop hung")
        drill.wait_for_progress()
        hang.end()
        drill.wait_for_isr(3)
    # A dead process is noticed after the session timeout, too; half of it is for a busy machine.
    assert took_s < 1.5 * SESSION_TIMEOUT_MS / 1000, f"{took_s:.1f} s"


def test_a_controller_whose_loop_hangs_is_replaced(cluster: LocalCluster, hang: Hang) -> None:
    hung = cluster.active_controller(HEALED_S)
    began = hang.begin(cluster, hung)

    def replaced() -> bool:
        return cluster.active_controller(HEALED_S) != hung

    wait_until("another controller is active", replaced, HEALED_S)
    print(f"another controller {time.monotonic() - began:.1f} s after the loop hung")
    hang.end()
    with FaultDrill(cluster, "hung-controller") as drill:
        drill.wait_for_progress()
    assert cluster.active_controller(HEALED_S) != hung


def test_a_coordinator_whose_loop_hangs_is_replaced(cluster: LocalCluster, hang: Hang) -> None:
    hung = cluster.active_coordinator()
    began = hang.begin(cluster, hung)

    def replaced() -> bool:
        return cluster.active_coordinator() != hung

    wait_until("another coordinator is active", replaced, HEALED_S)
    print(f"another coordinator {time.monotonic() - began:.1f} s after the loop hung")
    hang.end()
