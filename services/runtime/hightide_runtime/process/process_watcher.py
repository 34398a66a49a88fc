"""Noticing at once that a process is dead, without waiting for ZooKeeper to expire its session.

The rule: docs/protocol.md, "Dead processes are noticed at once".

A watcher keeps a health Watch stream to the process. When the stream breaks and a TCP connection to the same
address is then *refused*, no process listens there any more: the kernel of that machine says so, and the
process is dead.

A process that is paused, or whose machine is gone, refuses nothing. A watcher with `Pings` has two streams,
and pings the connection of each. A stream breaks when a ping gets no answer. The process is declared dead if
others that should answer do, else it is the watcher who is cut off, and if it then takes no new connection in
time. gRPC answers pings and takes connections in threads of its own, so a process whose event loop is busy or
hangs does both. For such a process, and without `Pings`, the expiry of the ZooKeeper session is the fallback.

Acting on a wrong verdict (the process closed its port, or was paused, and lives on) is safe, because epochs
fence the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hightide_runtime.addresses import HostPort
from hightide_runtime.clock import Clock
from hightide_runtime.serving.channels import OpenChannel

__all__ = ["Pings", "ProcessWatcher", "answers", "is_refused"]

_log = logging.getLogger(__name__)

_PROBE_PAUSES_S: Final = (0.0, 0.005, 0.01, 0.02, 0.04)
"""A kernel that ends a process may close its connections before its port."""
_PROBE_TIMEOUT_S: Final = 1.0
_REOPEN_PAUSE_S: Final = 0.2
_PING_INTERVAL_S: Final = 1.0
"""A client of gRPC sends no more than one ping a second on a connection, whatever is asked for."""
_PINGED_STREAMS: Final = 2
"""Their pings take turns, so that half of that interval passes at most until the next one."""
_FIRST_CONTACT_MS: Final = 200
"""A process that never answered counts as dead only after it has refused for so long. Brokers listen before
they register, so it is not starting. A refusal that is seen twice is no accident of the network."""


@dataclass(frozen=True, slots=True)
class Pings:
    """How a watcher finds out that a process answers nothing, though it refuses nothing."""

    timeout_ms: int
    """A ping may be unanswered for a third of it, and then a new connection may take another third. The last
    third is for the pause before the ping, which is half a second at most."""
    others_answer: Callable[[], Awaitable[bool]]
    """Whether others do, so that this process is not the one that is cut off."""
    on_unanswered: Callable[[int], None]
    """Called in place of `on_death` when it is declared dead because it does not answer."""

    @property
    def pause_ms(self) -> int:
        """The time between two pings, if gRPC allows it, and that for an answer."""
        return self.timeout_ms // 3


class ProcessWatcher:
    """Watches one life of one process. Reports its death at most once, then ends."""

    def __init__(
        self,
        address: HostPort,
        service: str,
        clock: Clock,
        open_channel: OpenChannel,
        on_death: Callable[[int], None],
        pings: Pings | None = None,
    ) -> None:
        """`on_death` is called on the loop with the wall-clock time, in us, at which the stream broke.
        `pings` None: only a process that refuses is dead."""
        self._address = address
        self._service = service
        self._clock = clock
        self._open_channel = open_channel
        self._on_death = on_death
        self._pings = pings
        self.was_reached = False
        """Whether a stream to it ever had a message."""
        self._task = asyncio.create_task(self._run(), name=f"watch-{address}")

    def close(self) -> None:
        """Stop watching; nothing is reported any more."""
        self._task.cancel()

    async def closed(self) -> None:
        """Wait until it has ended."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        try:
            await self._watch()
        except asyncio.CancelledError:
            # Closed. A cancelled task keeps its exception and all that its frames refer to: the call would
            # hold its connection until the garbage collector ran.
            return
        except Exception:  # noqa: BLE001 - the top of a task; the ZooKeeper session still tells of a death
            _log.exception("the process at %s is not watched any more", self._address)

    async def _watch(self) -> None:
        refused_since_ms: int | None = None
        while True:
            await self._follow_streams()
            broke_at_us = self._clock.wall_us()
            if not await self._probe_is_refused():
                refused_since_ms = None
                if self.was_reached and self._pings is not None and await self._is_mute(self._pings):
                    _log.warning("%s answers no ping any more: it counts as dead", self._address)
                    self._pings.on_unanswered(broke_at_us)
                    return
                await asyncio.sleep(_REOPEN_PAUSE_S)
                continue
            now_ms = self._clock.monotonic_ms()
            refused_since_ms = now_ms if refused_since_ms is None else refused_since_ms
            if self.was_reached or now_ms - refused_since_ms >= _FIRST_CONTACT_MS:
                _log.warning("nobody listens at %s any more: the process there is dead", self._address)
                self._on_death(broke_at_us)
                return
            await asyncio.sleep(_REOPEN_PAUSE_S)

    async def _follow_streams(self) -> None:
        """Read the health stream until it ends, for whatever reason; with pings two of them, each with a
        connection of its own, until one ends."""
        count = 1 if self._pings is None else _PINGED_STREAMS
        streams = [
            asyncio.create_task(self._follow_stream(place * _PING_INTERVAL_S / count))
            for place in range(count)
        ]
        try:
            ended, _ = await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in streams:
                each.cancel()
            await asyncio.gather(*streams, return_exceptions=True)
        for each in ended:
            each.result()

    async def _follow_stream(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        channel = self._open_channel(
            self._address, ping_ms=None if self._pings is None else self._pings.pause_ms
        )
        try:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            async for _ in stub.Watch(health_pb2.HealthCheckRequest(service=self._service)):
                self.was_reached = True
        except grpc.aio.AioRpcError as error:
            _log.debug("the stream to %s ended: %s", self._address, error.code())
        finally:
            await channel.close()

    async def _is_mute(self, pings: Pings) -> bool:
        """Whether others answer, and the process, which refuses no connection, then takes no new one. In this
        order: a watcher who was cut off and is not any more reaches the others and this process."""
        if await pings.others_answer():
            return not await answers(self._address, self._open_channel, pings.pause_ms)
        _log.warning("%s answered no ping, and too many others do not answer either", self._address)
        return False

    async def _probe_is_refused(self) -> bool:
        for pause_s in _PROBE_PAUSES_S:
            await asyncio.sleep(pause_s)
            if await is_refused(self._address):
                return True
        return False


async def answers(address: HostPort, open_channel: OpenChannel, timeout_ms: int) -> bool:
    """Whether a process takes a gRPC connection within this time. The kernel takes TCP connections for a
    process that is paused; only the process itself goes on from there."""
    channel = open_channel(address)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await channel.channel_ready()
    except TimeoutError:
        return False
    finally:
        await channel.close()
    return True


async def is_refused(address: HostPort) -> bool:
    """Whether every address of the host refuses a TCP connection. A timeout is no refusal, also of the name
    server; nor is no route."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, socket_address in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setblocking(False)
            try:
                # Not wait_for: that of Python 3.11 forgets a cancellation that comes with the answer.
                async with asyncio.timeout(_PROBE_TIMEOUT_S):
                    await loop.sock_connect(probe, socket_address)
            except ConnectionRefusedError:
                continue
            except OSError as error:
                if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue  # this machine has no such family: nothing can listen there
                return False
            return False
    return bool(found)
