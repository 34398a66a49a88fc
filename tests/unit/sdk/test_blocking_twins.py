"""The blocking clients are what the asyncio ones are, without await."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import hightide
import pytest
from blocking_twins import StalePassageError, blocking
from hightide import aio
from hightide.aio import delivery as aio_delivery
from hightide.producing import delivery as blocking_delivery

# What asyncio's clients do at once, as the blocking ones do: they only look at what is known.
AT_ONCE = {
    "Admin": set(),
    "Consumer": {
        *("consumer_id", "deserialize_by", "generations", "lag", "paused", "record_streams"),
        *("skipped_batches", "skipped_records", "streams", "throttled_ms"),
    },
    "DeserializingConsumer": {"record_streams", "skipped_records"},
    "SerializingProducer": set(),
    "Producer": {"throttled_ms", "undelivered_count"},
}
# A property cannot wait, so with asyncio it is a method.
METHODS_FOR_PROPERTIES = {("Consumer", "assignment")}

PAIRS = [
    *((getattr(hightide, name), getattr(aio, name)) for name in aio.__all__),
    (blocking_delivery.Delivery, aio_delivery.Delivery),
    (blocking_delivery.BulkDelivery, aio_delivery.BulkDelivery),
]


def public_names(client: type) -> set[str]:
    classes = [each for each in client.__mro__ if each is not object]
    return {name for each in classes for name in vars(each) if not name.startswith("_")}


def function_of(member: object) -> Callable[..., Any]:
    function = member.fget if isinstance(member, property) else member
    assert callable(function)
    return function


def signature_of(client: type, name: str) -> str:
    """As a caller sees it who awaits: the types of both sides have the same names."""
    text = str(inspect.signature(function_of(inspect.getattr_static(client, name))))
    return (
        re.sub(r"\bAsyncIterator\b", "Iterator", text)
        .replace("hightide.aio.delivery", "hightide.producing.delivery")
        .replace("hightide.aio.", "hightide.")
    )


def waits(member: object) -> bool:
    function = function_of(member)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def shared_members() -> Iterator[tuple[type, type, str]]:
    for ours, theirs in PAIRS:
        # Deliveries are made by producers only.
        made_by_users = {"__init__"} if ours.__name__ in aio.__all__ else set()
        for name in sorted(made_by_users | public_names(ours) & public_names(theirs)):
            yield ours, theirs, name


@pytest.mark.parametrize(
    ("ours", "theirs", "name"),
    [pytest.param(*each, id=f"{each[0].__name__}.{each[2]}") for each in shared_members()],
)
def test_a_call_is_written_the_same_on_both_sides(ours: type, theirs: type, name: str) -> None:
    assert signature_of(ours, name) == signature_of(theirs, name)
    if (ours.__name__, name) in METHODS_FOR_PROPERTIES:
        assert isinstance(inspect.getattr_static(ours, name), property)
        assert inspect.iscoroutinefunction(inspect.getattr_static(theirs, name))
    else:
        both = (inspect.getattr_static(each, name) for each in (ours, theirs))
        assert len({isinstance(each, property) for each in both}) == 1


@pytest.mark.parametrize("name", aio.__all__)
def test_both_sides_have_the_same_names(name: str) -> None:
    assert public_names(getattr(hightide, name)) == public_names(getattr(aio, name))


@pytest.mark.parametrize("name", aio.__all__)
def test_asyncio_awaits_all_but_what_is_known_and_threads_await_nothing(name: str) -> None:
    ours, theirs = getattr(hightide, name), getattr(aio, name)
    assert {
        each for each in public_names(theirs) if not waits(inspect.getattr_static(theirs, each))
    } == AT_ONCE[name]
    assert {each for each in public_names(ours) if waits(inspect.getattr_static(ours, each))} == set()


def test_a_delivery_is_awaited_where_threads_ask_it_for_its_result() -> None:
    for name, only_ours, only_theirs in (
        ("Delivery", {"result", "exception"}, set[str]()),
        ("BulkDelivery", {"result", "exception", "add_done_callback"}, {"settled"}),
    ):
        ours = public_names(getattr(blocking_delivery, name))
        theirs = public_names(getattr(aio_delivery, name))
        assert (ours - theirs, theirs - ours) == (only_ours, only_theirs)


def test_code_loses_its_awaits_and_prose_keeps_them() -> None:
    source = '''
class Client:
    """Whoever uses it has to await: async for each in client."""

    async def __aenter__(self) -> AsyncIterator[int]:
        async with self.a as one, self.b:  # await it
            return [await each.close() async for each in await one("await", AioTransport())]
'''
    assert (
        blocking(source, ())
        == '''
class Client:
    """Whoever uses it has to await: async for each in client."""

    def __enter__(self) -> Iterator[int]:
        with self.a as one, self.b:  # await it
            return [each.close() for each in one("await", Transport())]
'''
    )


def test_what_a_loop_only_passes_on_is_yielded_at_once() -> None:
    source = """
async def each(self) -> AsyncIterator[int]:
    for one in self.known(1):
        yield one
    for one in self.known(2):
        yield one + 1
"""
    assert (
        blocking(source, ())
        == """
def each(self) -> Iterator[int]:
    yield from self.known(1)
    for one in self.known(2):
        yield one + 1
"""
    )


def test_other_words_for_what_is_not_there_any_more_are_an_error() -> None:
    assert blocking("# a task\n", (("a task", "a thread"),)) == "# a thread\n"
    with pytest.raises(StalePassageError, match="a fiber"):
        blocking("# a task\n", (("a fiber", "a thread"),))
