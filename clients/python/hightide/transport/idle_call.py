"""The idle call, which keeps gRPC's thread of a channel alive between other calls.

A channel for threads has one thread of gRPC's own, which takes the answers of all calls. gRPC ends it with
the last call that is under way, and starts another one for the next call. So a client that made one call
after the other started a thread for each. At a hundred records a second that was a tenth to a quarter of its
CPU (bench/README.md, "Where the time of one record goes").

Therefore one more call stays open on the channel: a call stream (call_stream_service.proto) that carries no
calls. Nothing is sent on it, and nobody reads it. A server that does not take it is not asked again: then the
client goes on with a thread for each call.
"""

import queue
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import grpc

from hightide.batch.call_frames import OPEN_CALL_STREAM
from hightide.transport.bearer_token import Metadata

# How a call ends whose connection breaks, whose server stops, or whose token expires.
_BROKEN: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAUTHENTICATED}
)

IN_VAIN_MAX: Final = 3
"""After so many idle calls in a row that ended before another call was answered, there is none any more:
something between client and server does not let them live."""


class IdleCall:
    """The idle call of one channel. Thread-safe."""

    __slots__ = ("_in_vain", "_is_wanted", "_lock", "_rpc")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_wanted = True
        self._in_vain = 0
        self._rpc: Any = None

    def keep(self, channel: grpc.Channel, metadata: Metadata | None) -> None:
        """Open the call if it is not open. Called whenever another call on the channel was answered, so it
        never connects by itself; `metadata` is that of the other call."""
        with self._lock:
            if self._rpc is not None:
                self._look()
            if self._rpc is None and self._is_wanted:
                self._rpc = _opened(channel, metadata)

    def _look(self) -> None:
        """Learn whether the call is still open, and if not, whether there is to be another one."""
        if self._rpc.is_active():
            self._in_vain = 0
            return
        self._in_vain += 1
        self._is_wanted = self._rpc.code() in _BROKEN and self._in_vain < IN_VAIN_MAX
        self._rpc = None

    def end(self) -> None:
        """End the call for good, because its channel is dropped or closed. Called from any thread; waits for
        nothing on the network."""
        with self._lock:
            self._is_wanted = False
            rpc, self._rpc = self._rpc, None
        if rpc is not None:
            rpc.cancel()


def _opened(channel: grpc.Channel, metadata: Metadata | None) -> Any:
    """A new idle call. gRPC's threads do not hold it. So it is cancelled, and they end, when nobody has it
    any more, also if its client was not closed."""
    over: queue.SimpleQueue[None] = queue.SimpleQueue()
    opener: Any = channel.stream_stream(OPEN_CALL_STREAM, request_serializer=None, response_deserializer=None)
    rpc = opener(_no_requests(over), metadata=metadata)
    # gRPC's writing thread waits for a request until it learns that none will come. It learns that at the end
    # and not before, since it would tell the server that the stream is over.
    if not rpc.add_callback(partial(over.put, None)):
        over.put(None)
    return rpc


def _no_requests(over: "queue.SimpleQueue[None]") -> Iterator[bytes]:
    """Wait for the end of the call."""
    over.get()
    yield from ()
