"""Consumers that subscribe later, take one record at a time, and commit without waiting."""

import asyncio
import time
from collections.abc import Iterator, Mapping

import pytest
from hightide import Admin, Consumer, Record, TopicPartition, aio
from hightide.errors import CommitGoesBackError, HightideError, InvalidArgumentError, InvalidPatternError
from hightide_local.cluster import LocalCluster
from integration.coordinator.group_reading import SESSION_TIMEOUT_MS, new_name, new_topic, send, values

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("subscriptions")
    with LocalCluster(directory, brokers=1, controllers=1, coordinators=1) as running:
        running.active_coordinator()
        yield running


def topic_of(cluster: LocalCluster, numbers: range, name: str | None = None) -> str:
    """A topic of one partition with a record for each number."""
    if name is None:
        name = new_topic(cluster, 1)
    else:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic(name, partitions=1, replication_factor=1)
    send(cluster, name, numbers, partitions=1)
    return name


def member(cluster: LocalCluster, group: str, **settings: object) -> Consumer:
    options: dict[str, object] = {"session_timeout_ms": SESSION_TIMEOUT_MS, **settings}
    return Consumer(cluster.bootstrap, group=group, **options)  # type: ignore[arg-type]


def read(consumer: Consumer, count: int) -> list[Record]:
    return [consumer.getone() for _ in range(count)]


def committed(cluster: LocalCluster, group: str) -> dict[str, int | None]:
    with Admin(cluster.bootstrap) as admin:
        return {each.partition.topic: each.committed for each in admin.group_lag(group)}


def test_a_member_changes_what_it_subscribes_to_leaves_and_comes_back(cluster: LocalCluster) -> None:
    one, two = topic_of(cluster, range(5)), topic_of(cluster, range(100, 105))
    group = new_name("later")
    told: list[tuple[str, list[str]]] = []
    with member(cluster, group) as consumer:
        with pytest.raises(InvalidArgumentError, match="subscribes to nothing"):
            consumer.poll(0)
        consumer.subscribe(
            one,
            on_assign=lambda each: told.append(("assigned", [at.topic for at in each])),
            on_revoke=lambda each: told.append(("revoked", [at.topic for at in each])),
        )
        assert values(read(consumer, 3)) == [0, 1, 2]
        consumer.subscribe(two)
        assert values(read(consumer, 2)) == [100, 101]
        assert told == [("assigned", [one]), ("revoked", [one]), ("assigned", [two])]
        consumer.unsubscribe()
        assert told[3:] == [("revoked", [two])]
        assert committed(cluster, group) == {one: 3, two: 2}, "the goodbye is durable when it returns"
        with pytest.raises(InvalidArgumentError, match="subscribes to nothing"):
            consumer.poll(0)
        consumer.subscribe([one, two])
        assert sorted(values(read(consumer, 5))) == [3, 4, 102, 103, 104]


def test_a_refused_subscription_is_raised_and_the_next_one_goes_on(cluster: LocalCluster) -> None:
    topic = topic_of(cluster, range(4))
    with member(cluster, new_name("later"), topics=topic) as consumer:
        assert values(read(consumer, 2)) == [0, 1]
        consumer.subscribe(pattern=topic, exclude="a(")
        with pytest.raises(InvalidPatternError, match=r"'a\('"):
            read(consumer, 3)  # Meanwhile it reads what it has.
        consumer.subscribe(topic)
        while consumer.getone().offset < 3:
            pass


def test_topics_that_are_excluded_are_not_read_whenever_they_come(cluster: LocalCluster) -> None:
    prefix = new_name("orders")
    topic_of(cluster, range(3), f"{prefix}.eu")
    topic_of(cluster, range(100, 103), f"{prefix}.eu.test")
    with member(cluster, new_name("excluding"), pattern=f"{prefix}.*", exclude=[".*[.]test"]) as consumer:
        assert sorted(values(read(consumer, 3))) == [0, 1, 2]
        topic_of(cluster, range(200, 203), f"{prefix}.us.test")
        topic_of(cluster, range(300, 303), f"{prefix}.us")
        assert sorted(values(read(consumer, 3))) == [300, 301, 302]
        assert {each.topic for each in consumer.assignment} == {f"{prefix}.eu", f"{prefix}.us"}


def test_without_a_group_all_partitions_of_the_topics_are_read(cluster: LocalCluster) -> None:
    one, two = new_topic(cluster, 2), topic_of(cluster, range(100, 103))
    send(cluster, one, range(4), partitions=2)
    with Consumer(cluster.bootstrap) as consumer:
        consumer.subscribe([one])
        assert sorted(values(list(consumer.read_to_end()))) == [0, 1, 2, 3]
        consumer.subscribe([one, two])
        assert values(list(consumer.read_to_end())) == [100, 101, 102], "the topic that stays goes on"
        consumer.unsubscribe()
        with pytest.raises(InvalidArgumentError, match="nothing is assigned"):
            consumer.poll(0)
        consumer.assign([TopicPartition(two, 0)])
        assert consumer.getone().value == b"100"


def test_one_record_is_committed_whatever_else_was_returned(cluster: LocalCluster) -> None:
    topic, group = topic_of(cluster, range(10)), new_name("by-record")
    partition = TopicPartition(topic, 0)
    with member(cluster, group, topics=topic, auto_commit=False) as consumer:
        records: list[Record] = []
        while len(records) < 10:
            records += consumer.poll(1)
        assert consumer.commit(records[3]) == {partition: 4}
    assert committed(cluster, group) == {topic: 4}
    with member(cluster, group, topics=topic) as consumer:
        assert consumer.getone().offset == 4


def test_commits_that_nobody_waits_for_arrive_in_order_and_are_told(cluster: LocalCluster) -> None:
    topic, group = topic_of(cluster, range(10)), new_name("async")
    partition = TopicPartition(topic, 0)
    told: list[tuple[Mapping[TopicPartition, int], HightideError | None]] = []
    with member(cluster, group, topics=topic, auto_commit=False) as consumer:
        for record in read(consumer, 5):
            consumer.commit_async(record, on_commit=lambda written, error: told.append((written, error)))
        deadline = time.monotonic() + 60
        while len(told) < 5 and time.monotonic() < deadline:
            consumer.poll(0.1, max_records=1)
        assert told == [({partition: offset}, None) for offset in range(1, 6)]
        consumer.commit_async({partition: 7})
    assert committed(cluster, group) == {topic: 7}, "close() waits for it"


def test_the_error_of_a_commit_that_nobody_waits_for_is_raised(cluster: LocalCluster) -> None:
    topic, group = topic_of(cluster, range(10)), new_name("async")
    partition = TopicPartition(topic, 0)
    with member(cluster, group, topics=topic, auto_commit=False) as consumer:
        consumer.getone()
        consumer.commit_async({partition: 5})
        consumer.commit_async({partition: 3})
        with pytest.raises(CommitGoesBackError):
            read(consumer, 10)
    assert committed(cluster, group) == {topic: 5}


def test_all_of_it_with_asyncio(cluster: LocalCluster) -> None:
    one, two = topic_of(cluster, range(5)), topic_of(cluster, range(100, 105))
    group = new_name("aio-later")
    written: list[Mapping[TopicPartition, int]] = []

    async def on_commit(offsets: Mapping[TopicPartition, int], error: HightideError | None) -> None:
        await asyncio.sleep(0)
        assert error is None
        written.append(offsets)

    async def scenario() -> None:
        options = {"session_timeout_ms": SESSION_TIMEOUT_MS, "auto_commit": False}
        async with aio.Consumer(cluster.bootstrap, group=group, **options) as consumer:  # type: ignore[arg-type]
            await consumer.subscribe(one)
            record = await consumer.getone()
            await consumer.commit_async(record, on_commit=on_commit)
            await consumer.subscribe(pattern=f"{one}|{two}", exclude=one)
            while (record := await consumer.getone()).topic == one:
                pass  # Whether a name matches a pattern is for the coordinator to say.
            assert record.value == b"100"
            await consumer.unsubscribe()
            assert written == [{TopicPartition(one, 0): 1}]
            await consumer.subscribe(one)
            assert (await consumer.getone()).offset == 1

    asyncio.run(scenario())
