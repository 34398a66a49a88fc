"""Requests that wait for the core's answer: each gets one, or an error, however long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev

__all__ = ["Answer", "PendingRequests", "RequestEvent"]

RequestEvent: TypeAlias = (
    ev.CommitRequested | ev.ResetRequested | ev.DeleteGroupRequested | ev.DeleteOffsetsRequested
)
Answer: TypeAlias = ef.AnswerCommit | ef.AnswerReset | ef.AnswerDelete | ef.AnswerDeleteOffsets
A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class _Refused:
    why: Callable[[], ServiceError]


class PendingRequests:
    """The waiting requests of one shard, on the event loop's thread. The server limits their number."""

    def __init__(self, take: Callable[[ev.Event], None], timeout_ms: int) -> None:
        """`take`: passes an event to the core."""
        self._take = take
        self._timeout_ms = timeout_ms
        self._waiting: dict[int, asyncio.Future[Answer | _Refused]] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def take_id(self) -> int:
        """The id of the next request."""
        self._last_id += 1
        return self._last_id

    async def ask(self, event: RequestEvent, kind: type[A]) -> A:
        """Feed the request to the core and wait for its answer. Raises ServiceError."""
        future: asyncio.Future[Answer | _Refused] = asyncio.get_running_loop().create_future()
        self._waiting[event.request_id] = future
        try:
            self._take(event)
            async with asyncio.timeout(self._timeout_ms / 1000):
                answer = await future
        except TimeoutError:
            raise ServiceError(
                ErrorCode.ERROR_CODE_TIMED_OUT,
                f"group {event.group}: not durable after {self._timeout_ms} ms, and it may still become so; "
                "ask for the committed offsets, or try again",
                {"group": event.group},
            ) from None
        finally:
            self._waiting.pop(event.request_id, None)
        if isinstance(answer, _Refused):
            raise answer.why()
        assert isinstance(answer, kind), answer
        return answer

    def answer(self, effect: Answer) -> None:
        """Pass on the core's answer; the caller may be gone."""
        future = self._waiting.get(effect.request_id)
        if future is not None and not future.done():
            future.set_result(effect)

    def refuse(self, request_id: int, why: Callable[[], ServiceError]) -> None:
        """Pass on the core's refusal. `why` is called in the task of the request, because the address in it
        depends on the listener of the call."""
        future = self._waiting.get(request_id)
        if future is not None and not future.done():
            future.set_result(_Refused(why))

    def refuse_all(self, why: Callable[[], ServiceError]) -> None:
        """Refuse all: this process does not coordinate the shard any more."""
        for request_id in list(self._waiting):
            self.refuse(request_id, why)
