"""Ids for producers, against a real ZooKeeper and hands that get in the way (KIP-98)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hightide_broker.data.producer_ids import ProducerIds
from hightide_broker.data.producer_owners import ProducerOwners
from hightide_runtime.access.principals import Principal, Role
from hightide_runtime.errors import ServiceError, StartupError
from hightide_runtime.znodes.cluster_znodes import ProducerIdsZnode, ProducerOwnersZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession

PATH = ProducerIdsZnode.path()
BLOCK = ProducerIdsZnode.BLOCK_SIZE


def with_session(hosts: str, test: Callable[[ZooKeeperSession], Awaitable[None]]) -> None:
    async def run() -> None:
        session = await ZooKeeperSession.connect(hosts, session_timeout_ms=20_000)
        try:
            await test(session)
        finally:
            await session.close()

    asyncio.run(run())


async def taken(ids: ProducerIds, count: int) -> list[int]:
    return [await ids.take() for _ in range(count)]


def test_brokers_that_take_ids_at_the_same_time_never_give_out_the_same(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        brokers = [ProducerIds(session) for _ in range(5)]
        given = await asyncio.gather(*(taken(ids, BLOCK + 1) for ids in brokers))
        assert len({each for some in given for each in some}) == 5 * (BLOCK + 1)

    with_session(zookeeper_hosts, test)


def test_nonsense_in_the_znode_is_told_with_what_to_write_instead(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create(PATH, b"all gone")
        ids = ProducerIds(session)
        with pytest.raises(ServiceError, match=r"producer_ids.*write a number into it.*\"next\""):
            await ids.take()
        await session.set(PATH, ProducerIdsZnode(7000).encode(), -1)
        assert await ids.take() == 7000

    with_session(zookeeper_hosts, test)


def test_a_broker_gives_no_id_out_again_though_an_operator_took_the_znode_away(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        ids = ProducerIds(session)
        before = await taken(ids, BLOCK)
        await session.delete(PATH)
        assert await ids.take() > max(before)

    with_session(zookeeper_hosts, test)


def test_all_brokers_have_the_same_key_whoever_makes_it(zookeeper_hosts: str) -> None:
    alice = Principal(Role.CLIENT, "alice")

    async def test(session: ZooKeeperSession) -> None:
        await session.ensure_cluster_id()
        brokers = [ProducerOwners() for _ in range(5)]
        await asyncio.gather(*(each.load(session) for each in brokers))
        assert len({each.tag_of(alice) for each in brokers}) == 1
        await session.set(ProducerOwnersZnode.path(), b'{"key":"none"}', -1)
        with pytest.raises(StartupError, match="correct /cluster/producer_owners"):
            await ProducerOwners().load(session)

    with_session(zookeeper_hosts, test)
