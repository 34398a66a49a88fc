"""Calls to another process over one open stream (call_stream_service.proto), for asyncio.

For who calls the same process all the time: a follower its leader. A process of an earlier version serves no
such stream, and one that has too many takes no more. Then each call is made by itself for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Self

import grpc
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from grpc_status import rpc_status
from hightide.batch.call_frames import (
    OPEN_CALL_STREAM,
    AnswerFrame,
    parse_answer,
    serialise_call,
)
from hightide.batch.errors import MalformedMessage
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.errors import reason_of, reason_of_failure

_GIVE_UP_METHOD: Final = ""
_ONE_TOO_MANY: Final = reason_of(ErrorCode.ERROR_CODE_OVERLOADED)
"""The reason of a refusal to open a stream. What ends one later, such as a message that is too large, gives
no reason of the catalogue."""
WITHOUT_STREAM_S: Final = 60.0
"""How long calls are made by themselves before a stream is tried again."""


class _NotServedError(Exception):
    """The other process knows no call streams, or has too many. Nothing that was sent on this one was carried
    out."""


class CallStreamChannel(grpc.aio.Channel):
    """A channel whose unary calls share a stream, which the first one opens, and another one after it broke.
    Other calls go by themselves. Belongs to the event loop's thread."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """`channel` is closed with this one."""
        self._channel = channel
        self._stream: _ClientStream | None = None
        self._stream_from_s = 0.0

    def unary_unary(self, method: str, *arguments: Any, **named: Any) -> Any:
        """A method of bytes, which raises what a unary call does; ConnectionError if the stream was ended
        without an error, MalformedMessage if it cannot be read."""
        assert not arguments, "the bytes of calls are not converted here"
        assert not named, "the bytes of calls are not converted here"

        def call(request: bytes, *, timeout: float) -> Coroutine[Any, Any, bytes]:
            return self._call(method, request, timeout)

        return call

    async def _call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._stream_from_s:
            if self._stream is None or self._stream.is_over:
                self._stream = _ClientStream(self._channel)
            try:
                return await self._stream.call(method, request, timeout_s)
            except _NotServedError:
                self._stream_from_s = loop.time() + WITHOUT_STREAM_S
        send: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        answer = await send(request, timeout=timeout_s)
        assert isinstance(answer, bytes), "no deserialiser was given"
        return answer

    def unary_stream(self, *arguments: Any, **named: Any) -> Any:
        """As grpc.aio.Channel."""
        return self._channel.unary_stream(*arguments, **named)

    def stream_unary(self, *arguments: Any, **named: Any) -> Any:
        """As grpc.aio.Channel."""
        return self._channel.stream_unary(*arguments, **named)

    def stream_stream(self, *arguments: Any, **named: Any) -> Any:
        """As grpc.aio.Channel."""
        return self._channel.stream_stream(*arguments, **named)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """As grpc.aio.Channel."""
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """As grpc.aio.Channel."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """As grpc.aio.Channel."""
        await self._channel.channel_ready()

    async def close(self, grace: float | None = None) -> None:
        """End the stream, and close the channel; calls under way fail."""
        if self._stream is not None:
            await self._stream.close()
        await self._channel.close(grace)

    async def __aenter__(self) -> Self:
        """The channel itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()


class _ClientStream:
    """One open stream."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        open_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            OPEN_CALL_STREAM
        )
        self._rpc: grpc.aio.StreamStreamCall[bytes, bytes] = open_stream()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._last_id = 0
        self._writing = asyncio.Lock()
        self._giving_up: set[asyncio.Task[None]] = set()
        self.is_over = False
        self._reader = asyncio.get_running_loop().create_task(self._read(), name="read-call-stream")

    async def call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        """Send a call and wait for its answer."""
        self._last_id += 1
        call_id, answered = self._last_id, asyncio.get_running_loop().create_future()
        self._waiting[call_id] = answered
        try:
            async with asyncio.timeout(timeout_s):
                await self._write(serialise_call(call_id, method, max(1, int(timeout_s * 1000)), request))
                answer: bytes = await answered
                return answer
        except TimeoutError:
            self._give_up(call_id)
            raise _error(
                grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer to {method} in {timeout_s:.3f} s"
            ) from None
        except asyncio.CancelledError:
            self._give_up(call_id)
            raise
        finally:
            self._waiting.pop(call_id, None)

    async def close(self) -> None:
        """End the stream, and wait until nothing of it runs any more."""
        self._rpc.cancel()
        await asyncio.wait([self._reader])

    async def _write(self, message: bytes) -> None:
        async with self._writing:
            try:
                await self._rpc.write(message)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                # The stream is over, and its reader tells all calls why.
                return

    def _give_up(self, call_id: int) -> None:
        """Let the other side stop what nobody waits for."""
        if not self.is_over:
            frame = serialise_call(call_id, _GIVE_UP_METHOD, 0, b"")
            task = asyncio.get_running_loop().create_task(self._write(frame))
            self._giving_up.add(task)
            task.add_done_callback(self._giving_up.discard)

    async def _read(self) -> None:
        error: Exception = ConnectionError("the call stream was ended")
        try:
            while True:
                message = await self._rpc.read()
                if not isinstance(message, bytes):
                    break
                self._answered(parse_answer(message))
        except grpc.aio.AioRpcError as failed:
            error = failed
            if failed.code() is grpc.StatusCode.UNIMPLEMENTED or reason_of_failure(failed) == _ONE_TOO_MANY:
                error = _NotServedError()
        except MalformedMessage as malformed:
            error = malformed
            self._rpc.cancel()
        except asyncio.CancelledError:
            # The channel was closed, which cancels its calls. This task is nobody's to cancel.
            error = ConnectionError("the call was cancelled with its connection")
        finally:
            self.is_over = True
            for task in self._giving_up:
                task.cancel()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(error)

    def _answered(self, frame: AnswerFrame) -> None:
        waiting = self._waiting.get(frame.call_id)
        if waiting is None or waiting.done():
            return  # Nobody waits for it any more.
        if frame.status:
            waiting.set_exception(_error_of(frame.status))
        else:
            waiting.set_result(frame.answer)


def _error_of(rich: bytes) -> Exception:
    """The error that a unary call would have raised."""
    try:
        status = rpc_status.to_status(status_pb2.Status.FromString(rich))
    except (DecodeError, ValueError) as error:
        return MalformedMessage(f"the status of a call cannot be read: {error}")
    return _error(status.code, status.details or "", status.trailing_metadata or ())


def _error(
    code: grpc.StatusCode, details: str, trailing: tuple[tuple[str, str | bytes], ...] = ()
) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details=details)
