"""Consumers in groups while coordinators, brokers, ZooKeeper and other consumers die, stop and come back.

What must hold: nothing is skipped; nothing is read twice but what a consumer that died had not committed; and
whoever is not concerned is not disturbed.
"""

from collections.abc import Iterator

import pytest
from hightide import Admin, Consumer, GroupDescription, TopicPartition
from hightide_local.cluster import LocalCluster
from integration.coordinator.group_process import GroupProcess
from integration.coordinator.group_reading import SESSION_TIMEOUT_MS, Reading, new_name, new_topic, send

pytestmark = pytest.mark.cluster

GIVEN_UP_MS = 5_000
"""The session timeout of a consumer that is to be given up."""
PAUSED_MS = 8_000
"""The session timeout of consumers whose coordinator is paused: so long they wait before they look for the
next one, which gives them up so long after it was elected."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("group-failures")
    with LocalCluster(
        directory, brokers=3, controllers=1, coordinators=2, session_timeout_ms=4_000
    ) as running:
        running.active_coordinator()
        yield running


class Group:
    """Consumers of one group, with all that they were told."""

    def __init__(self, cluster: LocalCluster, topic: str, count: int, session_timeout_ms: int) -> None:
        self.name = new_name("readers")
        self.disturbed: list[TopicPartition] = []
        self.reading = Reading(
            [
                Consumer(
                    cluster.bootstrap,
                    group=self.name,
                    topics=topic,
                    session_timeout_ms=session_timeout_ms,
                    on_revoke=self.disturbed.extend,
                )
                for _ in range(count)
            ]
        )
        self.reading.until(lambda: self.reading.is_shared(6))
        self.disturbed.clear()

    def generations(self) -> dict[TopicPartition, int]:
        return {
            each: since for consumer in self.reading.consumers for each, since in consumer.generations.items()
        }

    def has_given_one_away(self) -> bool:
        """Whether a fourth consumer, elsewhere, has its share."""
        return sum(len(each.assignment) for each in self.reading.consumers) == 5

    def close(self) -> None:
        for consumer in self.reading.consumers:
            consumer.close()


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    return new_topic(cluster, 6, replication_factor=3)


@pytest.fixture
def group(cluster: LocalCluster, topic: str, request: pytest.FixtureRequest) -> Iterator[Group]:
    """A test may ask for another session timeout."""
    made = Group(cluster, topic, 3, getattr(request, "param", SESSION_TIMEOUT_MS))
    yield made
    made.close()


def read_all(cluster: LocalCluster, group: Group, topic: str, numbers: range) -> None:
    send(cluster, topic, numbers)
    group.reading.until(lambda: len(group.reading.numbers()) >= numbers.stop)


def are_connected(described: GroupDescription, count: int) -> bool:
    """Whether so many members are there, nothing is handed over between them, and each has its stream."""
    streams = [each.is_connected for each in described.members]
    return (described.state, streams) == ("stable", [True] * count)


def commit_all(group: Group) -> None:
    for consumer in group.reading.consumers:
        consumer.commit()


def test_a_coordinator_that_is_killed_is_succeeded_and_nobody_is_disturbed(
    cluster: LocalCluster, topic: str, group: Group
) -> None:
    read_all(cluster, group, topic, range(600))
    before = group.generations()
    cluster.kill(cluster.active_coordinator())
    read_all(cluster, group, topic, range(600, 1_200))
    commit_all(group)  # Waits for the successor.
    read_all(cluster, group, topic, range(1_200, 1_800))
    assert group.reading.times_read() == dict.fromkeys(range(1_800), 1)
    assert (group.generations(), group.disturbed) == (before, [])
    with Admin(cluster.bootstrap) as admin:
        # The successor knows who is a member before it has heard of each of them.
        group.reading.until(lambda: are_connected(admin.describe_group(group.name), 3))


@pytest.mark.parametrize("group", [PAUSED_MS], indirect=True)
def test_a_coordinator_that_stood_still_is_not_obeyed_when_it_wakes_up(
    cluster: LocalCluster, topic: str, group: Group
) -> None:
    read_all(cluster, group, topic, range(600))
    old = cluster.active_coordinator()
    cluster.pause(old)
    group.reading.until(lambda: cluster.active_coordinator(timeout_s=60) != old)
    commit_all(group)
    cluster.resume(old)
    read_all(cluster, group, topic, range(600, 1_200))
    with Admin(cluster.bootstrap) as admin:
        group.reading.until(lambda: are_connected(admin.describe_group(group.name), 3))
    read_all(cluster, group, topic, range(1_200, 1_800))
    group.reading.until(lambda: group.reading.is_shared(6))
    assert group.reading.numbers() == set(range(1_800))


def test_brokers_that_are_killed_one_after_the_other_lose_nothing_and_move_nothing(
    cluster: LocalCluster, topic: str, group: Group
) -> None:
    read_all(cluster, group, topic, range(600))
    for at, broker in enumerate(("broker-1", "broker-2"), 1):
        cluster.kill(broker)
        read_all(cluster, group, topic, range(at * 600, (at + 1) * 600))
        cluster.restart(broker)
    assert group.reading.times_read() == dict.fromkeys(range(1_800), 1)
    assert group.disturbed == []


def test_a_zookeeper_that_is_gone_for_a_while_stops_no_reading_and_loses_no_commit(
    cluster: LocalCluster, topic: str, group: Group
) -> None:
    read_all(cluster, group, topic, range(600))
    cluster.kill("zookeeper")
    read_all(cluster, group, topic, range(600, 1_200))
    cluster.restart("zookeeper")
    read_all(cluster, group, topic, range(1_200, 1_800))
    commit_all(group)
    assert group.reading.numbers() == set(range(1_800))
    with Admin(cluster.bootstrap) as admin:
        offsets = admin.group_offsets(group.name)
        assert sum(each.offset for each in offsets.values()) == 1_800


def test_the_partitions_of_a_consumer_that_crashed_are_read_on_by_the_others(
    cluster: LocalCluster, topic: str, group: Group
) -> None:
    with GroupProcess(cluster.bootstrap, topic, group.name, session_timeout_ms=GIVEN_UP_MS) as process:
        group.reading.until(group.has_given_one_away)
        send(cluster, topic, range(600))
        group.reading.until(lambda: group.reading.count() + len(process.numbers) >= 600)
        process.kill()
        group.reading.until(lambda: group.reading.is_shared(6), SESSION_TIMEOUT_MS / 2_000)
        send(cluster, topic, range(600, 1_200))
        numbers = set(process.numbers)
        group.reading.until(lambda: group.reading.numbers() | numbers >= set(range(1_200)))
        again = group.reading.times_read()
        assert max(again.values()) == 1
        assert {each for each in again if each in numbers} <= set(range(600))


def test_a_consumer_that_stood_still_begins_anew_and_its_partitions_were_read_meanwhile(
    cluster: LocalCluster, topic: str, group: Group
) -> None:
    with GroupProcess(cluster.bootstrap, topic, group.name, session_timeout_ms=GIVEN_UP_MS) as process:
        group.reading.until(group.has_given_one_away)
        process.pause()
        group.reading.until(lambda: group.reading.is_shared(6))
        send(cluster, topic, range(600))
        group.reading.until(lambda: len(group.reading.numbers()) == 600)
        process.resume()
        group.reading.until(group.has_given_one_away)
        send(cluster, topic, range(600, 1_200))
        group.reading.until(lambda: group.reading.numbers() | set(process.numbers) >= set(range(1_200)))
        assert set(process.numbers) <= set(range(600, 1_200))
        assert not set(process.numbers) & group.reading.numbers()


def test_a_consumer_that_is_closed_while_its_coordinator_dies_still_commits(
    cluster: LocalCluster, topic: str, group: Group
) -> None:
    read_all(cluster, group, topic, range(600))
    cluster.kill(cluster.active_coordinator())
    group.close()
    with Admin(cluster.bootstrap) as admin:
        assert sum(each.offset for each in admin.group_offsets(group.name).values()) == 600
