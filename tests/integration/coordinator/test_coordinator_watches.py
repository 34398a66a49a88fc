"""Who coordinates, and what becomes of topics and brokers, as a coordinator hears of it (§5, §6, §10).

Each process here is a server that can be stopped, with a ZooKeeper session of its own that lives on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from hightide_coordinator.core import events as ev
from hightide_coordinator.core.effects import WatchTopics
from hightide_coordinator.core.values.topic_partition import Topic, TopicPartition
from hightide_coordinator.zookeeper.candidacy import ShardTakeover
from hightide_coordinator.zookeeper.shard_count import fix_shard_count
from hightide_coordinator.zookeeper.store import CoordinatorStore
from hightide_coordinator.zookeeper.watches import CoordinatorWatches
from hightide_local.processes.ports import free_port
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.server import Server, serve
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.znodes.cluster_znodes import BrokerZnode, TopicZnode
from hightide_runtime.znodes.group_znodes import CoordinatorZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession
from integration.controller.controller_harness import until
from integration.coordinator.coordinator_rig import FLIGHTS_ID, committed, connected, put_topic, store_of
from integration.faults.test_zookeeper_outage import expire

ACTIVE = CoordinatorZnode.path(0, 1)
PATH = TopicZnode.path("flights")
AT_ONCE_S = 50.0
"""Half of the session timeout, and far more than it takes."""


class Process:
    """What a coordinator process has to do with ZooKeeper, and what it was told."""

    def __init__(self, session: ZooKeeperSession, number: int, shard_count: int) -> None:
        self.session = session
        self.identity = ev.Endpoint(number, "127.0.0.1", free_port())
        self.seen: dict[int, ev.Endpoint | None] = {}
        self.elected: list[tuple[int, ev.Elected, ShardTakeover]] = []
        self.deposed: list[int] = []
        self.topics: asyncio.Queue[ev.TopicsChanged] = asyncio.Queue()
        self.brokers: tuple[ev.Endpoint, ...] = ()
        self.server: Server
        self.watches = CoordinatorWatches(
            session, shard_count, self.identity, SystemClock(), open_channel,
            on_seen=self.seen.__setitem__,
            on_elected=lambda *told: self.elected.append(told),
            on_deposed=self.deposed.append,
            on_topics=self.topics.put_nowait,
            on_brokers=lambda event: setattr(self, "brokers", event.brokers),
        )  # fmt: skip

    async def start(self, *, campaigns: bool = True) -> None:
        self.server = await serve(HostPort(self.identity.host, self.identity.port), [])
        await self.server.set_serving(True)
        if campaigns:
            self.watches.start()

    async def die(self) -> None:
        """What a SIGKILL looks like from outside: streams break, the port refuses, the session lives on."""
        await self.server.stop(grace_s=0)

    async def is_elected(self, times: int = 1) -> tuple[ev.Elected, ShardTakeover]:
        async def look() -> bool:
            return len(self.elected) >= times

        await until(look, f"process {self.identity.id} is elected {times} times")
        return self.elected[-1][1:]

    async def sees(self, other: ev.Endpoint | None, shard: int = 0) -> None:
        async def look() -> bool:
            return shard in self.seen and self.seen[shard] == other

        await until(look, f"process {self.identity.id} sees {other}")

    async def is_deposed(self) -> None:
        async def look() -> bool:
            return bool(self.deposed)

        await until(look, f"process {self.identity.id} is deposed")

    async def topic(self, name: str, expected: Topic | None) -> list[ev.TopicsChanged]:
        """Wait until it was told this of a topic, the last time that it was told anything of it; all that it
        was told meanwhile."""
        told: list[ev.TopicsChanged] = []
        async with asyncio.timeout(AT_ONCE_S):
            while True:
                told.append(await self.topics.get())
                if name in told[-1].topics and told[-1].topics[name] == expected:
                    return told


@asynccontextmanager
async def process(
    hosts: str, number: int = 1, shard_count: int = 1, *, campaigns: bool = True
) -> AsyncIterator[Process]:
    """A process that campaigns, or is ready to."""
    async with connected(hosts) as session:
        await fix_shard_count(session, shard_count)
        built = Process(session, number, shard_count)
        await built.start(campaigns=campaigns)
        try:
            yield built
        finally:
            await built.watches.close()
            await built.die()


def with_processes(hosts: str, test: Callable[[ZooKeeperSession, Process, Process], Awaitable[None]]) -> None:
    """Run a test with an operator's session, an active process and one that stands by."""

    async def run() -> None:
        async with connected(hosts) as operator, process(hosts, 1) as active:
            await active.is_elected()
            async with process(hosts, 2) as standby:
                await standby.sees(active.identity)
                await test(operator, active, standby)

    asyncio.run(run())


def with_active(hosts: str, test: Callable[[ZooKeeperSession, Process], Awaitable[None]]) -> None:
    """Run a test with an operator's session and an active process."""

    async def run() -> None:
        async with connected(hosts) as operator, process(hosts) as active:
            await active.is_elected()
            await test(operator, active)

    asyncio.run(run())


def flights(partitions: int) -> Topic:
    return Topic("flights", FLIGHTS_ID, partitions)


# ---- elections


def test_whoever_comes_first_coordinates_and_the_next_one_knows_it(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process, standby: Process) -> None:
        loaded, takeover = await active.is_elected()
        assert loaded == ev.Elected(1, {}, {})
        assert takeover.cause == "vacant"
        assert standby.elected == []
        assert active.watches.held() == 1
        assert standby.watches.held() == 0

    with_processes(zookeeper_hosts, test)


def test_a_dead_coordinator_is_followed_at_once_though_its_session_lives_on(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process, standby: Process) -> None:
        name = TopicPartition("flights", 0)
        await put_topic(operator, "flights")
        effect = store_of(active.watches.stores[0], offsets={name: committed(5)})
        assert await active.watches.stores[0].store_group(effect) == ev.StoreCommitted(7)
        began = asyncio.get_running_loop().time()
        await active.die()
        loaded, takeover = await standby.is_elected()
        assert asyncio.get_running_loop().time() - began < AT_ONCE_S
        assert loaded.coordinator_epoch == 2
        assert loaded.groups["readers"].offsets == {name: committed(5)}
        assert (takeover.cause, takeover.previous) == ("process_died", active.identity)
        assert takeover.noticed_at_us <= takeover.elected_at_us <= takeover.loaded_at_us
        # It was not dead, it only had closed its port: it learns that it is deposed, and writes nothing.
        await active.is_deposed()
        assert await active.watches.stores[0].store_group(effect) == ev.StoreFenced(7)
        await active.sees(standby.identity)

    with_processes(zookeeper_hosts, test)


def test_a_coordinator_that_stops_hands_over_without_waiting_for_its_session(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process, standby: Process) -> None:
        began = asyncio.get_running_loop().time()
        await active.watches.close()
        loaded, takeover = await standby.is_elected()
        assert asyncio.get_running_loop().time() - began < AT_ONCE_S
        assert loaded.coordinator_epoch == 2
        assert (takeover.cause, takeover.previous) == ("session_ended", active.identity)

    with_processes(zookeeper_hosts, test)


def test_a_coordinator_whose_session_expires_is_deposed_and_stands_by(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process, standby: Process) -> None:
        # Who is elected then is whoever is quicker, which may be the one whose session it was.
        while not standby.elected:
            times = len(active.elected)
            await asyncio.to_thread(expire, active.session, zookeeper_hosts)

            async def is_somebody(times: int = times) -> bool:
                return bool(standby.elected) or len(active.elected) > times

            await until(is_somebody, "one of them is elected")
        await active.is_deposed()
        await active.sees(standby.identity)
        assert active.watches.held() == 0

    with_processes(zookeeper_hosts, test)


def test_a_coordinator_that_is_alone_and_loses_its_session_is_elected_anew(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process) -> None:
        await asyncio.to_thread(expire, active.session, zookeeper_hosts)
        loaded, _ = await active.is_elected(times=2)
        assert active.deposed == [0]
        assert loaded.coordinator_epoch == 2

    with_active(zookeeper_hosts, test)


def test_a_coordinator_whose_znode_an_operator_takes_away_begins_a_new_epoch(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process) -> None:
        await operator.delete(ACTIVE)
        loaded, _ = await active.is_elected(times=2)
        assert active.deposed == [0]
        assert loaded.coordinator_epoch == 2

    with_active(zookeeper_hosts, test)


def test_what_an_earlier_life_of_the_process_left_behind_does_not_hold_it_up(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as earlier, connected(zookeeper_hosts) as session:
            await fix_shard_count(session, 1)
            built = Process(session, 1, 1)
            assert await CoordinatorStore(earlier, 0, 1, built.identity).elect() == 1
            await built.start()
            loaded, _ = await built.is_elected()
            assert loaded.coordinator_epoch == 2
            await built.watches.close()
            await built.die()

    asyncio.run(run())


def test_shards_spread_over_the_processes_that_start_together(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            both = [
                await stack.enter_async_context(process(zookeeper_hosts, n, 8, campaigns=False))
                for n in (1, 2)
            ]
            for each in both:
                each.watches.start()

            async def all_held() -> bool:
                return sum(each.watches.held() for each in both) == 8

            await until(all_held, "every shard has its coordinator")
            assert all(each.watches.held() >= 2 for each in both), [each.watches.held() for each in both]
            dead, left = both
            await dead.die()

            async def inherited() -> bool:
                return left.watches.held() == 8

            await until(inherited, "the one that is left coordinates all shards")

    asyncio.run(run())


# ---- topics and brokers


def test_topics_that_come_and_go_are_told(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process) -> None:
        await put_topic(operator, "flights", 2)
        await active.topic("flights", flights(2))
        await operator.delete(PATH)
        await active.topic("flights", None)

    with_active(zookeeper_hosts, test)


def test_a_topic_that_a_request_names_is_told_by_the_time_that_the_request_is_judged(
    zookeeper_hosts: str,
) -> None:
    """Whoever creates a topic commits an offset of it next: no watch is sooner than that for sure."""

    async def test(operator: ZooKeeperSession, active: Process) -> None:
        for number in range(20):
            name, topic_id = f"new-{number}", bytes(15) + bytes([number + 1])
            await operator.create(TopicZnode.path(name), TopicZnode(topic_id, ((1,),)).encode())
            await active.watches.look_up_topics([name, "never/legal"])
            told: dict[str, Topic | None] = {}
            while not active.topics.empty():
                told.update(active.topics.get_nowait().topics)
            assert told[name] == Topic(name, topic_id, 1)

    with_active(zookeeper_hosts, test)


def test_partitions_of_a_topic_that_is_read_are_told_when_they_are_added(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process) -> None:
        await put_topic(operator, "flights", 2)
        await active.topic("flights", flights(2))
        active.watches.watch_topics(0, WatchTopics(frozenset({"flights", "to come", "to-come"})))
        for partitions in (3, 4):
            grown = TopicZnode(FLIGHTS_ID, ((1,),) * partitions, {1: 5})
            await operator.set(PATH, grown.encode(), partitions - 3)
            await active.topic("flights", Topic("flights", FLIGHTS_ID, partitions, {1: 5}))

    with_active(zookeeper_hosts, test)


def test_a_topic_that_nobody_reads_any_more_is_followed_no_more(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process) -> None:
        await put_topic(operator, "flights", 2)
        other = bytes(15) + b"\2"
        await operator.create(TopicZnode.path("later"), TopicZnode(other, ((1,),)).encode())
        active.watches.watch_topics(0, WatchTopics(frozenset({"flights", "later"})))
        await active.topic("flights", flights(2))
        await active.topic("later", Topic("later", other, 1))
        active.watches.watch_topics(0, WatchTopics(frozenset(), frozenset({"flights"})))
        # One is read after the other: what was still being read when it was unwatched has been told now.
        await operator.set(TopicZnode.path("later"), TopicZnode(other, ((1,),) * 2).encode(), 0)
        await active.topic("later", Topic("later", other, 2))
        await operator.set(PATH, TopicZnode(FLIGHTS_ID, ((1,),) * 3).encode(), 0)
        await operator.set(TopicZnode.path("later"), TopicZnode(other, ((1,),) * 3).encode(), 1)
        grown = Topic("later", other, 3)
        while (event := await active.topics.get()).topics.get("later") != grown:
            assert event.topics.get("flights") in (None, flights(2)), "a change of it is told no more"
        assert "flights" not in event.topics
        active.watches.watch_topics(0, WatchTopics(frozenset({"flights"})))
        await active.topic("flights", Topic("flights", FLIGHTS_ID, 3))

    with_active(zookeeper_hosts, test)


def test_a_topic_that_was_created_again_between_two_looks_is_another_one(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process) -> None:
        await put_topic(operator, "flights", 2)
        await active.topic("flights", flights(2))
        # Nobody reads between the two.
        active.watches.connected.clear()
        await operator.delete(PATH)
        another = bytes(15) + b"\2"
        await operator.create(PATH, TopicZnode(another, ((1,),)).encode())
        active.watches.connected.set()
        await active.topic("flights", Topic("flights", another, 1))

    with_active(zookeeper_hosts, test)


def test_a_topic_that_an_operator_garbles_is_not_told_as_gone_and_is_told_when_corrected(
    zookeeper_hosts: str,
) -> None:
    async def test(operator: ZooKeeperSession, active: Process) -> None:
        await put_topic(operator, "flights", 2)
        active.watches.watch_topics(0, WatchTopics(frozenset({"flights"})))
        await active.topic("flights", flights(2))
        await operator.set(PATH, b"nonsense", 0)
        await operator.create("/brokers/topics/no topic", b"")
        await put_other(operator, "others")
        told = await active.topic("others", Topic("others", bytes(15) + b"\3", 1))
        await operator.set(PATH, TopicZnode(FLIGHTS_ID, ((1,),) * 3).encode(), 1)
        told += await active.topic("flights", flights(3))
        # What it was before may be told twice.
        assert all(event.topics.get("flights", flights(3)) in (flights(2), flights(3)) for event in told)

    with_active(zookeeper_hosts, test)


async def put_other(session: ZooKeeperSession, topic: str) -> None:
    await session.create(TopicZnode.path(topic), TopicZnode(bytes(15) + b"\3", ((1,),)).encode())


def test_a_topic_without_an_id_is_told_once_the_controller_has_given_it_one(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process) -> None:
        await operator.create(PATH, b'{"0":[1]}')
        await put_other(operator, "others")
        await active.topic("others", Topic("others", bytes(15) + b"\3", 1))
        await operator.set(PATH, TopicZnode(FLIGHTS_ID, ((1,),)).encode(), 0)
        await active.topic("flights", flights(1))

    with_active(zookeeper_hosts, test)


def test_brokers_that_come_and_go_are_told(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, active: Process) -> None:
        await operator.create("/brokers/ids/seven", b"")
        await operator.create(BrokerZnode.path(7), BrokerZnode("h", 9, 1).encode())

        async def told(expected: tuple[ev.Endpoint, ...]) -> None:
            async def look() -> bool:
                return active.brokers == expected

            await until(look, f"brokers are {expected}")

        await told((ev.Endpoint(7, "h", 9),))
        await operator.delete(BrokerZnode.path(7))
        await told(())

    with_active(zookeeper_hosts, test)
