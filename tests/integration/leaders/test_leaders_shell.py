"""The decider's shell on a real ZooKeeper: three brokers in one process, whose replicas only obey, and are
in sync as soon as their leader has asked for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from hightide_broker.cluster.metadata import EndpointView
from hightide_broker.coordination.led_cluster import LedCluster
from hightide_leaders.core import events as ev
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.elections import isr_change
from hightide_leaders.core.values import Decision, PartitionNodes, Settings, TopicPartition
from hightide_leaders.shell import LeadersShell
from hightide_leaders.znode_operations import leader_of, operations_of, read_partitions
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_runtime.znodes.cluster_znodes import (
    BROKER_IDS,
    BROKER_INCARNATIONS,
    BrokerIncarnationZnode,
    BrokerZnode,
)
from hightide_runtime.znodes.leaders_znodes import (
    STATE,
    IsrZnode,
    LeaderZnode,
    LedTopicZnode,
    ReassignedZnode,
    ReplicasZnode,
    StateChangeZnode,
    StateQueueZnode,
)
from hightide_runtime.znodes.led_nodes import IsrNode
from hightide_runtime.znodes.paths import partition_path
from hightide_runtime.zookeeper.errors import BadVersion, NodeExists, ZooKeeperError
from hightide_runtime.zookeeper.protocol import MultiReadRequest
from hightide_runtime.zookeeper.session import (
    Create,
    Delete,
    Operation,
    SetData,
    Znode,
    ZooKeeperSession,
)

BROKERS = (1, 2, 3)
PARTITIONS = 12
MANY = 300
TOPIC = "flights"
ID = "a" * 32
DEADLINE_S = 60


class CountingSession(ZooKeeperSession):
    """A session that counts how often each state change is read, and may fail as no session does."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.changes_read: Counter[str] = Counter()
        self.bug: Exception | None = None

    async def multi(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        if self.bug is not None:
            raise self.bug
        return await super().multi(operations)

    async def multi_read(self, paths: Iterable[str]) -> dict[str, Znode]:
        read = list(paths)
        self.changes_read.update(path for path in read if path.startswith(f"{STATE}/"))
        return await super().multi_read(read)


class InterruptedSession(ZooKeeperSession):
    """A session in which the first two requests of a read are not at one moment."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.meanwhile: list[Operation] = []
        """What happens between the two."""
        self._reads = 0

    def _submit(self, request: Any, path: str, *, writes: bool) -> asyncio.Future[Any]:
        if self.meanwhile and isinstance(request, MultiReadRequest):
            self._reads += 1
            if self._reads > 1:
                operations, self.meanwhile = self.meanwhile, []
                self.submit_multi(operations)
        return super()._submit(request, path, writes=writes)


class ObedientReplicas:
    """Replicas without records. One that follows is taken into the ISR by its leader, as by a fetch."""

    def __init__(self, session: ZooKeeperSession, broker_id: int, peers: dict[int, ObedientReplicas]) -> None:
        self.session = session
        self.broker_id = broker_id
        self.peers = peers
        self.shell: LeadersShell | None = None
        self.hosted: dict[TopicPartition, str] = {}
        self.decided: dict[TopicPartition, Decision] = {}
        self.isrs: dict[TopicPartition, tuple[int, tuple[int, ...], int]] = {}
        """Leader epoch, ISR and its version, of what leads here."""
        self.joining: dict[TopicPartition, asyncio.Task[None]] = {}
        self.aside = asyncio.Event()

    async def open_replica(self, name: TopicPartition, nodes: PartitionNodes) -> None:
        self.hosted[name] = nodes.topic_id

    async def close_replica(self, name: TopicPartition, topic_id: str) -> None:
        if self.hosted.get(name) == topic_id:
            del self.hosted[name]
            self.decided.pop(name, None)
            self.isrs.pop(name, None)

    def decide(self, name: TopicPartition, decision: Decision) -> None:
        self.decided[name] = decision
        if decision.leader == self.broker_id:
            told = (decision.leader_epoch, decision.isr.isr, decision.isr.version)
            if told[2] > self.isrs.get(name, (0, (), -1))[2]:
                self.isrs[name] = told
            self.take_in(name)
        elif decision.leader in self.peers:
            self.peers[decision.leader].take_in(name)

    def take_in(self, name: TopicPartition) -> None:
        if name not in self.joining:
            self.joining[name] = asyncio.ensure_future(self._take_in(name))

    def joiners(self, name: TopicPartition) -> tuple[int, ...]:
        """Those that follow this leader and are not in sync."""
        mine = self.decided.get(name)
        if mine is None or mine.leader != self.broker_id or self.isrs[name][0] != mine.leader_epoch:
            return ()
        follow = (mine.leader, mine.leader_epoch)
        return tuple(
            peer.broker_id
            for peer in self.peers.values()
            if (known := peer.decided.get(name)) is not None
            and (known.leader, known.leader_epoch) == follow
            and peer.broker_id in mine.replicas
            and peer.broker_id not in self.isrs[name][1]
        )

    async def _take_in(self, name: TopicPartition) -> None:
        try:
            while joiners := self.joiners(name):
                await self._store(name, joiners)
        except ZooKeeperError:
            pass  # The partition is gone, or the session.
        finally:
            # In the same breath as the last look: who follows from here on begins anew.
            del self.joining[name]

    async def _store(self, name: TopicPartition, joiners: tuple[int, ...]) -> None:
        epoch, isr, version = self.isrs[name]
        node = IsrNode(epoch, tuple(sorted({*isr, *joiners})))
        try:
            await self.session.multi(operations_of(isr_change(name, node, version, ())))
        except BadVersion:
            znode = await self.session.get(IsrZnode.path(*name))
            read = IsrZnode.decode(znode.data)
            self.isrs[name] = (read.epoch, read.isr, znode.version)
            return
        self.isrs[name] = (epoch, node.isr, version + 1)
        assert self.shell is not None
        self.shell.hear(ev.IsrAdopted(name, epoch, node.isr, version + 1))

    async def register(self) -> None:
        znode = BrokerZnode("127.0.0.1", 9000 + self.broker_id, 1, incarnation=0)
        with suppress(NodeExists):
            await self.session.create(BrokerZnode.path(self.broker_id), znode.encode(), ephemeral=True)

    def step_aside(self) -> None:
        self.aside.set()


class Cluster:
    """The deciders of some brokers, each with its session."""

    def __init__(self, hosts: str, looker: ZooKeeperSession) -> None:
        self.hosts = hosts
        self.looker = looker
        self.replicas: dict[int, ObedientReplicas] = {}
        self.shells: dict[int, LeadersShell] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.failures: list[BaseException | None] = []

    async def start(self, broker_id: int) -> None:
        session = await CountingSession.connect(self.hosts, session_timeout_ms=10_000)
        await session.ensure_path(BROKER_INCARNATIONS)
        await session.ensure_path(BrokerIncarnationZnode.path(broker_id))
        version = await session.set(BrokerIncarnationZnode.path(broker_id), b"", -1)
        replicas = ObedientReplicas(session, broker_id, self.replicas)
        settings = Settings(broker_id, 50, 200, 30_000)
        shell = LeadersShell(session, settings, replicas)
        replicas.shell = shell
        self.replicas[broker_id], self.shells[broker_id] = replicas, shell
        task = self.tasks[broker_id] = asyncio.ensure_future(shell.run(version))
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A decider that failed fails the test, which would wait for it."""
        if not task.cancelled() and task.exception() is not None:
            self.failures.append(task.exception())

    async def stop(self, broker_id: int) -> None:
        self.tasks[broker_id].cancel()
        await asyncio.wait([self.tasks[broker_id]])
        await self.replicas[broker_id].session.close()
        del self.replicas[broker_id], self.shells[broker_id], self.tasks[broker_id]

    async def leaders(self, partitions: int = PARTITIONS) -> dict[int, tuple[int, int]]:
        """Leader and epoch of each partition that has one."""
        paths = [LeaderZnode.path(TOPIC, number) for number in range(partitions)]
        found = await self.looker.multi_read(paths)
        led = {}
        for number in range(partitions):
            if (znode := found.get(LeaderZnode.path(TOPIC, number))) is not None:
                node = leader_of(znode)
                led[number] = (node.broker_id, node.epoch)
        return led

    async def create(
        self,
        admin: int,
        topic_id: str = ID,
        replicas: tuple[int, ...] = BROKERS,
        partitions: int = PARTITIONS,
    ) -> Outcome:
        assignment = tuple(rotated(replicas, number) for number in range(partitions))
        return await self.shells[admin].ask(
            lambda number: ev.AdditionRequested(number, TOPIC, topic_id, assignment)
        )

    async def delete(self, admin: int) -> Outcome:
        return await self.shells[admin].ask(lambda number: ev.DeletionRequested(number, TOPIC))

    async def are_preferred(self) -> bool:
        """Whether the preferred replica of each partition leads it, and all are in sync."""
        led = await self.leaders()
        isrs = await self.looker.multi_read([IsrZnode.path(TOPIC, number) for number in range(PARTITIONS)])
        all_in_sync = all(len(IsrZnode.decode(znode.data).isr) == len(BROKERS) for znode in isrs.values())
        return all_in_sync and led.keys() == set(range(PARTITIONS)) and all(
            leader == rotated(BROKERS, number)[0] for number, (leader, _) in led.items()
        )  # fmt: skip


def rotated(brokers: tuple[int, ...], by: int) -> tuple[int, ...]:
    by %= len(brokers)
    return (*brokers[by:], *brokers[:by])


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    """Wait for it; the bound excludes that it never comes."""
    async with asyncio.timeout(DEADLINE_S):
        while not await reached():  # noqa: ASYNC110 - each look is a request to ZooKeeper
            await asyncio.sleep(0)


@asynccontextmanager
async def cluster(server: EmbeddedZooKeeper) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        looker = await ZooKeeperSession.connect(server.address)
        stack.push_async_callback(looker.close)
        made = Cluster(server.address, looker)
        for broker_id in BROKERS:
            await made.start(broker_id)
        await until(lambda: registered(looker, len(BROKERS)))
        yield made
        assert made.failures == []
        for broker_id in list(made.shells):
            await made.stop(broker_id)


async def registered(session: ZooKeeperSession, count: int) -> bool:
    found = await session.multi_read([BrokerZnode.path(broker_id) for broker_id in BROKERS])
    return len(found) == count


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), tick_time_ms=500) as started:
        yield started


def test_a_topic_is_created_led_by_its_preferred_replicas_and_deleted(server: EmbeddedZooKeeper) -> None:
    async def run() -> None:
        async with cluster(server) as made:
            assert await made.create(1) is Outcome.DONE
            assert await made.create(2, "b" * 32) is Outcome.TOPIC_ALREADY_EXISTS
            await until(made.are_preferred)
            assert all(len(each.hosted) == PARTITIONS for each in made.replicas.values())
            assert await made.delete(3) is Outcome.DONE
            assert await made.looker.exists(LedTopicZnode.path(TOPIC)) is None
            assert await made.looker.exists(ReassignedZnode.topic_path(TOPIC)) is None
            assert not any(each.hosted for each in made.replicas.values())
            assert await made.delete(3) is Outcome.UNKNOWN_TOPIC
            for broker_id in BROKERS:
                assert await made.looker.children(StateQueueZnode.path(broker_id)) == []

    asyncio.run(run())


def test_a_bug_that_ends_a_write_ends_the_decider(server: EmbeddedZooKeeper) -> None:
    """Its broker ends then, and others lead. It would stay, and a partition wait for that write."""

    async def run() -> None:
        async with cluster(server) as made:
            session = made.replicas[1].session
            assert isinstance(session, CountingSession)
            session.bug = ValueError("a bug")
            creating = asyncio.ensure_future(made.create(1))
            await asyncio.wait([made.tasks[1]], timeout=DEADLINE_S)
            assert made.failures == [session.bug]
            made.failures.clear()
            creating.cancel()

    asyncio.run(run())


def test_each_state_change_is_read_once_by_who_waits_for_it_and_once_by_who_obeys(
    server: EmbeddedZooKeeper,
) -> None:
    """However often a queue changes before it is empty."""

    async def run() -> None:
        async with cluster(server) as made:
            assert await made.create(1, partitions=MANY) is Outcome.DONE
            for broker_id, each in made.replicas.items():
                assert isinstance(each.session, CountingSession)
                reads = 2 if broker_id == 1 else 1
                assert max(each.session.changes_read.values()) <= reads
                assert len(each.session.changes_read) >= MANY

    asyncio.run(run())


def test_the_queue_of_a_broker_that_is_gone_is_measured_until_it_is_back_and_has_emptied_it(
    server: EmbeddedZooKeeper,
) -> None:
    async def run() -> None:
        async with cluster(server) as made:
            assert await made.create(1) is Outcome.DONE
            await until(made.are_preferred)
            await made.stop(3)
            assert await made.delete(1) is Outcome.DONE

            async def told(length: int | None) -> bool:
                return made.shells[1].queue_lengths.get(3) == length

            await until(lambda: told(PARTITIONS))
            await made.start(3)
            await until(lambda: told(None))
            assert made.shells[1].queue_lengths[1] == 0

    asyncio.run(run())


def test_a_topic_goes_though_the_queue_of_a_broker_that_is_gone_was_taken_away(
    server: EmbeddedZooKeeper,
) -> None:
    async def run() -> None:
        async with cluster(server) as made:
            assert await made.create(1) is Outcome.DONE
            await until(made.are_preferred)
            await made.stop(3)
            await made.looker.delete(StateQueueZnode.path(3))
            async with asyncio.timeout(DEADLINE_S):
                assert await made.delete(1) is Outcome.DONE
            assert len(await made.looker.children(StateQueueZnode.path(3))) == PARTITIONS

    asyncio.run(run())


def test_what_holds_a_deletion_up_is_told_and_when_it_is_gone_the_topic_goes(
    server: EmbeddedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator has put something below a partition. The broker does not ask ZooKeeper all the time."""

    async def run() -> None:
        async with cluster(server) as made:
            assert await made.create(1) is Outcome.DONE
            note = f"{partition_path(TOPIC, 0)}/note"
            await made.looker.create(note, b"")
            deleting = asyncio.ensure_future(made.delete(1))

            async def is_told() -> bool:
                return f"{partition_path(TOPIC, 0)} has children" in caplog.text

            await until(is_told)
            await made.looker.delete(note)
            async with asyncio.timeout(DEADLINE_S):
                assert await deleting is Outcome.DONE

    asyncio.run(run())


def test_the_others_lead_when_a_broker_is_gone_and_give_way_when_it_is_back(
    server: EmbeddedZooKeeper,
) -> None:
    async def run() -> None:
        async with cluster(server) as made:
            await made.create(1)
            await until(made.are_preferred)
            before = await made.leaders()
            await made.stop(1)

            async def all_led_by_others() -> bool:
                led = await made.leaders()
                return len(led) == PARTITIONS and all(leader != 1 for leader, _ in led.values())

            await until(all_led_by_others)
            for number, (_, epoch) in (await made.leaders()).items():
                assert (epoch > before[number][1]) is (before[number][0] == 1)
            await made.start(1)
            await until(made.are_preferred)

    asyncio.run(run())


def test_a_partition_is_moved_and_the_old_replica_closed(server: EmbeddedZooKeeper) -> None:
    async def run() -> None:
        async with cluster(server) as made:
            assert await made.create(1, replicas=(1, 2)) is Outcome.DONE
            name = TopicPartition(TOPIC, 0)
            asked = await made.shells[3].ask(lambda number: ev.ReassignmentRequested(number, name, (3, 2)))
            assert asked is Outcome.DONE

            async def moved() -> bool:
                led = await made.leaders()
                closed = name not in made.replicas[1].hosted
                return led.get(0, (0, 0))[0] == 3 and closed and name in made.replicas[3].hosted

            await until(moved)
            znode = await made.looker.get(ReplicasZnode.path(*name))
            assert ReplicasZnode.decode(znode.data).replicas == (3, 2)
            assert await made.looker.exists(ReassignedZnode.path(*name)) is None

    asyncio.run(run())


def test_a_replica_that_has_moved_in_is_assigned_whatever_is_read_with_it(server: EmbeddedZooKeeper) -> None:
    """Of each of many partitions, AR and RAR are read at one moment, also if the move ends meanwhile. A
    broker that is not assigned puts its log aside."""
    names = [TopicPartition(TOPIC, number) for number in range(MANY)]

    async def run() -> None:
        session = await InterruptedSession.connect(server.address, session_timeout_ms=10_000)
        assert isinstance(session, InterruptedSession)
        try:
            for parent in (LedTopicZnode.path(TOPIC), ReassignedZnode.topic_path(TOPIC)):
                await session.ensure_path(parent)
            await session.set(
                LedTopicZnode.path(TOPIC), LedTopicZnode(bytes.fromhex(ID), None, MANY).encode(), -1
            )
            for name in names:
                await session.ensure_path(ReplicasZnode.path(*name))
                await session.set(ReplicasZnode.path(*name), ReplicasZnode((1, 2)).encode(), -1)
                await session.create(ReassignedZnode.path(*name), ReassignedZnode((3, 2)).encode())
            for name in names:
                session.meanwhile += [
                    SetData(ReplicasZnode.path(*name), ReplicasZnode((3, 2)).encode(), -1),
                    Delete(ReassignedZnode.path(*name), -1),
                ]
            read = await read_partitions(session, names, 1)
            assert session.meanwhile == [], "the moves ended while it was read"
            assert all(nodes is not None and 3 in nodes.assigned for nodes in read.values())
        finally:
            await session.close()

    asyncio.run(run())


def test_the_cluster_tells_what_a_broker_cannot_decode_and_how_often_partitions_were_removed(
    server: EmbeddedZooKeeper,
) -> None:
    async def run() -> None:
        session = await ZooKeeperSession.connect(server.address, session_timeout_ms=10_000)
        try:
            await session.ensure_path(BROKER_IDS)
            for name, data in (
                (TOPIC, LedTopicZnode(bytes.fromhex(ID), None, 1, removals=3).encode()),
                ("torn", b"{"),
            ):
                await session.ensure_path(LedTopicZnode.path(name))
                await session.set(LedTopicZnode.path(name), data, -1)
            await session.ensure_path(ReplicasZnode.path(TOPIC, 0))
            await session.set(ReplicasZnode.path(TOPIC, 0), b"not JSON", -1)
            cluster = LedCluster(session, "c", EndpointView(1, "127.0.0.1", 9092))
            stored = await cluster.read()
            assert set(stored.unreadable) == {f"{TOPIC}-0", LedTopicZnode.path("torn")}
            assert stored.markers == {bytes.fromhex(ID): 3}, "a removal raises it: departures check it"
        finally:
            await session.close()

    asyncio.run(run())


def test_garbage_in_a_queue_and_in_a_leader_znode_is_removed(server: EmbeddedZooKeeper) -> None:
    async def run() -> None:
        async with cluster(server) as made:
            await made.create(1)
            await until(made.are_preferred)
            await made.looker.multi([Create(StateChangeZnode.prefix(2), b"\xff", sequential=True)])
            await made.looker.delete(LeaderZnode.path(TOPIC, 0))
            with suppress(NodeExists):
                await made.looker.create(LeaderZnode.path(TOPIC, 0), b"x", ephemeral=True)

            async def clean() -> bool:
                return (
                    await made.looker.children(StateQueueZnode.path(2)) == [] and await made.are_preferred()
                )

            await until(clean)

    asyncio.run(run())


def test_of_two_processes_with_one_id_the_earlier_one_steps_aside(server: EmbeddedZooKeeper) -> None:
    async def run() -> None:
        async with cluster(server) as made:
            await made.create(1)
            await until(made.are_preferred)
            await made.looker.set(BrokerIncarnationZnode.path(2), b"", -1)
            await made.looker.delete(LeaderZnode.path(TOPIC, 1))
            async with asyncio.timeout(DEADLINE_S):
                await made.replicas[2].aside.wait()
            assert all(each.leader != 2 for each in made.replicas[2].decided.values())

    asyncio.run(run())
