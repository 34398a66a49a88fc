"""A leader has lost committed records, and nobody knows but its followers: they keep what they have, and an
operator says whose log goes on (docs/operating.md, "When a follower keeps what its leader lacks")."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from e2e.command_line import hightide
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S, replica_differences
from hightide_local.histories.replica_logs import partition_directory
from hightide_local.histories.waiting import wait_until
from integration.controller.operators_hand import OperatorsHand
from integration.durability.machines import (
    copy_of_disks,
    numbers_read,
    produce,
    restore_disks,
    start_in_turn,
    stop_all,
)

pytestmark = pytest.mark.cluster

OLD, NEW = 20, 30
RESTORED, FOLLOWERS = 3, (1, 2)


@pytest.fixture(scope="module")
def shared_hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorsHand]:
    with LocalCluster(
        tmp_path_factory.mktemp("diverged"),
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


def lead_without_the_new(hand: OperatorsHand, topic: str, copies: Path) -> bytes:
    """All are in sync with everything; broker 3 comes back on a copy of its disk from before, which nothing
    there tells, and leads. The topic's id."""
    made = hand.admin.create_topic(topic, assignment=[[1, 2, 3]], configs={"min.insync.replicas": "2"})
    hand.wait_until_led(topic, 1)
    produce(hand.cluster, topic, 0, OLD)
    hand.wait_until_led(topic, 1)
    hand.cluster.terminate(f"broker-{RESTORED}")
    copy_of_disks(hand.cluster, RESTORED, copies)
    hand.cluster.restart(f"broker-{RESTORED}")
    hand.wait_until_led(topic, 1)
    produce(hand.cluster, topic, OLD, NEW)
    hand.wait_until_led(topic, 1)
    wait_until("all know that it is committed", lambda: committed(hand, topic) == [OLD + NEW] * 3, HEALED_S)
    stop_all(hand.cluster, signal.SIGTERM)
    restore_disks(hand.cluster, RESTORED, copies)
    start_in_turn(hand, RESTORED)
    hand.cluster.restart("controller-1")
    wait_until("it leads", lambda: hand.partitions(topic)[0].leader == RESTORED, HEALED_S)
    start_in_turn(hand, *FOLLOWERS)
    subjects = {f"replica of {topic}-0 on broker {broker_id}" for broker_id in FOLLOWERS}
    wait_until("they accuse their leader", lambda: subjects <= hand.complaints().keys(), HEALED_S)
    for subject in subjects:
        assert "keeps records that its leader has lost" in hand.complaints()[subject]
    health = hightide(hand.cluster, "cluster", "health")
    assert health.returncode == 1
    assert f"replica of {topic}-0 on broker 1".encode() in health.stdout
    return made.topic_id


def committed(hand: OperatorsHand, topic: str) -> list[int]:
    """As far as each replica knows."""
    return [each.high_watermark for each in hand.admin.describe_replicas([topic]).replicas]


def is_well(hand: OperatorsHand) -> bool:
    return hightide(hand.cluster, "cluster", "health").returncode == 0


def test_the_followers_log_goes_on_where_the_others_are_stopped(hand: OperatorsHand, tmp_path: Path) -> None:
    topic = "followers"
    lead_without_the_new(hand, topic, tmp_path)
    for broker_id in (2, RESTORED):
        hand.cluster.terminate(f"broker-{broker_id}")
    wait_until("broker 3 leads no more", lambda: hand.partitions(topic)[0].leader in (1, None), HEALED_S)
    if hand.partitions(topic)[0].leader is None:
        elected = hightide(hand.cluster, "elect", "unclean", f"{topic}:0")
        assert elected.returncode == 0, elected.stderr.decode()
    wait_until("broker 1 leads", lambda: hand.partitions(topic)[0].leader == 1, HEALED_S)
    start_in_turn(hand, 2, RESTORED)
    hand.wait_until_led(topic, 1)
    assert numbers_read(hand.cluster, topic, OLD + NEW) == list(range(OLD + NEW))
    produce(hand.cluster, topic, OLD + NEW, 1)
    hand.wait_until_led(topic, 1)
    assert replica_differences(hand.cluster, topic) == []
    wait_until("health is green", partial(is_well, hand), HEALED_S)


def test_the_leaders_log_goes_on_where_the_followers_are_put_aside(
    hand: OperatorsHand, tmp_path: Path
) -> None:
    topic = "leaders"
    topic_id = lead_without_the_new(hand, topic, tmp_path / "copies")
    for broker_id in FOLLOWERS:
        hand.cluster.terminate(f"broker-{broker_id}")
        kept = partition_directory(hand.cluster.data_directories(broker_id), topic_id, 0)
        shutil.move(kept, tmp_path / f"kept-{broker_id}")
        start_in_turn(hand, broker_id)
    hand.wait_until_led(topic, 1)
    produce(hand.cluster, topic, 1000, 1)
    assert numbers_read(hand.cluster, topic, OLD + 1) == [*range(OLD), 1000]
    hand.wait_until_led(topic, 1)
    assert replica_differences(hand.cluster, topic) == []
    wait_until("health is green", partial(is_well, hand), HEALED_S)
