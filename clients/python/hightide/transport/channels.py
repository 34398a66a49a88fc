"""A pool of connections: the channel to each address, and when a channel is dropped. Who has a pool:
`hightide.transport.connections`.

A gRPC channel to an address where no process answers keeps trying to connect, five times a second with our
options, for as long as it exists, even without calls. So a channel on which a call failed as unreachable is
dropped as soon as no other call is under way on it. The next call opens another one, which connects at once.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import grpc

from hightide.calls.call import Method
from hightide.errors import AddressUnreachableError, ClosedError, HightideError, RequestTimeoutError
from hightide.transport.bearer_token import Metadata
from hightide.transport.idle_call import IdleCall

# The methods of which both sides are streams.
STREAMS: Final = frozenset({Method.REGISTER_CONSUMER})

ChannelT = TypeVar("ChannelT")


class PooledChannel(Generic[ChannelT]):
    """The channel to one address. Errors and their tracebacks may outlive it: after it was dropped it holds
    nothing."""

    __slots__ = ("address", "channel", "idle_call", "is_reached", "is_unreachable", "methods", "under_way")

    def __init__(self, address: str, channel: ChannelT) -> None:
        self.address = address
        self.channel: ChannelT | None = channel
        self.methods: dict[Method, Any] = {}
        self.under_way = 0
        self.idle_call = IdleCall()
        """Not one of those that are under way."""
        self.is_reached = False
        """Whether a call on it was ever answered."""
        self.is_unreachable = False
        """Whether the last attempt to reach the address failed."""

    def keep_idle_call(self, metadata: Metadata | None) -> None:
        """Have an idle call on it, if it takes more calls. A call with `metadata` was answered. Only for
        threads."""
        channel: Any = self.channel
        if channel is not None:
            self.idle_call.keep(channel, metadata)

    def answered(self) -> None:
        """Note that the address answered."""
        self.is_reached, self.is_unreachable = True, False

    def failed(self, rpc_error: grpc.RpcError, error: HightideError) -> None:
        """Note that a call on it failed with `rpc_error`, which is `error` to the client."""
        if isinstance(error, AddressUnreachableError):
            code = getattr(rpc_error, "code", None)
            # A call that this side gave up says nothing about the other side.
            if code is None or code() is not grpc.StatusCode.CANCELLED:
                self.is_unreachable = True
        elif isinstance(error, RequestTimeoutError):
            # The address may be slow, unless there was never an answer.
            self.is_unreachable = self.is_unreachable or not self.is_reached
        else:
            self.answered()


class ChannelPool(Generic[ChannelT]):
    """The channels of one client, or of several. Thread-safe. `connect` opens a channel. Without
    `keeps_failed`, a channel on which a call failed as unreachable takes no more calls, even while others are
    under way on it: it may have been opened with a certificate that was renewed meanwhile."""

    def __init__(self, connect: Callable[[str], ChannelT], *, keeps_failed: bool = True) -> None:
        self._connect = connect
        self._keeps_failed = keeps_failed
        self._lines: dict[str, PooledChannel[ChannelT]] = {}
        self._replaced: set[PooledChannel[ChannelT]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def begin(self, address: str, method: Method) -> PooledChannel[ChannelT]:
        """The channel for a call, with this method among its `methods`. `end` follows. Raises ClosedError,
        and what `connect` raises."""
        with self._lock:
            if self._is_closed:
                raise ClosedError("this client is closed")
            line = self._lines.get(address)
            if line is None or (line.is_unreachable and not self._keeps_failed):
                channel = self._connect(address)
                if line is not None:
                    self._replaced.add(line)
                line = self._lines[address] = PooledChannel(address, channel)
            if method not in line.methods:
                opened: Any = line.channel
                kind = opened.stream_stream if method in STREAMS else opened.unary_unary
                line.methods[method] = kind(method.value, request_serializer=None, response_deserializer=None)
            line.under_way += 1
            return line

    def end(self, line: PooledChannel[ChannelT]) -> None:
        """End a call on the channel. Its outcome was noted on the channel before."""
        with self._lock:
            line.under_way -= 1
            assert line.under_way >= 0, f"more calls to {line.address} ended than began"
            if line.under_way:
                return
            if line in self._replaced:
                self._replaced.remove(line)
            elif line.is_unreachable and self._lines.get(line.address) is line:
                del self._lines[line.address]
            else:
                return
            held = (line.channel, line.methods)
            line.channel, line.methods = None, {}
        line.idle_call.end()
        # The last reference closes it; outside of the lock. The `close` of grpc.aio would look at all tasks
        # of the process, that of threads would wait for the thread that this may run on.
        del held

    def close(self) -> list[ChannelT]:
        """Refuse calls from now on. Returns the channels, which the caller closes."""
        with self._lock:
            self._is_closed = True
            lines = [*self._lines.values(), *self._replaced]
            channels = [line.channel for line in lines if line.channel is not None]
            self._lines.clear()
            self._replaced.clear()
        for line in lines:
            line.idle_call.end()
        return channels
