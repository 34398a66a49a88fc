"""The streams of consumers: their messages, their ends, and the limit on their number.

One task reads a stream. A second one writes to it, but only while messages wait. So an idle consumer costs
gRPC's call, and some hundred bytes here.
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
from hightide_coordinator.contract.topic_rights import ReadingRights

__all__ = ["QUEUE_MAX", "ConsumerStream", "ConsumerStreams"]

_log = logging.getLogger(__name__)

QUEUE_MAX: Final = 64
"""The number of messages that may wait until a consumer reads them. Normally there are only a few, since an
order waits for its answer, and unanswered Pings are limited."""
REGISTRATION_TIMEOUT_S: Final = 60.0
"""A stream without a registration is ended after this time, since it counts towards the limit of streams. The
time is long because it includes this coordinator's own delay: if ten thousand consumers come at once, a
registration may wait more than 10 s until it is read."""
_DRAIN_S: Final = 2.0
"""The time that a consumer has to read the messages sent before the end of its stream."""


class StreamReceiver(Protocol):
    """Takes the messages of a registered consumer after its first one. The shell of a shard implements it."""

    def answered(self, stream: ConsumerStream, message: pb.RegisterConsumerRequest) -> None:
        """Take a later message. Raises ServiceError, which ends the stream."""
        ...

    def lost(self, stream: ConsumerStream) -> None:
        """Take note that the stream has ended otherwise than by `end`."""
        ...


class ConsumerStream:
    """One call of RegisterConsumer, from its first message to its status. Only the event loop's thread uses
    it."""

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
        "rights",
    )

    def __init__(self, connection_id: int, context: Context) -> None:
        """`ConsumerStreams.serve` makes it, in the task of the call."""
        task = asyncio.current_task()
        assert task is not None
        self.connection_id = connection_id
        self.peer = peer_in(context.peer())
        self.listener = current_listener()
        """The listener through which the consumer came in, which decides about the addresses that it gets."""
        self.rights: ReadingRights | None = None
        """What the consumer needs the ACLs to allow; None: there are none. Whoever registers it sets it."""
        self.is_ending = False
        """Whether `end` was called. Then no message is read any more, and those sent before are still
        written."""
        self.has_said_goodbye = False
        """Whether the consumer has said goodbye, and waits for the end. The receiver of its messages sets
        it."""
        self._context = context
        self._task = task
        self._receiver: StreamReceiver | None = None
        self._error: ServiceError | None = None
        # A list, since it is nearly always empty and never long, and an empty deque takes 600 bytes.
        self._pending: list[bytes] = []
        self._writer: asyncio.Task[None] | None = None
        self._is_reading = False
        self._is_cut = False
        self._half_closed: asyncio.Event | None = None

    def send(self, message: bytes) -> bool:
        """Queue a message. Returns False if the queue is full, because the consumer does not read. The caller
        then ends the stream."""
        if self.is_ending:
            return True
        if len(self._pending) >= QUEUE_MAX:
            return False
        self._pending.append(message)
        if self._writer is None:
            self._writer = self._task.get_loop().create_task(self._write())
        return True

    def end(self, error: ServiceError | None = None, *, at_once: bool = False) -> None:
        """End the call with OK or with this error, after the messages sent before, or `at_once` without
        them."""
        if self.is_ending:
            return
        self.is_ending = True
        self._error = error
        if at_once or self._writer is None:
            self._cut()
        else:
            self._task.get_loop().call_later(_DRAIN_S, self._cut)

    def revoke(self, error: ServiceError) -> None:
        """End the call with this error at once. For the receiver, its consumer has gone."""
        if self._receiver is not None and not self.is_ending:
            self._receiver.lost(self)
        self.end(error, at_once=True)

    def _cut(self) -> None:
        self._is_cut = True
        self._pending.clear()
        self._wake_reader()

    async def serve(
        self, requests: AsyncIterator[bytes], register: Registrar, registration_timeout_s: float
    ) -> None:
        """Pass each message on, until this side or the consumer ends the call. Runs in the task of the call.

        Raises ServiceError if the call was ended with one, or if a message was refused; CancelledError if the
        consumer has gone.
        """
        timer = self._task.get_loop().call_later(registration_timeout_s, self._end_unregistered)
        try:
            # Otherwise gRPC sends it with the first message, and cannot end a call while that one is stuck.
            await self._context.send_initial_metadata(())
            await self._read(requests, register)
            await self._wait_for_the_end()
        except asyncio.CancelledError:
            if not self.is_ending:
                raise
            # `_wake_reader` has cancelled this task only to end its wait.
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
        """Wait until all messages are written and, after a goodbye, until the core has ended the stream.
        Raises ServiceError if the consumer closed its side without a goodbye."""
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
                    "no consumer registered on this stream in time; open a stream when a consumer is to "
                    "register",
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
            # gRPC has no public class for this error. The consumer has gone, which the reader notices, too.
            _log.debug("nothing more can be written to the consumer at %s: %s", self.peer, error)
            self._pending.clear()
        finally:
            self._writer = None
        if self.is_ending:
            self._wake_reader()


#: Takes the first message of a stream, and returns the receiver of the later ones. Raises ServiceError, which
#: ends the stream.
Registrar: TypeAlias = Callable[[ConsumerStream, pb.RegisterConsumerRequest], StreamReceiver]


class ConsumerStreams:
    """All streams of a coordinator, by connection id. Only the event loop's thread uses it."""

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
        """Serve one call until it ends. The servicer calls it. Raises ServiceError, also if there are too
        many streams."""
        if self._stopping is not None:
            raise self._stopping
        if len(self._streams) >= self._streams_max:
            raise ServiceError(
                ErrorCode.ERROR_CODE_OVERLOADED,
                f"this coordinator has {len(self._streams)} consumers, the most that it accepts; try again "
                "after a pause, or raise --consumers-max",
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

    def revoke(self) -> None:
        """End the streams of consumers that may not read any more what they registered for. Called when the
        ACLs have changed."""
        for stream in list(self._streams.values()):
            if stream.rights is not None and (refusal := stream.rights.missing()) is not None:
                stream.revoke(refusal)

    async def stop(self, error: ServiceError, patience_s: float) -> None:
        """End all streams with this error, and refuse new ones with it. Wait up to `patience_s` until they
        have ended."""
        self._stopping = error
        for stream in list(self._streams.values()):
            stream.end(error, at_once=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._streams:
                    self._ended.clear()
                    await self._ended.wait()
