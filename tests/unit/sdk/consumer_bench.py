"""A consumer core without a shell: the test is the clock, the brokers and the network."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import pyarrow as pa
from hightide.batch import body
from hightide.batch.header import parse, stamp
from hightide.calls.call import Call, Method
from hightide.calls.notice import Level
from hightide.cluster.metadata import ClusterMetadata
from hightide.consuming.consumer_core import ConsumerCore
from hightide.consuming.consumer_settings import ConsumerSettings
from hightide.consuming.fetch_call import FetchCall
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.list_offsets_call import LookUpCall
from hightide.errors import AddressUnreachableError, HightideError
from hightide.records import TopicPartition
from hightide.v1.broker_service_pb2 import (
    FetchPartitionResult,
    FetchResponse,
    GetMetadataResponse,
    ListOffsetsPartitionResult,
    ListOffsetsResponse,
)
from unit.sdk.producer_bench import TOPIC, TOPIC_ID, metadata

P0 = TopicPartition(TOPIC, 0)
P1 = TopicPartition(TOPIC, 1)


def batch(base_offset: int, count: int, *, size_bytes: int = 10, partition: int = 0) -> bytes:
    """A batch as a broker serves it: record i of the partition has the value b"i"."""
    timestamps = pa.array(range(base_offset, base_offset + count), pa.int64()).view(body.TIMESTAMP_TYPE)
    values = pa.array([b"%d" % at + b" " * size_bytes for at in range(base_offset, base_offset + count)])
    columns = pa.RecordBatch.from_arrays(
        [pa.nulls(count, pa.binary()), values.cast(pa.binary()), timestamps], schema=body.SCHEMA
    )
    made = bytearray(body.encode(columns, topic_id=TOPIC_ID, partition=partition).to_bytes())
    stamp(made, 0, base_offset, 1)
    return bytes(made)


class ConsumerBench:
    """The core with the topic known, and a clock that stands still until the test moves it."""

    def __init__(
        self, leaders: Iterable[int] = (1,), *, assign: Iterable[TopicPartition] = (P0,), **settings: Any
    ) -> None:
        self.now_ms = 1_000.0
        self.core = ConsumerCore(ConsumerSettings(**settings), ClusterMetadata(("boot:9",)), (), Random(1))
        self.core.cluster.update(metadata(leaders))
        self.core.assign(assign)
        self.asked: list[Call[Any]] = []
        self.calls()
        self.answer_metadata(metadata(leaders))

    def calls(self) -> list[Call[Any]]:
        """The data calls that are made now; GetMetadata is kept in `asked`."""
        found = self.core.poll(self.now_ms)
        self.asked += [call for call in found if call.method is Method.GET_METADATA]
        self.pending = [call for call in found if call.method is not Method.GET_METADATA] or getattr(
            self, "pending", []
        )
        return [call for call in found if call.method is not Method.GET_METADATA]

    def warned(self) -> str:
        """All that the core wants to be logged as a warning."""
        return "\n".join(each.text for each in self.core.notices if each.level is Level.WARNING)

    def started_at(self, offset: int) -> "ConsumerBench":
        """The look-up of the first offset is answered."""
        call = self.pending[0]
        assert isinstance(call, LookUpCall)
        self.answer_look_up(call, offset)
        self.pending = []
        return self

    def fetch(self) -> FetchCall:
        """The one Fetch that is made now."""
        (call,) = self.calls()
        assert isinstance(call, FetchCall)
        return call

    def answer_metadata(self, answer: GetMetadataResponse) -> None:
        """Some broker answers the GetMetadata that is under way."""
        self.core.completed(self.asked.pop(), answer, self.now_ms)

    def metadata_comes_from(self, answers: Mapping[str, GetMetadataResponse]) -> None:
        """Each GetMetadata that is under way is answered by the broker that was asked; those that are not
        named cannot be reached."""
        while self.asked:
            call = self.asked.pop()
            unreachable = AddressUnreachableError("no route", address=call.address)
            self.core.completed(call, answers.get(call.address, unreachable), self.now_ms)

    def answer_look_up(self, call: LookUpCall, offset: int) -> None:
        """The leader tells an offset for each partition."""
        results = [ListOffsetsPartitionResult(offset=offset) for _ in call.entries]
        self.core.completed(call, ListOffsetsResponse(partitions=results), self.now_ms)

    def answer(self, call: FetchCall, *batches: bytes, high_watermark: int = 1_000, **fields: Any) -> None:
        """The leader answers: the first partition gets the batches, the others nothing."""
        response = FetchResponse()
        for at, entry in enumerate(call.entries):
            result = FetchPartitionResult(
                topic_id=entry.topic_id,
                partition=entry.partition.partition,
                high_watermark=high_watermark,
                batches=b"".join(batches) if at == 0 else b"",
                **{"current_leader": -1, **fields},
            )
            response.partitions.append(result)
        self.core.completed(call, call.decode(response.SerializeToString()), self.now_ms)

    def fail(self, call: Call[Any], error: HightideError) -> None:
        """The call fails as a whole."""
        self.core.completed(call, error, self.now_ms)

    def chunks(self) -> list[FetchedBatch]:
        """All that can be handed out now, handed out."""
        taken = []
        while (chunk := self.core.next_chunk()) is not None:
            self.core.handed_out(chunk, chunk.next_offset)
            taken.append(chunk)
        return taken

    def pass_ms(self, passed_ms: float) -> None:
        """Time goes by."""
        self.now_ms += passed_ms


def offsets(chunks: Iterable[FetchedBatch]) -> list[tuple[int, int]]:
    """(first wanted offset, next offset) of each chunk."""
    return [(chunk.header.base_offset + chunk.skip, chunk.next_offset) for chunk in chunks]


__all__ = ["P0", "P1", "ConsumerBench", "batch", "offsets", "parse"]
