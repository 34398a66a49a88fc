"""Every leader that asked ZooKeeper something hears something, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

import pytest
from effect_ports import perform_with
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.core.effects import Effects
from hightide_broker.core.events import (
    Event,
    FollowerFetched,
    IsrStored,
    IsrStoreRefused,
    LeaderAndIsrDecided,
    LeaderAndIsrRead,
    StopRequested,
)
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.isr_state import CommittedIsr
from hightide_broker.core.replica import Replica, ReplicaSettings, Role
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.replica.shell import Payload, ReplicaShell
from hightide_broker.replication.isr_store import IsrStore
from hightide_broker.replication.isr_znodes import LeaderAndIsrZnodes
from hightide_broker.storage import DataDirectory
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.znodes.cluster_znodes import (
    BrokerIncarnationZnode,
    LeaderAndIsrZnode,
    TopicIdZnode,
    TopicZnode,
)
from hightide_runtime.zookeeper.session import (
    BadVersion,
    Check,
    ConnectionLost,
    NoNode,
    Operation,
    SetData,
    Znode,
    ZooKeeperRefused,
    ZooKeeperSession,
)

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(16)
HEARD_S = 20.0
MARKER = TopicIdZnode.path(TOPIC_ID)
TOPIC = TopicZnode.path("flights")


class Znodes:
    """A session with these znodes behind it. Faults are raised by the requests that come first."""

    def __init__(self, partitions: int = 1) -> None:
        self.znodes: dict[str, Znode] = {}
        self.put(TOPIC, TopicZnode(TOPIC_ID, ((1, 2),) * partitions).encode())
        self.put(MARKER, TopicIdZnode("flights").encode())
        self.put(BrokerIncarnationZnode.path(2), b"", 4)
        for partition in range(partitions):
            self.put(self.state_path(partition), LeaderAndIsrZnode(1, 1, (1,), 1).encode(), 1)
        self.faults: list[Exception] = []
        self.read_faults: list[Exception] = []
        self.forbidden: str = ""
        """A path that may be neither read nor written."""
        self.refused_reads: asyncio.Queue[None] = asyncio.Queue()
        self.writes = 0
        self.reads = 0

    @staticmethod
    def state_path(partition: int) -> str:
        return LeaderAndIsrZnode.path("flights", partition)

    def put(self, path: str, data: bytes, version: int = 0) -> None:
        self.znodes[path] = Znode(path, data, version, 1)

    def submit_multi(self, operations: Sequence[Operation]) -> asyncio.Future[tuple[int, ...]]:
        self.writes += 1
        if self.faults and not isinstance(self.faults[-1], ConnectionLost):
            raise self.faults.pop()
        answer: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        failure = self.faults.pop() if self.faults else self._failure(operations)
        if failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(tuple(map(self._apply, operations)))
        return answer

    def _failure(self, operations: Sequence[Operation]) -> Exception | None:
        for operation in operations:
            assert isinstance(operation, Check | SetData)
            znode = self.znodes.get(operation.path)
            if operation.path == self.forbidden:
                return ZooKeeperRefused("no right to write")
            if znode is None:
                return NoNode(operation.path)
            if operation.version not in (-1, znode.version):
                return BadVersion(operation.path)
        return None

    def _apply(self, operation: Operation) -> int:
        if isinstance(operation, SetData):
            self.put(operation.path, operation.data, operation.version + 1)
            return operation.version + 1
        assert isinstance(operation, Check)
        return operation.version

    async def multi_read(self, paths: Sequence[str]) -> dict[str, Znode]:
        self.reads += 1
        if self.read_faults:
            raise self.read_faults.pop()
        if self.forbidden in paths:
            self.refused_reads.put_nowait(None)
            raise ZooKeeperRefused("no right to read")
        return {path: self.znodes[path] for path in paths if path in self.znodes}

    async def sync(self) -> None:
        """They are always the newest."""


class KeptData:
    """The part that removes stopped replicas; here nobody."""

    def stopped(self, replica: HostedReplica, delete: bool) -> None:
        assert not delete, "what is deleted without being told to may be needed yet"


class Leaders(ReplicaShell):
    """Broker 1, which leads partitions of the topic, with broker 2 for a follower of each."""

    def __init__(self, znodes: Znodes, data: DataDirectory) -> None:
        failures: list[Exception] = []
        super().__init__(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        self.store = IsrStore(LeaderAndIsrZnodes(1), SystemClock(), cast(ZooKeeperSession, znodes), self)
        perform_with(self, isr=self.store, stopped=KeptData())
        self._data = data
        self._heard: asyncio.Queue[tuple[HostedReplica, Event]] = asyncio.Queue()

    def lead(self, partition: int, topic_id: bytes = TOPIC_ID) -> HostedReplica:
        topic = TopicSettings()
        leader = HostedReplica(
            (topic_id, partition), "flights", topic, Replica.opened(ReplicaSettings(1)),
            self._data.log(topic_id, partition, True, "flights", topic.log),
        )  # fmt: skip
        self.feed(leader, LeaderAndIsrDecided.dummy(1, 1, (1,), replicas=(1, 2)))
        return leader

    def fetched(self, leader: HostedReplica, incarnation: int = 4) -> None:
        """The follower has everything: the leader asks to take it into the ISR."""
        self.feed(leader, FollowerFetched(2, 1, 0, SystemClock().monotonic_ms(), incarnation))

    def feed(self, replica: HostedReplica, event: Event, payload: Payload | None = None) -> Effects:
        effects = super().feed(replica, event, payload)
        self._heard.put_nowait((replica, event))
        return effects

    async def hears(self, leader: HostedReplica, kind: type[Event]) -> None:
        """Wait until a leader was told this."""
        while True:
            replica, event = await asyncio.wait_for(self._heard.get(), HEARD_S)
            if replica is leader and isinstance(event, kind):
                return


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Znodes, Callable[[Leaders], Awaitable[None]]], None]:
    """Runs a story."""

    def run(znodes: Znodes, story: Callable[[Leaders], Awaitable[None]]) -> None:
        data = DataDirectory.open(tmp_path, "the-cluster", 1)

        async def scenario() -> None:
            leaders = Leaders(znodes, data)
            await story(leaders)
            await leaders.store.close()
            leaders.close()

        asyncio.run(scenario())
        data.close()

    return run


Play = Callable[[Znodes, Callable[[Leaders], Awaitable[None]]], None]


def isr_of(leader: HostedReplica) -> object:
    assert leader.state.leading is not None
    return leader.state.leading.isr


def test_a_leader_whose_isr_write_and_read_fail_unexpectedly_asks_until_it_knows(play: Play) -> None:
    znodes = Znodes()
    znodes.faults = [RuntimeError("a bug")]
    znodes.read_faults = [ZooKeeperRefused("no right to read"), RuntimeError("a bug")]

    async def story(leaders: Leaders) -> None:
        leader = leaders.lead(0)
        leaders.fetched(leader)
        await leaders.hears(leader, IsrStored)
        assert isr_of(leader) == CommittedIsr((1, 2), 2)

    play(znodes, story)


def test_a_leader_of_a_deleted_topic_writes_nothing_into_its_namesake_and_stops(play: Play) -> None:
    """The versions of znodes begin at 0 again, so the leaderAndISR alone cannot tell them apart."""
    znodes = Znodes()
    del znodes.znodes[MARKER]
    znodes.put(TOPIC, TopicZnode(OTHER_ID, ((1, 2),)).encode())
    znodes.put(TopicIdZnode.path(OTHER_ID), TopicIdZnode("flights").encode())
    before = znodes.znodes[znodes.state_path(0)]

    async def story(leaders: Leaders) -> None:
        leader = leaders.lead(0)
        leaders.fetched(leader)
        await leaders.hears(leader, StopRequested)
        assert leader.state.role is Role.STOPPED

    play(znodes, story)
    assert znodes.znodes[znodes.state_path(0)] is before


@pytest.mark.parametrize("left", [None, TopicZnode(TOPIC_ID, ((1, 2),)).encode()], ids=["topic", "partition"])
def test_a_leader_whose_topic_or_partition_is_gone_stops(play: Play, left: bytes | None) -> None:
    znodes = Znodes(partitions=2)
    del znodes.znodes[znodes.state_path(1)]
    if left is None:
        del znodes.znodes[TOPIC], znodes.znodes[MARKER]
    else:
        znodes.put(TOPIC, left)

    async def story(leaders: Leaders) -> None:
        leader = leaders.lead(1)
        leaders.fetched(leader)
        await leaders.hears(leader, StopRequested)

    play(znodes, story)


@pytest.mark.parametrize("first", [TOPIC_ID, OTHER_ID], ids=["the new one first", "the deleted one first"])
def test_a_deleted_topic_takes_no_answer_from_one_of_its_name(play: Play, first: bytes) -> None:
    """Both are led here, and both write at one moment. The new one waited for ever."""

    async def story(leaders: Leaders) -> None:
        led = {topic_id: leaders.lead(0, topic_id) for topic_id in (TOPIC_ID, OTHER_ID)}
        for leader in (led[first], *led.values()):
            leaders.fetched(leader)
        await leaders.hears(led[TOPIC_ID], IsrStored)
        assert isr_of(led[TOPIC_ID]) == CommittedIsr((1, 2), 2)

    play(Znodes(), story)


def test_a_topic_that_is_not_marked_yet_is_waited_for(play: Play) -> None:
    """One from before there were markers, or made by hand: the controller marks it when it sees it."""
    znodes = Znodes()
    marker = znodes.znodes.pop(MARKER)

    async def story(leaders: Leaders) -> None:
        leader = leaders.lead(0)
        leaders.fetched(leader)
        for _ in range(2):
            await leaders.hears(leader, IsrStoreRefused)
        znodes.znodes[MARKER] = marker
        await leaders.hears(leader, IsrStored)

    play(znodes, story)


def test_one_isr_that_may_not_be_written_holds_up_no_other(play: Play) -> None:
    znodes = Znodes(partitions=2)
    znodes.forbidden = znodes.state_path(0)

    async def story(leaders: Leaders) -> None:
        forbidden, other = leaders.lead(0), leaders.lead(1)
        leaders.fetched(forbidden)
        leaders.fetched(other)
        await leaders.hears(other, IsrStored)

    play(znodes, story)


def test_what_cannot_be_written_is_tried_less_and_less_often(play: Play) -> None:
    znodes = Znodes()
    znodes.forbidden = znodes.state_path(0)

    async def story(leaders: Leaders) -> None:
        leader = leaders.lead(0)
        started = asyncio.get_running_loop().time()
        leaders.fetched(leader)
        for _ in range(4):
            await asyncio.wait_for(znodes.refused_reads.get(), HEARD_S)
        # At once, then after 0.2 and 0.4 s: it was 50 times a second.
        assert asyncio.get_running_loop().time() - started > 0.5
        znodes.forbidden = ""
        await leaders.hears(leader, IsrStored)

    play(znodes, story)


def test_a_write_whose_outcome_was_lost_is_read_at_once(play: Play) -> None:
    znodes = Znodes()
    znodes.faults = [ConnectionLost("it broke", outcome_unknown=True)]

    async def story(leaders: Leaders) -> None:
        leader = leaders.lead(0)
        leaders.fetched(leader)
        await leaders.hears(leader, IsrStored)
        assert (znodes.writes, znodes.reads) == (2, 2), "the marker is read once"

    play(znodes, story)


def test_a_server_that_lags_behind_what_a_follower_has_heard_is_asked_less_and_less_often(play: Play) -> None:
    znodes = Znodes()

    async def story(leaders: Leaders) -> None:
        leader = leaders.lead(0)
        started = asyncio.get_running_loop().time()
        leaders.feed(leader, FollowerFetched(2, 1, 0, SystemClock().monotonic_ms(), 4, partition_epoch=3))
        for _ in range(4):
            await leaders.hears(leader, LeaderAndIsrRead)
        assert asyncio.get_running_loop().time() - started > 0.15
        assert znodes.writes == 0
        znodes.put(znodes.state_path(0), LeaderAndIsrZnode(1, 1, (1,), 1).encode(), 3)
        await leaders.hears(leader, IsrStored)
        assert isr_of(leader) == CommittedIsr((1, 2), 4)

    play(znodes, story)


def test_a_leader_of_a_removed_partition_writes_nothing_into_the_one_that_has_its_number(play: Play) -> None:
    znodes = Znodes()
    znodes.put(TOPIC, TopicZnode(TOPIC_ID, ((1, 2),), {0: 2}).encode(), 3)

    async def story(leaders: Leaders) -> None:
        leader = leaders.lead(0)
        leaders.fetched(leader)
        await leaders.hears(leader, LeaderAndIsrRead)
        assert znodes.writes == 0

    play(znodes, story)


def test_after_partitions_of_the_topic_were_removed_the_marker_is_read_again(play: Play) -> None:
    znodes = Znodes(partitions=2)

    async def story(leaders: Leaders) -> None:
        first, second = leaders.lead(0), leaders.lead(1)
        leaders.fetched(first)
        await leaders.hears(first, IsrStored)
        znodes.put(MARKER, TopicIdZnode("flights").encode(), 1)
        leaders.fetched(second)
        await leaders.hears(second, LeaderAndIsrRead)
        await leaders.hears(second, IsrStored)

    play(znodes, story)


def test_a_follower_that_started_again_does_not_join_by_the_word_of_its_earlier_life(play: Play) -> None:
    znodes = Znodes(partitions=2)

    async def story(leaders: Leaders) -> None:
        stale, fresh = leaders.lead(0), leaders.lead(1)
        leaders.fetched(fresh, incarnation=4)
        leaders.fetched(stale, incarnation=3)
        await leaders.hears(fresh, IsrStored)
        await leaders.hears(stale, LeaderAndIsrRead)
        assert isr_of(stale) == CommittedIsr((1,), 1)
        leaders.fetched(stale, incarnation=4)
        await leaders.hears(stale, IsrStored)
        assert isr_of(stale) == CommittedIsr((1, 2), 2)

    play(znodes, story)
