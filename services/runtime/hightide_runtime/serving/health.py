"""grpc.health.v1, by service name. Its Watch streams end when the server stops, and delay nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.errors import ServiceError, abort
from hightide_runtime.serving.fair_limit import FairLimit, holder_of

WATCHES_MAX: Final = 1_000
"""Watch streams of all listeners. A Check waits for nothing, and so it has no limit: whoever starts and stops
processes by it gets an answer, whatever else the server has to do."""
SERVICE_NAME: str = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
_Status = health_pb2.HealthCheckResponse


class HealthServicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Answers whether a service takes requests. The controller holds a Watch stream to each broker."""

    def __init__(self, services: list[str]) -> None:
        self._status: dict[str, int] = dict.fromkeys(["", *services], _Status.NOT_SERVING)
        self._changed = asyncio.Condition()
        self._stopping = False
        self._watches = FairLimit(WATCHES_MAX)

    async def set(self, serving: bool, service: str | None) -> None:
        """Set one service, or all of them if `service` is None. Ignored once the server is stopping."""
        if self._stopping:
            return
        status = _Status.SERVING if serving else _Status.NOT_SERVING
        async with self._changed:
            for name in self._status if service is None else (service,):
                self._status[name] = status
            self._changed.notify_all()

    async def stop(self) -> None:
        """Report NOT_SERVING to all callers, then end the Watch streams."""
        await self.set(False, None)
        async with self._changed:
            self._stopping = True
            self._changed.notify_all()

    async def Check(  # noqa: N802
        self, request: Any, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> Any:
        """The current status; NOT_FOUND for a service that is not here."""
        status = self._status.get(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {request.service[:200]!r} here")
        return _Status(status=status)

    async def Watch(  # noqa: N802
        self, request: Any, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> AsyncIterator[Any]:
        """The current status, and again whenever it changes; SERVICE_UNKNOWN for a service that is not
        here."""
        holder = holder_of(context)
        if not self._watches.take(holder):
            why = (
                f"{self._watches.taken} streams watch the health of this process, "
                f"{self._watches.held(holder)} of them of this connection; it accepts {WATCHES_MAX}. End "
                "some, or ask by Check"
            )
            await abort(context, ServiceError(ErrorCode.ERROR_CODE_OVERLOADED, why))
        context.add_done_callback(lambda _: self._watches.give_back(holder))  # type: ignore[arg-type]
        last = None
        while True:
            status = self._status.get(request.service, _Status.SERVICE_UNKNOWN)
            if status != last:
                last = status
                yield _Status(status=status)
                continue
            if self._stopping:
                return
            async with self._changed:
                if self._status.get(request.service, _Status.SERVICE_UNKNOWN) == last and not self._stopping:
                    await self._changed.wait()
