"""What the tests of the coordinator's dealings with ZooKeeper have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from hightide_coordinator.core.effects import StoreGroup
from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.core.values.registration import PartitionOwner, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hightide_coordinator.zookeeper.shard_count import fix_shard_count
from hightide_coordinator.zookeeper.store import CoordinatorStore
from hightide_runtime.znodes.cluster_znodes import TopicIdZnode, TopicZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession

FLIGHTS = TopicPartition("flights", 0)
FLIGHTS_ID = bytes(15) + b"\1"
SESSION_TIMEOUT_MS = 100_000
"""Longer than anything here is waited for."""


def me(coordinator_id: int = 1) -> Endpoint:
    """A coordinator process; its port refuses."""
    return Endpoint(coordinator_id, "127.0.0.1", coordinator_id)


@asynccontextmanager
async def connected(hosts: str) -> AsyncIterator[ZooKeeperSession]:
    """A session of its own, with what every coordinator makes sure of."""
    session = await ZooKeeperSession.connect(hosts, session_timeout_ms=SESSION_TIMEOUT_MS)
    try:
        await session.ensure_cluster_id()
        yield session
    finally:
        await session.close()


def with_active(hosts: str, test: Callable[[ZooKeeperSession, CoordinatorStore], Awaitable[None]]) -> None:
    """Run a test with an operator's session and the store of the active coordinator of the only shard."""

    async def run() -> None:
        async with connected(hosts) as operator, connected(hosts) as session:
            await fix_shard_count(session, 1)
            store = CoordinatorStore(session, 0, 1, me())
            assert await store.elect() == 1
            await store.load()
            await test(operator, store)

    asyncio.run(run())


async def put_topic(session: ZooKeeperSession, topic: str, partitions: int = 1) -> None:
    """A topic as the controller writes it."""
    znode = TopicZnode(FLIGHTS_ID, ((1,),) * partitions)
    await session.create(TopicZnode.path(topic), znode.encode())
    await session.create(TopicIdZnode.path(FLIGHTS_ID), TopicIdZnode(topic).encode())


def owner(member: str = "m-1", generation: int = 1) -> PartitionOwner:
    """An owner."""
    return PartitionOwner(member, f"c-{member}", "", 0, generation, FLIGHTS_ID, 2)


def committed(offset: int) -> StoredOffset:
    """A committed offset of the topic."""
    return StoredOffset(offset, 3, FLIGHTS_ID)


def store_of(
    store: CoordinatorStore,
    owners: dict[TopicPartition, PartitionOwner | None] | None = None,
    offsets: dict[TopicPartition, StoredOffset | None] | None = None,
    *,
    generation: int = 1,
    group: str = "readers",
) -> StoreGroup:
    """An effect of the core of this coordinator."""
    return StoreGroup(7, group, store.coordinator_epoch, generation, 10_000, owners or {}, offsets or {})
