"""The replies that a session waits for: kazoo puts each into a future of the loop."""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from kazoo.exceptions import KazooException

from hightide_runtime.zookeeper.errors import typed_error
from hightide_runtime.zookeeper.operations import Operation
from hightide_runtime.zookeeper.protocol import ROLLED_BACK, RUNTIME_INCONSISTENCY, OperationFailed

__all__ = ["Replies", "settle_multi"]


class Replies:
    """Those under way on one session."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        hand_over: Callable[..., None],
        record_s: Callable[[float], None],
    ) -> None:
        """`hand_over` calls a function on the loop from any thread. `record_s` is told how long each reply
        took."""
        self._loop = loop
        self._hand_over = hand_over
        self._record_s = record_s
        self._under_way: set[_Reply] = set()

    def expect(self, path: str, *, writes: bool) -> "_Reply":
        """The reply to a request that is sent now."""
        reply = _Reply(self, self._loop.create_future(), path, writes=writes)
        self._under_way.add(reply)
        return reply

    def lose(self, error: KazooException) -> None:
        """The connection, or the session, is over: fail all that have not come."""
        for reply in tuple(self._under_way):
            self._settle(reply, None, error)

    def _settle(self, reply: "_Reply", value: object, error: BaseException | None) -> None:
        if reply not in self._under_way:
            return  # It was lost before.
        self._under_way.remove(reply)
        self._record_s(perf_counter() - reply.sent_s)
        if reply.future.done():
            return
        if error is None:
            reply.future.set_result(value)
        else:
            reply.future.set_exception(typed_error(error, reply.path, writes=reply.writes))


class _Reply:
    """What kazoo is told to put a response into. kazoo's own AsyncResult would take one more thread on the
    way."""

    __slots__ = ("_replies", "future", "path", "sent_s", "writes")

    def __init__(self, replies: Replies, future: "asyncio.Future[Any]", path: str, *, writes: bool) -> None:
        self._replies = replies
        self.future = future
        self.path = path
        self.writes = writes
        self.sent_s = perf_counter()

    def set(self, value: object = None) -> None:
        """Called on kazoo's connection thread."""
        self._replies._hand_over(self._replies._settle, self, value, None)

    def set_exception(self, error: BaseException) -> None:
        """Called on kazoo's connection thread, or by the caller's when the session is over."""
        self._replies._hand_over(self._replies._settle, self, None, error)


def settle_multi(
    operations: Sequence[Operation],
    outcome: asyncio.Future[tuple[int, ...]],
    reply: "asyncio.Future[list[int | OperationFailed]]",
) -> None:
    """Turn the reply to a multi into versions, or into the error of the operation that failed."""
    if outcome.done() or reply.cancelled():
        outcome.cancel()
        return
    if (error := reply.exception()) is not None:
        outcome.set_exception(error)
        return
    failures = [
        (index, result.error)
        for index, result in enumerate(reply.result())
        if isinstance(result, OperationFailed)
    ]
    if not failures:
        outcome.set_result(tuple(result for result in reply.result() if isinstance(result, int)))
        return
    # The others only say that they were rolled back, or not tried, because of this one.
    culprits = [failure for failure in failures if failure[1] not in (ROLLED_BACK, RUNTIME_INCONSISTENCY)]
    index, number = culprits[0] if culprits else failures[0]
    outcome.set_exception(typed_error(number, operations[index].path, index=index, writes=True))
