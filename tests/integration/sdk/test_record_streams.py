"""An iterator for each stream of a member ("topic count"), in threads and in tasks, on a real cluster."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hightide import Admin, Consumer, Record, TopicPartition, aio
from hightide.errors import ConcurrentUseError, InvalidArgumentError
from hightide.record_stream import RecordStream
from hightide_local.cluster import LocalCluster
from integration.coordinator.group_reading import SESSION_TIMEOUT_MS, new_name, new_topic, parts, send, values

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("streams")
    with LocalCluster(directory, brokers=1, controllers=1, coordinators=1) as running:
        running.active_coordinator()
        yield running


def member(cluster: LocalCluster, topic: str, group: str, streams: int, **settings: Any) -> Consumer:
    return Consumer(
        cluster.bootstrap,
        topics={topic: streams},
        group=group,
        **{"session_timeout_ms": SESSION_TIMEOUT_MS, **settings},
    )


def committed(cluster: LocalCluster, group: str) -> dict[TopicPartition, int]:
    with Admin(cluster.bootstrap) as admin:
        return {each: found.offset for each, found in admin.group_offsets(group).items()}


class Workers:
    """A thread for each stream, which ends when the consumer is closed."""

    def __init__(self, consumer: Consumer) -> None:
        self.read: dict[int, list[Record]] = {}
        self.changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, args=[each]) for each in consumer.record_streams()
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, stream: RecordStream[Record]) -> None:
        for record in stream:
            with self.changed:
                self.read.setdefault(stream.number, []).append(record)
                self.changed.notify_all()

    def numbers(self) -> Counter[int]:
        return Counter(number for records in list(self.read.values()) for number in values(list(records)))

    def wait_for(self, holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, timeout=60), {each: len(at) for each, at in self.read.items()}

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "the loop ends with the consumer"


def test_each_stream_is_read_by_a_thread_of_its_own_and_all_is_committed_at_the_end(
    cluster: LocalCluster,
) -> None:
    topic, group = new_topic(cluster), new_name("threads")
    send(cluster, topic, range(1_200))
    with member(cluster, topic, group, 3) as consumer:
        workers = Workers(consumer)
        workers.wait_for(lambda: len(workers.numbers()) == 1_200)
        streams = consumer.record_streams()
        shares = [stream.partitions for stream in streams]
        assert sorted(each for share in shares for each in share) == list(parts(topic, *range(6)))
        assert [len(share) for share in shares] == [2, 2, 2]
    workers.join()
    assert set(workers.numbers().values()) == {1}
    for stream, share in zip(streams, shares, strict=True):
        of_stream = workers.read[stream.number]
        assert {TopicPartition(each.topic, each.partition) for each in of_stream} == set(share)
    assert committed(cluster, group) == dict.fromkeys(parts(topic, *range(6)), 200)


def test_streams_survive_members_that_come_and_go_and_no_record_is_lost_or_read_twice(
    cluster: LocalCluster,
) -> None:
    topic, group = new_topic(cluster), new_name("moves")
    with member(cluster, topic, group, 2) as staying:
        there, elsewhere, sent = Workers(staying), Counter[int](), 0
        for _ in range(3):
            with member(cluster, topic, group, 2) as passing:
                visiting = Workers(passing)
                began = time.monotonic()
                while not visiting.numbers():
                    assert time.monotonic() - began < 60, "a member gets its share"
                    send(cluster, topic, range(sent, sent + 60))
                    sent += 60
            visiting.join()
            elsewhere += visiting.numbers()
        there.wait_for(lambda: len(there.numbers() + elsewhere) == sent)
    there.join()
    assert set((there.numbers() + elsewhere).values()) == {1}
    assert committed(cluster, group) == dict.fromkeys(parts(topic, *range(6)), sent // 6)


def test_a_loop_that_is_left_by_an_error_leaves_its_record_for_the_next_one(cluster: LocalCluster) -> None:
    topic, group = new_topic(cluster, partitions=2), new_name("errors")
    send(cluster, topic, range(20), partitions=2)
    with member(cluster, topic, group, 2) as consumer:
        for stream in consumer.record_streams():
            for record in stream:
                if record.offset == 4:
                    break
    assert committed(cluster, group) == dict.fromkeys(parts(topic, 0, 1), 4)


def test_without_auto_commit_each_stream_commits_what_it_has_returned(cluster: LocalCluster) -> None:
    topic, group = new_topic(cluster, partitions=2), new_name("explicit")
    send(cluster, topic, range(20), partitions=2)
    with member(cluster, topic, group, 2, auto_commit=False) as consumer:
        first, second = consumer.record_streams()
        for stream, last in ((first, 3), (second, 6)):
            for record in stream:
                if record.offset == last:
                    break
        (other,), (own,) = first.partitions, second.partitions
        assert second.commit() == {own: 7}
        assert committed(cluster, group) == {other: 0, own: 7}


def test_a_divided_consumer_is_read_by_its_streams_and_each_stream_by_one_thread(
    cluster: LocalCluster,
) -> None:
    topic, group = new_topic(cluster, partitions=2), new_name("alone")
    with member(cluster, topic, group, 2) as consumer:
        streams = consumer.record_streams()
        assert consumer.record_streams() is streams
        with pytest.raises(InvalidArgumentError, match=r"record_streams\(\)"):
            consumer.poll()
        with pytest.raises(InvalidArgumentError, match="make another"):
            consumer.unsubscribe()
        is_caught = threading.Event()

        def read() -> None:
            try:
                list(streams[0])
            except ConcurrentUseError:
                is_caught.set()

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert is_caught.wait(60)
    for thread in threads:
        thread.join(60)
    with (
        Consumer(cluster.bootstrap, topics=topic) as outside,
        pytest.raises(InvalidArgumentError, match="group"),
    ):
        outside.record_streams()


def test_each_stream_is_read_by_a_task_of_its_own(cluster: LocalCluster) -> None:
    topic, group = new_topic(cluster), new_name("tasks")
    send(cluster, topic, range(600))
    read: dict[int, list[int]] = {}

    async def scenario() -> None:
        done = asyncio.Event()

        async def work(consumer: aio.Consumer, at: int) -> None:
            async for record in consumer.record_streams()[at]:
                read.setdefault(at, []).extend(values([record]))
                if sum(map(len, read.values())) == 600:
                    done.set()

        async with aio.Consumer(
            cluster.bootstrap, topics={topic: 3}, group=group, session_timeout_ms=SESSION_TIMEOUT_MS
        ) as consumer:
            tasks = [asyncio.create_task(work(consumer, at)) for at in range(3)]
            async with asyncio.timeout(60):
                await done.wait()
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks)

    asyncio.run(scenario())
    assert sorted(number for numbers in read.values() for number in numbers) == list(range(600))
    assert len(read) == 3
    assert committed(cluster, group) == dict.fromkeys(parts(topic, *range(6)), 100)
