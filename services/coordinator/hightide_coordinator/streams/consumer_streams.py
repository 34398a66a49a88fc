"""The streams of consumers: what is written to them, how they end, and how many there may be.

One task reads a stream; there is none for writing, but while something waits to be written. An idle consumer
costs what gRPC holds for its call, and some hundred bytes here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol, TypeAlias

from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.interceptors.interceptor import Context
from hightide_runtime.serving.listeners import current_listener

from hightide_coordinator.contract.convert import message_in, peer_in

__all__ = ["QUEUE_MAX", "ConsumerStream", "Streams"]

_log = logging.getLogger(__name__)

QUEUE_MAX: Final = 64
"""Messages that wait for a consumer to read. In good order there are never more than a few: orders wait for
their answers, and Pings are counted."""
REGISTRATION_TIMEOUT_S: Final = 60.0
"""A stream on which nobody registers for so long is ended: streams are counted from their beginning. It is
long, since our own delay counts as well: where ten thousand come at once, a registration may wait here for
longer than 10 s until it is read."""
_LAST_WORDS_S: Final = 2.0
"""How long a stream that is ended waits for its consumer to read what was sent before."""


class Receiver(Protocol):
    """The receiver that a consumer has registered with: it gets all messages after the first."""

    def answered(self, stream: ConsumerStream, message: pb.RegisterConsumerRequest) -> None:
        """A later message. Raises ServiceError, which ends the stream."""
        ...

    def lost(self, stream: ConsumerStream) -> None:
        """The stream has ended, and not by `end`."""
        ...


class ConsumerStream:
    """One call of RegisterConsumer, from its first message to its status. For the event loop's thread."""

    __slots__ = (
        "_context",
        "_error",
        "_half_closed",
        "_is_cut",
        "_is_reading",
        "_pending",
        "_receiver",
        "_task",
        "_writer",
        "connection_id",
        "has_said_goodbye",
        "is_ending",
        "listener",
        "peer",
    )

    def __init__(self, connection_id: int, context: Context) -> None:
        """For `Streams.serve`, in the task of the call."""
        task = asyncio.current_task()
        assert task is not None
        self.connection_id = connection_id
        self.peer = peer_in(context.peer())
        self.listener = current_listener()
        """Which addresses its consumer can make use of."""
        self.is_ending = False
        """Whether `end` was called; nothing is read any more, what was sent before is still written."""
        self.has_said_goodbye = False
        """Set by whoever takes the messages: the consumer has nothing more to say, and waits for the end."""
        self._context = context
        self._task = task
        self._receiver: Receiver | None = None
        self._error: ServiceError | None = None
        # No deque: an empty one takes 600 bytes, and this one is empty nearly always, and never long.
        self._pending: list[bytes] = []
        self._writer: asyncio.Task[None] | None = None
        self._is_reading = False
        self._is_cut = False
        self._half_closed: asyncio.Event | None = None

    def send(self, message: bytes) -> bool:
        """Queue a message. False where the queue is full: the consumer does not read, and has to be ended."""
        if self.is_ending:
            return True
        if len(self._pending) >= QUEUE_MAX:
            return False
        self._pending.append(message)
        if self._writer is None:
            self._writer = self._task.get_loop().create_task(self._write())
        return True

    def end(self, error: ServiceError | None = None, *, at_once: bool = False) -> None:
        """End the call, with OK or with this error, after what was sent before; `at_once` without it."""
        if self.is_ending:
            return
        self.is_ending = True
        self._error = error
        if at_once or self._writer is None:
            self._cut()
        else:
            self._task.get_loop().call_later(_LAST_WORDS_S, self._cut)

    def _cut(self) -> None:
        self._is_cut = True
        self._pending.clear()
        self._wake_reader()

    async def serve(
        self, requests: AsyncIterator[bytes], register: Registrar, registration_timeout_s: float
    ) -> None:
        """Hand each message over, until the call is ended, from here or from there. In the task of the call.

        Raises ServiceError where it was ended with one, or where a message was refused; CancelledError where
        the consumer is gone.
        """
        timer = self._task.get_loop().call_later(registration_timeout_s, self._end_unregistered)
        try:
            # Or else gRPC sends it with the first message, and cannot end a call while that is stuck.
            await self._context.send_initial_metadata(())
            await self._read(requests, register)
            await self._wait_for_the_end()
        except asyncio.CancelledError:
            if not self.is_ending:
                raise
            # It was `_wake_reader`: from here on this task is as if nobody had cancelled it.
            self._task.uncancel()
        finally:
            timer.cancel()
            if not self.is_ending:
                self.is_ending = True
                if self._receiver is not None:
                    self._receiver.lost(self)
        if self._error is not None:
            raise self._error

    async def _read(self, requests: AsyncIterator[bytes], register: Registrar) -> None:
        self._is_reading = True
        async for data in requests:
            self._is_reading = False
            message = message_in(data)
            if self._receiver is None:
                self._receiver = register(self, message)
            else:
                self._receiver.answered(self, message)
            if self.is_ending:
                return
            self._is_reading = True
        self._is_reading = False

    async def _wait_for_the_end(self) -> None:
        """Until what was sent is written; and after a goodbye, until the core has carried it out."""
        if not self.is_ending and not self.has_said_goodbye:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                "the consumer closed its side of the stream without a goodbye; keep it open until it ends",
            )
        if not self.is_ending or (self._writer is not None and not self._is_cut):
            self._half_closed = asyncio.Event()
            await self._half_closed.wait()

    def _end_unregistered(self) -> None:
        if self._receiver is None:
            self.end(
                ServiceError(
                    ErrorCode.ERROR_CODE_SESSION_TIMED_OUT,
                    "nobody registered on this stream in time; open it when there is a consumer to register",
                )
            )

    def _wake_reader(self) -> None:
        if self._half_closed is not None:
            self._half_closed.set()
        elif self._is_reading:
            self._is_reading = False
            self._task.cancel()

    async def _write(self) -> None:
        try:
            while self._pending:
                await self._context.write(self._pending.pop(0))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the top of a task
            # gRPC has no public name for it. The consumer is gone, which the reader hears, too.
            _log.debug("nothing more can be written to the consumer at %s: %s", self.peer, error)
            self._pending.clear()
        finally:
            self._writer = None
        if self.is_ending:
            self._wake_reader()


#: Takes the first message of a stream. Raises ServiceError, which ends the stream.
Registrar: TypeAlias = Callable[[ConsumerStream, pb.RegisterConsumerRequest], Receiver]


class Streams:
    """All streams of a coordinator, by connection id. For the event loop's thread."""

    def __init__(self, streams_max: int, registration_timeout_s: float = REGISTRATION_TIMEOUT_S) -> None:
        self._streams_max = streams_max
        self._registration_timeout_s = registration_timeout_s
        self._streams: dict[int, ConsumerStream] = {}
        self._last_id = 0
        self._stopping: ServiceError | None = None
        self._ended = asyncio.Event()
        """Set whenever a stream ends."""

    def __len__(self) -> int:
        return len(self._streams)

    async def serve(self, requests: AsyncIterator[bytes], context: Context, register: Registrar) -> None:
        """Serve one call, until it ends. Raises ServiceError."""
        if self._stopping is not None:
            raise self._stopping
        if len(self._streams) >= self._streams_max:
            raise ServiceError(
                ErrorCode.ERROR_CODE_OVERLOADED,
                f"this coordinator has {len(self._streams)} consumers, the most it takes; try again after a "
                "pause, or let it take more with --consumers-max",
                {"consumers_max": str(self._streams_max)},
            )
        self._last_id += 1
        stream = ConsumerStream(self._last_id, context)
        self._streams[stream.connection_id] = stream
        try:
            await stream.serve(requests, register, self._registration_timeout_s)
        finally:
            del self._streams[stream.connection_id]
            self._ended.set()

    async def stop(self, error: ServiceError, patience_s: float) -> None:
        """End every stream with this error, and refuse new ones with it; wait for it to be said, so long at
        most."""
        self._stopping = error
        for stream in list(self._streams.values()):
            stream.end(error, at_once=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._streams:
                    self._ended.clear()
                    await self._ended.wait()
