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
from integration.controller.operators_hand import OperatorsHand
from integration.durability.machines import lose_power, numbers_read, produce, start_in_turn, stop_all

pytestmark = pytest.mark.cluster

RECORDS = 30


@pytest.fixture(scope="module")
def shared_hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorsHand]:
    with LocalCluster(
        tmp_path_factory.mktemp("power"),
        controllers=1,
        session_timeout_ms=6_000,
    ) as cluster:
        hand = OperatorsHand(cluster)
        yield hand
        hand.close()


@pytest.fixture
def hand(shared_hand: OperatorsHand) -> Iterator[OperatorsHand]:
    """The cluster, whole again after a test that failed halfway."""
    yield shared_hand
    shared_hand.make_whole()


def begin(hand: OperatorsHand, topic: str) -> Path:
    """A topic that broker 1 leads, with its first records; where broker 1 keeps them."""
    made = hand.admin.create_topic(topic, assignment=[[1, 2, 3]], configs={"min.insync.replicas": "2"})
    hand.wait_until_led(topic, 1)
    produce(hand.cluster, topic, 0, RECORDS)
    hand.wait_until_led(topic, 1)
    assert hand.partitions(topic)[0].leader == 1
    return partition_directory(hand.cluster.data_directories(1), made.topic_id, 0)


def empty_the_log(directory: Path) -> None:
    for path in directory.glob("*.log"):
        path.write_bytes(b"")


def assert_all_is_kept(hand: OperatorsHand, topic: str) -> None:
    hand.wait_until_led(topic, 1)
    produce(hand.cluster, topic, RECORDS, RECORDS)
    assert numbers_read(hand.cluster, topic, 2 * RECORDS) == list(range(2 * RECORDS))
    hand.wait_until_led(topic, 1)
    assert replica_differences(hand.cluster, topic) == []
    assert hand.complaints() == {}


@pytest.mark.parametrize("loss", [shutil.rmtree, empty_the_log])
def test_the_leader_lost_all_and_starts_last_before_a_controller(
    hand: OperatorsHand, loss: Callable[[Path], None]
) -> None:
    """It led the epoch that the znode names, with records that it does not have any more."""
    topic = f"all-{loss.__name__}"
    of_the_leader = begin(hand, topic)
    stop_all(hand.cluster, signal.SIGKILL)
    for broker_id in hand.cluster.brokers:
        lose_power(hand.cluster, broker_id)
    loss(of_the_leader)
    start_in_turn(hand, 2, 3, 1)
    hand.cluster.restart("controller-1")
    assert_all_is_kept(hand, topic)


@pytest.mark.parametrize("order", [(2, 3, 1), (1, 2, 3)], ids=["it starts last", "it starts first"])
def test_the_last_in_sync_loses_its_power_after_the_others_were_killed(
    hand: OperatorsHand, order: tuple[int, ...]
) -> None:
    """They left the ISR with all that is committed, and one disk alone has lost it."""
    topic = f"last-{order[-1]}"
    of_the_last = begin(hand, topic)
    for broker_id in (2, 3):
        hand.cluster.kill(f"broker-{broker_id}")
    wait_until("broker 1 is alone", lambda: hand.partitions(topic)[0].isr == (1,), HEALED_S)
    hand.cluster.kill("broker-1")
    lose_power(hand.cluster, 1)
    shutil.rmtree(of_the_last)
    start_in_turn(hand, order[0])
    if order[0] == 1:
        # 2 left an ISR that was still large enough to commit; 3 has all that ever was.
        awaited = "broker 3, partitions that wait for it"
        wait_until("it waits for broker 3", lambda: awaited in hand.complaints(), HEALED_S)
        assert hand.partitions(topic)[0].leader is None
    start_in_turn(hand, *order[1:])
    assert_all_is_kept(hand, topic)
