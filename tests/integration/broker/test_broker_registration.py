"""A broker's registration against a real ZooKeeper, and the hands that get in its way (V3 Paths 2, E)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hightide_broker.hosting.registration import Registration
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import BrokerIncarnationZnode, BrokerZnode
from hightide_runtime.zookeeper.session import Create, Delete, NoNode, Znode, ZooKeeperSession

PATH = BrokerZnode.path(1)
OURS = BrokerZnode("127.0.0.1", 9092, 7)
PATIENCE_S = 1.0
HEALED_S = 20.0


@asynccontextmanager
async def connected(hosts: str) -> AsyncIterator[ZooKeeperSession]:
    session = await ZooKeeperSession.connect(hosts, session_timeout_ms=20_000)
    try:
        await session.ensure_cluster_id()
        yield session
    finally:
        await session.close()


@asynccontextmanager
async def kept(session: ZooKeeperSession) -> AsyncIterator[Registration]:
    """A broker's registration, which is looked after."""
    registration = Registration(session, 1, OURS)
    keeping = asyncio.create_task(registration.keep(session.session_id, PATIENCE_S))
    await registration.register(PATIENCE_S)
    yield registration
    keeping.cancel()
    await asyncio.wait([keeping])


def with_registration(hosts: str, test: Callable[[Registration, ZooKeeperSession], Awaitable[None]]) -> None:
    """Run a test with a registration, and with the session of an operator that means no good."""

    async def run() -> None:
        async with connected(hosts) as session, connected(hosts) as operator, kept(session) as registration:
            await test(registration, operator)

    asyncio.run(run())


async def seen(operator: ZooKeeperSession, unlike: int, content: bytes | None = None) -> Znode:
    """The registration under another broker epoch, or with this content."""

    async def look() -> Znode:
        while True:
            try:
                found = await operator.get(PATH)
            except NoNode:
                continue
            if found.czxid != unlike and content in (None, found.data):
                return found

    return await asyncio.wait_for(look(), HEALED_S)


def test_a_registration_that_an_operator_deletes_is_made_again_under_a_new_broker_epoch(
    zookeeper_hosts: str,
) -> None:
    async def test(registration: Registration, operator: ZooKeeperSession) -> None:
        for registered_before in (1, 2):
            before = registration.broker_epoch
            await operator.delete(PATH)
            found = await seen(operator, unlike=before)
            # So that each loss of it is told apart in traces; the epoch would not do, which goes with it.
            assert found.data == replace(OURS, registered_before=registered_before).encode()
            assert await registration.known(HEALED_S) == found.czxid > before

    with_registration(zookeeper_hosts, test)


def test_an_operator_that_insists_is_given_way_to_for_longer_and_longer(zookeeper_hosts: str) -> None:
    async def test(registration: Registration, operator: ZooKeeperSession) -> None:
        waited_s = []
        for _ in range(4):
            # One that it is still making does not vanish, as it sees it, because an operator insists.
            await registration.known(HEALED_S)
            found = await seen(operator, unlike=-1)
            started = asyncio.get_running_loop().time()
            await operator.delete(PATH)
            await seen(operator, unlike=found.czxid)
            waited_s.append(asyncio.get_running_loop().time() - started)
        assert waited_s[-1] > 0.3, waited_s

    with_registration(zookeeper_hosts, test)


def test_a_znode_of_no_session_in_the_place_of_the_registration_is_replaced(zookeeper_hosts: str) -> None:
    async def test(registration: Registration, operator: ZooKeeperSession) -> None:
        await operator.multi([Delete(PATH, -1), Create(PATH, b"nonsense")])
        found = await seen(operator, unlike=-1, content=replace(OURS, registered_before=1).encode())
        assert found.ephemeral_owner != 0

    with_registration(zookeeper_hosts, test)


def test_a_broker_starts_over_a_znode_of_no_session_in_its_place(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as session:
            await session.create(PATH, b"nonsense")
            registration = Registration(session, 1, OURS)
            await registration.begin_life(0)
            await registration.register(0)
            assert (await session.get(PATH)).data == replace(OURS, incarnation=0).encode()

    asyncio.run(run())


def test_what_an_operator_writes_into_the_registration_is_mended_under_the_same_broker_epoch(
    zookeeper_hosts: str,
) -> None:
    async def test(registration: Registration, operator: ZooKeeperSession) -> None:
        await operator.set(PATH, b"nonsense", -1)
        found = await seen(operator, unlike=-1, content=OURS.encode())
        assert found.czxid == registration.broker_epoch

    with_registration(zookeeper_hosts, test)


def test_a_broker_that_withdraws_stays_gone(zookeeper_hosts: str) -> None:
    async def test(registration: Registration, operator: ZooKeeperSession) -> None:
        await registration.withdraw()
        # The watch of the deletion has been delivered when a later one of the same session is answered.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(seen(operator, unlike=-1), 0.5)

    with_registration(zookeeper_hosts, test)


def test_the_id_of_a_broker_that_lives_elsewhere_is_not_taken(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as session, connected(zookeeper_hosts) as other:
            await other.create(PATH, BrokerZnode("127.0.0.1", 9999, 1).encode(), ephemeral=True)
            with pytest.raises(StartupError, match=r"another process at 127\.0\.0\.1:9999"):
                await Registration(session, 1, OURS).register(PATIENCE_S)

    asyncio.run(run())


def test_a_broker_started_by_mistake_does_not_keep_the_right_one_out_of_its_isrs(
    zookeeper_hosts: str,
) -> None:
    async def run() -> object:
        async with connected(zookeeper_hosts) as session, connected(zookeeper_hosts) as other:
            await other.create(PATH, BrokerZnode("127.0.0.1", 9999, 1).encode(), ephemeral=True)
            with pytest.raises(StartupError, match=r"another process at 127\.0\.0\.1:9999"):
                await Registration(session, 1, OURS).begin_life(PATIENCE_S)
            return await session.exists(BrokerIncarnationZnode.path(1))

    assert asyncio.run(run()) is None


def test_each_life_of_a_broker_has_the_next_incarnation(zookeeper_hosts: str) -> None:
    async def run() -> list[int]:
        lives = []
        async with connected(zookeeper_hosts) as session:
            for _ in range(3):
                registration = Registration(session, 1, OURS)
                await registration.begin_life(PATIENCE_S)
                lives.append(registration.incarnation)
        return lives

    assert asyncio.run(run()) == [0, 1, 2]
