"""Reading a range: exactly its records, whoever leads; each loss has its own error, once it is certain."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hightide.cluster.metadata import ClusterMetadata
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.range_core import RangeCore, RangeReadSettings, WantedRange
from hightide.errors import (
    AddressUnreachableError,
    BrokersUnavailableError,
    CorruptBatchError,
    HightideError,
    InvalidArgumentError,
    OffsetNotAvailableError,
    PartitionOfflineError,
    RangeDeletedError,
    RangeLostError,
    TopicRecreatedError,
    UnknownBrokerError,
    UnknownPartitionError,
    UnknownTopicError,
)
from hightide.v1.broker_service_pb2 import (
    DescribeReplicasResponse,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    ReplicaDescription,
)
from hightide.v1.errors_pb2 import ErrorCode
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.sdk.consumer_bench import P0, batch
from unit.sdk.operation_world import Answer, World
from unit.sdk.producer_bench import TOPIC_ID, metadata, no_topic


class Log:
    """The log of one replica, read as brokers let it be read; `refusals` come first."""

    def __init__(self, counts: Iterable[int], *, start: int = 0, high_watermark: int | None = None) -> None:
        self.batches: list[tuple[int, int, bytes]] = []
        self.start = start
        self.end = 0
        for count in counts:
            self.batches.append((self.end, self.end + count, batch(self.end, count)))
            self.end += count
        self.high_watermark = self.end if high_watermark is None else high_watermark
        self.refusals: list[HightideError | ErrorCode.ValueType] = []
        self.requests: list[tuple[str, FetchRequest]] = []

    def fetch(self, call: Any) -> Any:
        request = FetchRequest.FromString(call.encode())
        self.requests.append((call.address, request))
        result = FetchPartitionResult(
            topic_id=TOPIC_ID, high_watermark=self.high_watermark, log_start_offset=self.start
        )
        refusal = self.refusals.pop(0) if self.refusals else None
        if isinstance(refusal, HightideError):
            return refusal
        offset = request.partitions[0].fetch_offset
        if refusal is None and not self.start <= offset <= self.end:
            refusal = ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE
        if refusal is not None:
            result.error_code, result.current_leader = refusal, -1
        elif offset < self.high_watermark:
            result.batches = self._from(offset, request.max_bytes)
        return call.decode(FetchResponse(partitions=[result]).SerializeToString())

    def _from(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for _, next_offset, data in self.batches:
            if next_offset <= offset:
                continue
            if found and len(found) + len(data) > max_bytes:
                break
            found += data
        return found

    def replicas(self, _: Any) -> DescribeReplicasResponse:
        mine = ReplicaDescription(topic_id=TOPIC_ID, is_leader=True, log_end_offset=self.end)
        return DescribeReplicasResponse(replicas=[mine])


class Reading:
    """One range that is read to its end."""

    def __init__(
        self,
        log: Log,
        start: int,
        end: int,
        *,
        replica: int | None = None,
        get_metadata: Answer | None = None,
        fetch_max_bytes: int = 4 << 20,
    ) -> None:
        self.log = log
        told = get_metadata or (lambda _: metadata([1]))
        self.world = World(GET_METADATA=told, FETCH=log.fetch, DESCRIBE_REPLICAS=log.replicas)
        self.core = RangeCore(
            WantedRange(P0, TOPIC_ID, start, end, replica),
            RangeReadSettings(fetch_max_bytes=fetch_max_bytes),
            ClusterMetadata(("boot:9",)),
            lambda: self.world.now_ms,
        )

    def offsets(self) -> list[int]:
        """The offset of each record that is handed out."""
        found: list[int] = []
        while not self.core.is_done:
            chunks: list[FetchedBatch] = self.world.run(self.core.fetch())
            for chunk in chunks:
                first = chunk.header.base_offset + chunk.skip
                found += range(first, min(chunk.next_offset, self.core.wanted.end))
        return found


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=10), st.data())
def test_exactly_the_range_is_read_whatever_batches_it_lies_in(
    counts: list[int], data: st.DataObject
) -> None:
    log = Log(counts)
    start = data.draw(st.integers(0, log.end))
    end = data.draw(st.integers(start, log.end))
    fetch_max_bytes = data.draw(st.sampled_from([1, 1_000, 4 << 20]))
    reading = Reading(log, start, end, fetch_max_bytes=fetch_max_bytes)
    assert reading.offsets() == list(range(start, end))


def test_a_batch_that_is_missing_in_an_answer_is_not_passed_over() -> None:
    log = Log([2, 3, 4])
    del log.batches[1]
    with pytest.raises(CorruptBatchError, match="offset 2 was fetched, the offsets 5 to 8 came"):
        Reading(log, 0, 9).offsets()


def test_a_leader_that_dies_is_followed_by_the_next_from_where_the_range_stands() -> None:
    leaders = iter([metadata({0: (1, 1)}), metadata({0: (-1, 2)}), metadata({0: (3, 3)})])
    log = Log([5, 5])
    reading = Reading(log, 3, 10, get_metadata=lambda _: next(leaders), fetch_max_bytes=1)
    assert [chunk.skip for chunk in reading.world.run(reading.core.fetch())] == [3]
    log.refusals = [AddressUnreachableError("gone", address="b1:1")]
    assert reading.offsets() == [5, 6, 7, 8, 9]
    last_address, last = log.requests[-1]
    (asked,) = last.partitions
    assert (last_address, asked.leader_epoch, asked.fetch_offset) == ("b3:3", 3, 5)
    assert asked.last_fetched_epoch == 1


def test_an_end_that_is_not_committed_yet_is_waited_for() -> None:
    log = Log([5], high_watermark=0)

    def told(_: Any) -> Any:
        if reading.world.now_ms > 1_000:
            log.high_watermark = log.end
        return metadata([1])

    reading = Reading(log, 0, 5, get_metadata=told)
    assert reading.offsets() == [0, 1, 2, 3, 4]


def test_an_end_that_is_never_committed_is_told_when_the_budget_is_over() -> None:
    reading = Reading(Log([5], high_watermark=0), 0, 5)
    with pytest.raises(OffsetNotAvailableError, match=r"offset 0 .* the high watermark at .* is 0"):
        reading.offsets()
    assert reading.world.now_ms >= 60_000


def test_what_retention_has_deleted_is_told_at_once_with_what_is_left() -> None:
    reading = Reading(Log([5, 5], start=5), 2, 10)
    with pytest.raises(RangeDeletedError, match="the log begins at offset 5") as raised:
        reading.offsets()
    assert raised.value.log_start_offset == 5
    assert reading.world.now_ms == 0


@pytest.mark.parametrize("start", [0, 5, 7])
def test_a_log_that_ends_before_what_was_committed_has_lost_it(start: int) -> None:
    reading = Reading(Log([5]), start, 10)
    with pytest.raises(RangeLostError, match=r"ends at offset 5, offset 10 had been committed") as raised:
        reading.offsets()
    assert raised.value.end_offset == 5
    assert 2_000 <= reading.world.now_ms < 3_000


def test_a_leader_that_was_deposed_and_does_not_know_it_is_no_loss() -> None:
    behind, log = Log([5]), Log([5, 5])

    def fetch(call: Any) -> Any:
        return (behind if call.address == "b1:1" else log).fetch(call)

    reading = Reading(log, 5, 10)
    told = iter([*[metadata({0: (1, 1)})] * 5, metadata({0: (2, 2)})])
    reading.world = World(GET_METADATA=lambda _: next(told), FETCH=fetch, DESCRIBE_REPLICAS=behind.replicas)
    assert reading.offsets() == [5, 6, 7, 8, 9]


def test_a_leader_that_alone_can_be_reached_is_not_believed_that_it_lost_records() -> None:
    behind = Log([5])

    def told(call: Any) -> Any:
        known = call.address in ("boot:9", "b1:1")
        return metadata({0: (1, 1)}) if known else AddressUnreachableError("no route", address=call.address)

    reading = Reading(behind, 5, 10, get_metadata=told)
    with pytest.raises(RangeLostError):
        reading.offsets()
    assert reading.world.now_ms >= 60_000, "it is told when the budget is over, and not as if it were certain"


def test_a_log_that_parts_from_what_was_read_has_lost_it() -> None:
    log = Log([5, 5])
    reading = Reading(log, 0, 10, fetch_max_bytes=1)
    reading.world.run(reading.core.fetch())
    log.refusals = [ErrorCode.ERROR_CODE_DIVERGING_LOG]
    with pytest.raises(RangeLostError, match="before offset 5 are not in the log any more"):
        reading.offsets()


GONE: list[tuple[Callable[[], Any], type[HightideError], str]] = [
    (no_topic, UnknownTopicError, "does not exist, or was deleted"),
    (lambda: metadata([1], topic_id=b"x" * 16), TopicRecreatedError, "deleted and created again"),
    (lambda: metadata([]), UnknownPartitionError, "not 0"),
]


@pytest.mark.parametrize(("told", "error", "said"), GONE)
def test_what_became_of_the_topic_is_told_once_it_is_certain(
    told: Callable[[], Any], error: type[HightideError], said: str
) -> None:
    reading = Reading(Log([5]), 0, 5, get_metadata=lambda _: told())
    with pytest.raises(error, match=said):
        reading.offsets()
    assert 2_000 <= reading.world.now_ms < 2_500


@pytest.mark.parametrize("told", [each[0] for each in GONE])
def test_a_broker_that_has_not_heard_of_the_topic_yet_is_no_loss(told: Callable[[], Any]) -> None:
    answers = iter([told(), told(), metadata([1])])
    reading = Reading(Log([5]), 0, 5, get_metadata=lambda _: next(answers))
    assert reading.offsets() == [0, 1, 2, 3, 4]


def test_a_partition_that_nobody_leads_is_told_when_the_budget_is_over() -> None:
    with pytest.raises(PartitionOfflineError, match="no leader"):
        Reading(Log([5]), 0, 5, get_metadata=lambda _: metadata({0: (-1, 1)})).offsets()


def test_a_cluster_that_is_gone_is_told_with_its_addresses() -> None:
    gone = AddressUnreachableError("gone")
    with pytest.raises(BrokersUnavailableError, match="boot:9"):
        Reading(Log([5]), 0, 5, get_metadata=lambda _: gone).offsets()


def test_what_waited_long_for_its_reader_has_the_whole_budget_all_the_same() -> None:
    log = Log([5])
    log.refusals = [AddressUnreachableError("gone", address="b1:1")]
    reading = Reading(log, 0, 5)
    reading.world.run(reading.core.metadata([P0.topic]))
    ahead = reading.core.fetch()
    call = next(ahead)
    outcome = log.fetch(call)
    reading.world.now_ms += 600_000
    ahead.throw(outcome)
    assert reading.offsets() == [0, 1, 2, 3, 4]


def test_a_replica_is_read_where_it_is_and_nowhere_else() -> None:
    log = Log([5])
    reading = Reading(log, 0, 5, replica=3)
    assert reading.offsets() == [0, 1, 2, 3, 4]
    ((address, request),) = log.requests
    assert (address, request.from_follower, request.partitions[0].leader_epoch) == ("b3:3", True, -1)
    assert not request.partitions[0].HasField("last_fetched_epoch")


def test_a_replica_that_is_behind_or_on_no_live_broker_is_told_when_the_budget_is_over() -> None:
    with pytest.raises(OffsetNotAvailableError, match=r"the high watermark at .* is 5"):
        Reading(Log([5]), 0, 10, replica=3).offsets()
    with pytest.raises(UnknownBrokerError, match="broker 9 is not alive"):
        Reading(Log([5]), 0, 5, replica=9).offsets()


def test_a_range_that_cannot_be_is_refused() -> None:
    for start, end in ((-1, 5), (5, 4)):
        with pytest.raises(InvalidArgumentError, match="start <= end"):
            WantedRange(P0, TOPIC_ID, start, end)
    with pytest.raises(InvalidArgumentError, match="topic id"):
        WantedRange(P0, b"short", 0, 5)
    with pytest.raises(InvalidArgumentError, match="fetch_max_bytes is 0"):
        RangeReadSettings(fetch_max_bytes=0)
