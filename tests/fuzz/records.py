"""The attack by records: batches that lie, to a leader; and every reader reads what the leader took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc
from fuzz.attack import Attack, Finding, shown
from fuzz.bodies import batch
from fuzz.channels import open_channel
from fuzz.plan import BATCH_TOPIC, AttackPlan
from hightide import Admin, Consumer, RangeReader, TopicPartition
from hightide.errors import HightideError, UnreadableBatchError
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1.broker_service_pb2_grpc import BrokerServiceStub
from hightide.v1.errors_pb2 import ErrorCode

_TAKEN_PER_READING: Final = 40
_CALL_S: Final = 30.0
_READING_S: Final = 120.0
_EMPTY_POLLS_MAX: Final = 20
#: A leader says so of itself, not of the batch.
_PASSING: Final = frozenset({"NOT_LEADER", "OVERLOADED", "NOT_ENOUGH_REPLICAS", "TIMED_OUT", "UNKNOWN_TOPIC"})


class RecordAttack(Attack):
    """Produces batches of `fuzz.bodies` to one partition, and reads by each reader what was taken."""

    def __init__(self, name: str, plan: AttackPlan) -> None:
        super().__init__(name, f"{plan.seed} {name}")
        self._plan = plan
        self._partition = TopicPartition(BATCH_TOPIC, 0)
        with Admin(plan.bootstrap) as admin:
            created = admin.create_topic(BATCH_TOPIC, 1, 3, configs={"segment.bytes": "1000000"})
        self._topic_id = created.topic_id
        self._taken: list[bytes] = []
        self._read_up_to = 0
        self._channel: grpc.Channel | None = None

    def strike(self) -> str:
        """One batch; and after some of them that were taken, all readers."""
        if len(self._taken) >= _TAKEN_PER_READING:
            return self._read()
        sent = batch(self.chance, self._topic_id, 0)
        request = broker_pb2.ProduceRequest(acks=broker_pb2.ACKS_ALL, timeout_ms=20_000)
        request.partitions.add(topic_id=self._topic_id, partition=0, leader_epoch=-1, batches=sent)
        try:
            answer = self._leader().Produce(request, timeout=_CALL_S)
        except grpc.RpcError as error:
            self._forget_leader()
            failed: Any = error
            if failed.code() in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL):
                raise Finding(f"Produce answered {failed.details()!r} to {shown(sent)}") from error
            return f"call failed: {failed.code().name}"
        (result,) = answer.partitions
        if not result.error_code:
            self._taken.append(sent)
            return "taken"
        name = ErrorCode.Name(result.error_code).removeprefix("ERROR_CODE_")
        if name in _PASSING:
            self._forget_leader()
        elif name == "INTERNAL":
            raise Finding(f"Produce answered {result.error_message!r} to {shown(sent)}")
        return name

    def _leader(self) -> Any:
        if self._channel is None:
            with Admin(self._plan.bootstrap) as admin:
                leader = admin.describe_topics([BATCH_TOPIC])[0].partitions[0].leader
            port = next(each for each in self._plan.ports if each.process == f"broker-{leader or 1}")
            self._channel = open_channel(self._plan, port)
        return BrokerServiceStub(self._channel)

    def _forget_leader(self) -> None:
        self.close()
        self._channel = None

    def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            self._channel.close()

    def _read(self) -> str:
        """Each reader finds the same records between the same offsets, or says which batch it cannot read."""
        with Consumer(self._plan.bootstrap) as consumer:
            end = consumer.end_offsets([self._partition])[self._partition]
        readers: dict[str, Callable[[int], int]] = {
            "poll": self._by_poll,
            "poll_arrow": self._by_poll_arrow,
            "range reader": self._by_range,
            "plain records": self._by_plain_records,
        }
        counts: dict[str, int] = {}
        for name, read in readers.items():
            try:
                counts[name] = read(end)
            except (HightideError, grpc.RpcError, ValueError, TypeError, MemoryError) as error:
                raise Finding(
                    f"{name} from {self._read_up_to} to {end}: {error!r}{self._blamed()}"
                ) from error
        if len(set(counts.values())) > 1:
            raise Finding(f"readers differ from {self._read_up_to} to {end}: {counts}{self._blamed()}")
        self._stop_at_unreadable(end)
        self._read_up_to = end
        self._taken.clear()
        return "read back"

    def _blamed(self) -> str:
        taken, self._taken = self._taken, []
        return "".join(f"\n    taken: {shown(each)}" for each in taken[-3:])

    def _consumer(self, policy: str = "skip") -> Consumer:
        consumer = Consumer(self._plan.bootstrap, on_corrupt_batch=policy, fetch_max_wait_ms=50)  # type: ignore[arg-type]
        consumer.assign([self._partition])
        consumer.seek(self._partition, self._read_up_to)
        return consumer

    def _until(self, end: int, consumer: Consumer) -> Iterator[None]:
        deadline = time.monotonic() + _READING_S
        while consumer.position(self._partition) < end:
            if time.monotonic() > deadline:
                raise Finding(
                    f"a reader hangs at {consumer.position(self._partition)} of {end}{self._blamed()}"
                )
            yield

    def _by_poll(self, end: int) -> int:
        with self._consumer() as consumer:
            return sum(len(consumer.poll(timeout_s=0.2)) for _ in self._until(end, consumer))

    def _by_poll_arrow(self, end: int) -> int:
        with self._consumer() as consumer:
            return sum(consumer.poll_arrow(timeout_s=0.2).num_rows for _ in self._until(end, consumer))

    def _by_range(self, end: int) -> int:
        with RangeReader(self._plan.bootstrap, on_corrupt_batch="skip") as reader:
            found = reader.read(BATCH_TOPIC, self._topic_id, 0, self._read_up_to, end)
            return sum(each.rows.num_rows for each in found)

    def _by_plain_records(self, end: int) -> int:
        at, count = self._read_up_to, 0
        while at < end:
            request = broker_pb2.FetchRecordsRequest(
                topic=BATCH_TOPIC,
                offset=at,
                max_records=10_000,
                on_corrupt_batch=broker_pb2.ON_CORRUPT_BATCH_SKIP,
            )
            try:
                answer = self._leader().FetchRecords(request, timeout=_CALL_S)
            except grpc.RpcError:
                # Another broker leads it, which may happen once while this reads.
                self._forget_leader()
                answer = self._leader().FetchRecords(request, timeout=_CALL_S)
            if answer.next_offset <= at:
                raise Finding(f"plain records stand still at {at} of {end}{self._blamed()}")
            at, count = answer.next_offset, count + len(answer.records)
        return count

    def _stop_at_unreadable(self, end: int) -> None:
        """A reader that shall not skip says of each batch that it cannot read where to go on."""
        with self._consumer("fail") as consumer:
            for _ in self._until(end, consumer):
                try:
                    consumer.poll(timeout_s=0.2)
                except UnreadableBatchError as error:
                    consumer.seek(self._partition, error.next_offset)
