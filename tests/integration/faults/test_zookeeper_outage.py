"""ZooKeeper stops in the middle: what the session says, and that it comes back by itself."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hightide_local.histories.waiting import wait_until
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_runtime.zookeeper.errors import NotPermitted, typed_error
from hightide_runtime.zookeeper.session import (
    BadVersion,
    ConnectionLost,
    Create,
    SessionExpired,
    SessionState,
    SessionStateChanged,
    SetData,
    WatchFired,
    ZooKeeperError,
    ZooKeeperSession,
)
from integration.controller.session_theft import end_session
from kazoo.client import KazooState


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path, tick_time_ms=200) as server:
        yield server


def with_session(
    server: EmbeddedZooKeeper, test: Callable[[ZooKeeperSession], Awaitable[None]], timeout_ms: int = 30_000
) -> None:
    async def run() -> None:
        session = await ZooKeeperSession.connect(server.address, session_timeout_ms=timeout_ms)
        try:
            assert await state(session) is SessionState.CONNECTED
            await test(session)
        finally:
            await session.close()

    asyncio.run(run())


async def state(session: ZooKeeperSession) -> SessionState:
    """The next state that the session goes into."""
    while True:
        event = await asyncio.wait_for(session.events.get(), 60)
        if isinstance(event, SessionStateChanged):
            return event.state


async def in_thread(call: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, call)


def test_a_session_survives_a_restart_of_zookeeper_within_its_timeout(server: EmbeddedZooKeeper) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create("/e", b"mine", ephemeral=True)
        before = session.session_id
        await in_thread(server.kill)
        assert await state(session) is SessionState.SUSPENDED
        await in_thread(server.start)
        assert await state(session) is SessionState.CONNECTED
        assert session.session_id == before
        assert (await session.get("/e")).ephemeral_owner == before

    with_session(server, test)


def test_while_zookeeper_is_down_requests_fail_at_once_unsent(
    server: EmbeddedZooKeeper,
) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await in_thread(server.kill)
        assert await state(session) is SessionState.SUSPENDED
        for request in (session.get("/"), session.create("/a", b""), session.multi([Create("/b", b"")])):
            with pytest.raises(ConnectionLost) as raised:
                await asyncio.wait_for(request, 20)
            assert raised.value.outcome_unknown is False
            assert server.address in str(raised.value)

    with_session(server, test)


def test_a_write_whose_answer_never_came_says_that_its_outcome_is_unknown(server: EmbeddedZooKeeper) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create("/a", b"0")
        # Stopped, not killed: the request is taken by the socket, and no answer comes.
        server.pause()
        writing = session.submit_multi([SetData("/a", b"1", 0)])
        reading = asyncio.ensure_future(session.get("/a"))
        await asyncio.sleep(0)
        assert await state(session) is SessionState.SUSPENDED
        with pytest.raises(ConnectionLost) as write:
            await writing
        with pytest.raises(ConnectionLost) as read:
            await reading
        assert (write.value.outcome_unknown, read.value.outcome_unknown) == (True, False)
        server.resume()
        # Either way it is settled by reading, and a conditional write tells the truth.
        while session.state is not SessionState.CONNECTED:
            await state(session)
        znode = await session.get("/a")
        assert (znode.data, znode.version) in ((b"0", 0), (b"1", 1))
        if znode.version == 1:
            with pytest.raises(BadVersion):
                await session.set("/a", b"2", 0)

    # Until ZooKeeper is missed, a third of it at the least, everything is asked.
    with_session(server, test, timeout_ms=9_000)


def test_watches_are_gone_after_a_reconnect_and_the_state_says_so(server: EmbeddedZooKeeper) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create("/a", b"0")
        await session.get("/a", watch=True)
        await in_thread(server.kill)
        assert await state(session) is SessionState.SUSPENDED
        await in_thread(server.start)
        assert await state(session) is SessionState.CONNECTED
        await session.set("/a", b"1", 0)
        await session.get("/a", watch=True)
        await session.set("/a", b"2", 1)
        # One event, of the watch that was set after the reconnect.
        assert await asyncio.wait_for(session.events.get(), 60) == WatchFired("/a")
        assert session.events.empty()

    with_session(server, test)


def test_an_expired_session_loses_its_ephemerals_and_a_new_one_comes(
    server: EmbeddedZooKeeper,
) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create("/e", b"", ephemeral=True)
        before = session.session_id
        await in_thread(partial(expire, session, server.address))
        seen = [await state(session)]
        # It may have taken its old session back at first, and been CONNECTED before it was LOST.
        while SessionState.LOST not in seen or seen[-1] is not SessionState.CONNECTED:
            seen.append(await state(session))
        assert seen[0] is SessionState.SUSPENDED
        assert session.session_id != before
        assert await session.exists("/e") is None

    with_session(server, test)


def test_after_expiry_requests_say_so_until_the_new_session_is_there(server: EmbeddedZooKeeper) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await in_thread(partial(expire, session, server.address))
        while await state(session) is not SessionState.LOST:
            pass
        if session.state is SessionState.LOST:
            with pytest.raises(SessionExpired):
                await session.get("/")

    with_session(server, test)


def test_requests_under_way_while_the_session_expires_hear_of_that_and_of_nothing_else(
    server: EmbeddedZooKeeper,
) -> None:
    """ZooKeeper answers some of them itself, with a number of its own; a broker ended by that once."""

    async def test(session: ZooKeeperSession) -> None:
        await session.create("/a", b"0")
        said: set[type[BaseException]] = set()
        for _ in range(20):
            ending = asyncio.create_task(in_thread(partial(expire, session, server.address)))
            before = session.session_id
            while not ending.done() or session.session_id == before:
                requests = [session.set("/a", b"1", -1) for _ in range(50)]
                answers = await asyncio.gather(*requests, return_exceptions=True)
                said |= {type(answer) for answer in answers if isinstance(answer, BaseException)}
            await ending
            assert said <= {SessionExpired, ConnectionLost}
            if said:
                break
        assert said, "none was ever under way"

    with_session(server, test)


def test_a_request_made_before_the_loop_hears_that_the_connection_broke_is_lost_at_once_too(
    server: EmbeddedZooKeeper,
) -> None:
    """kazoo kept it until ZooKeeper was back."""

    async def test(session: ZooKeeperSession) -> None:
        server.kill()  # And the loop hears of nothing until this coroutine waits.
        wait_until("kazoo knows", lambda: session._client.state == KazooState.SUSPENDED, 60)
        threading.Event().wait(
            0.5
        )  # It fails then what is under way; where it is slower this proves nothing.
        with pytest.raises(ConnectionLost):
            async with asyncio.timeout(60):
                await session.get("/")

    with_session(server, test, timeout_ms=120_000)


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (-112, SessionExpired, "the ZooKeeper session expired before a request on /a was taken"),
        (-118, ConnectionLost, "the ZooKeeper session went on at another server before a request on /a"),
        (-102, NotPermitted, "ZooKeeper does not let this process use /a: its ACL"),
    ],
)
def test_what_the_server_says_of_a_session_is_no_refusal(
    number: int, kind: type[ZooKeeperError], message: str
) -> None:
    error = typed_error(number, "/a", writes=True)
    assert type(error) is kind
    assert str(error).startswith(message)
    assert not getattr(error, "outcome_unknown", False), "it was not carried out"


def test_an_attempt_to_connect_that_is_never_answered_does_not_cost_the_session(
    server: EmbeddedZooKeeper,
) -> None:
    """What a ZooKeeper that is just starting can do: the first connection is accepted, and that is all."""
    connections: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        if len(connections) == 1:
            return
        answers, requests = await asyncio.open_connection(*server.address.split(":"))
        connections.append(requests)
        await asyncio.gather(copy(reader, requests), copy(answers, writer))

    async def run() -> None:
        async with await asyncio.start_server(accept, "127.0.0.1", 0) as relay:
            port = relay.sockets[0].getsockname()[1]
            session = await ZooKeeperSession.connect(
                f"127.0.0.1:{port}", session_timeout_ms=60_000, connect_timeout_ms=30_000
            )
            assert len(connections) > 1
            await session.close()
            for connection in connections:
                connection.close()

    asyncio.run(run())


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
    writer.close()


def expire(session: ZooKeeperSession, hosts: str) -> None:
    """End the session on the server behind the client's back: a twin takes it over and closes it."""
    session_id, password = session._client.client_id
    end_session(hosts, session_id, password)
