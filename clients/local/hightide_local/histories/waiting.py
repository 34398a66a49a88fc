"""Waits for a condition with a timeout. Tests wait only here."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hightide_local.histories.violation import NotInTimeError

T = TypeVar("T")

_POLL_S = 0.02


def wait_until(
    what: str, condition: Callable[[], T], timeout_s: float, is_met: Callable[[T], object] = bool
) -> T:
    """Call `condition` until its result is true, or until `is_met` accepts it, and return the result. Raises
    NotInTimeError with `what` and the last result."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        answer = condition()
        if is_met(answer):
            return answer
        _check_in_time(what, answer, deadline, timeout_s)
        pause.wait(_POLL_S)


def _check_in_time(what: str, answer: object, deadline: float, timeout_s: float) -> None:
    if time.monotonic() >= deadline:
        raise NotInTimeError(f"not within {timeout_s:g} s: {what}; the last answer was {answer!r}")


async def aio_wait_until(what: str, condition: Callable[[], Awaitable[T]], timeout_s: float) -> T:
    """Do the same as `wait_until` on an event loop, for a condition that is awaited."""
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
