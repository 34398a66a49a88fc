"""Calls of a blocking client over one open stream of a channel (call_stream_service.proto).

A gRPC call costs a Python client twice what a message on an open stream costs. And gRPC starts a thread for a
call whenever its channel has no other call under way. So small calls, of which a client makes one after the
other, share a stream. One thread reads it, and one of gRPC's own writes it.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import grpc

from hightide.batch.call_frames import AnswerFrame, parse_answer, serialise_call
from hightide.batch.errors import MalformedMessage
from hightide.calls.call import Call
from hightide.errors import (
    AddressUnreachableError,
    HightideError,
    RequestTimeoutError,
    UnexpectedAnswerError,
)


class StreamOwner(Protocol):
    """What a call stream needs of the transport: who turns failures into errors, and hears of the end of a
    call. Called on any thread, and once for each call."""

    def answered(self, call: Call[Any], answer: bytes) -> None:
        """The call has an answer."""

    def refused(self, call: Call[Any], status: bytes) -> None:
        """The server answered with a failure, a google.rpc.Status."""

    def broken(self, call: Call[Any], error: grpc.RpcError) -> None:
        """The stream broke."""

    def failed(self, call: Call[Any], error: HightideError) -> None:
        """The call ended here."""

    def not_served(self, call: Call[Any], request: bytes) -> None:
        """The server knows no call streams: it is of an earlier version, and has done nothing."""


class StreamedCall:
    """One unfinished call."""

    __slots__ = ("_stream", "call", "call_id", "deadline_ms", "owner", "request")

    def __init__(
        self,
        stream: "CallStream",
        call_id: int,
        call: Call[Any],
        request: bytes,
        owner: StreamOwner,
        deadline_ms: float,
    ) -> None:
        self._stream = stream
        self.call_id = call_id
        self.call = call
        self.request = request
        self.owner = owner
        self.deadline_ms = deadline_ms
        """When nobody waits any more, by the clock of cores."""

    def cancel(self) -> None:
        """Give the call up. Called from any thread."""
        address = self.call.address
        error = AddressUnreachableError(f"the call to {address} was given up", address=address)
        self._stream.give_up(self, error)

    def expire(self) -> None:
        """Give the call up because its time is over. Called by the driver, which knows the time."""
        call = self.call
        why = f"{call.address} did not answer {call.method.name} within {call.timeout_ms} ms"
        self._stream.give_up(self, RequestTimeoutError(why, address=call.address))


class CallStream:
    """One open stream. Thread-safe. It ends with its channel, by `close`, or by a failure; after that the
    owner of the channel opens another one."""

    def __init__(self, open_stream: Callable[..., Any]) -> None:
        """`open_stream` is the method of the channel that opens a stream of bytes."""
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: dict[int, StreamedCall] = {}
        self._last_id = 0
        self._is_over = False
        self._rpc: Any = open_stream(_until_none(self._outbox))
        threading.Thread(target=self._read, name="hightide-calls", daemon=True).start()

    def start(
        self, call: Call[Any], request: bytes, owner: StreamOwner, deadline_ms: float
    ) -> StreamedCall | None:
        """Begin a call; None if the stream is over."""
        with self._lock:
            if self._is_over:
                return None
            self._last_id += 1
            started = StreamedCall(self, self._last_id, call, request, owner, deadline_ms)
            self._waiting[started.call_id] = started
            # Within the lock, so that calls leave in the order in which they were started.
            self._outbox.put(serialise_call(started.call_id, call.method.value, call.timeout_ms, request))
        return started

    def give_up(self, started: StreamedCall, error: HightideError) -> None:
        """End a call here, unless it has ended already, and let the server stop it."""
        with self._lock:
            is_waiting = self._waiting.pop(started.call_id, None) is not None
            if is_waiting:
                self._outbox.put(serialise_call(started.call_id, "", 0, b""))
        if is_waiting:
            started.owner.failed(started.call, error)

    def close(self) -> None:
        """End the stream, on which no call is under way. Called from any thread."""
        with self._lock:
            rpc = self._rpc
        if rpc is not None:
            rpc.cancel()

    def _read(self) -> None:
        broken: grpc.RpcError | HightideError | None = None
        rpc = self._rpc
        try:
            for message in rpc:
                self._answered(parse_answer(message))
        except grpc.RpcError as error:
            broken = error
        except MalformedMessage as error:
            broken = UnexpectedAnswerError(f"the call stream cannot be read: {error}")
            rpc.cancel()
        with self._lock:
            # The traceback of an error may outlive the stream, and must not keep its channel.
            self._is_over, self._rpc = True, None
            waiting, self._waiting = list(self._waiting.values()), {}
        del rpc
        # gRPC's writing thread waits for the next message until it learns that none will come.
        self._outbox.put(None)
        for each in waiting:
            self._break(each, broken)

    def _answered(self, frame: AnswerFrame) -> None:
        with self._lock:
            started = self._waiting.pop(frame.call_id, None)
        if started is None:
            return  # It was given up.
        if frame.status:
            started.owner.refused(started.call, frame.status)
        else:
            started.owner.answered(started.call, frame.answer)

    @staticmethod
    def _break(started: StreamedCall, broken: grpc.RpcError | HightideError | None) -> None:
        call, owner = started.call, started.owner
        if broken is None:
            ended = AddressUnreachableError(f"{call.address} ended the call stream", address=call.address)
            owner.failed(call, ended)
        elif isinstance(broken, HightideError):
            owner.failed(call, broken)
        elif _is_unimplemented(broken):
            owner.not_served(call, started.request)
        else:
            owner.broken(call, broken)


def _until_none(outbox: "queue.SimpleQueue[bytes | None]") -> Iterator[bytes]:
    """The messages to send. It knows nothing else of the stream, since gRPC's thread may keep it long."""
    while (message := outbox.get()) is not None:
        yield message


def _is_unimplemented(error: Any) -> bool:
    return isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.UNIMPLEMENTED
