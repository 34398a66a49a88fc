"""Requests that wait for the core's answer: each gets one, or an error, however long that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from hightide_runtime.znodes.cluster_znodes import ControllerZnode

from hightide_controller.contract import convert
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.values import requests as rq

__all__ = ["Answer", "PendingRequests", "RequestEvent"]

RequestEvent = (
    ev.CreateTopicRequested
    | ev.ControlledShutdownRequested
    | ev.ResignationRequested
    | rq.DeleteTopicRequested
    | rq.AddPartitionsRequested
    | rq.RemovePartitionsRequested
    | rq.AlterTopicConfigRequested
    | rq.ReassignmentsRequested
    | rq.CancelReassignmentsRequested
    | rq.ReassignmentThrottleRequested
    | rq.ElectLeadersRequested
)

Answer = (
    ef.AnswerCreateTopic
    | ef.AnswerControlledShutdown
    | ef.AnswerTopic
    | ef.AnswerPartitions
    | ef.AnswerElections
    | ef.AnswerDone
    | ef.AnswerResigned
)
A = TypeVar("A", bound=Answer)


class PendingRequests:
    """The waiting requests of one controller process, on the event loop's thread. The core limits their
    number."""

    def __init__(
        self,
        put: Callable[[ev.Event], None],
        active_elsewhere: Callable[[], ControllerZnode | None],
    ) -> None:
        """`active_elsewhere`: the active controller, if it is another one and known."""
        self._put = put
        self._active_elsewhere = active_elsewhere
        self._waiting: dict[int, asyncio.Future[Answer | ef.RefuseRequest]] = {}
        self._next_id = 1

    def take_id(self) -> int:
        """The id of the next request."""
        self._next_id += 1
        return self._next_id

    async def ask(self, event: RequestEvent, kind: type[A], timeout_ms: int) -> A:
        """Feed the request to the core and wait for its answer. Raises ServiceError."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer | ef.RefuseRequest] = loop.create_future()
        self._waiting[event.request_id] = future
        self._put(event)
        # Not cancelled with the caller: the core must learn that the wait is over.
        loop.call_later(timeout_ms / 1000, self._put, ev.WaitExpired(event.request_id))
        try:
            answer = await future
        finally:
            self._waiting.pop(event.request_id, None)
        if isinstance(answer, ef.RefuseRequest):
            raise convert.not_controller(self._active_elsewhere(), may_have_begun=answer.may_have_begun)
        assert isinstance(answer, kind), answer
        return answer

    def answer(self, effect: Answer) -> None:
        """Pass on the core's answer; the caller may be gone."""
        future = self._waiting.pop(effect.request_id, None)
        if future is not None and not future.done():
            future.set_result(effect)

    def refuse(self, effect: ef.RefuseRequest) -> None:
        """Pass on the core's refusal."""
        future = self._waiting.pop(effect.request_id, None)
        if future is None or future.done():
            return
        if effect.refusal is ef.Refusal.NOT_CONTROLLER:
            # The caller turns it into an error: the address in it depends on the listener of the call.
            future.set_result(effect)
        else:
            future.set_exception(convert.error_of(effect))
