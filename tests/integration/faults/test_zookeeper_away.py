"""Sessions expire, one by one and all at once, and all of ZooKeeper is gone, while leaders keep serving.

V3 leans on ZooKeeper for every decision; nothing that is decided needs it, so clients see no error for as
long as the ISR need not change, and what comes back heals by itself. Each test is a `FaultDrill`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest
from hightide_local.cluster import LocalCluster
from hightide_local.histories.anomalies import READS_OF_A_DEPOSED_LEADER
from hightide_local.histories.drill import HEALED_S, FaultDrill
from hightide_local.histories.waiting import wait_until
from hightide_runtime.znodes.cluster_znodes import CONTROLLER_CANDIDATES
from histories.zookeeper_outage import without_zookeeper
from integration.controller.session_theft import end_session_of
from integration.controller.zookeeper_operator import ZooKeeperOperator

pytestmark = pytest.mark.cluster

SESSION_TIMEOUT_MS = 6_000


@pytest.fixture(scope="module")
def shared_operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperOperator]:
    with LocalCluster(tmp_path_factory.mktemp("away"), session_timeout_ms=SESSION_TIMEOUT_MS) as cluster:
        operator = ZooKeeperOperator(cluster)
        yield operator
        operator.close()


@pytest.fixture
def operator(shared_operator: ZooKeeperOperator) -> Iterator[ZooKeeperOperator]:
    """The cluster, whole again after a test that failed halfway."""
    yield shared_operator
    shared_operator.make_whole()


@contextlib.contextmanager
def session_expires(operator: ZooKeeperOperator, name: str, ephemeral: str) -> Iterator[None]:
    """A process stands still while its session ends; it wakes up when the block ends."""
    operator.cluster.pause(name)
    end_session_of(operator.cluster.zookeeper, ephemeral)
    yield
    operator.cluster.resume(name)


def broker_epoch(operator: ZooKeeperOperator, broker_id: int) -> int:
    return next(
        each.broker_epoch for each in operator.admin.describe_cluster().brokers if each.broker_id == broker_id
    )


def test_the_session_of_a_follower_expires_and_it_comes_back_as_new(operator: ZooKeeperOperator) -> None:
    with FaultDrill(operator.cluster, "follower-expired") as drill:
        before = broker_epoch(operator, 2)
        with session_expires(operator, "broker-2", "/brokers/ids/2"):
            drill.wait_for_isr(2)
            drill.wait_for_progress()
        wait_until("it is registered anew", lambda: broker_epoch(operator, 2) > before, HEALED_S)
        drill.wait_for_isr(3)
        assert [each.leader for each in drill.describe()] == [1, 1, 1]
        drill.wait_for_progress()


def test_the_session_of_a_leader_expires_and_it_comes_back_as_follower(operator: ZooKeeperOperator) -> None:
    with FaultDrill(
        operator.cluster, "leader-expired", request_timeout_ms=2_000, allowed=READS_OF_A_DEPOSED_LEADER
    ) as drill:
        with session_expires(operator, "broker-1", "/brokers/ids/1"):
            drill.wait_for_other_leaders(1)
            drill.wait_for_progress()
        drill.wait_for_isr(3)
        assert all(each.leader != 1 for each in drill.describe())
        drill.wait_for_progress()


def test_the_sessions_of_both_controllers_expire_and_one_of_them_takes_over(
    operator: ZooKeeperOperator,
) -> None:
    """Nobody decides meanwhile; a leader that dies is replaced as soon as one of them wakes up."""
    with FaultDrill(operator.cluster, "controllers-expired") as drill:
        active = operator.cluster.active_controller(HEALED_S)
        standby = "controller-1" if active == "controller-2" else "controller-2"
        operator.cluster.pause(standby)
        (candidate,) = (
            each
            for each in operator.zookeeper.get_children(CONTROLLER_CANDIDATES)
            if each.startswith(f"{standby.rpartition('-')[2]}-")
        )
        end_session_of(operator.cluster.zookeeper, f"{CONTROLLER_CANDIDATES}/{candidate}")
        with session_expires(operator, active, "/controller"):
            drill.wait_for_progress()
            leader = leader_by_hand(operator, drill.topic)
            drill.kill(leader)
            operator.cluster.resume(standby)
            # Asked in ZooKeeper: an admin would wait for the controller that is still asleep.
            wait_until("it is succeeded", lambda: leader_by_hand(operator, drill.topic) != leader, HEALED_S)
        drill.wait_for_other_leaders(leader)
        drill.wait_for_progress()
        drill.restart(leader)
        drill.wait_for_isr(3)


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_all_of_zookeeper_is_gone_for_longer_than_any_session_lasts(
    operator: ZooKeeperOperator, how: str
) -> None:
    with FaultDrill(operator.cluster, f"gone-by-{how}") as drill:
        outage = without_zookeeper(drill, 2 * SESSION_TIMEOUT_MS / 1000, "kill" if how == "kill" else "pause")
        assert outage.acknowledged >= 3 * 40, "every partition went on"
        assert outage.refusal, "nobody can create a topic without ZooKeeper"
        operator.wait_until_led(f"gone-by-{how}-after", 3)
        operator.produce(f"gone-by-{how}-after", 3, 3)
        # What was refused in the dark may have been tried for a while.
        wait_until("nothing is complained about", lambda: operator.complaints() == {}, HEALED_S)
        leader = drill.leader()
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.restart(leader)
        drill.wait_for_isr(3)


def leader_by_hand(operator: ZooKeeperOperator, topic: str) -> int:
    """Who leads partition 0, without a controller that could be asked."""
    content = operator.content(f"/brokers/topics/{topic}/0/leaderAndISR")
    return int(json.loads(content or b"")["leader"])
