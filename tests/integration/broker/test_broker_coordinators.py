"""What a broker tells of the coordinators, against a real ZooKeeper (consumer coordinator §7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hightide_broker.cluster.coordinators import Coordinators
from hightide_broker.cluster.metadata import EndpointView, MetadataCache
from hightide_broker.hosting.registration import Registration
from hightide_runtime.znodes.cluster_znodes import BrokerZnode
from hightide_runtime.znodes.group_znodes import GROUP_PARENTS, CoordinatorZnode, ShardsZnode
from hightide_runtime.zookeeper.session import SessionState, SessionStateChanged, ZooKeeperSession
from integration.controller.controller_harness import until

PATIENCE_S = 15.0
ALONE = CoordinatorZnode.path(0, 1)
SECOND = CoordinatorZnode.path(1, 2)
READ_STEPS_MAX = 8
"""More than a broker asks one after the other in order to know all coordinators."""


def with_coordinators(
    hosts: str, test: Callable[[ZooKeeperSession, MetadataCache, Coordinators], Awaitable[None]]
) -> None:
    """Run a test with a broker's session, by which the test writes too, and what the broker knows."""

    async def run() -> None:
        session = await ZooKeeperSession.connect(hosts, session_timeout_ms=20_000)
        await session.ensure_cluster_id()
        for path in GROUP_PARENTS:
            await session.ensure_path(path)
        cache = MetadataCache("the-cluster")
        coordinators = Coordinators(session, cache)
        registration = Registration(session, 1, BrokerZnode("127.0.0.1", 9092, 7), coordinators.take)
        keeping = asyncio.create_task(registration.keep(session.session_id, PATIENCE_S))
        coordinators.start()
        try:
            await test(session, cache, coordinators)
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
            await coordinators.close()
            await session.close()

    asyncio.run(run())


async def told(cache: MetadataCache, expected: tuple[EndpointView | None, ...]) -> None:
    """Wait until the broker says this."""

    async def is_told() -> bool:
        return cache.coordinators == expected

    await until(is_told, f"the broker tells of {expected}")


def coordinator(number: int) -> tuple[bytes, EndpointView]:
    """What it writes, and what is told of it."""
    znode = CoordinatorZnode(number, "127.0.0.1", 9000 + number, number)
    return znode.encode(), EndpointView(number, "127.0.0.1", 9000 + number)


def test_a_coordinator_is_told_when_it_comes_goes_and_is_followed_by_another_one(
    zookeeper_hosts: str,
) -> None:
    async def test(operator: ZooKeeperSession, cache: MetadataCache, _: Coordinators) -> None:
        (first, first_seen), (second, second_seen) = coordinator(1), coordinator(2)
        assert cache.coordinators == ()
        await operator.create(ShardsZnode.path(), ShardsZnode(1).encode())
        await told(cache, (None,))
        await operator.create(ALONE, first, ephemeral=True)
        await told(cache, (first_seen,))
        await operator.delete(ALONE)
        await told(cache, (None,))
        await operator.create(ALONE, second, ephemeral=True)
        await told(cache, (second_seen,))

    with_coordinators(zookeeper_hosts, test)


def test_each_shard_has_its_own_coordinator(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, cache: MetadataCache, _: Coordinators) -> None:
        content, seen = coordinator(1)
        await operator.create(ShardsZnode.path(), ShardsZnode(2).encode())
        await operator.create(SECOND, content, ephemeral=True)
        await told(cache, (None, seen))

    with_coordinators(zookeeper_hosts, test)


def test_nonsense_of_an_operator_is_nobody(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, cache: MetadataCache, _: Coordinators) -> None:
        content, seen = coordinator(1)
        await operator.create(ShardsZnode.path(), b"{}")
        await operator.set(ShardsZnode.path(), ShardsZnode(1).encode(), 0)
        await operator.create(ALONE, content)
        await told(cache, (seen,))
        await operator.set(ALONE, b'{"host":1}', 0)
        await told(cache, (None,))
        # The number of shards stays what it was while it makes no sense.
        await operator.set(ShardsZnode.path(), b"nonsense", 1)
        await operator.set(ALONE, content, 1)
        await told(cache, (seen,))

    with_coordinators(zookeeper_hosts, test)


def test_what_changed_while_there_was_no_connection_is_seen_afterwards(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, cache: MetadataCache, coordinators: Coordinators) -> None:
        content, seen = coordinator(1)
        await operator.create(ShardsZnode.path(), ShardsZnode(1).encode())
        await told(cache, (None,))
        coordinators.take(SessionStateChanged(SessionState.SUSPENDED, 1))
        # A read may be under way. It has at most so many questions left, and answers come in order.
        for _ in range(READ_STEPS_MAX):
            await operator.sync()
        await operator.create(ALONE, content, ephemeral=True)
        # The watch has fired by the time that this has come back.
        await operator.sync()
        assert cache.coordinators == (None,)
        coordinators.take(SessionStateChanged(SessionState.CONNECTED, 1))
        await told(cache, (seen,))

    with_coordinators(zookeeper_hosts, test)
