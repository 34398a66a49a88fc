"""Consumers in groups, with asyncio."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hightide import TopicPartition, aio
from hightide.errors import InvalidSessionTimeoutError
from hightide_local.cluster import LocalCluster
from integration.coordinator.group_reading import SESSION_TIMEOUT_MS, new_name, new_topic, parts, send, values

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("aio-groups")
    with LocalCluster(directory, brokers=1, controllers=1, coordinators=1) as running:
        running.active_coordinator()
        yield running


@asynccontextmanager
async def joined(
    cluster: LocalCluster, topic: str, group: str, **settings: Any
) -> AsyncIterator[aio.Consumer]:
    options = {"session_timeout_ms": SESSION_TIMEOUT_MS, **settings}
    async with aio.Consumer(cluster.bootstrap, group=group, topics=topic, **options) as consumer:
        yield consumer


async def until(holds: Callable[[], Awaitable[bool]], *consumers: aio.Consumer) -> list[int]:
    """Poll each until something holds; the numbers that were read."""
    found: list[int] = []
    async with asyncio.timeout(60):
        while not await holds():
            for consumer in consumers:
                found += values(await consumer.poll(0.02))
    return found


def test_partitions_move_between_two_tasks_and_coroutines_are_told(cluster: LocalCluster) -> None:
    topic = new_topic(cluster)
    send(cluster, topic, range(600))
    told: list[tuple[str, tuple[TopicPartition, ...]]] = []

    async def given(partitions: tuple[TopicPartition, ...]) -> None:
        await asyncio.sleep(0)
        told.append(("given", partitions))

    async def scenario() -> None:
        group = new_name("aio")
        async with joined(
            cluster, topic, group, on_assign=given, on_revoke=lambda each: told.append(("taken", each))
        ) as first:

            async def has_all() -> bool:
                return list(first.lag().values()) == [0] * 6

            assert sorted(await until(has_all, first)) == list(range(600))
            async with joined(cluster, topic, group) as second:

                async def is_shared() -> bool:
                    return len(await first.assignment()) == len(await second.assignment()) == 3

                assert await until(is_shared, first, second) == []
                moved = await second.assignment()
            assert told == [("given", parts(topic, *range(6))), ("taken", moved)]
            assert await until(has_all, first) == []
        assert told[2:] == [("given", moved), ("taken", parts(topic, *range(6)))]

    asyncio.run(scenario())


def test_an_asynchronous_iteration_commits_what_it_has_passed(cluster: LocalCluster) -> None:
    topic = new_topic(cluster, 1)
    send(cluster, topic, range(100), partitions=1)

    async def scenario() -> None:
        group = new_name("aio")
        async with joined(cluster, topic, group) as consumer:
            async for record in consumer:
                if record.offset == 40:
                    break
        async with joined(cluster, topic, group, auto_commit=False) as consumer:
            partition = TopicPartition(topic, 0)
            async for record in consumer:
                assert record.offset == 41
                break
            assert await consumer.commit() == {partition: 42}
            await consumer.seek(partition, 7)
            assert await consumer.committed() == {partition: 42}
            await consumer.commit()
            await consumer.pause()
            assert await consumer.poll(0.1) == []
            await consumer.resume()
            assert (await consumer.poll_arrow(60)).column("offset")[0].as_py() == 7
        async with aio.Admin(cluster.bootstrap) as admin:
            assert [each.committed for each in await admin.group_lag(group)] == [7]
            await admin.delete_group(group)

    asyncio.run(scenario())


def test_a_refusal_is_raised(cluster: LocalCluster) -> None:
    async def scenario() -> None:
        async with joined(cluster, "flights", new_name("aio"), session_timeout_ms=1) as consumer:
            with pytest.raises(InvalidSessionTimeoutError):
                await consumer.poll(60)

    asyncio.run(scenario())


def test_a_coordinator_that_is_killed_is_replaced_by_the_next(cluster: LocalCluster) -> None:
    topic = new_topic(cluster)
    send(cluster, topic, range(60))

    async def scenario() -> None:
        group = new_name("aio")
        async with joined(cluster, topic, group, commit_interval_ms=100) as consumer:

            async def has_read() -> bool:
                return list(consumer.lag().values()) == [0] * 6

            await until(has_read, consumer)
            before = consumer.generations
            await asyncio.to_thread(cluster.kill, "coordinator-1")
            await asyncio.to_thread(cluster.restart, "coordinator-1")
            assert len(await consumer.commit({TopicPartition(topic, 0): 10})) == 1
            assert consumer.generations == before

    asyncio.run(scenario())
