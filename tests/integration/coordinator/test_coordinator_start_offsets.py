"""Where partitions without a committed offset start, asked of real brokers (consumer coordinator §7)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import grpc
import pytest
from hightide import Admin, Producer
from hightide.v1 import broker_service_pb2 as pb
from hightide.v1 import broker_service_pb2_grpc as broker_grpc
from hightide_coordinator.core.effects import LookUpOffsets
from hightide_coordinator.core.events import Endpoint, OffsetsLookedUp
from hightide_coordinator.core.values.registration import OffsetReset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hightide_coordinator.offset_lookup import StartOffsets
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_local.processes.ports import free_port
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel

pytestmark = pytest.mark.cluster

BOUND_S = 60.0
"""For what ends by itself within 3 s, or never."""


@pytest.fixture
def topic(hightide_cluster: LocalCluster) -> str:
    """Partition 0 has three records, partition 1 none."""
    name = f"starts-{uuid.uuid4().hex}"
    with Admin(hightide_cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=2, replication_factor=3)
    with Producer(hightide_cluster.bootstrap) as producer:
        for _ in range(3):
            producer.send(name, b"v", partition=0)
    return name


def brokers_of(cluster: LocalCluster) -> list[Endpoint]:
    addresses = {number: HostPort.parse(text) for number, text in cluster.brokers.items()}
    return [Endpoint(number, each.host, each.port) for number, each in addresses.items()]


def looked_up(brokers: Iterable[Endpoint], wanted: Mapping[TopicPartition, OffsetReset]) -> OffsetsLookedUp:
    """What a coordinator that knows these brokers finds."""

    async def run() -> OffsetsLookedUp:
        starts = StartOffsets(open_channel)
        starts.know_brokers(tuple(brokers))
        try:
            async with asyncio.timeout(BOUND_S):
                return await starts.look_up(LookUpOffsets(7, wanted))
        finally:
            await starts.close()

    found = asyncio.run(run())
    assert found.look_up_id == 7
    return found


def found_in_the_end(
    brokers: Sequence[Endpoint],
    wanted: Mapping[TopicPartition, OffsetReset],
    findable: Iterable[TopicPartition] | None = None,
) -> OffsetsLookedUp:
    """What it finds when brokers have answered in time about all that is there, as on a busy machine they do
    not always: the core asks again, too."""
    names = set(wanted if findable is None else findable)

    def ask() -> OffsetsLookedUp | None:
        told = looked_up(brokers, wanted)
        is_answered = not any("answer" in reason for reason in told.failed.values())
        return told if names <= set(told.found) and is_answered else None

    told = wait_until(f"{names} are found", ask, BOUND_S)
    assert told is not None
    return told


def test_a_partition_starts_where_it_begins_or_where_it_ends(
    hightide_cluster: LocalCluster, topic: str
) -> None:
    full, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Admin(hightide_cluster.bootstrap) as admin:
        topic_id = admin.describe_topics([topic])[0].topic_id
    brokers = brokers_of(hightide_cluster)
    smallest = found_in_the_end(brokers, dict.fromkeys((full, empty), OffsetReset.SMALLEST))
    largest = found_in_the_end(brokers, dict.fromkeys((full, empty), OffsetReset.LARGEST))
    assert smallest.failed == largest.failed == {}
    assert {name: found.offset for name, found in smallest.found.items()} == {full: 0, empty: 0}
    assert {name: found.offset for name, found in largest.found.items()} == {full: 3, empty: 0}
    assert smallest.found[full].leader_epoch == -1
    assert largest.found[full].leader_epoch >= 0
    assert largest.found[full].topic_id.hex() == topic_id.hex()


def test_what_brokers_do_not_know_fails_with_a_reason_and_holds_up_nothing_else(
    hightide_cluster: LocalCluster, topic: str
) -> None:
    known, unknown = TopicPartition(topic, 0), TopicPartition("no-such-topic", 0)
    beyond, undecided = TopicPartition(topic, 9), TopicPartition(topic, 1)
    wanted = dict.fromkeys((known, unknown, beyond), OffsetReset.LARGEST)
    found = found_in_the_end(brokers_of(hightide_cluster), {**wanted, undecided: OffsetReset.ERROR}, [known])
    assert set(found.found) == {known}
    assert "do not know" in found.failed[unknown]
    assert "do not know" in found.failed[beyond]
    assert "error" in found.failed[undecided]


def test_a_broker_that_is_dead_is_not_the_only_one_that_is_asked(
    hightide_cluster: LocalCluster, topic: str
) -> None:
    dead = Endpoint(99, "127.0.0.1", free_port())
    name = TopicPartition(topic, 0)
    for brokers in ((dead, *brokers_of(hightide_cluster)), (*brokers_of(hightide_cluster), dead)):
        found = found_in_the_end(brokers, {name: OffsetReset.LARGEST})
        assert found.found[name].offset == 3


def test_without_a_broker_it_fails_within_a_few_seconds_and_says_why() -> None:
    name = TopicPartition("flights", 0)
    alone = looked_up((), {name: OffsetReset.LARGEST})
    assert "no broker" in alone.failed[name]
    port = free_port()
    dead = looked_up([Endpoint(99, "127.0.0.1", port)], {name: OffsetReset.LARGEST})
    assert f"broker 99 at 127.0.0.1:{port}" in dead.failed[name]


def test_a_leader_that_dies_is_succeeded_and_asked_again(hightide_cluster: LocalCluster, topic: str) -> None:
    name = TopicPartition(topic, 0)
    with Admin(hightide_cluster.bootstrap) as admin:
        leader = f"broker-{admin.describe_topics([topic])[0].partitions[0].leader}"
    brokers = brokers_of(hightide_cluster)
    hightide_cluster.kill(leader)
    try:
        found = found_in_the_end(brokers, {name: OffsetReset.LARGEST})
        assert found.found[name].offset == 3
    finally:
        hightide_cluster.restart(leader)


def test_what_thousands_of_groups_ask_at_once_is_asked_of_brokers_a_few_times(
    hightide_cluster: LocalCluster, topic: str
) -> None:
    full, unknown = TopicPartition(topic, 0), TopicPartition("no-such-topic", 0)

    async def run() -> list[OffsetsLookedUp]:
        starts = StartOffsets(open_channel)
        starts.know_brokers(tuple(brokers_of(hightide_cluster)))
        resets = (OffsetReset.SMALLEST, OffsetReset.LARGEST)
        wanted: list[dict[TopicPartition, OffsetReset]] = [{full: resets[n % 2]} for n in range(5_000)]
        wanted[2_500] = {full: OffsetReset.LARGEST, unknown: OffsetReset.SMALLEST}
        try:
            began_s = time.thread_time()
            for number in range(50):
                await starts.look_up(LookUpOffsets(number, wanted[0]))
            alone_s = (time.thread_time() - began_s) / 50
            began_s = time.thread_time()
            answers = await asyncio.gather(
                *(starts.look_up(LookUpOffsets(number, each)) for number, each in enumerate(wanted))
            )
            took_s = time.thread_time() - began_s
        finally:
            await starts.close()
        # Of the processor's time, which no other process takes away: with calls for each it would be as much.
        assert took_s < alone_s * len(wanted) / 4
        return answers

    answers = asyncio.run(run())
    assert [answer.look_up_id for answer in answers] == list(range(5_000))
    for number, answer in enumerate(answers):
        expected = 3 if number % 2 or number == 2_500 else 0
        assert answer.found[full].offset == expected
        assert list(answer.failed) == ([unknown] if number == 2_500 else [])


def test_who_asks_while_the_coordinator_stops_gets_an_answer() -> None:
    name = TopicPartition("flights", 0)

    async def run() -> OffsetsLookedUp:
        starts = StartOffsets(open_channel)
        starts.know_brokers((Endpoint(99, "127.0.0.1", free_port()),))
        asking = asyncio.create_task(starts.look_up(LookUpOffsets(7, {name: OffsetReset.LARGEST})))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await starts.close()
        return await asyncio.wait_for(asking, BOUND_S)

    assert set(asyncio.run(run()).failed) == {name}


class SilentBroker(broker_grpc.BrokerServiceServicer):
    """Takes calls, and answers none."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)

    async def GetMetadata(self, request: pb.GetMetadataRequest, context: object) -> pb.GetMetadataResponse:  # noqa: N802
        self.asked.release()
        await asyncio.Event().wait()
        raise AssertionError


@asynccontextmanager
async def asking(broker: SilentBroker) -> AsyncIterator[StartOffsets]:
    """A coordinator that knows this broker, and no other."""
    server = grpc.aio.server()
    broker_grpc.add_BrokerServiceServicer_to_server(broker, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    starts = StartOffsets(open_channel)
    starts.know_brokers((Endpoint(1, "127.0.0.1", port),))
    try:
        yield starts
    finally:
        await starts.close()
        await server.stop(None)


def test_who_waits_while_a_broker_that_is_being_asked_goes_away_gets_an_answer() -> None:
    """The channel to it is closed. That ended the rounds with calls on it, and nobody asked for the rest:
    their groups waited for ever."""
    name = TopicPartition("flights", 0)

    async def run() -> list[OffsetsLookedUp]:
        broker = SilentBroker()  # type: ignore[abstract]
        async with asyncio.timeout(BOUND_S), asking(broker) as starts:
            questions = []
            for number in range(5):
                question = starts.look_up(LookUpOffsets(number, {name: OffsetReset.LARGEST}))
                questions.append(asyncio.create_task(question))
                if number < 4:
                    await broker.asked.acquire()
            await asyncio.sleep(0)
            starts.know_brokers(())
            return await asyncio.gather(*questions)

    answers = asyncio.run(run())
    assert [answer.look_up_id for answer in answers] == list(range(5))
    assert all("no broker is alive" in answer.failed[name] for answer in answers)


def test_a_broker_that_goes_away_while_it_is_asked_who_coordinates_says_nothing() -> None:
    """Its channel is closed. That ended the task which looks for a successor, without a word."""

    async def run() -> list[tuple[Endpoint, ...]]:
        broker = SilentBroker()  # type: ignore[abstract]
        async with asyncio.timeout(BOUND_S), asking(broker) as starts:
            question = asyncio.create_task(starts.coordinators())
            await broker.asked.acquire()
            starts.know_brokers(())
            return await question

    assert asyncio.run(run()) == []
