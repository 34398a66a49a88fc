"""A gRPC channel over the simulated network: each call is a message and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

import grpc
from google.rpc import status_pb2
from hightide_runtime.errors import ServiceError
from sim.messages import CallFailed
from sim.topics.loop import SimLoop
from sim.topics.messages import Body, Rpc, RpcAnswer

LOOK_AGAIN_S: Final = 0.05

Codec = Callable[[Any], Any]


class Surroundings(Protocol):
    """What a channel may do to the world."""

    def call(self, source: int, target: int, body: Body, then: Callable[[Any], None]) -> int: ...

    def is_reachable(self, source: int, target: int) -> bool: ...


class SimChannel:
    """To one process (`grpc.aio.Channel`)."""

    def __init__(self, world: Surroundings, source: int, target: int) -> None:
        self._world = world
        self._source = source
        self._target = target
        self._under_way: dict[asyncio.Future[Any], None] = {}
        """In the order in which they were made."""

    @property
    def is_open(self) -> bool:
        """Whether somebody listens there, and can be reached."""
        return self._world.is_reachable(self._source, self._target)

    async def channel_ready(self) -> None:
        """Wait until somebody listens there."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        while not self.is_open:
            await loop.after(LOOK_AGAIN_S)

    def unary_unary(
        self,
        method: str,
        request_serializer: Codec | None = None,
        response_deserializer: Codec | None = None,
        **_: Any,
    ) -> Callable[..., asyncio.Future[Any]]:
        name = method.rpartition("/")[2]

        def call(request: Any, timeout: float | None = None, **_: Any) -> asyncio.Future[Any]:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Any] = loop.create_future()

            def answered(body: Any) -> None:
                if future.done():
                    return
                value = body.value if isinstance(body, RpcAnswer) else body
                if isinstance(value, ServiceError):
                    future.set_exception(rpc_error(value.status, value.to_rich_status()))
                elif isinstance(value, CallFailed):
                    future.set_exception(rpc_error(grpc.StatusCode.UNAVAILABLE, None))
                else:
                    read = response_deserializer
                    future.set_result(value if read is None else read(value))

            sent = request if request_serializer is None else request_serializer(request)
            self._world.call(self._source, self._target, Rpc(name, sent), answered)
            if timeout is not None:
                timer = loop.call_later(timeout, _late, future)
                future.add_done_callback(lambda _: timer.cancel())
            self._under_way[future] = None
            future.add_done_callback(lambda done: self._under_way.pop(done, None))
            return future

        return call

    async def close(self) -> None:
        """Give up what is under way."""
        for future in tuple(self._under_way):
            future.cancel()


def rpc_error(code: grpc.StatusCode, status: status_pb2.Status | None) -> grpc.aio.AioRpcError:
    """What a stub raises."""
    trailing = grpc.aio.Metadata()
    if status is not None:
        trailing.add("grpc-status-details-bin", status.SerializeToString())
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, "" if status is None else status.message)


def _late(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED, None))
