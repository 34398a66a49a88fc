"""The session against a real ZooKeeper: typed errors, multis, multiRead, watches, fencing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from hightide_runtime.znodes.cluster_znodes import PARENTS, ControllerEpochZnode
from hightide_runtime.zookeeper.session import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionState,
    SessionStateChanged,
    SetData,
    TreeChanged,
    WatchFired,
    ZooKeeperError,
    ZooKeeperEvent,
    ZooKeeperSession,
    ZooKeeperUnreachable,
    multis_of,
)

Result = TypeVar("Result")


@asynccontextmanager
async def connected(hosts: str) -> AsyncIterator[ZooKeeperSession]:
    session = await ZooKeeperSession.connect(hosts, session_timeout_ms=20_000, connect_timeout_ms=30_000)
    try:
        yield session
    finally:
        await session.close()


def with_session(hosts: str, test: Callable[[ZooKeeperSession], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with connected(hosts) as session:
            return await test(session)

    return asyncio.run(run())


async def next_watch(session: ZooKeeperSession) -> str:
    while True:
        event = await asyncio.wait_for(session.events.get(), 60)
        if isinstance(event, WatchFired):
            return event.path


async def next_event(session: ZooKeeperSession) -> ZooKeeperEvent:
    while True:
        event = await asyncio.wait_for(session.events.get(), 60)
        if not isinstance(event, SessionStateChanged):
            return event


async def next_tree_change(session: ZooKeeperSession) -> str:
    event = await next_event(session)
    assert isinstance(event, TreeChanged)
    return event.path


def test_what_is_created_is_read_back_with_its_version_and_czxid(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        created = await session.create("/a", b"one")
        assert await session.set("/a", b"two", 0) == 1
        read = await session.get("/a")
        assert (read.data, read.version, read.czxid) == (b"two", 1, created.czxid)
        assert created.czxid > 0
        assert await session.children("/") == ["a"]
        await session.delete("/a", 1)
        assert await session.exists("/a") is None

    with_session(zookeeper_hosts, test)


def test_an_ephemeral_znode_belongs_to_the_session_and_goes_with_it_at_once(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        async with connected(zookeeper_hosts) as other:
            created = await other.create("/e", b"", ephemeral=True)
            assert created.ephemeral_owner == other.session_id
            assert await session.exists("/e", watch=True) is not None
        assert await next_watch(session) == "/e"
        assert await session.exists("/e") is None

    with_session(zookeeper_hosts, test)


SINGLE_FAILURES: list[tuple[Callable[[ZooKeeperSession], Awaitable[object]], type[ZooKeeperError]]] = [
    (lambda session: session.get("/none"), NoNode),
    (lambda session: session.children("/none"), NoNode),
    (lambda session: session.set("/none", b"", -1), NoNode),
    (lambda session: session.delete("/none"), NoNode),
    (lambda session: session.create("/none/below", b""), NoNode),
    (lambda session: session.create("/t", b""), NodeExists),
    (lambda session: session.set("/t", b"", 9), BadVersion),
    (lambda session: session.delete("/t", 9), BadVersion),
    (lambda session: session.delete("/t"), NotEmpty),
]


@pytest.mark.parametrize(("request_", "expected"), SINGLE_FAILURES)
def test_a_refused_request_is_a_typed_error(
    zookeeper_hosts: str,
    request_: Callable[[ZooKeeperSession], Awaitable[object]],
    expected: type[ZooKeeperError],
) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.ensure_path("/t/child")
        with pytest.raises(expected):
            await request_(session)

    with_session(zookeeper_hosts, test)


MULTI_FAILURES: list[tuple[list[Operation], type[ZooKeeperError], int]] = [
    ([Check("/t", 0), SetData("/t/0", b"new", 5)], BadVersion, 1),
    ([Check("/t", 3), SetData("/t/0", b"new", 0)], BadVersion, 0),
    ([SetData("/t/0", b"new", 0), Create("/t/1", b"")], NodeExists, 1),
    ([SetData("/t/0", b"new", 0), Create("/none/below", b"")], NoNode, 1),
    ([SetData("/t/0", b"new", 0), Delete("/t", -1)], NotEmpty, 1),
    ([SetData("/t/0", b"new", 0), SetData("/t/1", b"", 9), SetData("/t/2", b"", 9)], BadVersion, 1),
    ([SetData("/t/0", b"new", 0), Check("/none", 0)], NoNode, 1),
    ([Check("/none", -1), SetData("/t/0", b"new", 0)], NoNode, 0),
]


@pytest.mark.parametrize(("operations", "expected", "culprit"), MULTI_FAILURES)
def test_a_failed_multi_raises_names_its_culprit_and_changes_nothing(
    zookeeper_hosts: str, operations: list[Operation], expected: type[ZooKeeperError], culprit: int
) -> None:
    """kazoo returns the errors of a transaction; where nobody looks at them, fencing is void."""

    async def test(session: ZooKeeperSession) -> None:
        await session.ensure_path("/t")
        await session.multi([Create(f"/t/{i}", b"old") for i in range(3)])
        with pytest.raises(expected) as raised:
            await session.multi(operations)
        assert getattr(raised.value, "index", None) == culprit
        assert getattr(raised.value, "path", None) == operations[culprit].path
        assert (await session.get("/t/0")).data == b"old"

    with_session(zookeeper_hosts, test)


def test_a_check_of_any_version_asks_only_that_the_znode_is_there(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create("/a", b"")
        await session.set("/a", b"", 0)
        await session.create("/b", b"")
        assert await session.multi([Check("/a", -1), SetData("/b", b"x", 0)]) == (-1, 1)

    with_session(zookeeper_hosts, test)


def test_after_a_sync_a_session_reads_what_another_one_wrote(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        async with connected(zookeeper_hosts) as other:
            await other.create("/written", b"")
        await session.sync()
        assert await session.exists("/written") is not None

    with_session(zookeeper_hosts, test)


def test_a_multi_tells_the_version_after_each_operation(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.multi([Create("/a", b""), Create("/b", b"")])
        operations: list[Operation] = [
            Check("/a", 0),
            SetData("/a", b"x", 0),
            Delete("/b", 0),
            Create("/c", b"", ephemeral=True),
        ]
        assert await session.multi(operations) == (0, 1, -1, 0)
        assert (await session.get("/c")).ephemeral_owner == session.session_id

    with_session(zookeeper_hosts, test)


def test_a_deposed_controller_cannot_write_since_each_multi_checks_the_epoch(zookeeper_hosts: str) -> None:
    """Controller writes are fenced: election bumps /controller_epoch; the old controller's fence no longer
    holds."""

    async def test(old: ZooKeeperSession) -> None:
        path = ControllerEpochZnode.path()
        await old.multi([Create(path, ControllerEpochZnode(1).encode()), Create("/leader", b"by 1")])
        fence = Check(path, 0)
        async with connected(zookeeper_hosts) as new:
            await new.multi([SetData(path, ControllerEpochZnode(2).encode(), 0)])
            with pytest.raises(BadVersion) as raised:
                await old.multi([fence, SetData("/leader", b"by 1 again", 0)])
            assert raised.value.path == path
            assert (await new.get("/leader")).data == b"by 1"

    with_session(zookeeper_hosts, test)


def test_two_candidates_one_wins_since_election_is_one_multi(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create("/epoch", b"0")
        async with connected(zookeeper_hosts) as other:
            results = await asyncio.gather(
                *(
                    candidate.multi([Create("/elected", b"", ephemeral=True), SetData("/epoch", b"1", 0)])
                    for candidate in (session, other)
                ),
                return_exceptions=True,
            )
        assert [type(result) for result in results if isinstance(result, Exception)] == [NodeExists]

    with_session(zookeeper_hosts, test)


def test_ten_thousand_conditional_sets_and_reads_take_few_round_trips(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create("/epoch", b"")
        await session.create("/t", b"")
        fence, content = Check("/epoch", 0), b"x" * 87
        paths = [f"/t/{i}" for i in range(10_000)]
        creates = multis_of(([Create(path, b"")] for path in paths), fence)
        sets = multis_of(([SetData(path, content, 0)] for path in paths), fence)
        await asyncio.gather(*(session.submit_multi(multi) for multi in creates))
        outcomes = await asyncio.gather(*(session.submit_multi(multi) for multi in sets))
        assert [version for outcome in outcomes for version in outcome[1:]] == [1] * 10_000
        found = await session.multi_read([*paths, "/t/none"])
        assert list(found) == paths
        assert {(znode.data, znode.version) for znode in found.values()} == {(content, 1)}

    with_session(zookeeper_hosts, test)


def test_the_children_of_thousands_of_znodes_take_few_round_trips(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create("/t", b"")
        paths = [f"/t/{number}" for number in range(2_500)]
        creates = multis_of(([Create(path, b""), Create(f"{path}/x", b"")] for path in paths), None)
        await asyncio.gather(*(session.submit_multi(multi) for multi in creates))
        found = await session.multi_children(["/t", *paths, "/t/none", "/t/0/x"])
        assert found.pop("/t") == sorted(path.rpartition("/")[2] for path in paths)
        assert found.pop("/t/0/x") == []
        assert found == {path: ["x"] for path in paths}
        assert await session.multi_children([]) == {}

    with_session(zookeeper_hosts, test)


def test_a_stale_version_fails_its_own_multi_and_no_other(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.multi([Create("/a", b""), Create("/b", b"")])
        stale, fresh = (
            session.submit_multi([SetData("/a", b"", 4)]),
            session.submit_multi([SetData("/b", b"", 0)]),
        )
        with pytest.raises(BadVersion):
            await stale
        assert await fresh == (1,)

    with_session(zookeeper_hosts, test)


def test_watches_fire_once_and_tell_paths_below_the_chroot(
    zookeeper_hosts: str,
) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create("/a", b"")
        assert await session.exists("/b", watch=True) is None
        await session.get("/a", watch=True)
        await session.children("/", watch=True)
        await session.set("/a", b"1", -1)
        assert await next_watch(session) == "/a"
        await session.create("/b", b"")
        assert {await next_watch(session), await next_watch(session)} == {"/b", "/"}
        await session.set("/a", b"2", -1)
        await session.set("/b", b"2", -1)
        await session.get("/a", watch=True)
        await session.set("/a", b"3", -1)
        assert await next_watch(session) == "/a"
        assert session.events.empty()

    with_session(zookeeper_hosts, test)


def test_a_watch_on_a_tree_tells_every_change_below_it_by_its_path_and_stays(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.ensure_path("/tree/of")
        await session.ensure_path("/treehouse")
        await session.watch_tree("/tree")
        await session.create("/treehouse/not-in-it", b"")
        await session.create("/tree/of/life", b"")
        await session.set("/tree/of/life", b"1", 0)
        await session.set("/tree/of/life", b"2", 1)
        await session.multi([Delete("/tree/of/life", 2), Create("/tree/of/knowledge", b"")])
        told = [await next_tree_change(session) for _ in range(5)]
        assert told == ["/tree/of/life"] * 4 + ["/tree/of/knowledge"]

    with_session(zookeeper_hosts + "/with/chroot", test)


def test_a_watch_that_fires_once_still_fires_inside_of_a_tree_that_is_watched(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.ensure_path("/tree")
        await session.watch_tree("/tree")
        assert await session.exists("/tree/child", watch=True) is None
        await session.create("/tree/child", b"")
        assert {type(await next_event(session)), type(await next_event(session))} == {TreeChanged, WatchFired}

    with_session(zookeeper_hosts + "/once", test)


def test_services_that_start_together_agree_on_one_cluster_id(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        async with connected(zookeeper_hosts) as other:
            first, second = await asyncio.gather(session.ensure_cluster_id(), other.ensure_cluster_id())
        assert first == second == await session.ensure_cluster_id()
        assert len(await session.multi_read(PARENTS)) == len(PARENTS)

    with_session(zookeeper_hosts, test)


def test_a_session_that_is_given_up_takes_its_ephemerals_along_at_once_and_another_one_follows(
    zookeeper_hosts: str,
) -> None:
    async def test(session: ZooKeeperSession) -> None:
        async with connected(zookeeper_hosts) as other:
            created = await other.create("/held", b"", ephemeral=True)
            assert await session.exists("/held", watch=True) is not None
            # As a thread does whose loop hangs.
            await asyncio.to_thread(other.give_up)
            assert await next_watch(session) == "/held"
            states: list[SessionState] = []
            while SessionState.LOST not in states or states[-1] is not SessionState.CONNECTED:
                event = await asyncio.wait_for(other.events.get(), 60)
                if isinstance(event, SessionStateChanged):
                    states.append(event.state)
            assert states[-2:] == [SessionState.LOST, SessionState.CONNECTED]
            assert not other.is_given_up
            again = await other.create("/held", b"", ephemeral=True)
            assert again.ephemeral_owner != created.ephemeral_owner

    with_session(zookeeper_hosts, test)


def test_a_closed_session_says_so(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as session:
            pass
        with pytest.raises(ConnectionLost, match="closed"):
            await session.get("/")

    asyncio.run(run())


@pytest.mark.parametrize("hosts", ["127.0.0.1:1", "127.0.0.1:x", "no-such-host.invalid:2181"])
def test_no_zookeeper_at_start_is_one_sentence_that_names_the_address(hosts: str) -> None:
    async def run() -> None:
        await ZooKeeperSession.connect(hosts, connect_timeout_ms=300)

    with pytest.raises(ZooKeeperUnreachable) as raised:
        asyncio.run(run())
    assert hosts in str(raised.value)
    assert "\n" not in str(raised.value)
