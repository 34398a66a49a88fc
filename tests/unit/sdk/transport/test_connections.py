"""Consumers of one process share their connections; each ends what is its own, and the last one ends all."""

import asyncio
import gc
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from hightide import Consumer, TopicPartition, aio
from hightide.calls.call import Method
from hightide.calls.credentials import Credentials
from hightide.errors import AddressUnreachableError, ClosedError, HightideError
from hightide.transport.connections import _SHARED, SHARERS_MAX
from hightide.transport.transport import NO_CREDENTIALS, AioTransport, Transport
from unit.sdk.producer_bench import TOPIC, metadata
from unit.sdk.transport.test_channels import PATIENCE_S, Place, metadata_call, place

__all__ = ["place"]


class Server(grpc.GenericRpcHandler):
    """Answers GetMetadata with a topic that one broker leads: itself. It keeps Fetch waiting for ever."""

    def __init__(self, address: str) -> None:
        self.connections: list[str] = []
        """The connection of each call, in the order of the calls."""
        self.parked = queue.SimpleQueue[str]()
        self.given_up = queue.SimpleQueue[str]()
        known, (host, port) = metadata([1]), address.split(":")
        for broker in known.brokers:
            broker.host, broker.port = host, int(port)
        self._metadata = known.SerializeToString()
        self._server = grpc.server(ThreadPoolExecutor(40), options=[("grpc.so_reuseport", 1)])
        self._server.add_generic_rpc_handlers((self,))
        assert self._server.add_insecure_port(address)
        self._server.start()

    def service(self, handler_call_details: Any) -> Any:
        acts = {Method.GET_METADATA.value: self._answer, Method.FETCH.value: self._park}
        return grpc.unary_unary_rpc_method_handler(acts[handler_call_details.method])

    def _answer(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        self.connections.append(context.peer())
        return self._metadata

    def _park(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        self.connections.append(context.peer())
        ended = threading.Event()
        assert context.add_callback(ended.set)
        self.parked.put(context.peer())
        assert ended.wait(PATIENCE_S)
        self.given_up.put(context.peer())
        return b""

    def stop(self) -> None:
        self._server.stop(0).wait()


def two_consumers(server: Server, place: Place) -> None:
    """Two consumers fetch; one is closed, and then the other."""
    with Consumer(place.address, fetch_max_wait_ms=60_000) as stays:
        with Consumer(place.address, fetch_max_wait_ms=60_000) as leaves:
            for each in (stays, leaves):
                each.assign([TopicPartition(TOPIC, 0)])
                each.seek(TopicPartition(TOPIC, 0), 0)
                server.parked.get(timeout=PATIENCE_S)
        server.given_up.get(timeout=PATIENCE_S)
        assert server.given_up.empty(), "the other one goes on"


def two_of_asyncio(server: Server, place: Place) -> None:
    """As `two_consumers`."""

    async def act() -> None:
        async with aio.Consumer(place.address, fetch_max_wait_ms=60_000) as stays:
            async with aio.Consumer(place.address, fetch_max_wait_ms=60_000) as leaves:
                for each in (stays, leaves):
                    await each.assign([TopicPartition(TOPIC, 0)])
                    await each.seek(TopicPartition(TOPIC, 0), 0)
                    await asyncio.to_thread(server.parked.get, timeout=PATIENCE_S)
            await asyncio.to_thread(server.given_up.get, timeout=PATIENCE_S)
            assert server.given_up.empty(), "the other one goes on"

    asyncio.run(act())


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    made = Server(place.address)
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def no_pools() -> None:
    """Other tests may have left clients behind."""
    _SHARED.forget()


def sharing(credentials: Credentials = NO_CREDENTIALS, client_id: str | None = None) -> Transport:
    return Transport(client_id, credentials, shares_connections=True)


def ask(transport: Transport, server: Server, place: Place) -> str:
    """The connection on which the server hears a call."""
    transport.run(metadata_call(place.address))
    return server.connections[-1]


# -- who shares ----------------------------------------------------------------------------------------------


def test_clients_that_share_have_one_connection(server: Server, place: Place) -> None:
    one, other = sharing(), sharing()
    assert ask(one, server, place) == ask(other, server, place)
    one.close()
    other.close()


@pytest.mark.parametrize(
    "other",
    [
        Transport(),
        sharing(client_id="another"),
        sharing(Credentials(token="of-alice")),
    ],
    ids=["shares none", "another client ID", "other credentials"],
)
def test_a_client_that_would_open_another_connection_has_its_own(
    server: Server, place: Place, other: Transport
) -> None:
    one = sharing()
    assert ask(one, server, place) != ask(other, server, place)
    one.close()
    other.close()


def test_no_more_clients_than_the_most_share_a_connection(server: Server, place: Place) -> None:
    transports = [sharing() for _ in range(SHARERS_MAX + 1)]
    heard = [ask(each, server, place) for each in transports]
    assert len(set(heard[:-1])) == 1
    assert heard[-1] not in heard[:-1]
    transports[0].close()
    late = sharing()
    assert ask(late, server, place) == heard[1], "it has the place that was given back"
    for each in [*transports[1:], late]:
        each.close()


def test_a_client_takes_its_place_with_its_first_call() -> None:
    """It may be made in a process that forks before."""
    made = sharing()
    assert made._lines._pool is None
    made.close()


def test_with_asyncio_clients_of_one_loop_share_and_those_of_another_do_not(
    server: Server, place: Place
) -> None:
    async def heard() -> set[str]:
        transports = [AioTransport(shares_connections=True) for _ in range(3)]
        for each in transports:
            await each.run(metadata_call(place.address))
        for each in transports:
            await each.close()
        return set(server.connections)

    of_threads = sharing()
    ask(of_threads, server, place)
    (first,) = asyncio.run(heard()) - {server.connections[0]}
    assert len(asyncio.run(heard()) - {server.connections[0], first}) == 1
    of_threads.close()


def test_what_answered_another_client_has_not_answered_this_one(server: Server, place: Place) -> None:
    """A client whose cluster refuses its TLS fails at once, whatever another cluster said to its sharers."""
    one, other, nobody = sharing(), sharing(), Place()
    ask(one, server, place)
    with pytest.raises(AddressUnreachableError):
        other.run(metadata_call(nobody.address))
    assert one._lines.has_been_reached
    assert not other._lines.has_been_reached
    for each in (one, other, nobody):
        each.close()


# -- the end -------------------------------------------------------------------------------------------------


def test_a_client_that_is_closed_leaves_the_calls_of_others_alone(server: Server, place: Place) -> None:
    one, other = sharing(), sharing()
    ask(one, server, place)
    outcomes = queue.SimpleQueue[bytes | HightideError]()
    other.start(metadata_call(place.address, Method.FETCH), b"", lambda _, outcome: outcomes.put(outcome))
    server.parked.get(timeout=PATIENCE_S)
    one.close()
    with pytest.raises(ClosedError):
        one.run(metadata_call(place.address))
    assert len({*server.connections, ask(other, server, place)}) == 1
    assert outcomes.empty()
    other.close()
    assert isinstance(outcomes.get(timeout=PATIENCE_S), AddressUnreachableError), "the last one ends all"


def test_a_client_that_is_closed_twice_gives_its_place_back_once(server: Server, place: Place) -> None:
    one, other = sharing(), sharing()
    heard = ask(one, server, place)
    ask(other, server, place)
    one.close()
    one.close()
    assert ask(other, server, place) == heard
    other.close()


def test_a_client_that_nobody_closed_keeps_no_place(server: Server, place: Place) -> None:
    left, other = sharing(), sharing()
    ask(left, server, place)
    ask(other, server, place)
    shared = other._lines._shared
    assert shared is not None
    del left
    gc.collect()
    assert list(shared.sharers) == [other._lines]
    other.close()
    assert shared.pool._is_closed


@pytest.mark.parametrize("use", [two_consumers, two_of_asyncio], ids=["threads", "asyncio"])
def test_a_consumer_that_is_closed_gives_up_its_own_fetch_and_no_other(
    server: Server, place: Place, use: Callable[[Server, Place], None]
) -> None:
    use(server, place)
    assert len(set(server.connections)) == 1
    assert server.parked.empty(), "the one that stayed had no need to fetch again"
    assert server.given_up.get(timeout=PATIENCE_S), "both have given up"
