"""A coordinator while ZooKeeper is away: it decides nothing wrong, and goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.effects import WatchTopics
from hightide_coordinator.core.values.registration import StoredGroup
from hightide_coordinator.core.values.topic_partition import Topic
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from integration.coordinator.coordinator_rig import (
    FLIGHTS,
    FLIGHTS_ID,
    committed,
    connected,
    put_topic,
    store_of,
)
from integration.coordinator.test_coordinator_watches import process


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path, tick_time_ms=200) as server:
        yield server


def test_a_coordinator_outlives_a_restart_of_zookeeper_within_its_session(server: EmbeddedZooKeeper) -> None:
    async def run() -> None:
        async with process(server.address) as active, connected(server.address) as operator:
            await active.is_elected()
            await put_topic(operator, "flights")
            active.watches.watch_topics(0, WatchTopics(frozenset({"flights"})))
            await active.topic("flights", Topic("flights", FLIGHTS_ID, 1))
            store = active.watches.stores[0]
            first = store_of(store, offsets={FLIGHTS: committed(5)})
            assert await store.store_group(first) == ev.StoreCommitted(7)
            await asyncio.to_thread(server.kill)
            # The connection may still be thought to stand, so that it is sent and its answer never comes.
            second = store_of(store, offsets={FLIGHTS: committed(6)})
            assert await store.store_group(second) == ev.StoreUnknown(7)
            reading = asyncio.create_task(store.read_group("readers"))
            await asyncio.to_thread(server.start)
            # It waits until ZooKeeper answers, and tells what holds then.
            found = (await asyncio.wait_for(reading, 30)).stored
            assert found == StoredGroup(1, 10_000, {}, {FLIGHTS: committed(5)})
            assert await store.store_group(second) == ev.StoreCommitted(7)
            # Watches were lost with the connection.
            async with connected(server.address) as another:
                await another.delete("/brokers/topics/flights")
                await active.topic("flights", None)
            assert len(active.elected) == 1
            assert active.deposed == []
            assert active.watches.held() == 1

    asyncio.run(run())
