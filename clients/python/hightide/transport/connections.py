"""The connections of one client: its own, or those that it shares with other clients of its process.

A consumer is for one thread, so a program that reads with many threads has many consumers. A connection for
threads has a thread of gRPC's, which wakes five times a second. Of a hundred consumers in one process, each
took three times the processor time to join a group that one alone takes: most of the rest were changes from
one thread to another (bench/README.md, "What members of one process share").

Therefore consumers share their connections, if they are of one process, and with asyncio of one event loop,
and would open the same ones: with the same credentials and client ID. A server gives each connection a share
of its limits. So no more than `SHARERS_MAX` clients share one.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

from hightide.calls.call import Method
from hightide.errors import ClosedError
from hightide.transport.channels import ChannelPool, PooledChannel
from hightide.transport.home import ProcessHome

#: A broker holds a fifth of 256 MiB for the answers of one connection: 13 of `fetch_max_bytes`.
SHARERS_MAX: Final = 16

ChannelT = TypeVar("ChannelT")


@dataclass(eq=False, slots=True, weakref_slot=True)
class SharedPool:
    """A pool and the clients that use it. Clients that nobody closes vanish from it when they are
    collected, and the pool with the last one."""

    key: object
    pool: ChannelPool[Any]
    sharers: "WeakSet[Connections[Any]]" = field(default_factory=WeakSet)


class SharedPools:
    """The shared pools of this process. Thread-safe."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, in a child process: the connections of its parent are not in it."""
        self._lock = threading.Lock()
        self._pools: WeakSet[SharedPool] = WeakSet()

    def join(
        self,
        sharer: "Connections[ChannelT]",
        key: object,
        open_pool: Callable[[], ChannelPool[ChannelT]],
    ) -> SharedPool:
        """The fullest pool of this key that has a place for one more client, or a new one."""
        with self._lock:
            of_key = [each for each in self._pools if _has_place(each, key)]
            shared = max(of_key, key=lambda each: len(each.sharers), default=None)
            if shared is None:
                shared = SharedPool(key, open_pool())
                self._pools.add(shared)
            shared.sharers.add(sharer)
            return shared

    def leave(self, sharer: "Connections[ChannelT]", shared: SharedPool) -> list[ChannelT]:
        """Give the place back. Returns the channels, which the caller closes: none if others use them."""
        with self._lock:
            shared.sharers.discard(sharer)
            if shared.sharers:
                return []
            self._pools.discard(shared)
        return shared.pool.close()


def _has_place(shared: SharedPool, key: object) -> bool:
    return shared.key == key and len(shared.sharers) < SHARERS_MAX


_SHARED: Final = SharedPools()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED.forget)


class Connections(Generic[ChannelT]):
    """The connections of one client. Thread-safe. They are used at `home` only. `shared_as` names what two
    clients must have in common to share connections; None is for a client that shares none."""

    def __init__(
        self, open_pool: Callable[[], ChannelPool[ChannelT]], home: ProcessHome, shared_as: object
    ) -> None:
        self._open_pool = open_pool
        self._home = home
        self._shared_as = shared_as
        self._lock = threading.Lock()
        self._shared: SharedPool | None = None
        self._pool: ChannelPool[ChannelT] | None = None
        self._is_closed = False
        self.has_been_reached = False
        """Whether an address that this client called ever answered."""

    def begin(self, address: str, method: Method) -> PooledChannel[ChannelT]:
        """The channel for a call, with this method among its `methods`. `end` follows. Raises ClosedError,
        ForkedClientError, WrongEventLoopError, and what opening a channel raises."""
        self._home.enter()
        pool = self._pool
        if pool is None or self._is_closed:
            pool = self._joined()
        return pool.begin(address, method)

    def _joined(self) -> ChannelPool[ChannelT]:
        """The pool, which the first call finds: a client may be made where it is not used."""
        with self._lock:
            if self._is_closed:
                raise ClosedError("this client is closed")
            if self._pool is None and self._shared_as is None:
                self._pool = self._open_pool()
            elif self._pool is None:
                key = (self._home.place, self._shared_as)
                self._shared = _SHARED.join(self, key, self._open_pool)
                self._pool = self._shared.pool
            assert self._pool is not None, "opened or joined"
            return self._pool

    def end(self, line: PooledChannel[ChannelT]) -> None:
        """End a call on the channel. Its outcome was noted on the channel before."""
        assert self._pool is not None, f"a call to {line.address} ended that never began"
        self.has_been_reached = self.has_been_reached or line.is_reached
        self._pool.end(line)

    def close(self) -> list[ChannelT]:
        """Refuse calls from now on. Returns the channels, which the caller closes. Calls that are under way
        on channels that are not among them, because other clients use them, go on: who began them cancels
        them."""
        if self._home.is_elsewhere:
            return []
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            shared, pool = self._shared, self._pool
        if was_closed or pool is None:
            return []
        return pool.close() if shared is None else _SHARED.leave(self, shared)
