"""Machines lose their power with what had not reached their disks: a record that fewer disks lost than
min.insync.replicas is kept, in whatever order the brokers come back."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S, replica_differences
from hightide_local.histories.replica_logs import partition_directory
from hightide_local.histories.waiting import wait_until
from integration.controller.zookeeper_operator import ZooKeeperOperator
from integration.durability.machines import lose_power, numbers_read, produce, start_in_turn, stop_all

pytestmark = pytest.mark.cluster

RECORDS = 30


@pytest.fixture(scope="module")
def shared_operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperOperator]:
    with LocalCluster(
        tmp_path_factory.mktemp("power"),
        controllers=1,
        session_timeout_ms=6_000,
    ) as cluster:
        operator = ZooKeeperOperator(cluster)
        yield operator
        operator.close()


@pytest.fixture
def operator(shared_operator: ZooKeeperOperator) -> Iterator[ZooKeeperOperator]:
    """The cluster, whole again after a test that failed halfway."""
    yield shared_operator
    shared_operator.make_whole()


def begin(operator: ZooKeeperOperator, topic: str) -> Path:
    """A topic that broker 1 leads, with its first records; where broker 1 keeps them."""
    made = operator.admin.create_topic(topic, assignment=[[1, 2, 3]], configs={"min.insync.replicas": "2"})
    operator.wait_until_led(topic, 1)
    produce(operator.cluster, topic, 0, RECORDS)
    operator.wait_until_led(topic, 1)
    assert operator.partitions(topic)[0].leader == 1
    return partition_directory(operator.cluster.data_directories(1), made.topic_id, 0)


def empty_the_log(directory: Path) -> None:
    for path in directory.glob("*.log"):
        path.write_bytes(b"")


def replace_the_disk(directory: Path) -> None:
    """The data directory that it is in is new, with nothing of any partition."""
    shutil.rmtree(directory.parent)
    directory.parent.mkdir()


def assert_all_is_kept(operator: ZooKeeperOperator, topic: str) -> None:
    operator.wait_until_led(topic, 1)
    produce(operator.cluster, topic, RECORDS, RECORDS)
    assert numbers_read(operator.cluster, topic, 2 * RECORDS) == list(range(2 * RECORDS))
    operator.wait_until_led(topic, 1)
    assert replica_differences(operator.cluster, topic) == []
    assert operator.complaints() == {}


@pytest.mark.parametrize("loss", [shutil.rmtree, empty_the_log, replace_the_disk])
def test_the_leader_lost_all_and_starts_last_before_a_controller(
    operator: ZooKeeperOperator, loss: Callable[[Path], None]
) -> None:
    """It led the epoch that the znode names, with records that it does not have any more."""
    topic = f"all-{loss.__name__}"
    of_the_leader = begin(operator, topic)
    stop_all(operator.cluster, signal.SIGKILL)
    for broker_id in operator.cluster.brokers:
        lose_power(operator.cluster, broker_id)
    loss(of_the_leader)
    start_in_turn(operator, 2, 3, 1)
    operator.cluster.restart("controller-1")
    assert_all_is_kept(operator, topic)


@pytest.mark.parametrize("order", [(2, 3, 1), (1, 2, 3)], ids=["it starts last", "it starts first"])
def test_the_last_in_sync_loses_its_power_after_the_others_were_killed(
    operator: ZooKeeperOperator, order: tuple[int, ...]
) -> None:
    """They left the ISR with all that is committed, and one disk alone has lost it."""
    topic = f"last-{order[-1]}"
    of_the_last = begin(operator, topic)
    for broker_id in (2, 3):
        operator.cluster.kill(f"broker-{broker_id}")
    wait_until("broker 1 is alone", lambda: operator.partitions(topic)[0].isr == (1,), HEALED_S)
    operator.cluster.kill("broker-1")
    lose_power(operator.cluster, 1)
    shutil.rmtree(of_the_last)
    start_in_turn(operator, order[0])
    if order[0] == 1:
        # 2 left an ISR that was still large enough to commit; 3 has all that ever was.
        awaited = "broker 3, partitions that wait for it"
        wait_until("it waits for broker 3", lambda: awaited in operator.complaints(), HEALED_S)
        assert operator.partitions(topic)[0].leader is None
    start_in_turn(operator, *order[1:])
    assert_all_is_kept(operator, topic)
