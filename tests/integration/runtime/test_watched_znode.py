"""A setting of the cluster in one znode, as a process hears of it over a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.session import SessionState, SessionStateChanged, WatchFired, ZooKeeperSession
from hightide_runtime.zookeeper.watched_znode import WatchedZnode
from integration.coordinator.coordinator_rig import connected
from integration.faults.test_zookeeper_outage import expire

PATH = "/config/limit"
AT_ONCE_S = 30.0
"""Less than a third of the session timeout: what comes within it came by a watch or a new session."""


class Setting:
    """A watched number, and what its owner was told."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self.told: asyncio.Queue[int | None] = asyncio.Queue()
        self.znode = WatchedZnode(session, PATH, decode, self.told.put_nowait)

    async def next(self) -> int | None:
        return await asyncio.wait_for(self.told.get(), AT_ONCE_S)

    async def becomes(self, value: int | None) -> None:
        """Read on until this is told: one change may be told twice, when it falls between watch and read."""
        while await self.next() != value:
            pass


def decode(data: bytes) -> int:
    if not data.isdigit():
        raise ZnodeGarbage(PATH, f"{data!r} is no number")
    return int(data)


@asynccontextmanager
async def watched(hosts: str) -> AsyncIterator[tuple[ZooKeeperSession, ZooKeeperSession, Setting]]:
    """An operator's session, that of the process, and the setting in it."""
    async with connected(hosts) as operator, connected(hosts) as session:
        setting = Setting(session)
        setting.znode.start()
        try:
            yield operator, session, setting
        finally:
            await setting.znode.close()


def with_setting(
    hosts: str, test: Callable[[ZooKeeperSession, ZooKeeperSession, Setting], Awaitable[None]]
) -> None:
    async def run() -> None:
        async with watched(hosts) as (operator, session, setting):
            await test(operator, session, setting)

    asyncio.run(run())


def test_it_is_told_now_and_at_each_change_also_when_it_is_created_deleted_and_created_again(
    zookeeper_hosts: str,
) -> None:
    async def test(operator: ZooKeeperSession, session: ZooKeeperSession, setting: Setting) -> None:
        assert await setting.next() is None
        await operator.create(PATH, b"1")
        await setting.becomes(1)
        await operator.set(PATH, b"2", -1)
        await setting.becomes(2)
        await operator.delete(PATH)
        await setting.becomes(None)
        await operator.create(PATH, b"3")
        await setting.becomes(3)

    with_setting(zookeeper_hosts, test)


def test_nonsense_changes_nothing_and_is_counted(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, session: ZooKeeperSession, setting: Setting) -> None:
        assert await setting.next() is None
        await operator.create(PATH, b"1")
        await setting.becomes(1)
        assert session.counts.nonsense == 0
        await operator.set(PATH, b"many", -1)
        await setting.znode.read_anew()
        assert session.counts.nonsense >= 1
        assert setting.told.empty(), "nonsense is not told"
        await operator.set(PATH, b"2", -1)
        await setting.becomes(2)

    with_setting(zookeeper_hosts, test)


def test_what_changes_in_a_gap_of_the_session_is_told_in_the_next_one(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, session: ZooKeeperSession, setting: Setting) -> None:
        await operator.create(PATH, b"1")
        await setting.becomes(1)
        expire(session, zookeeper_hosts)
        event: object = None
        while not (isinstance(event, SessionStateChanged) and event.state is SessionState.LOST):
            event = await asyncio.wait_for(session.events.get(), AT_ONCE_S)
        await operator.set(PATH, b"2", -1)
        await setting.becomes(2)
        # The watch of the new session holds as well.
        await operator.set(PATH, b"3", -1)
        await setting.becomes(3)

    with_setting(zookeeper_hosts, test)


def test_a_closed_one_tells_nothing_and_the_session_forgets_it(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, session: ZooKeeperSession, setting: Setting) -> None:
        assert await setting.next() is None
        await setting.znode.close()
        assert not session.followers
        await operator.create(PATH, b"1")
        # Its watch fires all the same, for the reader of the session's events.
        event: object = None
        while event != WatchFired(PATH):
            event = await asyncio.wait_for(session.events.get(), AT_ONCE_S)
        assert setting.told.empty()

    with_setting(zookeeper_hosts, test)
