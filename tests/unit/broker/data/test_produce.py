"""What a producer is told, and when: an acknowledgement says that the in-sync replicas have the records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from adversary.batches import good_batch
from effect_ports import perform_with
from hand_clock import HandClock
from hightide.batch.wire import ProducePartition, ProduceRequest
from hightide.v1.broker_service_pb2 import Acks
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.contract.data_calls import Outcome, PartitionAppended, PartitionRefused
from hightide_broker.core.effects import AskEpochEnd, StartFetching, StoreIsr
from hightide_broker.core.events import FollowerFetched, LeaderAndIsrDecided
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.data.produce import ProduceHandler
from hightide_broker.data.producer_owners import ProducerOwners
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import ReplicaShell
from hightide_broker.storage import DataDirectory
from hightide_runtime.access.principals import ANONYMOUS, CALLER, Principal, Role
from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.throttle import Throttle, ThrottleCounts
from hightide_runtime.serving.fair_limit import FairLimit, Holder
from hightide_runtime.telemetry.tracing import Telemetry

TOPIC_ID = bytes(range(16))
PEER = Holder("ipv4:127.0.0.1:50001")
IN_FLIGHT_BYTES = 10_000
ANSWERED_S = 60.0
SHORT_MS = 1
LONG_MS = 30_000


class NoZooKeeper:
    """It never answers."""

    def store(self, replica: HostedReplica, effect: StoreIsr) -> None: ...

    def read(self, replica: HostedReplica) -> None: ...


class NobodyFetches:
    """The fetchers of a broker that is to follow another, which is not there."""

    def start(self, replica: HostedReplica, effect: StartFetching) -> None: ...

    def stop(self, replica: HostedReplica) -> None: ...

    def ask(self, replica: HostedReplica, effect: AskEpochEnd) -> None: ...

    def resume(self, replica: HostedReplica) -> None: ...


class LeadingBroker:
    """Broker 1, which leads partitions with min.insync.replicas=2 that broker 2 follows."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self.clock = HandClock()
        failures: list[Exception] = []
        self.shell = ReplicaShell(self.clock, LeaderSessions(1), Telemetry.off(), failures.append)
        perform_with(self.shell, isr=NoZooKeeper(), fetching=NobodyFetches())
        self.hosted = HostedReplicas()
        self.in_flight = FairLimit(IN_FLIGHT_BYTES, part=1)
        metadata = MetadataCache("the-cluster", controller_epoch=1)
        self.producing = ProduceHandler(
            1, self.clock, self.hosted, metadata, self.shell, self.in_flight, ProducerOwners(b"key")
        )

    def leads(self, partition: int = 0, isr: tuple[int, ...] = (1, 2)) -> HostedReplica:
        topic = TopicSettings(min_insync_replicas=2)
        replica = HostedReplica(
            (TOPIC_ID, partition), "flights", topic,
            Replica.opened(ReplicaSettings(1, min_insync_replicas=2)),
            self._data.log(TOPIC_ID, partition, True, "flights", topic.log),
        )  # fmt: skip
        self.shell.feed(replica, LeaderAndIsrDecided.dummy(1, 1, isr, replicas=(1, 2)))
        self.hosted.add(replica)
        return replica

    def follower_has(self, replica: HostedReplica, end_offset: int) -> None:
        """Broker 2 fetches from there on, and so has all before it."""
        self.shell.feed(replica, FollowerFetched(2, 1, end_offset, self.clock.now_ms))

    async def produce(
        self,
        *batches: tuple[int, bytes],
        acks: Acks.ValueType = Acks.ACKS_ALL,
        leader_epoch: int = -1,
        timeout_ms: int = LONG_MS,
    ) -> list[Outcome]:
        """Send a batch to each of these partitions in one request."""
        asked = tuple(
            ProducePartition(TOPIC_ID, partition, leader_epoch, memoryview(batch))
            for partition, batch in batches
        )
        return await self.producing.produce(ProduceRequest(acks, timeout_ms, asked), PEER)

    async def is_waiting(self, produce: asyncio.Task[list[Outcome]]) -> bool:
        """Whether a produce is not answered though the loop has done all that there was to do."""
        for _ in range(10):
            await asyncio.sleep(0)
        return not produce.done()


def serve(tmp_path: Path, story: Callable[[LeadingBroker], Awaitable[None]]) -> None:
    data = DataDirectory.open(tmp_path, "the-cluster", 1)

    async def scenario() -> None:
        broker = LeadingBroker(data)
        await asyncio.wait_for(story(broker), ANSWERED_S)
        assert broker.in_flight.taken == 0
        broker.shell.close()

    asyncio.run(scenario())
    data.close()


def batch(
    partition: int = 0, sequence: int = 0, epoch: int = 0, values: int = 1, producer_id: int = 5
) -> bytes:
    """A batch of an idempotent producer."""
    return good_batch(
        TOPIC_ID,
        partition,
        (b"v",) * values,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def code_of(outcome: Outcome) -> ErrorCode.ValueType:
    assert isinstance(outcome, PartitionRefused)
    return outcome.code


def test_acks_all_is_answered_when_the_followers_have_the_records_and_not_before(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        produce = asyncio.ensure_future(broker.produce((0, batch(values=3))))
        assert await broker.is_waiting(produce)
        broker.follower_has(replica, 0)
        assert await broker.is_waiting(produce)
        broker.follower_has(replica, 3)
        assert await produce == [PartitionAppended(0, 3, 0)]

    serve(tmp_path, story)


def test_acks_all_is_answered_when_each_of_its_partitions_is_committed(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        first, second = broker.leads(0), broker.leads(1)
        produce = asyncio.ensure_future(broker.produce((0, batch(0)), (1, batch(1))))
        assert await broker.is_waiting(produce)
        broker.follower_has(second, 1)
        assert await broker.is_waiting(produce)
        broker.follower_has(first, 1)
        assert await produce == [PartitionAppended(0, 1, 0), PartitionAppended(0, 1, 0)]

    serve(tmp_path, story)


def test_what_is_not_committed_within_the_time_is_not_acknowledged(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        broker.leads()
        (outcome,) = await broker.produce((0, batch()), timeout_ms=SHORT_MS)
        assert code_of(outcome) == ErrorCode.ERROR_CODE_TIMED_OUT

    serve(tmp_path, story)


@pytest.mark.parametrize("acks", [Acks.ACKS_LEADER, Acks.ACKS_NONE])
def test_less_than_acks_all_waits_for_nobody(tmp_path: Path, acks: Acks.ValueType) -> None:
    async def story(broker: LeadingBroker) -> None:
        broker.leads(isr=(1,))
        assert await broker.produce((0, batch()), acks=acks) == [PartitionAppended(0, 1, 0)]

    serve(tmp_path, story)


def test_acks_all_below_min_insync_replicas_is_refused_and_appends_nothing(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads(isr=(1,))
        (outcome,) = await broker.produce((0, batch()))
        assert code_of(outcome) == ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS
        assert replica.log.log_end_offset == 0

    serve(tmp_path, story)


def test_a_batch_that_is_sent_again_is_answered_with_its_first_offsets_and_not_appended(
    tmp_path: Path,
) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        await broker.produce((0, batch(values=2)), acks=Acks.ACKS_LEADER)
        await broker.produce((0, batch(sequence=2)), acks=Acks.ACKS_LEADER)
        broker.follower_has(replica, 3)
        assert await broker.produce((0, batch(values=2))) == [PartitionAppended(0, 2, 0)]
        assert replica.log.log_end_offset == 3

    serve(tmp_path, story)


def test_a_batch_that_is_sent_again_with_acks_all_waits_for_the_followers_too(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        await broker.produce((0, batch()), acks=Acks.ACKS_LEADER)
        again = asyncio.ensure_future(broker.produce((0, batch())))
        assert await broker.is_waiting(again)
        broker.follower_has(replica, 1)
        assert await again == [PartitionAppended(0, 1, 0)]

    serve(tmp_path, story)


def test_a_batch_that_is_sent_again_below_min_insync_replicas_is_not_acknowledged(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        broker.leads(isr=(1,))
        assert await broker.produce((0, batch()), acks=Acks.ACKS_LEADER) == [PartitionAppended(0, 1, 0)]
        (outcome,) = await broker.produce((0, batch()), timeout_ms=SHORT_MS)
        # It is in the log: a producer must not conclude from the answer that it is not.
        assert code_of(outcome) == ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS_AFTER_APPEND

    serve(tmp_path, story)


def test_a_batch_that_is_sent_again_under_a_stale_leader_epoch_is_not_acknowledged(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        await broker.produce((0, batch()), acks=Acks.ACKS_LEADER)
        broker.follower_has(replica, 1)
        (outcome,) = await broker.produce((0, batch()), leader_epoch=0)
        assert code_of(outcome) == ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH

    serve(tmp_path, story)


def test_a_gap_in_the_sequence_appends_nothing(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        await broker.produce((0, batch()), acks=Acks.ACKS_LEADER)
        (outcome,) = await broker.produce((0, batch(sequence=2)), acks=Acks.ACKS_LEADER)
        assert code_of(outcome) == ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE
        assert replica.log.log_end_offset == 1

    serve(tmp_path, story)


ALICE, MALLORY = Principal(Role.CLIENT, "alice"), Principal(Role.CLIENT, "mallory")


def test_nobody_can_fence_a_producer_by_its_id_and_a_higher_epoch(tmp_path: Path) -> None:
    """Also on another leader with the key of the cluster, which knows nothing of this one."""

    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        of_alice = ProducerOwners(b"key").bound(5, ALICE)
        CALLER.set(ALICE)
        await broker.produce((0, batch(producer_id=of_alice)), acks=Acks.ACKS_LEADER)
        for stranger in (MALLORY, ANONYMOUS, Principal(Role.CLIENT, "alic"), Principal(Role.BROKER, "1")):
            CALLER.set(stranger)
            (refused,) = await broker.produce(
                (0, batch(producer_id=of_alice, epoch=1)), acks=Acks.ACKS_LEADER
            )
            assert code_of(refused) == ErrorCode.ERROR_CODE_NOT_AUTHORIZED
        CALLER.set(ALICE)
        (outcome,) = await broker.produce((0, batch(producer_id=of_alice, sequence=1)), acks=Acks.ACKS_LEADER)
        assert isinstance(outcome, PartitionAppended)
        assert replica.log.log_end_offset == 2

    serve(tmp_path, story)


@pytest.mark.parametrize("caller", [ALICE, ANONYMOUS])
def test_an_id_that_has_no_owner_can_be_used_by_everybody_as_before(
    tmp_path: Path, caller: Principal
) -> None:
    async def story(broker: LeadingBroker) -> None:
        broker.leads()
        CALLER.set(caller)
        number = 2**40 - 1
        assert ProducerOwners(b"key").bound(number, ANONYMOUS) == number
        (outcome,) = await broker.produce((0, batch(producer_id=number)), acks=Acks.ACKS_LEADER)
        assert isinstance(outcome, PartitionAppended)

    serve(tmp_path, story)


def test_a_leader_that_is_replaced_acknowledges_nothing_that_still_waits(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        produce = asyncio.ensure_future(broker.produce((0, batch())))
        assert await broker.is_waiting(produce)
        broker.shell.feed(replica, LeaderAndIsrDecided.dummy(2, 2, (1, 2), replicas=(1, 2)))
        (outcome,) = await produce
        assert code_of(outcome) == ErrorCode.ERROR_CODE_NOT_LEADER

    serve(tmp_path, story)


def test_more_than_may_be_unfinished_is_refused_before_anything_is_appended(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        first = asyncio.ensure_future(broker.produce((0, batch())))
        assert await broker.is_waiting(first)
        large = good_batch(TOPIC_ID, 0, (bytes(IN_FLIGHT_BYTES),))
        with pytest.raises(ServiceError) as refused:
            await broker.produce((0, large))
        assert refused.value.code == ErrorCode.ERROR_CODE_OVERLOADED
        assert replica.log.log_end_offset == 1
        broker.follower_has(replica, 1)
        await first

    serve(tmp_path, story)


# -- quotas


def throttled(broker: LeadingBroker, rate: int, taken: int) -> Throttle:
    """The throttle of a principal that has taken so much by now."""
    throttle = Throttle(rate, asyncio.get_running_loop().time, ThrottleCounts())
    throttle.charge(taken)
    return throttle


def produce_throttled(
    broker: LeadingBroker, throttle: Throttle, sequence: int = 0, timeout_ms: int = LONG_MS
) -> asyncio.Task[list[Outcome]]:
    asked = ProducePartition(TOPIC_ID, 0, -1, memoryview(batch(sequence=sequence)))
    request = ProduceRequest(Acks.ACKS_LEADER, timeout_ms, (asked,))
    return asyncio.create_task(broker.producing.produce(request, PEER, throttle))


def test_nothing_is_appended_before_what_its_producer_took_is_paid_for_and_then_all_in_order(
    tmp_path: Path,
) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        throttle = throttled(broker, 1_000, 30_000)
        calls = [produce_throttled(broker, throttle, sequence) for sequence in range(3)]
        assert await broker.is_waiting(calls[0])
        assert replica.log.log_end_offset == 0
        assert broker.in_flight.taken > 0, "what is held counts"
        throttle.set_rate(10**9)
        outcomes = [outcome for (outcome,) in await asyncio.gather(*calls)]
        assert outcomes == [PartitionAppended(offset, offset + 1, 0) for offset in range(3)]

    serve(tmp_path, story)


def test_a_produce_that_is_not_paid_for_in_its_time_appends_nothing_and_says_how_long_to_wait(
    tmp_path: Path,
) -> None:
    async def story(broker: LeadingBroker) -> None:
        replica = broker.leads()
        throttle = throttled(broker, 1_000, 30_000)
        with pytest.raises(ServiceError) as refused:
            await produce_throttled(broker, throttle, timeout_ms=SHORT_MS)
        assert refused.value.code == ErrorCode.ERROR_CODE_QUOTA_EXCEEDED
        assert refused.value.metadata["throttle_time_ms"] == "5000"
        assert replica.log.log_end_offset == 0
        assert throttle.counts.taken == 30_000, "what was not appended costs nothing"

    serve(tmp_path, story)


def test_a_produce_that_goes_over_the_quota_is_appended_at_once(tmp_path: Path) -> None:
    async def story(broker: LeadingBroker) -> None:
        broker.leads()
        throttle = throttled(broker, 100, 0)
        assert await produce_throttled(broker, throttle) == [PartitionAppended(0, 1, 0)]
        assert throttle.told_ms > 0

    serve(tmp_path, story)
