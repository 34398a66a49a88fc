"""Bounds what calls take: their time, how many there are at once, the bytes of answers that nobody reads; and
lets none begin while a server stops.

A call with one response that comes without a deadline is given one by the server, so that a plain grpcurl
works; a stream without one is refused, since nobody can tell how long it was meant to be.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, cast

from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.principals import current_caller
from hightide_runtime.errors import ServiceError, abort
from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.serving.answer_budget import AnswerBudget
from hightide_runtime.serving.fair_limit import PART, FairLimit, Holder, holder_of
from hightide_runtime.serving.interceptors.interceptor import (
    Context,
    Method,
    Plane,
    StreamCall,
    UnaryCall,
)

SMALL_ANSWER_BYTES: Final = 16 * 1024
"""An answer that is never refused: of all calls that a plane may have, these take 160 MiB."""


class LimitsInterceptor:
    """Counts the unfinished calls of each plane of a server, over all its methods and listeners. A parked
    call is one of them, and so is one whose answer has not left yet, because its client does not read.

    Each connection, and each principal, has a share of a plane's limit. So a client that parks calls without
    end stops neither other clients nor what the cluster needs to go on, however many connections it opens.
    Quotas may bound a principal further.

    It stands outside of the error interceptor, so that a refusal costs next to nothing: it answers by itself.
    It stands inside of the access interceptor, which knows who calls.
    """

    def __init__(
        self,
        max_concurrent_rpcs: int,
        max_deadline_ms: int,
        default_deadline_ms: int,
        answers: Mapping[Plane, AnswerBudget],
        quotas: LiveQuotas,
    ) -> None:
        self._answers = answers
        self._quotas = quotas
        self._unfinished = {plane: FairLimit(max_concurrent_rpcs) for plane in Plane}
        self._max_deadline_ms = max_deadline_ms
        self._default_deadline_ms = default_deadline_ms
        self._in_flight = 0
        self._idle: asyncio.Event | None = None

    async def drain(self, grace_s: float) -> None:
        """Refuse new calls from here on, and wait until unfinished ones have ended or the grace period is
        over."""
        self._idle = asyncio.Event()
        if self._in_flight:
            try:
                await asyncio.wait_for(self._idle.wait(), grace_s)
            except TimeoutError:
                return

    def _ended(self) -> None:
        self._in_flight -= 1
        if self._idle is not None and self._in_flight == 0:
            self._idle.set()

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response."""

        async def limited(request: Any, context: Context) -> Any:
            if (refusal := self._refusal(method, context) or self._take(method, context)) is not None:
                await abort(context, refusal)
            if not method.is_counted:
                return await call(request, context)
            self._in_flight += 1
            try:
                if not method.needs_deadline or _remaining_s(context) is not None:
                    answer = await call(request, context)
                else:
                    answer = await self._under_own_deadline(method, call, request, context)
                if answer and (refusal := self._no_room(method, context, len(answer))) is not None:
                    await abort(context, refusal)
                return answer
            finally:
                self._ended()

        return limited

    async def _under_own_deadline(
        self, method: Method, call: UnaryCall, request: Any, context: Context
    ) -> Any:
        # What the servicer raises by itself, also a TimeoutError, was answered by the error interceptor.
        try:
            async with asyncio.timeout(self._default_deadline_ms / 1000):
                return await call(request, context)
        except TimeoutError:
            error = ServiceError(
                ErrorCode.ERROR_CODE_TIMED_OUT,
                f"{method} was called without a deadline, and not done after {self._default_deadline_ms} "
                "ms, the server's default; set a longer one (grpcurl: -max-time 60; buf curl: --timeout "
                "60s)",
                {"default_deadline_ms": str(self._default_deadline_ms)},
            )
        return await abort(context, error)

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses."""

        async def limited(request: Any, context: Context) -> AsyncIterator[Any]:
            refusal = (
                self._refusal(method, context)
                or self._endless(method, context)
                or self._take(method, context)
            )
            if refusal is not None:
                await abort(context, refusal)
            self._in_flight += method.is_counted
            try:
                async for response in call(request, context):
                    yield response
            finally:
                if method.is_counted:
                    self._ended()

        return limited

    def _refusal(self, method: Method, context: Context) -> ServiceError | None:
        if self._idle is not None:
            return ServiceError(
                ErrorCode.ERROR_CODE_SHUTTING_DOWN, "the server is shutting down; ask another one"
            )
        if not method.needs_deadline:
            return None
        remaining_s = _remaining_s(context)
        if remaining_s is not None and remaining_s * 1000 > self._max_deadline_ms:
            return ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
                f"the deadline of {method} is {remaining_s:.0f} s away; it may be at most "
                f"{self._max_deadline_ms} ms",
                {"max_deadline_ms": str(self._max_deadline_ms)},
            )
        return None

    def _take(self, method: Method, context: Context) -> ServiceError | None:
        """Count the call until gRPC is done with it, its answer included, or say why there is no place."""
        if not method.is_counted:
            return None
        limit = self._unfinished[method.plane]
        holder = holder_of(context)
        if (over := self._over_quota(method, limit, holder)) is not None:
            return over
        if limit.take(holder):
            context.add_done_callback(lambda _: limit.give_back(holder))  # type: ignore[arg-type]
            return None
        return ServiceError(
            ErrorCode.ERROR_CODE_OVERLOADED,
            f"the server has {limit.taken} unfinished calls of the {method.plane} plane, "
            f"{limit.held(holder)} of them of this connection; it accepts {limit.limit}, of each "
            f"connection one in {PART} of those that are free, and of each principal as many as are free. "
            "Read the answers that you wait for, and try again after a pause",
            {
                "plane": method.plane.value,
                "max_concurrent_rpcs": str(limit.limit),
                "unfinished_calls": str(limit.taken),
                "unfinished_calls_of_connection": str(limit.held(holder)),
            },
        )

    def _over_quota(self, method: Method, limit: FairLimit, holder: Holder) -> ServiceError | None:
        """Why the quota of the caller does not allow one more call, of this connection."""
        # Without TLS the processes of the cluster are anonymous, too, and call each other here.
        if method.plane is not Plane.DATA:
            return None
        quota = self._quotas.quota_of_caller()
        calls, connections = limit.held_by_principal(holder.principal), limit.connections_of(holder.principal)
        if quota.calls_max is not None and calls >= quota.calls_max:
            return _quota_exceeded("calls_max", quota.calls_max, f"{calls} unfinished calls")
        if quota.connections_max is None or connections < quota.connections_max or limit.held(holder):
            return None
        told = f"{connections} connections with unfinished calls"
        return _quota_exceeded("connections_max", quota.connections_max, told)

    def _no_room(self, method: Method, context: Context, size_bytes: int) -> ServiceError | None:
        """Count the bytes of the answer until they have left, or say why there is no room for them."""
        budget = self._answers[method.plane]
        holder = holder_of(context)
        # A method that has done something must tell of it, and those that read records asked for room before.
        if method.only_describes and size_bytes > SMALL_ANSWER_BYTES and not budget.fits(holder, size_bytes):
            return budget.refusal(holder)
        budget.count(holder, size_bytes)
        context.add_done_callback(lambda _: budget.give_back(holder, size_bytes))  # type: ignore[arg-type]
        return None

    def _endless(self, method: Method, context: Context) -> ServiceError | None:
        """A stream that has no end and is not meant to have none."""
        if not method.needs_deadline or _remaining_s(context) is not None:
            return None
        return ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"{method} was called without a deadline; set one, of at most {self._max_deadline_ms} ms "
            "(grpcurl: -max-time 10; buf curl: --timeout 10s)",
            {"max_deadline_ms": str(self._max_deadline_ms)},
        )


def _quota_exceeded(limit: str, value: int, held: str) -> ServiceError:
    return ServiceError(
        ErrorCode.ERROR_CODE_QUOTA_EXCEEDED,
        f"{current_caller()} has {held} at this process, and its quota allows {value} ({limit}); wait for "
        "the answers of some, then try again; `hightide quota ls` shows all quotas",
        {"quota": limit, "limit": str(value), "principal": str(current_caller())},
    )


def _remaining_s(context: Context) -> float | None:
    """Time until the call's deadline; None where it came without one, which the stubs do not know."""
    return cast(float | None, context.time_remaining())
