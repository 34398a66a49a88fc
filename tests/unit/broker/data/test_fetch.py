"""What consumers are given, from memory and from disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

import pytest
from adversary.batches import good_batch
from damages import DAMAGES
from effect_ports import perform_with
from held_threads import HeldThreads
from hightide.batch.header import iterate
from hightide.batch.wire import serialise_fetch_response
from hightide.v1.broker_service_pb2 import FetchPartition, FetchRequest, FetchResponse
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.contract.convert import fetch_in, fetch_out
from hightide_broker.contract.data_calls import FetchCall, FetchFrom, PartitionRead
from hightide_broker.core.effects import AskEpochEnd, StartFetching
from hightide_broker.core.events import LeaderAndIsrDecided, ProduceArrived
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.lineage import NO_EPOCH, EpochEnd
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.data.fetch import FetchHandler
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Payload, ReplicaShell
from hightide_broker.storage import DataDirectory, DirectorySettings
from hightide_broker.storage.files.files import OsFiles
from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.throttle import Throttle, ThrottleCounts
from hightide_runtime.serving.answer_budget import AnswerBudget
from hightide_runtime.serving.fair_limit import Holder
from hightide_runtime.serving.interceptors.interceptor import Plane
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry

TOPIC_ID = bytes(range(16))
COLD = bytes(20_000)
ANSWERED_S = 20.0
PEER = Holder("ipv4:127.0.0.1:50001")
OTHER_PEER = Holder("ipv4:127.0.0.1:50002")
ANSWER_BYTES_MAX = 64 << 20


class NobodyFetches:
    """The fetchers of a broker that is to follow another, which is not there."""

    def start(self, replica: HostedReplica, effect: StartFetching) -> None: ...

    def stop(self, replica: HostedReplica) -> None: ...

    def ask(self, replica: HostedReplica, effect: AskEpochEnd) -> None: ...

    def resume(self, replica: HostedReplica) -> None: ...


class OneBroker:
    """Leads partitions whose only replica it is; a record as large as COLD is on disk only."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        failures: list[Exception] = []
        self.shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        self.hosted = HostedReplicas()
        self.reads = HeldThreads()
        self.answers = AnswerBudget(Plane.DATA, ANSWER_BYTES_MAX)
        self.fetching = FetchHandler(
            1, self.hosted, MetadataCache("the-cluster", controller_epoch=1), 10, self.reads, self.answers
        )

    def leads(self, partition: int) -> HostedReplica:
        topic = TopicSettings()
        replica = HostedReplica(
            (TOPIC_ID, partition), "flights", topic, Replica.opened(ReplicaSettings(1)),
            self._data.log(TOPIC_ID, partition, True, "flights", topic.log),
        )  # fmt: skip
        self.shell.feed(replica, LeaderAndIsrDecided.dummy(1, 1, (1,), replicas=(1,)))
        self.hosted.add(replica)
        return replica

    def produce(self, replica: HostedReplica, value: bytes) -> int:
        """Append one record; the size of its batch."""
        batch = good_batch(TOPIC_ID, replica.key[1], (value,))
        headers = [header for _, header in iterate(batch)]
        self.shell.feed(replica, ProduceArrived.dummy(acks_all=False), Payload(batch, headers))
        return len(batch)

    async def fetch(
        self,
        *partitions: int,
        min_bytes: int = 1,
        max_bytes: int = 1_000_000,
        offset: int = 0,
        from_follower: bool = False,
    ) -> dict[int, int]:
        """Fetch from an offset on: the bytes of each partition, or minus its error."""
        asked = tuple(FetchFrom((TOPIC_ID, each), -1, offset, 1_000_000) for each in partitions)
        read = await self.fetching.fetch(FetchCall(30_000, min_bytes, max_bytes, asked, from_follower), PEER)
        return {each.key[1]: -each.refused.code if each.refused else each.size_bytes for each in read}


def serve(tmp_path: Path, story: Callable[[OneBroker], Awaitable[None]]) -> None:
    data = DataDirectory.open(
        tmp_path, "the-cluster", 1, DirectorySettings(tail_bytes_per_log_max=len(COLD) // 2)
    )

    async def scenario() -> None:
        broker = OneBroker(data)
        await story(broker)
        broker.shell.close()

    asyncio.run(scenario())
    data.close()


async def answered(broker: OneBroker, fetch: asyncio.Task[dict[int, int]]) -> dict[int, int]:
    """The disk does what it is asked until the fetch is answered."""
    for _ in range(100):
        await asyncio.sleep(0)
        broker.reads.go_on()
    return await asyncio.wait_for(fetch, ANSWERED_S)


def test_what_is_only_on_disk_is_not_read_on_the_event_loop(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        cold, warm = broker.leads(0), broker.leads(1)
        size = broker.produce(cold, COLD)
        broker.produce(warm, b"x")
        waiting = asyncio.create_task(broker.fetch(0))
        await asyncio.sleep(0)
        assert list(await broker.fetch(1)) == [1], "others are served meanwhile"
        assert not waiting.done()
        assert await answered(broker, waiting) == {0: size}

    serve(tmp_path, story)


@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - {"a deleted file"}))  # it is open
def test_who_comes_to_what_a_disk_has_changed_is_told_so(tmp_path: Path, damage: str) -> None:
    """Swapped batches were a mistake of the server, and a flipped length a version that was not known."""

    async def story(broker: OneBroker) -> None:
        damaged, whole = broker.leads(0), broker.leads(1)
        for value in (COLD, COLD + b"x", COLD + b"xx"):
            broker.produce(damaged, value)
        size = broker.produce(whole, b"x")
        DAMAGES[damage](tmp_path / f"{TOPIC_ID.hex()}-0" / f"{0:020d}.log")
        asked = FetchFrom(damaged.key, -1, 1, 1_000_000), FetchFrom(whole.key, -1, 0, 1_000_000)
        fetch = asyncio.create_task(broker.fetching.fetch(FetchCall(30_000, 1, 1_000_000, asked), PEER))
        for _ in range(100):
            await asyncio.sleep(0)
            broker.reads.go_on()
        by_partition = {each.key[1]: each for each in await asyncio.wait_for(fetch, ANSWERED_S)}
        refused = by_partition[0].refused
        assert refused is not None
        assert refused.code == ErrorCode.ERROR_CODE_STORAGE_FAILED
        assert refused.message.startswith("flights-0 is damaged at offset 1: "), "it names the partition once"
        assert by_partition[1].size_bytes == size

    serve(tmp_path, story)


def test_what_is_appended_while_a_file_is_read_is_not_missed(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        cold, other = broker.leads(0), broker.leads(1)
        size = broker.produce(cold, COLD)
        # The one that is in memory is looked at first, and has nothing yet.
        waiting = asyncio.create_task(broker.fetch(1, 0, min_bytes=size + 1))
        await asyncio.sleep(0)
        assert len(broker.reads) == 1
        more = broker.produce(other, b"x")
        assert await answered(broker, waiting) == {1: more, 0: size}

    serve(tmp_path, story)


def test_a_partition_whose_batch_finds_no_room_is_not_read_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer of a long log cost one batch more of reading, for each other partition that was asked."""
    read_at, read_bytes = OsFiles.read_at, []

    def counted(files: OsFiles, fd: int, size: int, position: int) -> bytes:
        found = read_at(files, fd, size, position)
        read_bytes.append(len(found))
        return found

    async def story(broker: OneBroker) -> None:
        cold, other = broker.leads(0), broker.leads(1)
        size = broker.produce(cold, COLD)
        broker.produce(other, COLD)
        monkeypatch.setattr(OsFiles, "read_at", counted)
        waiting = asyncio.create_task(broker.fetch(0, 1, max_bytes=size + 500))
        assert await answered(broker, waiting) == {0: size, 1: 0}
        assert read_bytes.count(size) == 1, "one batch is read whole"
        assert await answered(broker, asyncio.create_task(broker.fetch(1, 0, max_bytes=size + 500))) == {
            1: size,
            0: 0,
        }

    serve(tmp_path, story)


def test_a_leader_that_is_replaced_while_a_file_is_read_gives_nothing_out(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        cold = broker.leads(0)
        broker.produce(cold, COLD)
        waiting = asyncio.create_task(broker.fetch(0))
        await asyncio.sleep(0)
        perform_with(broker.shell, fetching=NobodyFetches())
        broker.shell.feed(cold, LeaderAndIsrDecided.dummy(2, 2, (2,), replicas=(1, 2)))
        assert await answered(broker, waiting) == {0: -ErrorCode.ERROR_CODE_NOT_LEADER}

    serve(tmp_path, story)


def test_a_replica_that_does_not_lead_is_read_up_to_its_high_watermark(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        replica = broker.leads(0)
        size = broker.produce(replica, b"x")
        assert await broker.fetch(0, from_follower=True) == {0: size}
        perform_with(broker.shell, fetching=NobodyFetches())
        broker.shell.feed(replica, LeaderAndIsrDecided.dummy(2, 2, (2,), replicas=(1, 2)))
        assert await broker.fetch(0) == {0: -ErrorCode.ERROR_CODE_NOT_LEADER}
        assert await broker.fetch(0, from_follower=True) == {0: size}
        refused = {0: -ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE}
        assert await broker.fetch(0, offset=2, from_follower=True) == refused
        assert await broker.fetch(7, from_follower=True) == {7: -ErrorCode.ERROR_CODE_UNKNOWN_TOPIC}

    serve(tmp_path, story)


def test_who_waits_for_a_follower_takes_no_turn_until_its_high_watermark_moves(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        replica = broker.leads(0)
        perform_with(broker.shell, fetching=NobodyFetches())
        broker.shell.feed(replica, LeaderAndIsrDecided.dummy(2, 2, (2,), replicas=(1, 2)))
        waiting = asyncio.create_task(broker.fetch(0, from_follower=True))
        await asyncio.sleep(0)
        assert len(replica.fetches) == 1
        broker.shell.feed(replica, LeaderAndIsrDecided.dummy(1, 3, (1,), replicas=(1, 2)))
        size = broker.produce(replica, b"x")
        assert await asyncio.wait_for(waiting, ANSWERED_S) == {0: size}

    serve(tmp_path, story)


def test_an_epoch_is_not_taken_with_a_read_from_a_follower(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        for epochs in ({"leader_epoch": 1}, {"last_fetched_epoch": 0}):
            request = FetchRequest(
                partitions=[FetchPartition(topic_id=TOPIC_ID, **epochs)], from_follower=True
            )
            with pytest.raises(ServiceError, match=r"partition 0 .* leave them out") as caught:
                await broker.fetching.fetch(fetch_in(request), PEER)
            assert caught.value.code == ErrorCode.ERROR_CODE_INVALID_REQUEST

    serve(tmp_path, story)


def test_a_consumer_that_has_read_what_is_lost_is_told_where_the_logs_part(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        replica = broker.leads(0)
        broker.produce(replica, b"kept")
        broker.shell.feed(replica, LeaderAndIsrDecided.dummy(1, 3, (1,), replicas=(1,)))
        broker.produce(replica, b"instead")
        # The leader of epoch 2 wrote three records and died, and broker 1 was elected without them.
        asked = FetchFrom(replica.key, 3, 4, 1_000_000, last_fetched_epoch=2)
        (read,) = await broker.fetching.fetch(FetchCall(30_000, 1, 1_000_000, (asked,)), PEER)
        assert read.refused is not None
        assert read.refused.code == ErrorCode.ERROR_CODE_DIVERGING_LOG
        assert read.refused.agreed == EpochEnd(1, 1)
        assert read.refused.message == (
            "flights-0: the record that was read before offset 4, in leader epoch 2, is not in the log, "
            "which has epoch 1 there; the log and what was read may agree up to offset 1"
        )
        told = FetchResponse.FromString(serialise_fetch_response(fetch_out([read]))).partitions[0]
        assert (told.error_code, told.diverging_end_offset, told.diverging_epoch) == (64, 1, 1)

    serve(tmp_path, story)


def test_the_last_epoch_that_was_read_is_heard_only_where_it_is_said() -> None:
    request = FetchRequest(partitions=[FetchPartition(), FetchPartition(last_fetched_epoch=0)])
    silent, says_epoch_0 = fetch_in(request).partitions
    assert (silent.last_fetched_epoch, says_epoch_0.last_fetched_epoch) == (NO_EPOCH, 0)


# -- answers that are not read

SMALL = bytes(1_000)


def fill(broker: OneBroker, holder: Holder = PEER) -> int:
    """Answers that one connection does not read, as many bytes as it may have; returns how many."""
    size_bytes = broker.answers.room(holder)
    assert broker.answers.take(holder, size_bytes)
    return size_bytes


def of_one(
    broker: OneBroker, wait_ms: int, peer: Holder = PEER, max_bytes: int = 1_000_000
) -> Coroutine[None, None, list[PartitionRead]]:
    asked = FetchFrom((TOPIC_ID, 0), -1, 0, max_bytes)
    return broker.fetching.fetch(FetchCall(wait_ms, 1, max_bytes, (asked,)), peer)


def test_a_client_that_reads_nothing_is_refused_and_told_what_it_holds(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        broker.produce(broker.leads(0), SMALL)
        unread = fill(broker)
        with pytest.raises(ServiceError, match=f"{unread} of them for this connection") as refused:
            await of_one(broker, wait_ms=0)
        assert refused.value.code == ErrorCode.ERROR_CODE_OVERLOADED
        assert broker.answers.refusals == 1

    serve(tmp_path, story)


def test_another_client_beside_it_is_served(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        size = broker.produce(broker.leads(0), SMALL)
        fill(broker)
        (read,) = await of_one(broker, wait_ms=0, peer=OTHER_PEER)
        assert read.size_bytes == size

    serve(tmp_path, story)


def test_a_fetch_at_the_end_needs_no_room(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        broker.leads(0)
        fill(broker)
        (read,) = await of_one(broker, wait_ms=0)
        assert (read.refused, read.size_bytes) == (None, 0)

    serve(tmp_path, story)


def test_a_fetch_waits_for_room_and_is_answered_when_an_answer_was_read(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        size = broker.produce(broker.leads(0), SMALL)
        unread = fill(broker)
        waiting = asyncio.create_task(of_one(broker, wait_ms=30_000))
        for _ in range(5):
            await asyncio.sleep(0)
        assert (waiting.done(), broker.answers.waits) == (False, 1)
        broker.answers.give_back(PEER, unread)
        (read,) = await asyncio.wait_for(waiting, ANSWERED_S)
        assert read.size_bytes == size

    serve(tmp_path, story)


def test_a_fetch_for_whose_answer_there_is_never_room_is_refused_when_its_time_is_up(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        broker.produce(broker.leads(0), SMALL)
        fill(broker)
        with pytest.raises(ServiceError, match="answers of the data plane that were not read"):
            await asyncio.wait_for(of_one(broker, wait_ms=20), ANSWERED_S)
        assert broker.fetching.waiting_count == 0

    serve(tmp_path, story)


def test_an_answer_gets_smaller_where_there_is_room_for_a_part_of_it(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        replica = broker.leads(0)
        sizes = [broker.produce(replica, SMALL) for _ in range(4)]
        # A connection may have a quarter of what is free, so a fifth of all where it is alone.
        broker.answers.count(PEER, (ANSWER_BYTES_MAX - 12 * sizes[0]) // 5)
        left = broker.answers.room(PEER)
        assert sizes[0] <= left < sum(sizes)
        (read,) = await of_one(broker, wait_ms=30_000)
        assert sizes[0] <= read.size_bytes <= left

    serve(tmp_path, story)


def test_fetches_wait_for_a_part_of_the_places_of_one_connection(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        broker.leads(0)
        waiting = [asyncio.create_task(of_one(broker, wait_ms=30_000)) for _ in range(3)]
        waiting.append(asyncio.create_task(of_one(broker, wait_ms=30_000, peer=OTHER_PEER)))
        for _ in range(5):
            await asyncio.sleep(0)
        refused = [each.done() for each in waiting]
        assert refused == [False, False, True, False], "10 may wait, and one connection may have a fifth"
        with pytest.raises(ServiceError, match="2 of them of this connection"):
            await waiting[2]
        broker.fetching.close()
        await asyncio.gather(waiting[0], waiting[1], waiting[3])

    serve(tmp_path, story)


# -- quotas


def throttle_of(rate: int, taken: int = 0) -> Throttle:
    """The throttle of a principal that has taken so much by now."""
    throttle = Throttle(rate, asyncio.get_running_loop().time, ThrottleCounts())
    throttle.charge(taken)
    return throttle


def fetch_throttled(
    broker: OneBroker, throttle: Throttle, wait_ms: int = 30_000
) -> asyncio.Task[list[PartitionRead]]:
    asked = FetchFrom((TOPIC_ID, 0), -1, 0, 1_000_000)
    call = FetchCall(wait_ms, 1, 1_000_000, (asked,))
    return asyncio.create_task(broker.fetching.fetch(call, PEER, throttle))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_fetch_reads_nothing_before_what_its_consumer_took_is_paid_for(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        size = broker.produce(broker.leads(0), COLD)
        throttle = throttle_of(1_000, taken=30_000)
        waiting = fetch_throttled(broker, throttle)
        await settle()
        assert len(broker.reads) == 0, "the disk is not asked"
        assert (waiting.done(), broker.fetching.waiting_count) == (False, 1)
        throttle.set_rate(10**9)
        await settle()
        broker.reads.go_on()
        (read,) = await asyncio.wait_for(waiting, ANSWERED_S)
        assert read.size_bytes == size
        assert throttle.counts.taken == 30_000 + size

    serve(tmp_path, story)


def test_a_fetch_whose_time_is_over_before_it_is_paid_for_gets_no_records_and_no_error(
    tmp_path: Path,
) -> None:
    async def story(broker: OneBroker) -> None:
        broker.produce(broker.leads(0), SMALL)
        throttle = throttle_of(1_000, taken=30_000)
        for wait_ms in (0, 10):
            (read,) = await fetch_throttled(broker, throttle, wait_ms)
            assert (read.refused, read.size_bytes, read.high_watermark) == (None, 0, 1)
        assert throttle.told_ms > 0

    serve(tmp_path, story)


def test_a_fetch_takes_at_most_a_second_worth_of_the_quota_at_once(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        replica = broker.leads(0)
        size = max(broker.produce(replica, SMALL) for _ in range(5))
        reading = fetch_throttled(broker, throttle_of(3 * size))
        (read,) = await asyncio.wait_for(reading, ANSWERED_S)
        assert read.size_bytes == 3 * size

    serve(tmp_path, story)


def test_while_a_fetch_waits_for_the_disk_others_of_its_consumer_know_of_it(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        size = broker.produce(broker.leads(0), COLD)
        throttle = throttle_of(size // 4, taken=size // 4)
        first = fetch_throttled(broker, throttle)
        await settle()
        second = fetch_throttled(broker, throttle)
        await settle()
        assert len(broker.reads) == 1
        broker.reads.go_on()
        await asyncio.wait_for(first, ANSWERED_S)
        assert not second.done()
        second.cancel()

    serve(tmp_path, story)


def test_fetches_that_waited_for_the_quota_are_answered_when_the_broker_stops(tmp_path: Path) -> None:
    async def story(broker: OneBroker) -> None:
        broker.produce(broker.leads(0), SMALL)
        throttle = throttle_of(1_000, taken=30_000)
        waiting = [fetch_throttled(broker, throttle) for _ in range(2)]
        await settle()
        throttle.set_rate(None)
        broker.fetching.close()
        await asyncio.wait_for(asyncio.gather(*waiting), ANSWERED_S)

    serve(tmp_path, story)
