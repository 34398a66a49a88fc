"""The admin client against a real cluster: every order, sync and asyncio, also while the controller dies."""

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hightide import Admin, Consumer, Producer, TopicPartition, aio
from hightide.errors import (
    ElectionNotNeededError,
    InvalidAssignmentError,
    InvalidConfigError,
    InvalidPartitionCountError,
    NoReassignmentError,
    ServerError,
    UnknownPartitionError,
    UnknownTopicError,
)
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

UNTIL_S = 30.0


@pytest.fixture
def admin(hightide_cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(hightide_cluster.bootstrap) as client:
        yield client


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    """A topic of two partitions on brokers 1 and 2; gone when the test is over, if it is not before."""
    name = f"admin-{uuid.uuid4().hex}"
    admin.create_topic(name, assignment=[[1, 2], [2, 1]])
    yield name
    if name in admin.list_topics():
        admin.delete_topic(name)


def write(cluster: LocalCluster, topic: str, partition: int, count: int = 1_000) -> None:
    with Producer(cluster.bootstrap) as producer:
        for at in range(count):
            producer.send(topic, b"%0100d" % at, partition=partition)


def until(condition: Callable[[], Any], what: str) -> None:
    waiting = threading.Event()
    for _ in range(int(UNTIL_S / 0.05)):
        if condition():
            return
        waiting.wait(0.05)
    raise AssertionError(f"gave up waiting until {what}")


def replicas_of(admin: Admin, topic: str) -> list[tuple[int, ...]]:
    (described,) = admin.describe_topics([topic])
    return [each.replicas for each in described.partitions]


def test_a_deleted_topic_is_gone_and_its_name_is_free(
    hightide_cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    write(hightide_cluster, topic, 0)
    (before,) = admin.describe_topics([topic])
    assert admin.delete_topic(topic, validate_only=True).topic == before
    assert replicas_of(admin, topic) == [(1, 2), (2, 1)]
    deleted = admin.delete_topic(topic)
    assert (deleted.topic.topic_id, deleted.absent_brokers) == (before.topic_id, ())
    with pytest.raises(UnknownTopicError, match=topic):
        admin.delete_topic(topic)
    again = admin.create_topic(topic, assignment=[[1, 2]])
    assert again.topic_id != before.topic_id
    with Consumer(hightide_cluster.bootstrap, topics=topic) as consumer:
        assert list(consumer.read_to_end()) == []


def test_partitions_come_and_go(hightide_cluster: LocalCluster, admin: Admin, topic: str) -> None:
    assert len(admin.add_partitions(topic, 5, validate_only=True).partitions) == 5
    assert len(replicas_of(admin, topic)) == 2
    grown = admin.add_partitions(topic, 4, assignment=[[3, 1], [1, 3]])
    assert [each.replicas for each in grown.partitions] == [(1, 2), (2, 1), (3, 1), (1, 3)]
    write(hightide_cluster, topic, 3, 10)
    shrunk = admin.remove_partitions(topic, 3)
    assert [each.partition for each in shrunk.partitions] == [0, 1, 2]
    with pytest.raises(InvalidPartitionCountError, match=topic):
        admin.remove_partitions(topic, 0)
    with pytest.raises(InvalidPartitionCountError, match=topic):
        admin.add_partitions(topic, 3)
    admin.add_partitions(topic, 4)
    with Consumer(hightide_cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 3)])
        assert list(consumer.read_to_end()) == []


def test_settings_are_altered_and_reset(admin: Admin, topic: str) -> None:
    assert admin.alter_topic_config(topic, {"retention.ms": "7"}, validate_only=True) == {"retention.ms": "7"}
    assert admin.alter_topic_config(topic, {"retention.ms": "86400000", "min.insync.replicas": "2"}) == {
        "retention.ms": "86400000",
        "min.insync.replicas": "2",
    }
    assert admin.alter_topic_config(topic, reset=["retention.ms"]) == {"min.insync.replicas": "2"}
    with pytest.raises(InvalidConfigError, match=r"retention\.ms"):
        admin.alter_topic_config(topic, {"retention.mss": "1"})


def test_a_partition_moves_and_its_records_with_it(
    hightide_cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    write(hightide_cluster, topic, 0)
    here = TopicPartition(topic, 0)
    (tried,) = admin.reassign_partitions({here: [3, 1]}, validate_only=True)
    assert tried.ok
    (begun,) = admin.reassign_partitions({here: [3, 1]})
    assert (begun.partition, begun.error) == (here, None)
    until(lambda: not admin.list_reassignments([here]).reassignments, "it has arrived")
    assert replicas_of(admin, topic) == [(3, 1), (2, 1)]
    with Consumer(hightide_cluster.bootstrap) as consumer:
        consumer.assign([here])
        assert len(list(consumer.read_to_end())) == 1_000
    held = [each for each in admin.describe_replicas([topic]).replicas if each.partition == here]
    ends = {each.broker_id: each.log_end_offset for each in held}
    assert (ends[1], ends[3]) == (1_000, 1_000)
    assert all(each.size_bytes > 100_000 for each in held if each.broker_id in (1, 3))
    with pytest.raises(UnknownTopicError):
        admin.describe_topics([f"{topic}-not"])


def test_a_move_is_throttled_listed_and_cancelled(
    hightide_cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    # In several batches: one alone is never held back, however large it is.
    for _ in range(5):
        write(hightide_cluster, topic, 1)
    here = TopicPartition(topic, 1)
    try:
        (begun,) = admin.reassign_partitions({here: [3, 2]}, throttle_bytes_per_s=1_000)
        assert begun.ok, begun.error
        listing = admin.list_reassignments()
        assert listing.throttle_bytes_per_s == 1_000
        (move,) = [each for each in listing.reassignments if each.partition == here]
        assert (move.original, move.target, move.adding, move.removing) == ((2, 1), (3, 2), (3,), (1,))
        described = admin.describe_cluster()
        assert described.reassignment_count >= 1
        assert described.reassignment_throttle_bytes_per_s == 1_000
        (cancelled,) = admin.cancel_reassignments([here])
        assert cancelled.ok, cancelled.error
        assert replicas_of(admin, topic) == [(1, 2), (2, 1)]
        (again,) = admin.cancel_reassignments([here])
        assert isinstance(again.error, NoReassignmentError)
    finally:
        admin.set_reassignment_throttle(0)
    assert admin.list_reassignments().throttle_bytes_per_s == 0


def test_each_move_is_accepted_or_refused_on_its_own(admin: Admin, topic: str) -> None:
    moves = {
        TopicPartition(topic, 0): [1, 9],
        TopicPartition(topic, 1): [2, 3],
        TopicPartition(topic, 2): [1],
        TopicPartition(f"{topic}-not", 0): [1],
    }
    unknown_broker, moved, unknown_partition, unknown_topic = admin.reassign_partitions(moves)
    assert isinstance(unknown_broker.error, ServerError)
    assert "9" in str(unknown_broker.error)
    assert moved.ok, moved.error
    assert isinstance(unknown_partition.error, UnknownPartitionError)
    assert isinstance(unknown_topic.error, UnknownTopicError)
    until(lambda: replicas_of(admin, topic)[1] == (2, 3), "the good one has arrived")
    (twice,) = admin.reassign_partitions({TopicPartition(topic, 0): [1, 1]})
    assert isinstance(twice.error, InvalidAssignmentError)


def test_leaders_are_elected_by_hand(admin: Admin, topic: str) -> None:
    here = TopicPartition(topic, 0)
    (preferred,) = admin.elect_leaders("preferred", [here])
    assert (preferred.ok, preferred.leader) == (True, 1)
    (unclean,) = admin.elect_leaders("unclean", [here])
    assert isinstance(unclean.error, ElectionNotNeededError)
    assert all(each.ok for each in admin.elect_leaders("preferred", validate_only=True))
    (unknown,) = admin.elect_leaders("preferred", [TopicPartition(topic, 9)])
    assert isinstance(unknown.error, UnknownPartitionError)


def test_asyncio_does_the_same(hightide_cluster: LocalCluster) -> None:
    async def a_topics_life() -> None:
        name = f"admin-{uuid.uuid4().hex}"
        here = TopicPartition(name, 0)
        async with aio.Admin(hightide_cluster.bootstrap) as admin:
            await admin.create_topic(name, assignment=[[1, 2]])
            assert len((await admin.add_partitions(name, 2)).partitions) == 2
            assert len((await admin.remove_partitions(name, 1)).partitions) == 1
            assert await admin.alter_topic_config(name, {"retention.ms": "5"}) == {"retention.ms": "5"}
            assert [each.ok for each in await admin.reassign_partitions({here: [1, 3]})] == [True]
            while (await admin.list_reassignments([here])).reassignments:
                await asyncio.to_thread(threading.Event().wait, 0.05)
            assert [each.ok for each in await admin.cancel_reassignments([here])] == [False]
            assert [each.leader for each in await admin.elect_leaders("preferred", [here])] == [1]
            await admin.set_reassignment_throttle(0)
            assert {each.broker_id for each in (await admin.describe_replicas([name])).replicas} >= {1, 3}
            assert (await admin.describe_cluster()).cluster_id
            assert (await admin.delete_topic(name)).topic.name == name
            with pytest.raises(UnknownTopicError):
                await admin.describe_topics([name])

    asyncio.run(a_topics_life())


@pytest.mark.parametrize("name", ["survivor-1", "survivor-2"])
def test_orders_survive_the_death_of_the_controller(dying: "Dying", name: str) -> None:
    admin, here = dying.admin, TopicPartition(name, 0)
    assert dying.order(lambda: admin.create_topic(name, 2, 2)).name == name
    assert len(dying.order(lambda: admin.add_partitions(name, 4)).partitions) == 4
    (kept,) = dying.order(lambda: admin.remove_partitions(name, 1)).partitions
    assert dying.order(lambda: admin.alter_topic_config(name, {"retention.ms": "9"})) == {"retention.ms": "9"}
    target = (*({1, 2, 3} - set(kept.replicas)), kept.replicas[0])
    (moved,) = dying.order(lambda: admin.reassign_partitions({here: target}))
    assert moved.ok, moved.error
    until(lambda: replicas_of(admin, name) == [target], "it has moved")
    assert dying.order(lambda: admin.delete_topic(name)).topic.name == name
    assert name not in [each.name for each in admin.describe_topics()]


class Dying:
    """A cluster whose active controller is killed at the very moment that an order is given."""

    def __init__(self, cluster: LocalCluster, admin: Admin, pool: ThreadPoolExecutor) -> None:
        self.admin = admin
        self._cluster = cluster
        self._pool = pool

    def order(self, order: Callable[[], Any]) -> Any:
        active = self._cluster.active_controller()
        answer = self._pool.submit(order)
        self._cluster.kill(active)
        result = answer.result(60)
        self._cluster.restart(active)
        return result


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dying]:
    with (
        LocalCluster(tmp_path_factory.mktemp("dying")) as cluster,
        Admin(cluster.bootstrap) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        yield Dying(cluster, client, pool)
