"""A client that is used in another process, or on another event loop, than the first time says so at once; it
waited for ever.

Nothing connects before these tests fork: a child may die if gRPC is at work in its parent just then.
"""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from hightide import Admin, Consumer, Delivery, Producer, TopicPartition, aio
from hightide.aio.delivery import Delivery as AioDelivery
from hightide.calls.call import Method
from hightide.errors import (
    AddressUnreachableError,
    BrokersUnavailableError,
    ForkedClientError,
    HightideError,
    UndeliveredError,
    WrongEventLoopError,
)
from hightide.transport import at_exit
from hightide.transport.channels import ChannelPool
from hightide.transport.connections import _SHARED, Connections
from hightide.transport.driver import now_ms
from hightide.transport.home import ProcessHome
from unit.sdk.producer_bench import TOPIC
from unit.sdk.producing.test_closing import NOBODY, aio_with_a_record, led_by_nobody
from unit.sdk.transport.unconnected_channel import UnconnectedChannel

PLACE = TopicPartition(TOPIC, 0)
CHILD_S = 60
"""A child that hangs is ended after this time, and said nothing."""

# Clients of a loop that has ended cannot be closed.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Clients that a test did not close are collected with it."""
    yield
    gc.collect()


def in_child(act: Callable[[], object]) -> str:
    """What a forked process says of this: the name and text of the error, or what it gave."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(CHILD_S)
        try:
            said = ""
            said = repr(act())
        except HightideError as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as heard:
        said = heard.read()
    os.waitpid(child, 0)
    return said


@pytest.fixture
def sent() -> Iterator[tuple[Producer, Delivery]]:
    """A producer with a record, whose thread has not started yet."""
    producer = Producer(NOBODY)
    core = producer._core
    core.cluster.update(led_by_nobody())
    with producer._changed:
        home = core.queues_of(TOPIC)
        assert home is not None, "the cluster has told of it"
        delivery = core.append(home, None, None, b"v", 0, None, now_ms=now_ms())
        at_exit.watch(producer._sender)
    yield producer, delivery
    with pytest.raises(UndeliveredError):
        producer.close(0)


@pytest.mark.parametrize(
    "use",
    [
        lambda producer, _: producer.send(TOPIC, b"v"),
        lambda producer, _: producer.flush(),
        lambda _, delivery: delivery.result(),
        lambda producer, _: producer.undelivered_count,
    ],
)
def test_a_producer_that_was_used_before_a_fork_says_so_in_the_child(
    sent: tuple[Producer, Delivery], use: Callable[[Producer, Delivery], object]
) -> None:
    said = in_child(lambda: use(*sent))
    assert said.startswith(f"ForkedClientError: process {os.getpid()} used this client")
    assert "make each client in the process that uses it" in said


def test_a_child_learns_of_the_fork_even_if_a_thread_held_the_lock_meanwhile(
    sent: tuple[Producer, Delivery],
) -> None:
    producer, _ = sent
    with producer._lock:
        said = in_child(lambda: producer.send(TOPIC, b"v"))
    assert said.startswith("ForkedClientError")


def test_a_child_closes_nothing_of_its_parent_and_counts_none_of_its_records(
    sent: tuple[Producer, Delivery],
) -> None:
    producer, _ = sent
    assert in_child(producer.close) == "None"
    assert in_child(at_exit._close_all) == "None"
    assert producer.undelivered_count == 1


def test_a_producer_that_was_made_and_not_used_before_a_fork_works_in_the_child() -> None:
    with Producer(NOBODY, max_block_ms=1) as producer:
        for _ in range(2):
            assert "BrokersUnavailableError" in in_child(lambda: producer.send(TOPIC, b"v"))


def test_consumers_and_admins_that_were_used_before_a_fork_say_so_in_the_child() -> None:
    with Consumer(NOBODY) as consumer, Admin(NOBODY, timeout_ms=1) as admin:
        assert consumer.paused() == ()
        admin._transport.home.enter()
        assert "ForkedClientError" in in_child(consumer.poll)
        assert "ForkedClientError" in in_child(lambda: consumer.seek(PLACE, 0))
        assert "ForkedClientError" in in_child(admin.describe_cluster)
        assert in_child(consumer.close) == in_child(admin.close) == "None"


@pytest.mark.parametrize(
    "use",
    [
        lambda producer, _: producer.send(TOPIC, b"v"),
        lambda producer, _: producer.flush(),
        lambda producer, _: producer.close(),
        lambda _, delivery: delivery,
    ],
)
def test_a_producer_on_a_second_event_loop_says_so_within_its_delivery_timeout(
    use: Callable[[aio.Producer, AioDelivery], Awaitable[object]],
) -> None:
    producer, delivery = asyncio.run(aio_with_a_record(delivery_timeout_ms=60_000))

    async def again() -> None:
        await use(producer, delivery)

    began_s = time.monotonic()
    with pytest.raises(
        WrongEventLoopError, match=r"loop, which has ended, used this client first.*inside of the coroutine"
    ):
        asyncio.run(again())
    assert time.monotonic() - began_s < 60
    at_exit.forget(producer._sender)


def test_consumers_and_admins_on_a_second_event_loop_say_so() -> None:
    consumer, admin = aio.Consumer(NOBODY), aio.Admin(NOBODY, timeout_ms=1)

    async def first() -> None:
        await consumer.assign([PLACE])
        with pytest.raises((BrokersUnavailableError, AddressUnreachableError)):
            await admin.describe_cluster()

    async def poll() -> None:
        await consumer.poll()

    async def describe() -> None:
        await admin.describe_cluster()

    asyncio.run(first())
    for again in (poll, describe):
        with pytest.raises(WrongEventLoopError):
            asyncio.run(again())


def test_an_asyncio_client_that_is_made_outside_of_a_loop_belongs_to_the_loop_that_uses_it() -> None:
    producer = aio.Producer(NOBODY, max_block_ms=1)

    async def first() -> None:
        with pytest.raises(BrokersUnavailableError):
            await producer.send(TOPIC, b"v")
        await producer.close()

    asyncio.run(first())


def test_errors_of_the_wrong_place_are_not_retried() -> None:
    assert not ForkedClientError.retriable
    assert not WrongEventLoopError.retriable


def shared_channel() -> object:
    """The channel of one more client of those that share."""
    connections = Connections(lambda: ChannelPool(UnconnectedChannel), ProcessHome(), "of-this-test")
    clients.append(connections)
    return connections.begin(NOBODY, Method.FETCH).channel


clients: list[Connections[UnconnectedChannel]] = []
"""A pool lives as long as one of them."""


def test_a_child_process_does_not_share_the_connections_of_its_parent() -> None:
    """Also if another thread was just about to join at the moment of the fork."""
    of_parent = shared_channel()
    assert shared_channel() is of_parent
    with _SHARED._lock:
        assert in_child(lambda: shared_channel() is of_parent) == "False"
    assert in_child(lambda: shared_channel() is shared_channel()) == "True"
    clients.clear()
