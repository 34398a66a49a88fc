"""One Produce RPC: one batch for each of some partitions that one broker leads."""

from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import DecodeError

from hightide.batch import wire
from hightide.batch.errors import BatchError
from hightide.calls.call import Call, Method
from hightide.errors import InvalidArgumentError, UnexpectedAnswerError
from hightide.producing.partition_queue import PartitionQueue
from hightide.producing.pending_batch import PendingBatch
from hightide.producing.producer_settings import ProducerSettings
from hightide.v1.broker_service_pb2 import ProduceResponse


@dataclass(frozen=True, slots=True, eq=False)
class ProduceEntry:
    """One partition's part of the call, as known when the call was made."""

    queue: PartitionQueue
    batch: PendingBatch
    topic_id: bytes
    leader_epoch: int


class ProduceCall(Call[ProduceResponse]):
    """The call. Encoding the batches is the producer's main work, so it happens here, outside of the core's
    lock."""

    __slots__ = ("_settings", "entries", "is_cancelled")

    def __init__(
        self, address: str, timeout_ms: int, settings: ProducerSettings, entries: tuple[ProduceEntry, ...]
    ) -> None:
        assert entries, "a call carries something"
        super().__init__(address, Method.PRODUCE, timeout_ms)
        self.entries = entries
        self.is_cancelled = False
        self._settings = settings

    def encode(self) -> bytes:
        """The request, spliced from the batches' own bytes. Raises InvalidArgumentError for records that no
        batch can hold."""
        try:
            partitions = tuple(
                wire.ProducePartition(
                    entry.topic_id,
                    entry.batch.partition,
                    entry.leader_epoch,
                    entry.batch.encode(entry.topic_id, self._settings.compression_codec),
                )
                for entry in self.entries
            )
        except (BatchError, pa.ArrowException, OverflowError) as error:
            raise InvalidArgumentError(f"the records cannot be encoded: {error}") from error
        # The broker should give up before the call does, so that it can say what it waited for.
        wait_ms = max(1, self.timeout_ms - min(1_000, self.timeout_ms // 4))
        return wire.serialise_produce_request(
            wire.ProduceRequest(int(self._settings.acks_code), wait_ms, partitions)
        )

    def decode(self, answer: bytes) -> ProduceResponse:
        """The response; it has one result for each partition, in order."""
        response = ProduceResponse()
        try:
            response.ParseFromString(answer)
        except DecodeError as error:
            raise UnexpectedAnswerError(
                f"the answer to Produce cannot be read: {error}", address=self.address
            ) from error
        self.throttle_time_ms = response.throttle_time_ms
        asked = [(entry.topic_id, entry.batch.partition) for entry in self.entries]
        if [(result.topic_id, result.partition) for result in response.partitions] != asked:
            raise UnexpectedAnswerError(
                "the answer to Produce is about other partitions", address=self.address
            )
        return response
