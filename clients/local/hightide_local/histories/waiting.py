"""Waiting for a condition with a bound: the one place where tests let time pass."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hightide_local.histories.violation import NotInTimeError

T = TypeVar("T")

_POLL_S = 0.02


def wait_until(
    what: str, condition: Callable[[], T], timeout_s: float, is_so: Callable[[T], object] = bool
) -> T:
    """Ask until the answer is true, or what `is_so` wants, and give it. Raises NotInTimeError, which says
    `what` and the last answer, if it never is."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        answer = condition()
        if is_so(answer):
            return answer
        _check_in_time(what, answer, deadline, timeout_s)
        pause.wait(_POLL_S)


def _check_in_time(what: str, answer: object, deadline: float, timeout_s: float) -> None:
    if time.monotonic() >= deadline:
        raise NotInTimeError(f"not within {timeout_s:g} s: {what}; the last answer was {answer!r}")


async def aio_wait_until(what: str, condition: Callable[[], Awaitable[T]], timeout_s: float) -> T:
    """`wait_until` on an event loop, for a condition that has to be awaited."""
    deadline = time.monotonic() + timeout_s
    pause = asyncio.Event()
    while True:
        answer = await condition()
        if answer:
            return answer
        _check_in_time(what, answer, deadline, timeout_s)
        asyncio.get_running_loop().call_later(_POLL_S, pause.set)
        await pause.wait()
        pause.clear()
