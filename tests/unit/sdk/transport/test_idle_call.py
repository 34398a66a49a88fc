"""One idle call stays open on a channel that carries records, so that gRPC's thread of the channel stays. A
quiet client started a thread for each of its calls."""

import gc
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc
import pytest
from hightide.batch.call_frames import OPEN_CALL_STREAM
from hightide.calls.call import Method
from hightide.calls.credentials import Credentials
from hightide.errors import AddressUnreachableError, HightideError, UnexpectedAnswerError
from hightide.transport.channels import ChannelPool
from hightide.transport.idle_call import IN_VAIN_MAX, IdleCall
from hightide.transport.transport import NO_CREDENTIALS, Transport
from hightide_local.histories.waiting import wait_until
from unit.sdk.transport.test_channels import PATIENCE_S, RECONNECTING_S, Place, metadata_call, place

__all__ = ["place"]

OF_THE_SERVER = "of-the-server"


class Server(grpc.GenericRpcHandler):
    """Answers each call when it is told to. It keeps call streams open, or ends them with `refusal`."""

    def __init__(self, address: str, refusal: grpc.StatusCode | None = None) -> None:
        self.may_answer = threading.Semaphore(0)
        self.asked = queue.SimpleQueue[tuple[tuple[str, str | bytes], ...]]()
        """The metadata of each call stream that was asked for."""
        self.ended = queue.SimpleQueue[str]()
        """How the client's side of each call stream that was open ended."""
        self.refusal = refusal
        self.failure: grpc.StatusCode | None = None
        """How other calls end."""
        self.streams_begun = 0
        self._server = grpc.server(
            ThreadPoolExecutor(4, thread_name_prefix=OF_THE_SERVER), options=[("grpc.so_reuseport", 1)]
        )
        self._server.add_generic_rpc_handlers((self,))
        assert self._server.add_insecure_port(address)
        self._server.start()

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method == OPEN_CALL_STREAM:
            return grpc.stream_stream_rpc_method_handler(self._talk)
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        assert self.may_answer.acquire(timeout=PATIENCE_S)
        if self.failure is not None:
            context.abort(self.failure, "not now")
        return b""

    def _talk(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self.streams_begun += 1
        over = threading.Event()
        if not context.add_callback(over.set):
            over.set()
        self.asked.put(tuple(context.invocation_metadata()))
        if self.refusal is grpc.StatusCode.OK:
            return
        if self.refusal is not None:
            context.abort(self.refusal, "no call streams here")
        with suppress(grpc.RpcError):
            for _request in requests:
                pytest.fail("nothing is sent on an idle call")
        # The requests end a moment before a call that is cancelled, and without it if they were half-closed.
        self.ended.put("cancelled" if over.wait(PATIENCE_S) else "half-closed")
        yield from ()

    def stop(self) -> None:
        self.may_answer.release(10)
        self._server.stop(0).wait()


class Client:
    """A transport that makes one call after the other."""

    def __init__(self, address: str, credentials: Credentials = NO_CREDENTIALS) -> None:
        self.transport = Transport(credentials=credentials)
        self._address = address
        self._done = queue.SimpleQueue[tuple[threading.Thread, bytes | HightideError]]()

    def begin(self, method: Method = Method.PRODUCE) -> None:
        self.transport.start(metadata_call(self._address, method), b"", self._ended)

    def _ended(self, _: Any, outcome: bytes | HightideError) -> None:
        self._done.put((threading.current_thread(), outcome))

    def outcome(self) -> bytes | HightideError:
        return self._done.get(timeout=PATIENCE_S)[1]

    def thread_of_answer(self, server: Server, method: Method = Method.PRODUCE) -> threading.Thread:
        """Make a call; returns the thread that took its answer. The answer comes after the call was begun, as
        otherwise this thread would take it."""
        self.begin(method)
        server.may_answer.release()
        thread, outcome = self._done.get(timeout=PATIENCE_S)
        assert outcome == b""
        return thread


def threads_of_channels(before: set[threading.Thread]) -> set[threading.Thread]:
    """The threads that were started since, without those of servers."""
    started = set(threading.enumerate()) - before
    return {each for each in started if not each.name.startswith(OF_THE_SERVER)}


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    made = Server(place.address)
    yield made
    made.stop()


@pytest.fixture
def before(server: Server) -> set[threading.Thread]:
    return set(threading.enumerate())


@pytest.fixture
def client(place: Place, before: set[threading.Thread]) -> Iterator[Client]:
    made = Client(place.address)
    yield made
    made.transport.close()


def until_none(before: set[threading.Thread]) -> None:
    wait_until("all threads of channels have ended", lambda: not threads_of_channels(before), PATIENCE_S)


# -- a thread for all calls ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [Method.PRODUCE, Method.FETCH])
def test_calls_that_come_one_after_the_other_share_a_thread(
    client: Client, server: Server, before: set[threading.Thread], method: Method
) -> None:
    first = client.thread_of_answer(server, method)
    server.asked.get(timeout=PATIENCE_S)
    wait_until("two threads are left", lambda: len(threads_of_channels(before)) == 2, PATIENCE_S)
    kept = threads_of_channels(before)
    assert first in kept
    assert [client.thread_of_answer(server, method) for _ in range(3)] == [first] * 3
    assert threads_of_channels(before) == kept
    assert server.streams_begun == 1


def test_the_idle_call_is_not_opened_before_the_first_answer(client: Client, server: Server) -> None:
    client.begin()
    client.begin()
    server.may_answer.release()
    assert client.outcome() == b""
    server.asked.get(timeout=PATIENCE_S)
    server.may_answer.release()
    assert client.outcome() == b""
    assert server.streams_begun == 1


def test_a_call_that_fails_opens_no_idle_call(
    client: Client, server: Server, before: set[threading.Thread]
) -> None:
    server.failure = grpc.StatusCode.INTERNAL
    client.begin()
    server.may_answer.release()
    assert isinstance(client.outcome(), UnexpectedAnswerError)
    until_none(before)
    assert server.streams_begun == 0


def test_calls_without_records_and_calls_that_somebody_waits_for_open_no_idle_call(
    client: Client, server: Server, before: set[threading.Thread], place: Place
) -> None:
    client.thread_of_answer(server, Method.GET_METADATA)
    for method in (Method.PRODUCE, Method.FETCH):
        server.may_answer.release()
        client.transport.run(metadata_call(place.address, method))
    until_none(before)
    assert server.streams_begun == 0


def test_the_idle_call_carries_the_token(place: Place, server: Server) -> None:
    client = Client(place.address, Credentials(token="of-alice"))
    client.thread_of_answer(server)
    assert ("authorization", "Bearer of-alice") in server.asked.get(timeout=PATIENCE_S)
    client.transport.close()


# -- its end -------------------------------------------------------------------------------------------------


def test_a_client_that_is_closed_leaves_no_thread_of_its_channels_behind(
    client: Client, server: Server, before: set[threading.Thread]
) -> None:
    client.thread_of_answer(server)
    server.asked.get(timeout=PATIENCE_S)
    client.transport.close()
    until_none(before)
    assert server.ended.get(timeout=PATIENCE_S) == "cancelled"


def test_a_client_that_nobody_closes_leaves_no_thread_of_its_channels_behind(
    place: Place, server: Server, before: set[threading.Thread]
) -> None:
    left = Client(place.address)
    left.thread_of_answer(server)
    server.asked.get(timeout=PATIENCE_S)
    del left

    def have_ended() -> bool:
        # The thread that opened the idle call may have had the client for a moment longer.
        gc.collect()
        return not threads_of_channels(before)

    wait_until("all threads of channels have ended", have_ended, PATIENCE_S)
    assert server.ended.get(timeout=PATIENCE_S) == "cancelled"


def test_an_idle_call_that_was_ended_is_not_opened_again(
    place: Place, server: Server, before: set[threading.Thread]
) -> None:
    idle_call = IdleCall()
    idle_call.end()
    with grpc.insecure_channel(place.address) as channel:
        idle_call.keep(channel, None)
        assert not threads_of_channels(before)


def test_a_call_that_is_answered_while_its_client_closes_opens_no_idle_call(
    client: Client, server: Server, before: set[threading.Thread]
) -> None:
    client.begin()
    server.may_answer.release()
    client.transport.close()
    client.outcome()
    until_none(before)


def test_after_its_server_has_gone_nobody_knocks_without_another_call(
    client: Client, server: Server, place: Place, before: set[threading.Thread]
) -> None:
    client.thread_of_answer(server)
    server.asked.get(timeout=PATIENCE_S)
    server.stop()
    until_none(before)
    assert not place.is_knocked_at(within_s=RECONNECTING_S)


@pytest.mark.parametrize("is_there", [True, False], ids=["refused", "gone"])
def test_a_channel_that_is_dropped_takes_its_idle_call_along(
    client: Client, server: Server, before: set[threading.Thread], is_there: bool
) -> None:
    client.thread_of_answer(server)
    server.asked.get(timeout=PATIENCE_S)
    server.failure = grpc.StatusCode.UNAVAILABLE
    if not is_there:
        server.stop()
    client.begin()
    server.may_answer.release()
    assert isinstance(client.outcome(), AddressUnreachableError)
    until_none(before)
    assert server.ended.get(timeout=PATIENCE_S) == "cancelled"


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "dropped"])
def test_the_pool_ends_the_idle_call_of_a_channel_that_somebody_still_holds(
    place: Place, server: Server, before: set[threading.Thread], is_closed: bool
) -> None:
    pool = ChannelPool(grpc.insecure_channel)
    line = pool.begin(place.address, Method.PRODUCE)
    line.keep_idle_call(None)
    server.asked.get(timeout=PATIENCE_S)
    held = pool.close() if is_closed else [line.channel]
    line.failed(grpc.RpcError(), AddressUnreachableError("gone", address=place.address))
    pool.end(line)
    until_none(before)
    assert len(held) == 1


# -- a server that is back, or takes none --------------------------------------------------------------------


def test_after_a_restart_of_the_server_there_is_an_idle_call_again(
    client: Client, server: Server, place: Place, before: set[threading.Thread]
) -> None:
    client.thread_of_answer(server)
    server.asked.get(timeout=PATIENCE_S)
    for _ in range(IN_VAIN_MAX + 1):
        server.stop()
        until_none(before)
        server = Server(place.address)
        before = set(threading.enumerate())
        first = client.thread_of_answer(server)
        server.asked.get(timeout=PATIENCE_S)
        assert client.thread_of_answer(server) is first
    server.stop()


def after_each_call(client: Client, server: Server, before: set[threading.Thread]) -> Callable[[], None]:
    """Make a call, and wait until neither it nor an idle call is under way."""

    def act() -> None:
        client.thread_of_answer(server)
        until_none(before)

    return act


@pytest.mark.parametrize(
    "refusal",
    [
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.OK,
    ],
)
def test_a_server_that_takes_no_idle_call_is_asked_once(
    client: Client, server: Server, before: set[threading.Thread], refusal: grpc.StatusCode
) -> None:
    server.refusal = refusal
    call = after_each_call(client, server, before)
    call()
    server.refusal = None
    for _ in range(3):
        call()
    assert server.streams_begun == 1


@pytest.mark.parametrize("end", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED])
def test_what_breaks_each_idle_call_at_once_is_given_up(
    client: Client, server: Server, before: set[threading.Thread], end: grpc.StatusCode
) -> None:
    """UNAUTHENTICATED is the end of one whose token expired; the next call has a new one."""
    server.refusal = end
    call = after_each_call(client, server, before)
    for _ in range(IN_VAIN_MAX + 3):
        call()
    assert server.streams_begun == IN_VAIN_MAX
