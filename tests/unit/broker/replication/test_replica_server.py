"""The leader's side of replication: what one round's answer holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from adversary.batches import good_batch
from effect_ports import perform_with
from hand_clock import HandClock
from held_threads import HeldThreads
from hightide.batch.header import iterate
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.contract.replica_calls import Follower, ReplicaFetchCall
from hightide_broker.core.effects import StoreIsr
from hightide_broker.core.events import DeleteRecordsArrived, LeaderAndIsrDecided, ProduceArrived
from hightide_broker.core.fetch_session import FollowerPosition, LeaderSessions, SessionRequest
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Payload, ReplicaShell
from hightide_broker.replication.cold_reads import READS_MAX
from hightide_broker.replication.replica_server import ReplicaServer
from hightide_broker.storage import DamagedLog, DataDirectory, DirectorySettings
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.answer_budget import AnswerBudget
from hightide_runtime.serving.fair_limit import Holder
from hightide_runtime.serving.interceptors.interceptor import Plane
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry

TOPIC_ID = bytes(range(16))
FOLLOWER = Follower("the-cluster", 2, 7, 0)
PEER = Holder("ipv4:127.0.0.1:50001")
OTHER_PEER = Holder("ipv4:127.0.0.1:50002")
ANSWER_BYTES_MAX = 64 << 20
KEYS = ((TOPIC_ID, 0), (TOPIC_ID, 1))


def leader(
    data: DataDirectory, shell: ReplicaShell, partition: int, value: bytes, isr: tuple[int, ...] = (1, 2)
) -> HostedReplica:
    """A leader that has one record, and broker 2 for a follower."""
    topic = TopicSettings()
    replica = HostedReplica(
        (TOPIC_ID, partition), "flights", topic, Replica.opened(ReplicaSettings(1)),
        data.log(TOPIC_ID, partition, True, "flights", topic.log),
    )  # fmt: skip
    shell.feed(replica, LeaderAndIsrDecided.dummy(1, 1, isr, replicas=(1, 2)))
    produce(shell, replica, value)
    return replica


def produce(shell: ReplicaShell, replica: HostedReplica, value: bytes) -> None:
    """Append one record."""
    batch = good_batch(TOPIC_ID, replica.key[1], (value,))
    headers = [header for _, header in iterate(batch)]
    shell.feed(replica, ProduceArrived.dummy(acks_all=False), Payload(batch, headers))


class LeaderBroker:
    """Broker 1, whose partitions broker 2 follows in one session: some in sync, some because of a move."""

    def __init__(self, data: DataDirectory) -> None:
        failures: list[Exception] = []
        self._data = data
        self.clock = HandClock(now_ms=0)
        sessions: LeaderSessions[tuple[bytes, int]] = LeaderSessions(1)
        self.shell = ReplicaShell(self.clock, sessions, Telemetry.off(), failures.append)
        perform_with(self.shell, isr=NoZooKeeper(), log_starts=NoLogStartFile())
        self._hosted = HostedReplicas()
        self.reads = HeldThreads()
        self.answers = AnswerBudget(Plane.CONTROL, ANSWER_BYTES_MAX)
        self.server = ReplicaServer(
            "the-cluster", self.clock, self._hosted, sessions, self.shell, self.reads, self.answers
        )
        self._session_id = 0
        self._round = 0
        self.told_log_starts: dict[int, int] = {}
        self.replicas: list[HostedReplica] = []

    def leads(self, *, moves: bool = False, value: bytes = b"x") -> None:
        """Lead one more partition, with one record."""
        replica = leader(self._data, self.shell, len(self.replicas), value, (1,) if moves else (1, 2))
        if moves:
            replica.adding_replicas = frozenset({2})
        self.replicas.append(replica)
        self._hosted.add(replica)

    async def round(self, *moved: tuple[int, int], wait_ms: int = 0) -> dict[int, int]:
        """One round, in which these partitions are at these offsets: the bytes sent of each that was sent."""
        positions = tuple(((TOPIC_ID, partition), FollowerPosition(1, offset)) for partition, offset in moved)
        request = SessionRequest(self._session_id, self._round, positions, ())
        answer = await self.server.fetch(ReplicaFetchCall(FOLLOWER, request, wait_ms, 1_000_000), PEER)
        self._session_id, self._round = answer.session_id, self._round + 1
        self.told_log_starts = {each.partition: each.log_start_offset for each in answer.partitions}
        assert [each.error_code for each in answer.partitions if each.error_code] == []
        return {each.partition: sum(map(len, each.batches)) for each in answer.partitions if each.batches}


class NoZooKeeper:
    """It never answers."""

    def __init__(self) -> None:
        self.read_of: list[HostedReplica] = []

    def store(self, replica: HostedReplica, effect: StoreIsr) -> None: ...

    def read(self, replica: HostedReplica) -> None:
        self.read_of.append(replica)


class NoLogStartFile:
    """Where logs begin is in memory alone."""

    def moved(self, replica: HostedReplica) -> None: ...


COLD = bytes(20_000)
"""The value of a record that is too large to be kept in memory."""


def lead(tmp_path: Path, story: Callable[[LeaderBroker], Awaitable[None]]) -> None:
    data = DataDirectory.open(
        tmp_path, "the-cluster", 1, DirectorySettings(tail_bytes_per_log_max=len(COLD) // 2)
    )

    async def scenario() -> None:
        broker = LeaderBroker(data)
        await story(broker)
        broker.server.close()
        broker.shell.close()

    asyncio.run(scenario())
    data.close()


@pytest.mark.parametrize(
    ("follower", "refusal"),
    [
        (Follower("another-cluster", 2, 7, 0), ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID),
        (Follower("the-cluster", 2, 6, 0), ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH),
        (Follower("the-cluster", 2, 7, -1), ErrorCode.ERROR_CODE_INVALID_REQUEST),
    ],
)
def test_another_cluster_or_an_earlier_life_of_a_follower_is_not_heard(
    tmp_path: Path, follower: Follower, refusal: ErrorCode.ValueType
) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads()
        await broker.round((0, 0))
        opening = SessionRequest(0, 0, (((TOPIC_ID, 0), FollowerPosition(1, 1)),), ())
        with pytest.raises(ServiceError) as refused:
            await broker.server.fetch(ReplicaFetchCall(follower, opening, 0, 1_000_000), PEER)
        assert refused.value.code == refusal
        # What it says that it has would have committed the record.
        assert broker.replicas[0].state.high_watermark == 0

    lead(tmp_path, story)


def test_a_follower_that_has_heard_of_a_newer_isr_has_it_read_and_commits_nothing(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads()
        zookeeper = NoZooKeeper()
        perform_with(broker.shell, isr=zookeeper)
        opening = SessionRequest(0, 0, (((TOPIC_ID, 0), FollowerPosition(1, 1, partition_epoch=2)),), ())
        await broker.server.fetch(ReplicaFetchCall(FOLLOWER, opening, 0, 1_000_000), PEER)
        assert zookeeper.read_of == broker.replicas
        assert broker.replicas[0].state.high_watermark == 0

    lead(tmp_path, story)


def test_the_speed_limit_of_moves_holds_back_no_partition_that_is_in_sync(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads(moves=True)
        broker.leads()
        broker.server.limit_moves(1000)
        assert list(await broker.round((0, 0), (1, 0))) == [1]
        assert list(await broker.round((1, 0))) == [1]
        broker.clock.now_ms = 1000
        assert list(await broker.round((1, 0))) == [1, 0]

    lead(tmp_path, story)


def test_a_replica_that_catches_up_without_being_moved_is_never_slowed(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads(moves=True)
        broker.replicas[0].adding_replicas = frozenset({3})
        broker.server.limit_moves(1)
        assert list(await broker.round((0, 0))) == [0]

    lead(tmp_path, story)


def test_a_moved_replica_that_may_be_in_the_isr_is_not_slowed_any_more(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads(moves=True)
        broker.server.limit_moves(1)
        assert await broker.round((0, 0)) == {}
        # It has everything, so its leader asks ZooKeeper to take it in; then comes one more record.
        await broker.round((0, 1))
        produce(broker.shell, broker.replicas[0], b"more")
        assert list(await broker.round((0, 1))) == [0]

    lead(tmp_path, story)


def test_partitions_that_are_moved_take_turns_within_the_limit(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        for _ in range(3):
            broker.leads(moves=True, value=bytes(2000))
        broker.server.limit_moves(1000)
        assert await broker.round((0, 0), (1, 0), (2, 0)) == {}
        sent = []
        for broker.clock.now_ms in range(5_000, 35_000, 5_000):
            answered = list(await broker.round())
            sent += answered
            # The follower has them, and would have more of the same partition at once.
            await broker.round(*((partition, 0) for partition in answered))
        assert sent == [0, 1, 2, 0, 1, 2]

    lead(tmp_path, story)


def test_a_round_that_waits_for_the_limit_is_woken_when_it_is_lifted(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads(moves=True)
        broker.server.limit_moves(1)
        assert await broker.round((0, 0)) == {}
        waiting = asyncio.create_task(broker.round(wait_ms=30_000))
        await asyncio.sleep(0)
        broker.server.limit_moves(0)
        assert list(await asyncio.wait_for(waiting, 20)) == [0]

    lead(tmp_path, story)


def test_a_round_that_waits_for_the_limit_is_woken_when_there_is_room_again(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads(moves=True)
        broker.server.limit_moves(1_000_000)
        assert await broker.round((0, 0)) == {}
        broker.clock.now_ms = 1000
        assert list(await asyncio.wait_for(broker.round(wait_ms=30_000), 20)) == [0]

    lead(tmp_path, story)


async def turns_of_the_loop() -> None:
    """Let callbacks of what has finished run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_is_only_on_disk_holds_up_nothing_that_is_in_memory(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads(value=COLD)
        broker.leads()
        assert list(await broker.round((0, 0), (1, 0))) == [1]
        assert list(await broker.round((1, 0))) == [1]
        assert len(broker.reads) == 1, "it is read once"
        broker.reads.go_on()
        await turns_of_the_loop()
        assert list(await broker.round()) == [0]

    lead(tmp_path, story)


def test_a_round_that_waits_is_woken_when_the_disk_has_answered(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads(value=COLD)
        assert await broker.round((0, 0)) == {}
        waiting = asyncio.create_task(broker.round(wait_ms=30_000))
        await turns_of_the_loop()
        assert not waiting.done()
        broker.reads.go_on()
        answer = await asyncio.wait_for(waiting, 20)
        assert answer[0] > len(COLD)

    lead(tmp_path, story)


def test_a_follower_that_goes_elsewhere_meanwhile_is_not_sent_what_was_read_for_it_before(
    tmp_path: Path,
) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads(value=COLD)
        produce(broker.shell, broker.replicas[0], COLD)
        assert await broker.round((0, 0)) == {}
        assert await broker.round((0, 1)) == {}
        broker.reads.go_on()
        await turns_of_the_loop()
        assert await broker.round() == {}
        broker.reads.go_on()
        await turns_of_the_loop()
        (size_bytes,) = (await broker.round()).values()
        assert size_bytes < 2 * len(COLD)

    lead(tmp_path, story)


def test_few_reads_are_under_way_and_all_partitions_get_theirs(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        for _ in range(READS_MAX + 3):
            broker.leads(value=COLD)
        assert await broker.round(*((partition, 0) for partition in range(READS_MAX + 3))) == {}
        sent: list[int] = []
        while len(sent) < READS_MAX + 3:
            assert 0 < len(broker.reads) <= READS_MAX
            broker.reads.go_on()
            await turns_of_the_loop()
            sent += await broker.round()
            await broker.round(*((partition, 1) for partition in sent))
        assert sorted(sent) == list(range(READS_MAX + 3))

    lead(tmp_path, story)


def test_moves_that_wait_for_the_limit_take_no_place_from_what_catches_up(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        for _ in range(READS_MAX):
            broker.leads(moves=True, value=COLD)
        broker.leads(value=COLD)
        broker.server.limit_moves(1000)
        broker.clock.now_ms = 1000
        assert await broker.round(*((partition, 0) for partition in range(READS_MAX + 1))) == {}
        broker.reads.go_on()
        await turns_of_the_loop()
        assert sorted(await broker.round()) == [0, READS_MAX]
        broker.clock.now_ms = 10_000
        assert await broker.round() == {}
        broker.clock.now_ms = 60_000
        assert await broker.round() == {}
        broker.reads.go_on()
        await turns_of_the_loop()
        (sent,) = await broker.round()
        assert 0 < sent < READS_MAX

    lead(tmp_path, story)


def damage(data_directory: Path) -> None:
    """Turn a byte of partition 0 over; another time, back."""
    (segment,) = data_directory.glob(f"{TOPIC_ID.hex()}-0/*.log")
    content = bytearray(segment.read_bytes())
    content[16] ^= 0xFF
    segment.write_bytes(content)


def test_a_log_start_that_moves_between_two_rounds_is_told_with_the_next(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads()
        await broker.round((0, 0))
        await broker.round((0, 1))
        assert broker.told_log_starts == {0: 0}, "the high watermark was new"
        broker.shell.feed(broker.replicas[0], DeleteRecordsArrived(1))
        await broker.round()
        assert broker.told_log_starts == {0: 1}

    lead(tmp_path, story)


def test_a_log_that_cannot_be_read_refuses_its_partition_alone(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads(value=COLD)
        broker.leads()
        damage(tmp_path)
        positions = tuple((key, FollowerPosition(1, 0)) for key in KEYS)
        call = ReplicaFetchCall(FOLLOWER, SessionRequest(0, 0, positions, ()), 0, 1_000_000)
        answer = await broker.server.fetch(call, PEER)
        assert [each.partition for each in answer.partitions] == [1]
        broker.reads.go_on()
        await turns_of_the_loop()
        call = ReplicaFetchCall(FOLLOWER, SessionRequest(answer.session_id, 1, (), ()), 0, 1_000_000)
        (damaged,) = (await broker.server.fetch(call, PEER)).partitions
        assert (damaged.partition, damaged.error_code) == (0, DamagedLog.code)
        damage(tmp_path)

    lead(tmp_path, story)


def test_a_batch_that_does_not_fit_beside_the_others_comes_alone_in_the_next_round(tmp_path: Path) -> None:
    # Else the answer could be larger than a gRPC message may be, and so it would be each time.
    data = DataDirectory.open(tmp_path, "the-cluster", 1)

    async def scenario() -> None:
        failures: list[Exception] = []
        sessions: LeaderSessions[tuple[bytes, int]] = LeaderSessions(1)
        shell = ReplicaShell(SystemClock(), sessions, Telemetry.off(), failures.append)
        hosted = HostedReplicas()
        hosted.add(leader(data, shell, 0, b"small"))
        hosted.add(leader(data, shell, 1, bytes(5_000)))
        server = ReplicaServer(
            "the-cluster", SystemClock(), hosted, sessions, shell, HeldThreads(),
            AnswerBudget(Plane.CONTROL, ANSWER_BYTES_MAX),
        )  # fmt: skip
        everything = tuple((key, FollowerPosition(1, 0)) for key in KEYS)
        opened = await server.fetch(
            ReplicaFetchCall(FOLLOWER, SessionRequest(0, 0, everything, ()), 10_000, 1_000), PEER
        )
        assert [each.partition for each in opened.partitions if each.batches] == [0]
        moved = ((KEYS[0], FollowerPosition(1, 1)),)
        request = SessionRequest(opened.session_id, 1, moved, ())
        answer = await server.fetch(ReplicaFetchCall(FOLLOWER, request, 10_000, 1_000), PEER)
        assert [each.partition for each in answer.partitions if each.batches] == [1]
        shell.close()

    asyncio.run(scenario())
    data.close()


# -- answers that are not read


def fill(broker: LeaderBroker, peer: Holder) -> int:
    """Answers that a connection does not read, so many that nothing is left for anybody."""
    size_bytes = broker.answers.limit - broker.answers.taken
    broker.answers.count(peer, size_bytes)
    return size_bytes


def test_a_follower_that_reads_its_answers_gets_a_batch_whatever_others_do_not_read(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads()
        broker.leads()
        fill(broker, OTHER_PEER)
        first = await broker.round((0, 0), (1, 0))
        second = await broker.round()
        assert (list(first), list(second)) == ([0], [1])

    lead(tmp_path, story)


def test_a_follower_that_does_not_read_waits_for_room_and_is_never_refused(tmp_path: Path) -> None:
    async def story(broker: LeaderBroker) -> None:
        broker.leads()
        unread = fill(broker, PEER)
        assert await broker.round((0, 0)) == {}, "the session is opened all the same"
        waiting = asyncio.create_task(broker.round(wait_ms=30_000))
        await turns_of_the_loop()
        assert not waiting.done()
        broker.answers.give_back(PEER, unread)
        assert list(await asyncio.wait_for(waiting, 20)) == [0]

    lead(tmp_path, story)
