"""The follower's side of replication asks what it must, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest
from adversary.batches import good_batch
from effect_ports import perform_with
from held_threads import HeldThreads
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.contract.replica_calls import Follower
from hightide_broker.core.effects import AppendFetched, AskEpochEnd, Effects
from hightide_broker.core.events import BatchesReceived, BatchSpan, Event, LeaderAndIsrDecided, StopRequested
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.machine import step
from hightide_broker.core.replica import Replica, ReplicaSettings, Role
from hightide_broker.replica.group_commit import GroupCommit
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Payload, ReplicaShell
from hightide_broker.replication.fetchers import Fetchers, FetchSettings, LeaderFetcher
from hightide_broker.storage import DataDirectory, DiskFull
from hightide_local.processes.ports import free_port
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry
from stored_batches import as_sent_by_leader

TOPIC_ID = bytes(range(16))
ASKED_S = 60.0


def truncating(data: DataDirectory) -> HostedReplica:
    """A replica that has records of epoch 1 and is to follow broker 1 in epoch 2."""
    state = Replica.opened(ReplicaSettings(2, flush_on_disk=True))
    for event in (
        LeaderAndIsrDecided.dummy(leader=1, leader_epoch=1),
        BatchesReceived(1, 1, (BatchSpan(0, 3, 1),), 0, 0),
        LeaderAndIsrDecided.dummy(leader=1, leader_epoch=2),
    ):
        state, _ = step(state, event)
    assert state.role is Role.TRUNCATING
    settings = TopicSettings()
    return HostedReplica(
        (TOPIC_ID, 0), "flights", settings, state, data.log(TOPIC_ID, 0, True, "flights", settings.log)
    )


async def leader_that_tells(
    asked: asyncio.Queue[int], epoch: int, may_answer: asyncio.Event
) -> tuple[grpc.aio.Server, HostPort]:
    """A leader that notes under which epochs it is asked, and tells where `epoch` ended."""

    async def answer(request: bytes, context: object) -> bytes:
        answered = replica_pb2.EndOffsetForLeaderEpochResponse()
        for each in replica_pb2.EndOffsetForLeaderEpochRequest.FromString(request).partitions:
            asked.put_nowait(each.current_leader_epoch)
            answered.partitions.add(topic_id=each.topic_id, partition=0, epoch=epoch, end_offset=3)
        await may_answer.wait()
        return answered.SerializeToString()

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "hightide.v1.ReplicaService", {"EndOffsetForLeaderEpoch": handler}
            ),
        )
    )
    address = HostPort("127.0.0.1", server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    return server, address


async def leader_that_notes(asked: asyncio.Queue[int]) -> tuple[grpc.aio.Server, HostPort]:
    """A leader that is asked where epochs end, and never answers."""

    async def note(request: bytes, context: object) -> bytes:
        for each in replica_pb2.EndOffsetForLeaderEpochRequest.FromString(request).partitions:
            asked.put_nowait(each.epoch)
        await asyncio.Event().wait()
        return b""

    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "EndOffsetForLeaderEpoch": grpc.unary_unary_rpc_method_handler(note)
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("hightide.v1.ReplicaService", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, HostPort("127.0.0.1", port)


class Leader:
    """A leader of epoch 1 that sends one record at a time, up to offset 3, and then nothing for a while.

    Partition 0 is sent what `make` gives, the others good batches.
    """

    def __init__(self, make: Callable[[int], bytes]) -> None:
        self._make = make
        self._next_round = asyncio.Event()

    async def fetch(self, request: bytes, context: object) -> bytes:
        self._next_round.set()
        self._next_round = next_round = asyncio.Event()
        asked = replica_pb2.ReplicaFetchRequest.FromString(request)
        answer = replica_pb2.ReplicaFetchResponse(session_id=7)
        for each in asked.moved:
            if each.fetch_offset >= 3:
                continue
            make = self._make if each.partition == 0 else record_of(each.partition)
            answer.partitions.add(
                topic_id=each.topic_id, partition=each.partition, leader_epoch=1,
                high_watermark=each.fetch_offset, log_start_offset=2, batches=make(each.fetch_offset),
            )  # fmt: skip
        if not answer.partitions and asked.round > 0:
            await next_round.wait()
        return answer.SerializeToString()


def record_of(partition: int) -> Callable[[int], bytes]:
    """Makes the batch with one record that a leader of epoch 1 has at an offset."""

    def make(offset: int) -> bytes:
        return as_sent_by_leader(good_batch(TOPIC_ID, partition), offset, 1)

    return make


def damaged(offset: int) -> bytes:
    good = bytearray(record_of(0)(offset))
    good[-1] ^= 1
    return bytes(good)


class NothingToLetGoOf:
    """The part that removes stopped replicas."""

    def stopped(self, replica: HostedReplica, delete: bool) -> None: ...


class NothingToWriteDown:
    """Whoever writes down where logs begin."""

    def moved(self, replica: HostedReplica) -> None: ...


class Following(ReplicaShell):
    """Two empty partitions that are to follow broker 1."""

    def __init__(self, data: DataDirectory, leader: HostPort) -> None:
        failures: list[Exception] = []
        super().__init__(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        self.hosted = HostedReplicas()
        settings = FetchSettings(500, 1 << 20, lambda: Follower("c", 2, 7), lambda _: leader, registered)
        self.fetchers = Fetchers(self.hosted, self, settings, open_channel)
        perform_with(
            self, fetching=self.fetchers, stopped=NothingToLetGoOf(), log_starts=NothingToWriteDown()
        )
        self._copied = asyncio.Event()
        self.replicas = [self._empty(data, partition) for partition in (0, 1)]

    def _empty(self, data: DataDirectory, partition: int) -> HostedReplica:
        topic = TopicSettings()
        replica = HostedReplica(
            (TOPIC_ID, partition), "flights", topic, Replica.opened(ReplicaSettings(2)),
            data.log(TOPIC_ID, partition, True, "flights", topic.log),
        )  # fmt: skip
        self.hosted.add(replica)
        return replica

    def begin(self) -> None:
        """Follow."""
        for replica in self.replicas:
            self.feed(replica, LeaderAndIsrDecided.dummy(leader=1, leader_epoch=1))

    def feed(self, replica: HostedReplica, event: Event, payload: Payload | None = None) -> Effects:
        effects = super().feed(replica, event, payload)
        self._copied.set()
        return effects

    async def copies(self, partition: int, end_offset: int) -> None:
        """Wait until the log of a partition has come so far."""

        async def grows() -> None:
            while self.replicas[partition].log.log_end_offset < end_offset:
                self._copied.clear()
                await self._copied.wait()

        await asyncio.wait_for(grows(), ASKED_S)


async def leader_that_sends(make: Callable[[int], bytes]) -> tuple[grpc.aio.Server, HostPort]:
    """A `Leader` at an address of its own."""
    return await leader_that_answers(Leader(make).fetch)


async def leader_that_answers(
    fetch: Callable[[bytes, object], Awaitable[bytes]],
) -> tuple[grpc.aio.Server, HostPort]:
    """What answers ReplicaFetch, at an address of its own."""
    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "ReplicaFetch": grpc.unary_unary_rpc_method_handler(fetch)
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("hightide.v1.ReplicaService", handlers),)
    )
    address = HostPort("127.0.0.1", server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    return server, address


def follow(
    tmp_path: Path, make: Callable[[int], bytes], story: Callable[[Following], Awaitable[None]]
) -> None:
    """Two empty partitions follow a leader; partition 0 is sent what `make` makes."""
    data = DataDirectory.open(tmp_path, "the-cluster", 2)

    async def scenario() -> None:
        server, address = await leader_that_sends(make)
        following = Following(data, address)
        try:
            await story(following)
        finally:
            await following.fetchers.close()
            following.close()
            await server.stop(None)

    asyncio.run(scenario())
    data.close()


def test_a_leader_that_comes_up_late_is_followed_at_the_address_that_it_has_then(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path, "the-cluster", 2)

    async def scenario() -> None:
        known = [HostPort("127.0.0.1", free_port())]
        looked_up = asyncio.Event()

        def address_of(_: int) -> HostPort:
            looked_up.set()
            return known[-1]

        following = Following(data, known[0])
        settings = FetchSettings(500, 1 << 20, lambda: Follower("c", 2, 7), address_of, registered)
        following.fetchers = Fetchers(following.hosted, following, settings, open_channel)
        perform_with(following, fetching=following.fetchers)
        following.begin()
        await asyncio.wait_for(looked_up.wait(), ASKED_S)
        server, address = await leader_that_sends(record_of(0))
        known.append(address)
        await following.copies(1, 3)
        await following.fetchers.close()
        following.close()
        await server.stop(None)

    asyncio.run(scenario())
    data.close()


def test_a_partition_whose_leader_sends_damaged_batches_stops_no_other(tmp_path: Path) -> None:
    async def story(following: Following) -> None:
        following.begin()
        await following.copies(1, 3)
        assert list(following.fetchers.failed()) == [following.replicas[0].key]
        assert following.replicas[0].log.log_end_offset == 0

    follow(tmp_path, damaged, story)


PAUSES_S = (0.01, 0.02, 0.04, 0.08, 0.16)


def test_a_partition_that_is_refused_for_long_is_asked_for_less_and_less_often(tmp_path: Path) -> None:
    """Though others, which have the same leader, are answered in between."""

    async def story(following: Following) -> None:
        append = following.performs[AppendFetched]
        unlucky = following.replicas[0]
        tried_s: list[float] = []

        def append_on_a_full_disk(replica: HostedReplica, effect: Any, payload: Payload | None) -> None:
            if replica is unlucky:
                tried_s.append(asyncio.get_running_loop().time())
                if len(tried_s) < 6:
                    raise DiskFull("no room")
            append(replica, effect, payload)

        following.performs[AppendFetched] = append_on_a_full_disk
        following.begin()
        await following.copies(0, 1)
        # A busy machine makes a pause longer, never shorter.
        waited_s = [later - earlier for earlier, later in pairwise(tried_s[:6])]
        assert [waited > 0.9 * pause for waited, pause in zip(waited_s, PAUSES_S, strict=True)] == [True] * 5

    follow(tmp_path, record_of(0), story)


def test_a_partition_that_meets_a_bug_stops_no_other_and_goes_on_when_it_is_over(tmp_path: Path) -> None:
    async def story(following: Following) -> None:
        append = following.performs[AppendFetched]
        unlucky = following.replicas[0]
        mended = asyncio.Event()

        def append_with_a_bug(replica: HostedReplica, effect: Any, payload: Payload | None) -> None:
            if replica is unlucky and not mended.is_set():
                raise RuntimeError("a bug")
            append(replica, effect, payload)

        following.performs[AppendFetched] = append_with_a_bug
        following.begin()
        await following.copies(1, 3)
        assert unlucky.log.log_end_offset == unlucky.state.log_end_offset == 0
        mended.set()
        await following.copies(0, 3)
        assert not following.fetchers.failed()

    follow(tmp_path, record_of(0), story)


def test_a_follower_hears_where_its_leader_s_log_starts(tmp_path: Path) -> None:
    """It lets nobody read what lies before, so that the replicas of a partition start alike."""

    async def story(following: Following) -> None:
        following.begin()
        await following.copies(0, 3)
        replica = following.replicas[0]
        assert (replica.state.log_start_offset, replica.log.log_start_offset) == (2, 2)

    follow(tmp_path, record_of(0), story)


def test_a_follower_knows_the_start_of_its_leader_s_log_before_it_has_the_records(tmp_path: Path) -> None:
    """Retention goes by it, on a thread of its own: that of the leader before may lie behind records which
    are others now, and not deleted."""

    async def story(following: Following) -> None:
        starts: list[int] = []
        append = following.performs[AppendFetched]

        def note_and_append(replica: HostedReplica, effect: Any, payload: Payload | None) -> None:
            if replica is following.replicas[0]:
                starts.append(replica.leaders_log_start)
            append(replica, effect, payload)

        following.performs[AppendFetched] = note_and_append
        following.replicas[0].leaders_log_start = 9
        following.begin()
        await following.copies(0, 3)
        assert set(starts) == {2}

    follow(tmp_path, record_of(0), story)


def test_a_follower_names_a_position_when_what_lies_before_it_is_on_its_disk(tmp_path: Path) -> None:
    """Where flush=fsync: for its leader, what a follower names is what it has."""

    async def story(following: Following) -> None:
        disk = HeldThreads()
        failures: list[Exception] = []
        rounds = GroupCommit[HostedReplica](disk, following.flushed, failures.append)
        perform_with(following, group_commit=rounds)
        synced, other = following.replicas
        synced.state = Replica.opened(ReplicaSettings(2, flush_on_disk=True))
        following.begin()
        await following.copies(other.key[1], 3)
        # Three rounds went by, and the leader sends what follows on a position that is named.
        assert synced.log.log_end_offset == 1
        disk.go_on()
        await following.copies(synced.key[1], 2)
        assert failures == []

    follow(tmp_path, record_of(0), story)


def test_a_follower_tells_of_the_newest_decision_that_it_has_heard(tmp_path: Path) -> None:
    """By that its leader finds out that another ISR is stored than it knows."""
    data = DataDirectory.open(tmp_path, "the-cluster", 2)
    told: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

    async def note(request: bytes, context: object) -> bytes:
        asked = replica_pb2.ReplicaFetchRequest.FromString(request)
        for each in asked.moved:
            told.put_nowait((each.partition, each.partition_epoch))
        if asked.round > 0:
            await asyncio.Event().wait()
        return replica_pb2.ReplicaFetchResponse(session_id=7).SerializeToString()

    async def scenario() -> None:
        server, address = await leader_that_answers(note)
        following = Following(data, address)
        following.feed(following.replicas[0], LeaderAndIsrDecided.dummy(1, 1, partition_epoch=6))
        assert await asyncio.wait_for(told.get(), ASKED_S) == (0, 6)
        await following.fetchers.close()
        following.close()
        await server.stop(None)

    asyncio.run(scenario())
    data.close()


def test_what_arrives_for_a_replica_that_was_stopped_meanwhile_is_dropped_silently(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(following: Following) -> None:
        append = following.performs[AppendFetched]

        def append_and_stop_the_other(replica: HostedReplica, effect: Any, payload: Payload | None) -> None:
            # Both are in one answer, and partition 0 comes first.
            append(replica, effect, payload)
            stopped = following.replicas[1]
            stopped.log.close()
            following.feed(stopped, StopRequested(1, 1, delete=False))

        following.performs[AppendFetched] = append_and_stop_the_other
        following.begin()
        await following.copies(0, 1)
        assert not following.fetchers.failed()

    follow(tmp_path, record_of(0), story)
    assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_a_flush_that_ends_while_an_epoch_is_asked_for_does_not_withdraw_the_question(tmp_path: Path) -> None:
    """Else the follower would wait for ever for an answer that nobody was asked for: with flush=fsync, a
    leader that changes right after an append."""
    data = DataDirectory.open(tmp_path, "the-cluster", 2)

    async def scenario() -> int:
        asked: asyncio.Queue[int] = asyncio.Queue()
        server, address = await leader_that_notes(asked)
        failures: list[Exception] = []
        replicas, replica = HostedReplicas(), truncating(data)
        replicas.add(replica)
        shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        settings = FetchSettings(
            500, 1 << 20, lambda: Follower("the-cluster", 2, 7), lambda leader: address, registered
        )
        fetchers = Fetchers(replicas, shell, settings, open_channel)
        fetchers.ask(replica, AskEpochEnd(1, 2, 1, 3))
        fetchers.resume(replica)
        epoch = await asyncio.wait_for(asked.get(), ASKED_S)
        await fetchers.close()
        await server.stop(None)
        return epoch

    assert asyncio.run(scenario()) == 1
    data.close()


def test_an_answer_to_a_question_of_an_earlier_epoch_does_not_stand_for_the_later_one(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path, "the-cluster", 2)
    asked: asyncio.Queue[int] = asyncio.Queue()

    async def scenario() -> None:
        may_answer = asyncio.Event()
        server, address = await leader_that_tells(asked, 1, may_answer)
        failures: list[Exception] = []
        replicas, replica = HostedReplicas(), truncating(data)
        replicas.add(replica)
        shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        settings = FetchSettings(500, 1 << 20, lambda: Follower("c", 2, 7), lambda _: address, registered)
        fetchers = Fetchers(replicas, shell, settings, open_channel)
        perform_with(shell, fetching=fetchers)
        fetchers.ask(replica, AskEpochEnd(1, 2, 1, 3))
        assert await asyncio.wait_for(asked.get(), ASKED_S) == 2
        shell.feed(replica, LeaderAndIsrDecided.dummy(leader=1, leader_epoch=3))
        may_answer.set()
        assert await asyncio.wait_for(asked.get(), ASKED_S) == 3
        await fetchers.close()
        await server.stop(None)

    asyncio.run(scenario())
    data.close()


def test_an_answer_that_is_of_no_use_is_asked_for_again(tmp_path: Path) -> None:
    """It tells of a later epoch than was asked for. The replica waits for one that it can act on."""
    data = DataDirectory.open(tmp_path, "the-cluster", 2)

    async def scenario() -> None:
        asked: asyncio.Queue[int] = asyncio.Queue()
        may_answer = asyncio.Event()
        may_answer.set()
        server, address = await leader_that_tells(asked, 9, may_answer)
        failures: list[Exception] = []
        replicas, replica = HostedReplicas(), truncating(data)
        replicas.add(replica)
        shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        settings = FetchSettings(500, 1 << 20, lambda: Follower("c", 2, 7), lambda _: address, registered)
        fetchers = Fetchers(replicas, shell, settings, open_channel)
        perform_with(shell, fetching=fetchers)
        fetchers.ask(replica, AskEpochEnd(1, 2, 1, 3))
        for _ in range(2):
            assert await asyncio.wait_for(asked.get(), ASKED_S) == 2
        assert replica.state.role is Role.TRUNCATING
        await fetchers.close()
        await server.stop(None)

    asyncio.run(scenario())
    data.close()


async def registered() -> None:
    """This broker is registered."""


def test_a_fetcher_ends_though_a_cancellation_was_lost_on_the_way() -> None:
    """As by asyncio.wait_for of Python 3.11; a broker that waited for it would run on after its SIGTERM."""

    async def scenario() -> None:
        lost = asyncio.Event()

        async def lose_one() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost.set()
            await asyncio.Event().wait()

        settings = FetchSettings(500, 1 << 20, lambda: Follower("c", 2, 7), lambda _: None, lose_one)
        failures: list[Exception] = []
        shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        fetcher = LeaderFetcher(1, HostedReplicas(), shell, settings, open_channel)
        await asyncio.sleep(0)
        await asyncio.wait_for(fetcher.close(), ASKED_S)
        assert lost.is_set()

    asyncio.run(scenario())


def test_a_damaged_replica_fetches_nothing_whatever_is_decided_until_it_is_mended(tmp_path: Path) -> None:
    # Else its leader would let it into the ISR again, from which the controller takes it out.
    async def story(following: Following) -> None:
        damaged, other = following.replicas
        damaged.is_damaged = True
        following.fetchers.hold(damaged)
        following.begin()
        await following.copies(1, 3)
        following.feed(damaged, LeaderAndIsrDecided.dummy(leader=1, leader_epoch=1, partition_epoch=5))
        following.fetchers.resume(damaged)
        assert (damaged.log.log_end_offset, other.log.log_end_offset) == (0, 3)
        damaged.is_damaged = False
        following.fetchers.resume(damaged)
        await following.copies(0, 3)

    follow(tmp_path, record_of(0), story)
