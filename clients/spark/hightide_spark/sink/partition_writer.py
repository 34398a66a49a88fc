"""The sending of one task's rows to one log partition: the shell of `core.reconcile.PartitionAttempt`."""

import logging
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from hightide.errors import FencedProducerEpochError, RangeDeletedError, RangeLostError, SequenceConflictError
from hightide.producer import Producer
from hightide.producer_key import ProducerKey
from hightide.producing.arrow_rows import cut
from hightide.producing.delivery import BulkDelivery
from hightide.records import ProducerState, TopicPartition

from hightide_spark.core.cluster_options import Cluster
from hightide_spark.core.reconcile import (
    GoOn,
    PartitionAttempt,
    Read,
    WrittenRowsGoneError,
    refuse_rows_elsewhere,
    taken_over,
)
from hightide_spark.source.connections import admin_of, range_reader_of

#: A batch has no more bytes, unless it is one row. It is larger than `task.GATHERED_BYTES`, so that rows that
#: are sent together are seldom cut, and smaller than the default of max.message.bytes.
BATCH_BYTES: Final = 4_000_000

log = logging.getLogger("hightide.spark.sink")


class ReadBack:
    """Looks up the rows that attempts of a task wrote, over the connections of this process."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topic_ids: dict[str, bytes] = {}

    def known(
        self, places: Iterable[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The state that logs keep of a producer, for each partition one or none."""
        return admin_of(self._cluster).describe_producers(places, [producer_id])

    def read(self, topic: str, partition: int, span: Read, attempt: PartitionAttempt) -> None:
        """Read this range, and pass its batches to the attempt. The range may end earlier than expected."""
        if topic not in self._topic_ids:
            (description,) = admin_of(self._cluster).describe_topics([topic])
            self._topic_ids[topic] = description.topic_id
        topic_id = self._topic_ids[topic]
        try:
            reader = range_reader_of(self._cluster)
            for batch in reader.read(topic, topic_id, partition, span.start, span.end):
                writer = (batch.header.producer_id, batch.header.producer_epoch)
                attempt.saw(*writer, batch.base_offset, batch.rows)
        except RangeLostError as error:
            # These rows were not committed when the leader described them, and a new leader lacks them.
            log.warning("looking again at what was written before: %s", error)
        except RangeDeletedError as error:
            raise WrittenRowsGoneError(f"what this task wrote is deleted: {error}") from error


class PartitionWriter:
    """Sends the rows of one task for one log partition. If `exactly_once` is None, they are sent at least
    once."""

    def __init__(
        self, producer: Producer, topic: str, partition: int, exactly_once: "ExactlyOnce | None"
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._exactly_once = exactly_once
        self._sent: deque[tuple[BulkDelivery, Any]] = deque()
        self._attempt = None if exactly_once is None else exactly_once.attempt(topic, partition)

    def send(self, rows: Any) -> None:
        """Take rows; they are sent in the background. Errors as of `settle`."""
        self.settle()
        self._append(rows if self._attempt is None else self._attempt.unwritten(rows))

    def settle(self) -> None:
        """Release the rows that are in the log by now. Called for all partitions again and again, so that
        none holds many. Raises ExactlyOnceError, and the errors of sending rows."""
        self._settle(wait=False)
        if self._attempt is not None and self._attempt.is_refused:
            self._reconcile()

    def finish(self) -> None:
        """Return when all rows are in the log. Raises ExactlyOnceError, and the errors of sending rows."""
        self._settle(wait=True)
        if self._attempt is None:
            return
        while self._attempt.is_refused:
            self._reconcile()
            self._settle(wait=True)
        self._attempt.finish()

    def _append(self, rows: Any) -> None:
        for part, _ in cut(rows, BATCH_BYTES):
            try:
                delivery = self._producer.send_arrow(self._topic, part, partition=self._partition)
            except FencedProducerEpochError as error:
                # The log of another partition has already refused this producer's epoch.
                self._fail(error)
            self._sent.append((delivery, part))

    def _settle(self, *, wait: bool) -> None:
        """Take note of delivered and refused rows."""
        while self._sent and (wait or self._sent[0][0].done()):
            delivery, rows = self._sent.popleft()
            delivery.exception()
            at = 0
            for piece in delivery.pieces():
                if piece.error is not None:
                    self._failed(piece.error, rows.slice(at, piece.record_count))
                elif self._attempt is not None:
                    self._attempt.acknowledged(piece.base_offset, piece.record_count)
                at += piece.record_count

    def _failed(self, error: Exception, rows: Any) -> None:
        if self._attempt is not None and isinstance(error, SequenceConflictError):
            self._attempt.refused(rows)
            return
        self._fail(error)

    def _fail(self, error: Exception) -> NoReturn:
        if isinstance(error, FencedProducerEpochError) and self._exactly_once is not None:
            raise taken_over(self._exactly_once.who, f"{self._topic}-{self._partition}") from error
        raise error

    def _reconcile(self) -> None:
        """Find out, after a conflict, which rows other attempts wrote, and send the rest."""
        attempt, exactly_once = self._attempt, self._exactly_once
        assert attempt is not None, "only exactly-once writers have conflicts"
        assert exactly_once is not None, "it is given with the attempt"
        while attempt.is_refused:
            # All rows that were sent after the refused ones are refused, too.
            self._settle(wait=True)
            time.sleep(attempt.pause_ms / 1000)
            place = TopicPartition(self._topic, self._partition)
            known = exactly_once.read_back.known([place], exactly_once.key.producer_id)[place]
            match attempt.look(known[0] if known else None):
                case Read() as span:
                    exactly_once.read_back.read(self._topic, self._partition, span, attempt)
                case GoOn(next_sequence, tables):
                    self._producer.go_on_at(self._topic, self._partition, next_sequence)
                    for rows in tables:
                        self._append(rows)


class ExactlyOnce:
    """The common state of the writers of one task."""

    def __init__(self, who: str, key: ProducerKey, cluster: Cluster, *, with_timestamps: bool) -> None:
        self.who = who
        self.key = key
        self.read_back = ReadBack(cluster)
        self._with_timestamps = with_timestamps

    def attempt(self, topic: str, partition: int) -> PartitionAttempt:
        """The knowledge of one log partition, empty."""
        return PartitionAttempt(
            self.who,
            f"{topic}-{partition}",
            self.key.producer_id,
            self.key.producer_epoch,
            with_timestamps=self._with_timestamps,
        )

    def finish(self, unwritten: Iterable[TopicPartition]) -> None:
        """End the task, with the log partitions for which it has no rows. Raises OtherRowsWrittenError."""
        known = self.read_back.known(unwritten, self.key.producer_id)
        states = [(f"{place.topic}-{place.partition}", known[place]) for place in known]
        refuse_rows_elsewhere(self.who, self.key.producer_epoch, states)
