"""Open streams: RPCs of which both sides are streams, in the form that drivers use.

With threads, one thread reads each stream, and gRPC's own thread writes it from a queue. With asyncio, one
task does each.
"""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import grpc.aio

from hightide.calls.call import STREAM_ENDED, StreamCall, StreamEnded
from hightide.errors import HightideError
from hightide.transport.bearer_token import Metadata

Heard = Callable[[StreamCall[Any], bytes | StreamEnded | HightideError], None]
ErrorOf = Callable[[grpc.RpcError, StreamCall[Any]], HightideError]


class Stream:
    """One stream with a thread that reads it. `heard` is called on that thread for each message, and once at
    the end."""

    def __init__(
        self, method: Any, metadata: Metadata | None, call: StreamCall[Any], heard: Heard, error_of: ErrorOf
    ) -> None:
        self._call = call
        self._heard = heard
        self._error_of = error_of
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._rpc = method(self._requests(), metadata=metadata)
        threading.Thread(target=self._read, name="hightide-stream", daemon=True).start()

    def _requests(self) -> Iterator[bytes]:
        while (message := self._outbox.get()) is not None:
            yield message

    def send(self, message: bytes) -> None:
        """Send a message after the others. Called from any thread; dropped if the stream has ended."""
        self._outbox.put(message)

    def cancel(self) -> None:
        """End the stream from this side. Called from any thread."""
        self._rpc.cancel()

    def _read(self) -> None:
        end: StreamEnded | HightideError = STREAM_ENDED
        try:
            for message in self._rpc:
                self._heard(self._call, message)
        except grpc.RpcError as error:
            end = self._error_of(error, self._call)
        # gRPC's writing thread waits for the next message until it learns that none will come.
        self._outbox.put(None)
        self._heard(self._call, end)


class AioStream:
    """One stream with a task that writes it; the driver's own task for the call reads it. `answered` is
    called for each message and for a good end, `ended` once at any end."""

    def __init__(
        self,
        method: Any,
        metadata: Metadata | None,
        call: StreamCall[Any],
        error_of: ErrorOf,
        answered: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._call = call
        self._error_of = error_of
        self._answered = answered
        self._ended = ended
        self._outbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rpc = method(self._requests(), metadata=metadata)

    async def _requests(self) -> AsyncIterator[bytes]:
        while (message := await self._outbox.get()) is not None:
            yield message

    def send(self, message: bytes) -> None:
        """Send a message after the others; dropped if the stream has ended."""
        self._outbox.put_nowait(message)

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the messages until the server ends the stream with OK. Raises HightideError."""
        try:
            async for message in self._rpc:
                self._answered()
                yield message
            self._answered()
        except grpc.RpcError as error:
            raise self._error_of(error, self._call) from error
        finally:
            self._outbox.put_nowait(None)
            self._rpc.cancel()
            # The traceback of the raised error may outlive the stream, and must not keep its channel.
            self._rpc = None
            self._ended()
