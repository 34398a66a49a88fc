"""What an operator writes below /admin in a real ZooKeeper, as the controller reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hightide_controller.core import events as ev
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.zookeeper.admin_reader import AdminReader
from hightide_runtime.znodes.acls_znode import AclsZnode
from hightide_runtime.znodes.quotas_znode import QuotasZnode
from hightide_runtime.zookeeper.session import TreeChanged, ZooKeeperSession

FLIGHTS_0 = TopicPartition("flights", 0)


def with_session(hosts: str, test: Callable[[ZooKeeperSession, AdminReader], Awaitable[None]]) -> None:
    async def run() -> None:
        session = await ZooKeeperSession.connect(hosts, session_timeout_ms=20_000)
        try:
            await session.ensure_cluster_id()
            await test(session, AdminReader(session))
        finally:
            await session.close()

    asyncio.run(run())


async def put(session: ZooKeeperSession, path: str, data: bytes) -> None:
    await session.ensure_path(path.rpartition("/")[0])
    await session.create(path, data)


async def changed_paths(session: ZooKeeperSession, count: int) -> set[str]:
    paths: set[str] = set()
    while len(paths) < count:
        event = await asyncio.wait_for(session.events.get(), 30)
        if isinstance(event, TreeChanged):
            paths.add(event.path)
    return paths


def test_everything_that_is_asked_for_is_read_at_once(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, reader: AdminReader) -> None:
        await put(session, "/admin/partitions_reassigned/flights/0", b"[4, 5]")
        await put(session, "/admin/partitions_add/flights/7", b'{"replicas":[1,2]}')
        await put(session, "/admin/partitions_remove/flights/6", b"")
        await put(session, "/admin/delete_topics/old", b"")
        await put(session, "/config/topics/flights", b'{"configs":{"retention.ms":"1"}}')
        await put(session, "/config/reassignment", b'{"throttle_bytes_per_s":1000}')
        read = await reader.read_all(["flights"])
        assert read.admin.reassignments == {FLIGHTS_0: ev.StoredReassignment((4, 5), (), 0)}
        assert read.admin.additions == {TopicPartition("flights", 7): ev.StoredAddition((1, 2), 0)}
        assert read.admin.removals == {TopicPartition("flights", 6): ev.StoredRemoval(0)}
        assert read.admin.deletions == {"old": ev.StoredDeletion("", 0)}
        assert read.admin.throttle == ev.StoredThrottle(1000, 0)
        assert read.configs == {"flights": ({"retention.ms": "1"}, 0)}
        assert not any(read.admin.complaints.values())

    with_session(zookeeper_hosts + "/everything", test)


def test_settings_that_others_read_are_not_complained_about(zookeeper_hosts: str) -> None:
    """Else a cluster would be unwell from its first ACL rule or quota on."""

    async def test(session: ZooKeeperSession, reader: AdminReader) -> None:
        await reader.watch()
        await put(session, AclsZnode.path(), AclsZnode(()).encode())
        await put(session, QuotasZnode.path(), QuotasZnode({}).encode())
        read = await reader.read(await changed_paths(session, 2))
        assert read.admin.complaints == {AclsZnode.path(): None, QuotasZnode.path(): None}

    with_session(zookeeper_hosts + "/others", test)


def test_nonsense_is_complained_about_by_its_path_and_hides_nothing_else(zookeeper_hosts: str) -> None:
    nonsense = {
        "/admin/partitions_reassigned/flights/one": b"[1]",
        "/admin/partitions_reassigned/flights/1": b"{4, 5}",
        "/admin/partitions_reassigned/flights/2": b"[1, 1]",
        "/admin/partitions_reassigned/no topic/0": b"[1]",
        "/admin/partitions_add/flights/3": b"",
        "/admin/delete_topics/flights/now": b"",
        "/admin/reelect": b"",
        "/config/acls": b"{}",
        "/config/brokers": b"",
        "/config/quotas": b"{}",
        "/config/reassignment": b"fast",
    }

    async def test(session: ZooKeeperSession, reader: AdminReader) -> None:
        await reader.watch()
        for path, data in nonsense.items():
            await put(session, path, data)
        await put(session, "/admin/partitions_reassigned/flights/0", b"[4, 5]")
        read = await reader.read(await changed_paths(session, len(nonsense) + 5))
        assert nonsense.keys() <= {path for path, why in read.admin.complaints.items() if why}
        assert read.admin.reassignments == {FLIGHTS_0: ev.StoredReassignment((4, 5), (), 0)}

    with_session(zookeeper_hosts + "/nonsense", test)


def test_what_goes_while_nobody_watches_is_missed_in_the_next_full_read(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, reader: AdminReader) -> None:
        path = "/admin/partitions_reassigned/flights/0"
        await put(session, path, b"[4]")
        await reader.read_all()
        await session.delete(path)
        assert (await reader.read_all()).admin.reassignments == {FLIGHTS_0: None}

    with_session(zookeeper_hosts + "/unheard", test)
