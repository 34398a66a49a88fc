"""Real brokers over a real ZooKeeper, without a controller; and an admin that has no replicas."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from hightide_leaders.core import events as ev
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.values import Decision, PartitionNodes, Settings, TopicPartition
from hightide_leaders.shell import LeadersShell
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.ports import free_port
from hightide_runtime.process.environment import service_environment
from hightide_runtime.znodes.cluster_znodes import BROKER_INCARNATIONS, BrokerIncarnationZnode, BrokerZnode
from hightide_runtime.znodes.leaders_znodes import IsrZnode, LeaderZnode
from hightide_runtime.zookeeper.errors import NoNode
from hightide_runtime.zookeeper.session import ZooKeeperSession

BROKERS = (1, 2, 3)
ADMIN = 9
DEADLINE_S = 120


class NoReplicas:
    """What the admin's decider works on: nothing."""

    async def open_replica(self, name: TopicPartition, nodes: PartitionNodes) -> None:
        raise AssertionError("no partition is assigned to the admin")

    async def close_replica(self, name: TopicPartition, topic_id: str) -> None:
        raise AssertionError("no partition is assigned to the admin")

    def decide(self, name: TopicPartition, decision: Decision) -> None:
        raise AssertionError("no partition is assigned to the admin")

    async def register(self) -> None:
        """Not in the list of brokers: nobody is to fetch from it."""

    def step_aside(self) -> None:
        raise AssertionError("there is one admin")


class LedBrokers:
    """Three broker processes. A with-block."""

    def __init__(self, directory: Path, zookeeper: str, arguments: Sequence[str] = ()) -> None:
        self.directory = directory
        self.zookeeper = zookeeper
        self.ports = {number: free_port() for number in BROKERS}
        self._guard = ProcessGuard()
        self._processes = {number: self._process(number, arguments) for number in BROKERS}

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def data(self, number: int) -> Path:
        """Where a broker keeps its logs."""
        return self.directory / f"data-{number}"

    def process(self, number: int) -> ManagedProcess:
        """A broker's process."""
        return self._processes[number]

    def start(self, number: int) -> None:
        """Start a broker; it may take a while until it is registered."""
        self._processes[number].start(self._guard)

    def kill_all(self) -> None:
        """SIGKILL to all that run."""
        for process in self._processes.values():
            process.kill()
        self._guard.close()

    def _process(self, number: int, arguments: Sequence[str]) -> ManagedProcess:
        command = [
            *(sys.executable, "-m", "hightide_broker.main", "--broker-id", str(number)),
            *("--listen", f"127.0.0.1:{self.ports[number]}", "--data-dir", str(self.data(number))),
            *("--zookeeper", self.zookeeper, "--zookeeper-session-timeout-ms", "4000"),
            *("--coordination", "leaders", "--replica-lag-time-max-ms", "2000", *arguments),
        ]
        log = self.directory / f"broker-{number}.log"
        return ManagedProcess(f"broker-{number}", command, service_environment(os.environ), log)


@contextmanager
def led_brokers(directory: Path, arguments: Sequence[str] = ()) -> Iterator[LedBrokers]:
    """Three brokers that run, and their ZooKeeper."""
    with EmbeddedZooKeeper(directory / "zookeeper", tick_time_ms=500) as zookeeper:
        brokers = LedBrokers(directory, zookeeper.address, arguments)
        try:
            for number in BROKERS:
                brokers.start(number)
            yield brokers
        finally:
            brokers.kill_all()


class Looker:
    """An admin, and what ZooKeeper has."""

    def __init__(self, session: ZooKeeperSession, shell: LeadersShell, brokers: LedBrokers) -> None:
        self.session = session
        self.shell = shell
        self.brokers = brokers

    async def until(self, reached: Callable[[], Awaitable[bool]]) -> None:
        """Wait for it; the bound excludes that it never comes."""
        async with asyncio.timeout(DEADLINE_S):
            while not await reached():  # noqa: ASYNC110 - each look is a request to ZooKeeper
                await asyncio.sleep(0)

    async def registered(self, numbers: Sequence[int] = BROKERS) -> None:
        """Wait until these brokers are registered."""

        async def are_registered() -> bool:
            found = await self.session.multi_read([BrokerZnode.path(number) for number in numbers])
            return len(found) == len(numbers)

        await self.until(are_registered)

    async def restart(self, number: int) -> None:
        """Start a broker, and wait until this life of it is registered."""
        before = await self.session.exists(BrokerZnode.path(number))
        self.brokers.start(number)

        async def is_registered() -> bool:
            found = await self.session.exists(BrokerZnode.path(number))
            return found is not None and (before is None or found.czxid != before.czxid)

        await self.until(is_registered)

    async def create(self, topic: str, topic_id: str, assignment: tuple[tuple[int, ...], ...]) -> None:
        """Create a topic."""
        asked = await self.ask(lambda number: ev.AdditionRequested(number, topic, topic_id, assignment))
        assert asked is Outcome.DONE, asked

    async def ask(self, request: Callable[[int], ev.Event]) -> Outcome:
        """Ask the admin."""
        return await self.shell.ask(request)

    async def gone(self, number: int) -> None:
        """Wait until a broker's registration is gone, with its session."""

        async def is_gone() -> bool:
            return await self.session.exists(BrokerZnode.path(number)) is None

        await self.until(is_gone)

    async def leader(self, topic: str, partition: int = 0) -> int:
        """Who leads; -1: nobody."""
        with suppress(NoNode):
            return LeaderZnode.decode(
                (await self.session.get(LeaderZnode.path(topic, partition))).data
            ).broker_id
        return -1

    async def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """Who is in sync."""
        with suppress(NoNode):
            return IsrZnode.decode((await self.session.get(IsrZnode.path(topic, partition))).data).isr
        return ()

    async def doubted(self, topic: str, partition: int = 0) -> set[int]:
        """Who may have lost the end of its log."""
        znode = await self.session.get(IsrZnode.path(topic, partition))
        return {log.broker_id for log in IsrZnode.decode(znode.data).recovered}

    async def led(self, topic: str, by: Sequence[int], isr: Sequence[int]) -> int:
        """Wait until one of these leads partition 0, and these are in sync."""

        async def is_so() -> bool:
            return await self.leader(topic) in by and await self.isr(topic) == tuple(isr)

        await self.until(is_so)
        return await self.leader(topic)


@asynccontextmanager
async def looking_at(brokers: LedBrokers) -> AsyncIterator[Looker]:
    """An admin at a cluster."""
    async with AsyncExitStack() as stack:
        session = await ZooKeeperSession.connect(brokers.zookeeper, session_timeout_ms=10_000)
        stack.push_async_callback(session.close)
        await session.ensure_path(BROKER_INCARNATIONS)
        await session.ensure_path(BrokerIncarnationZnode.path(ADMIN))
        life = await session.set(BrokerIncarnationZnode.path(ADMIN), b"", -1)
        shell = LeadersShell(session, Settings(ADMIN, 50, 200, 30_000), NoReplicas())
        deciding = asyncio.ensure_future(shell.run(life))
        looker = Looker(session, shell, brokers)
        try:
            await looker.registered()
            yield looker
        finally:
            deciding.cancel()
            await asyncio.wait([deciding])
