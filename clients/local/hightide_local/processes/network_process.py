"""The process through which all connections to the members of a partitionable cluster go.

Each member listens on a port to which only this process connects, and advertises another one, on which this
process listens. So the link between two members can be cut and healed without root, on any system, while each
still reaches the others. When a link is cut, the member that made a connection is found by its local port.

A cut link behaves like a broken cable: bytes wait in the buffers of the sockets, nothing is refused or reset,
and a new connection gets no answer. After `heal` the waiting bytes arrive.

If a member does not listen, this process does not listen for it either, so that a reset or a refused
connection has the same meaning as without it. If a port should refuse, its connections end, and nobody
listens on it until it is open again, as with a firewall with new rules.

The module `network` starts it, and sends it lines of JSON on its standard input. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import uvloop

from hightide_local.processes.network import CLIENTS
from hightide_local.processes.ports import HOST
from hightide_local.processes.socket_owners import owners_of

_POLL_S: Final = 0.02
_LINE_BYTES_MAX: Final = 1 << 20


@dataclass(slots=True)
class _Member:
    """A process of the cluster. Others connect to `port`; it listens on `target_port`."""

    name: str
    port: int
    target_port: int
    pid: int = 0
    listener: asyncio.Server | None = None
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    awaiting: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Network:
    """The state of the network: members, cuts, connections."""

    members: dict[str, _Member] = field(default_factory=dict)
    cuts: frozenset[tuple[str, str]] = frozenset()
    """Pairs (source, target): no byte from the source reaches the target."""
    refusing: frozenset[str] = frozenset()
    """The members whose ports refuse connections although they listen."""
    connections: set[_Connection] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced by a new event, when links are cut or healed."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def is_cut(self, source: str, target: str) -> bool:
        """Whether the direction from source to target is cut."""
        return (source, target) in self.cuts

    async def cut(self, cuts: Iterable[tuple[str, str]]) -> None:
        """Make these the cut links; all others are healed."""
        self.cuts = frozenset(cuts)
        if self.cuts:
            await self.identify([each for each in self.connections if not each.source])
        self.changed.set()
        self.changed = asyncio.Event()
        for connection in tuple(self.connections):
            connection.apply_cuts()

    async def refuse(self, names: Iterable[str]) -> None:
        """Make these the members whose ports refuse connections; all others are open."""
        before, self.refusing = self.refusing, frozenset(names)
        for connection in tuple(self.connections):
            if connection.member.name in self.refusing:
                connection.near.abort()
                connection.far.abort()
        for name in before ^ self.refusing:
            await self.follow(self.members[name])

    async def identify(self, connections: Sequence[_Connection]) -> None:
        """Set the source of connections: the name of the member that made each, or CLIENTS."""
        pids = {member.name: member.pid for member in self.members.values() if member.pid}
        ports = [connection.port for connection in connections]
        owners = await asyncio.to_thread(owners_of, ports, pids)
        for connection in connections:
            connection.source = owners.get(connection.port, CLIENTS)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task, and hold a reference to it until it has ended, as asyncio requires."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def listen(self, member: _Member) -> None:
        """Listen on the port of a member, unless this is done already."""
        async with member.opening:
            if member.listener is None:
                member.listener = await asyncio.get_running_loop().create_server(
                    lambda: _Connection(self, member).near, HOST, member.port, reuse_address=True
                )

    async def follow(self, member: _Member) -> None:
        """Listen on the port of a member if the member listens and its port should not refuse. Otherwise
        stop, and listen as soon as the member does."""
        is_refusing = member.name in self.refusing
        if not is_refusing and await _is_listening(member.target_port):
            await self.listen(member)
            return
        if member.listener is not None:
            member.listener.close()
            member.listener = None
        if not is_refusing and (member.awaiting is None or member.awaiting.done()):
            member.awaiting = self.start(self._await(member))

    async def _await(self, member: _Member) -> None:
        while True:
            await asyncio.sleep(_POLL_S)
            if member.name in self.refusing:
                return
            if await _is_listening(member.target_port):
                await self.listen(member)
                return


class _Connection:
    """One connection: the socket of the source (near), and the socket to the member (far)."""

    def __init__(self, network: _Network, member: _Member) -> None:
        self.network = network
        self.member = member
        self.port = 0
        """The local port of the source."""
        self.source = ""
        """The member that connected, or CLIENTS; empty until a cut needs it."""
        self.near = _End(self)
        self.far = _End(self)
        self.near.other, self.far.other = self.far, self.near
        network.connections.add(self)

    async def establish(self) -> None:
        """Connect to the member, when the link is not cut."""
        while self.network.cuts:
            if not self.source:
                await self.network.identify([self])
            if not self._is_cut_anywhere():
                break
            await self.network.changed.wait()
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.far, HOST, self.member.target_port)
        except OSError:
            await self.network.follow(self.member)
            self.near.abort()
            return
        self.apply_cuts()

    def apply_cuts(self) -> None:
        """Read from each side only if its direction is not cut."""
        if self.far.transport is None:
            return
        self.near.hold("cut", self.network.is_cut(self.source, self.member.name))
        self.far.hold("cut", self.network.is_cut(self.member.name, self.source))

    def near_connected(self) -> None:
        """Begin to connect to the member, after a source has connected."""
        transport = self.near.transport
        assert transport is not None
        self.port = transport.get_extra_info("peername")[1]
        self.network.start(self.establish())

    def far_connected(self) -> None:
        """Deliver the bytes that came before the member was connected."""
        if self.near.transport is None:
            self.far.abort()
        self.near.deliver_early()

    def lost(self, end: _End, is_reset: bool) -> None:
        """End the other side after one side has ended. If the member no longer listens, its port refuses new
        connections before the source sees the end."""
        self.network.connections.discard(self)
        other = end.other
        if end is self.far and other.transport is not None:
            self.network.start(self._end_near(is_reset))
        elif is_reset:
            other.abort()
        else:
            other.close()

    async def _end_near(self, is_reset: bool) -> None:
        await self.network.follow(self.member)
        if is_reset:
            self.near.abort()
        else:
            self.near.close()

    def _is_cut_anywhere(self) -> bool:
        is_cut_forward = self.network.is_cut(self.source, self.member.name)
        return is_cut_forward or self.network.is_cut(self.member.name, self.source)


class _End(asyncio.Protocol):
    """One socket of a connection. Its bytes go to the other socket."""

    def __init__(self, connection: _Connection) -> None:
        self.connection = connection
        self.other: _End
        self.transport: asyncio.Transport | None = None
        self._holds: set[str] = set()
        self._has_ended = False
        self._early: list[bytes] = []
        """Bytes that came before the other side was connected, since reading cannot be paused earlier."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have this interface without the base class.
        self.transport = cast(asyncio.Transport, transport)
        if self is self.connection.near:
            self.connection.near_connected()
        else:
            self.connection.far_connected()

    def data_received(self, data: bytes) -> None:
        if self.other.transport is not None:
            self.other.transport.write(data)
        elif self is self.connection.near:
            self._early.append(data)
            self.hold("no other end", True)

    def deliver_early(self) -> None:
        """Pass on the bytes and the end that came before the other side was connected."""
        if self.other.transport is not None:
            self.other.transport.writelines(self._early)
            if self._has_ended:
                self.other.transport.write_eof()
        self._early.clear()
        self.hold("no other end", False)

    def eof_received(self) -> bool:
        self._has_ended = True
        if self.other.transport is not None:
            self.other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        self.other.hold("the other end is slow", True)

    def resume_writing(self) -> None:
        self.other.hold("the other end is slow", False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.connection.lost(self, exc is not None)

    def hold(self, reason: str, is_held: bool) -> None:
        """Set or remove a reason not to read. The socket is read while there is none."""
        before = bool(self._holds)
        (self._holds.add if is_held else self._holds.discard)(reason)
        if self.transport is None or self.transport.is_closing() or before == bool(self._holds):
            return
        if self._holds:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


async def _is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.transport.abort()
    return True


async def _carry_out(network: _Network, order: dict[str, Any]) -> None:
    """Carry out the order of one line: members with their ports, a pid, cut links, or refusing ports."""
    for name, (port, target_port) in order.get("members", {}).items():
        network.members[name] = _Member(name, port, target_port)
        await network.follow(network.members[name])
    for name, pid in order.get("pids", {}).items():
        network.members[name].pid = pid
    if "cuts" in order:
        await network.cut((source, target) for source, target in order["cuts"])
    if "refusing" in order:
        await network.refuse(order["refusing"])


async def _run() -> None:
    network = _Network()
    reader = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        await _carry_out(network, json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    uvloop.run(_run())
