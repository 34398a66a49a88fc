"""Calls that come on an open stream (call_stream_service.proto).

A gRPC call costs a Python process twice what a message on an open stream costs. So followers keep a
stream open. Each call on it runs the very function that gRPC would run for it, interceptors
included, in a task of its own. What that function asks of gRPC's context is what `StreamedCall` has.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final, NoReturn

import grpc
from google.rpc import code_pb2, status_pb2
from hightide.batch.call_frames import AnswerFrame, parse_call, serialise_answer
from hightide.batch.errors import MalformedMessage
from hightide.v1.call_stream_service_pb2 import OpenCallStreamRequest
from hightide.v1.call_stream_service_pb2_grpc import (
    CallStreamServiceServicer,
    add_CallStreamServiceServicer_to_server,
)
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.errors import INTERNAL_ERROR_MESSAGE, ServiceError
from hightide_runtime.serving.fair_limit import PART, FairLimit, holder_of
from hightide_runtime.serving.interceptors.interceptor import Context, UnaryCall

__all__ = [
    "CALL_STREAM_SERVICE",
    "CallStreams",
    "StreamedCall",
    "add_CallStreamServiceServicer_to_server",
]

CALL_STREAM_SERVICE: Final = "hightide.v1.CallStreamService"
STREAMS_MAX: Final = 10_000
"""Open streams of one listener."""
CALLS_MAX: Final = 256
"""Unfinished calls of one stream. Beyond that it is not read, so that its client waits."""

_STATUS_KEY: Final = "grpc-status-details-bin"
_log = logging.getLogger(__name__)


class StreamedCall:
    """The context of one call on a stream: the part of gRPC's `ServicerContext` that our interceptors and
    servicers use."""

    def __init__(self, stream: Context, timeout_s: float) -> None:
        self._stream = stream
        self._deadline_s = asyncio.get_running_loop().time() + timeout_s
        self._callbacks: list[Callable[[Any], object]] = []
        self.status = b""
        """The google.rpc.Status of a call that was aborted."""

    def peer(self) -> str:
        """The address of the client."""
        return self._stream.peer()

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What the connection's handshake has shown."""
        return self._stream.auth_context()

    def invocation_metadata(self) -> Any:
        """The metadata of the stream; its calls have none of their own."""
        return self._stream.invocation_metadata()

    def time_remaining(self) -> float:
        """Seconds until the client gives the call up."""
        return max(0.0, self._deadline_s - asyncio.get_running_loop().time())

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call this when the answer has left, or nobody waits for it any more."""
        self._callbacks.append(callback)

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the call with this status. Raises grpc.aio.AbortError, as gRPC's own does."""
        rich = next((value for key, value in status.trailing_metadata or () if key == _STATUS_KEY), b"")
        assert isinstance(rich, bytes), "a binary key has a binary value"
        self.status = rich
        raise grpc.aio.AbortError(status.details)

    def end(self) -> None:
        """Make the callbacks. Called once."""
        for callback in self._callbacks:
            callback(self)


class CallStreams(CallStreamServiceServicer):
    """The service, for one listener. `methods` are the functions by the full names of their methods."""

    def __init__(self, methods: Mapping[str, UnaryCall]) -> None:
        self._methods = methods
        self._open = FairLimit(STREAMS_MAX)

    async def OpenCallStream(  # type: ignore[override]  # noqa: N802
        self, requests: Any, context: Context
    ) -> None:
        """Serve one stream until its client ends it. This is no generator: it writes the stream itself."""
        holder = holder_of(context)
        if not self._open.take(holder):
            raise ServiceError(
                ErrorCode.ERROR_CODE_OVERLOADED,
                f"{self._open.taken} call streams are open here, {self._open.held(holder)} of them of this "
                f"connection; this listener holds {self._open.limit}, and of each connection one in {PART} "
                "of those that are free. One stream carries any number of calls",
            )
        context.add_done_callback(lambda _: self._open.give_back(holder))  # type: ignore[arg-type]
        await _OpenStream(self._methods, context).serve(requests)


class _OpenStream:
    """One stream and its unfinished calls."""

    def __init__(self, methods: Mapping[str, UnaryCall], context: Context) -> None:
        self._methods = methods
        self._context = context
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._one_ended = asyncio.Event()
        self._writing = asyncio.Lock()

    async def serve(self, requests: AsyncIterator[bytes]) -> None:
        """Start the calls as they come; after the last one, wait until all are answered. Raises ServiceError
        for what is no call."""
        try:
            async for message in requests:
                self._take(_frame_in(message))
                while len(self._tasks) >= CALLS_MAX:
                    self._one_ended.clear()
                    await self._one_ended.wait()
            while self._tasks:
                self._one_ended.clear()
                await self._one_ended.wait()
        finally:
            # The client has gone, or may no longer call. Without a stream nobody hears an answer.
            for task in self._tasks.values():
                task.cancel()

    def _take(self, frame: OpenCallStreamRequest) -> None:
        if not frame.method:
            if (given_up := self._tasks.get(frame.call_id)) is not None:
                given_up.cancel()
            return
        if frame.call_id <= 0 or frame.timeout_ms <= 0 or frame.call_id in self._tasks:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                f"call {frame.call_id} of {frame.method[:200]!r} has the number of an unfinished call, or a "
                f"number or a timeout ({frame.timeout_ms} ms) that is not above 0; count calls from 1",
            )
        loop = asyncio.get_running_loop()
        call = StreamedCall(self._context, frame.timeout_ms / 1000)
        task = self._tasks[frame.call_id] = loop.create_task(self._run(frame, call))
        # As gRPC does: at the deadline the call is cancelled. Its client has stopped to wait.
        timer = loop.call_later(frame.timeout_ms / 1000, task.cancel)

        def ended(_: asyncio.Task[None]) -> None:
            # Here and not in the task, which may be cancelled before it begins.
            timer.cancel()
            del self._tasks[frame.call_id]
            self._one_ended.set()
            call.end()

        task.add_done_callback(ended)

    async def _run(self, frame: OpenCallStreamRequest, call: StreamedCall) -> None:
        answer = serialise_answer(await self._answer(frame, call))
        async with self._writing:
            await self._context.write(answer)

    async def _answer(self, frame: OpenCallStreamRequest, call: StreamedCall) -> AnswerFrame:
        method = self._methods.get(frame.method)
        if method is None:
            why = f"{frame.method[:200]} is no method with one request and one answer of this server"
            return _failed(frame, code_pb2.UNIMPLEMENTED, why)
        try:
            context: Any = call
            return AnswerFrame(frame.call_id, b"", await method(frame.request, context))
        except grpc.aio.AbortError:
            return AnswerFrame(frame.call_id, call.status, b"")
        except Exception:  # noqa: BLE001 - the top of a call: logged, and told to the client
            # As gRPC itself does: what the error interceptor did not turn into an answer.
            _log.exception("%s failed unexpectedly", frame.method)
            return _failed(frame, code_pb2.INTERNAL, INTERNAL_ERROR_MESSAGE)


def _frame_in(message: bytes) -> OpenCallStreamRequest:
    try:
        return parse_call(message)
    except MalformedMessage as error:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"the {len(message)} bytes are no OpenCallStreamRequest ({error})",
        ) from None


def _failed(frame: OpenCallStreamRequest, code: int, why: str) -> AnswerFrame:
    return AnswerFrame(frame.call_id, status_pb2.Status(code=code, message=why).SerializeToString(), b"")
