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
from integration.controller.zookeeper_operator import ZooKeeperOperator
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
def shared_operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperOperator]:
    with LocalCluster(
        tmp_path_factory.mktemp("diverged"),
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


def lead_without_the_new(operator: ZooKeeperOperator, topic: str, copies: Path) -> bytes:
    """All are in sync with everything; broker 3 comes back on a copy of its disk from before, which nothing
    there tells, and leads. The topic's id."""
    made = operator.admin.create_topic(topic, assignment=[[1, 2, 3]], configs={"min.insync.replicas": "2"})
    operator.wait_until_led(topic, 1)
    produce(operator.cluster, topic, 0, OLD)
    operator.wait_until_led(topic, 1)
    operator.cluster.terminate(f"broker-{RESTORED}")
    copy_of_disks(operator.cluster, RESTORED, copies)
    operator.cluster.restart(f"broker-{RESTORED}")
    operator.wait_until_led(topic, 1)
    produce(operator.cluster, topic, OLD, NEW)
    operator.wait_until_led(topic, 1)
    wait_until(
        "all know that it is committed", lambda: committed(operator, topic) == [OLD + NEW] * 3, HEALED_S
    )
    stop_all(operator.cluster, signal.SIGTERM)
    restore_disks(operator.cluster, RESTORED, copies)
    start_in_turn(operator, RESTORED)
    operator.cluster.restart("controller-1")
    wait_until("it leads", lambda: operator.partitions(topic)[0].leader == RESTORED, HEALED_S)
    start_in_turn(operator, *FOLLOWERS)
    subjects = {f"replica of {topic}-0 on broker {broker_id}" for broker_id in FOLLOWERS}
    wait_until("they accuse their leader", lambda: subjects <= operator.complaints().keys(), HEALED_S)
    for subject in subjects:
        assert "keeps records that its leader has lost" in operator.complaints()[subject]
    health = hightide(operator.cluster, "cluster", "health")
    assert health.returncode == 1
    assert f"replica of {topic}-0 on broker 1".encode() in health.stdout
    return made.topic_id


def committed(operator: ZooKeeperOperator, topic: str) -> list[int]:
    """As far as each replica knows."""
    return [each.high_watermark for each in operator.admin.describe_replicas([topic]).replicas]


def is_well(operator: ZooKeeperOperator) -> bool:
    return hightide(operator.cluster, "cluster", "health").returncode == 0


def test_the_followers_log_goes_on_where_the_others_are_stopped(
    operator: ZooKeeperOperator, tmp_path: Path
) -> None:
    topic = "followers"
    lead_without_the_new(operator, topic, tmp_path)
    for broker_id in (2, RESTORED):
        operator.cluster.terminate(f"broker-{broker_id}")
    wait_until("broker 3 leads no more", lambda: operator.partitions(topic)[0].leader in (1, None), HEALED_S)
    if operator.partitions(topic)[0].leader is None:
        elected = hightide(operator.cluster, "elect", "unclean", f"{topic}:0")
        assert elected.returncode == 0, elected.stderr.decode()
    wait_until("broker 1 leads", lambda: operator.partitions(topic)[0].leader == 1, HEALED_S)
    start_in_turn(operator, 2, RESTORED)
    operator.wait_until_led(topic, 1)
    assert numbers_read(operator.cluster, topic, OLD + NEW) == list(range(OLD + NEW))
    produce(operator.cluster, topic, OLD + NEW, 1)
    operator.wait_until_led(topic, 1)
    assert replica_differences(operator.cluster, topic) == []
    wait_until("health is green", partial(is_well, operator), HEALED_S)


def test_the_leaders_log_goes_on_where_the_followers_are_put_aside(
    operator: ZooKeeperOperator, tmp_path: Path
) -> None:
    topic = "leaders"
    topic_id = lead_without_the_new(operator, topic, tmp_path / "copies")
    for broker_id in FOLLOWERS:
        operator.cluster.terminate(f"broker-{broker_id}")
        kept = partition_directory(operator.cluster.data_directories(broker_id), topic_id, 0)
        shutil.move(kept, tmp_path / f"kept-{broker_id}")
        start_in_turn(operator, broker_id)
    operator.wait_until_led(topic, 1)
    produce(operator.cluster, topic, 1000, 1)
    assert numbers_read(operator.cluster, topic, OLD + 1) == [*range(OLD), 1000]
    operator.wait_until_led(topic, 1)
    assert replica_differences(operator.cluster, topic) == []
    wait_until("health is green", partial(is_well, operator), HEALED_S)
