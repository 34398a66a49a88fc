"""The network of a cluster that can be cut: a process through which all connections to its members go.

Every member listens on a port that only this process connects to, and advertises another one, on which this
process listens. So a link between two members can be cut and mended without root, on any system, while each
goes on to reach everybody else. Who connected is found out when a link is cut, by the port that it came from.

A cut link is silent, as a broken cable is: what is sent waits in the buffers of the sockets, nothing is
refused or reset, and a connection made meanwhile is answered by nobody. After `heal` what waited arrives.
Where nobody listens behind a port, this process does not listen on it either: a reset, and then a refused
connection, mean here what they mean without it. A port that is to refuse ends what was connected, and is not
listened on until it is to be open again: a firewall that is loaded anew looks so.

The module `network` starts it and speaks to it by lines of JSON on its standard input; it ends with them.
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

_LOOK_AGAIN_S: Final = 0.02
_LINE_BYTES_MAX: Final = 1 << 20


@dataclass(slots=True)
class _Member:
    """A process of the cluster, and the port before it."""

    name: str
    port: int
    target_port: int
    pid: int = 0
    listener: asyncio.Server | None = None
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    awaiting: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Network:
    """All that the process knows."""

    members: dict[str, _Member] = field(default_factory=dict)
    cuts: frozenset[tuple[str, str]] = frozenset()
    """(from, to): nothing that the first one sends reaches the second one."""
    refusing: frozenset[str] = frozenset()
    """Members whose ports refuse connections, though they listen."""
    connections: set[_Connection] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced by another one, when links are cut or mended."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def is_cut(self, source: str, target: str) -> bool:
        """Whether nothing gets from one to the other."""
        return (source, target) in self.cuts

    async def cut(self, cuts: Iterable[tuple[str, str]]) -> None:
        """Let exactly these links be cut from now on."""
        self.cuts = frozenset(cuts)
        if self.cuts:
            await self.identify([each for each in self.connections if not each.source])
        self.changed.set()
        self.changed = asyncio.Event()
        for connection in tuple(self.connections):
            connection.obey_cuts()

    async def refuse(self, names: Iterable[str]) -> None:
        """Let the ports of exactly these members refuse connections from now on."""
        before, self.refusing = self.refusing, frozenset(names)
        for connection in tuple(self.connections):
            if connection.member.name in self.refusing:
                connection.near.abort()
                connection.far.abort()
        for name in before ^ self.refusing:
            await self.look(self.members[name])

    async def identify(self, connections: Sequence[_Connection]) -> None:
        """Find out from whom connections come."""
        pids = {member.name: member.pid for member in self.members.values() if member.pid}
        ports = [connection.port for connection in connections]
        owners = await asyncio.to_thread(owners_of, ports, pids)
        for connection in connections:
            connection.source = owners.get(connection.port, CLIENTS)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task that belongs to the network and is not lost to the garbage collector."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def listen(self, member: _Member) -> None:
        """Listen before a member; nothing happens where that is so already."""
        async with member.opening:
            if member.listener is None:
                member.listener = await asyncio.get_running_loop().create_server(
                    lambda: _Connection(self, member).near, HOST, member.port, reuse_address=True
                )

    async def look(self, member: _Member) -> None:
        """Listen before a member as long as somebody listens behind it; else wait until somebody does."""
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
            await asyncio.sleep(_LOOK_AGAIN_S)
            if member.name in self.refusing:
                return
            if await _is_listening(member.target_port):
                await self.listen(member)
                return


class _Connection:
    """Two sockets, one to who connected and one to whom it wanted, and what holds each of them up."""

    def __init__(self, network: _Network, member: _Member) -> None:
        self.network = network
        self.member = member
        self.port = 0
        """Where it begins."""
        self.source = ""
        """Who connected; nobody asks while no link is cut."""
        self.near = _End(self)
        self.far = _End(self)
        self.near.other, self.far.other = self.far, self.near
        network.connections.add(self)

    async def establish(self) -> None:
        """Connect to the member, once the link is not cut."""
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
            await self.network.look(self.member)
            self.near.abort()
            return
        self.obey_cuts()

    def obey_cuts(self) -> None:
        """Read from each side only what may reach the other one."""
        if self.far.transport is None:
            return
        self.near.hold("cut", self.network.is_cut(self.source, self.member.name))
        self.far.hold("cut", self.network.is_cut(self.member.name, self.source))

    def begun(self) -> None:
        """Somebody connected."""
        transport = self.near.transport
        assert transport is not None
        self.port = transport.get_extra_info("peername")[1]
        self.network.start(self.establish())

    def reached(self) -> None:
        """The other end stands."""
        if self.near.transport is None:
            self.far.abort()
        self.near.deliver_early()

    def lost(self, end: _End, is_reset: bool) -> None:
        """One end is gone, so the other one goes, too; who connected hears of it when new connections are
        refused already where the member is gone with its listener."""
        self.network.connections.discard(self)
        other = end.other
        if end is self.far and other.transport is not None:
            self.network.start(self._end_near(is_reset))
        elif is_reset:
            other.abort()
        else:
            other.close()

    async def _end_near(self, is_reset: bool) -> None:
        await self.network.look(self.member)
        if is_reset:
            self.near.abort()
        else:
            self.near.close()

    def _is_cut_anywhere(self) -> bool:
        there = self.network.is_cut(self.source, self.member.name)
        return there or self.network.is_cut(self.member.name, self.source)


class _End(asyncio.Protocol):
    """One socket of a connection: what it receives goes to the other one."""

    def __init__(self, connection: _Connection) -> None:
        self.connection = connection
        self.other: _End
        self.transport: asyncio.Transport | None = None
        self._holds: set[str] = set()
        self._has_ended = False
        self._early: list[bytes] = []
        """What came before the other end stood: a transport cannot be held before it reads."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are so without deriving from it.
        self.transport = cast(asyncio.Transport, transport)
        if self is self.connection.near:
            self.connection.begun()
        else:
            self.connection.reached()

    def data_received(self, data: bytes) -> None:
        if self.other.transport is not None:
            self.other.transport.write(data)
        elif self is self.connection.near:
            self._early.append(data)
            self.hold("no other end", True)

    def deliver_early(self) -> None:
        """The other end stands."""
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
        """Do not read for this reason, or not any more; it reads when there is none left."""
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


async def _obey(network: _Network, order: dict[str, Any]) -> None:
    """Carry out one line: members and their ports, a pid, links that are cut, or ports that refuse."""
    for name, (port, target_port) in order.get("members", {}).items():
        network.members[name] = _Member(name, port, target_port)
        await network.look(network.members[name])
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
        await _obey(network, json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    uvloop.run(_run())
