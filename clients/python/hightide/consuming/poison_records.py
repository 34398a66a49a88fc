"""The records of whole batches that a deserializer cannot read, and what a consumer does with them.

Rules of this file: no clock, no I/O; the deserializer is the user's.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hightide.calls.notice import Level, Notice
from hightide.consuming.corrupt_batches import OnCorruptBatch
from hightide.errors import DeserializationError, HightideError
from hightide.records import Record, TopicPartition


class PoisonRecords:
    """The deserializer of one consumer, if it has one, and the records that it could not read. Only what a
    DeserializationError blames is left out, and only if the policy says so.
    Thread-safe, if the deserializer is."""

    def __init__(self, policy: OnCorruptBatch, report: Callable[[Notice], None]) -> None:
        """`report` is told of each record that is left out."""
        self.deserialize: Callable[[Record], Any] | None = None
        self._policy = policy
        self._report = report
        self._skipped: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()

    @property
    def skipped(self) -> Mapping[TopicPartition, int]:
        """The number of records that were left out, by partition; partitions without any are absent."""
        with self._lock:
            return dict(self._skipped)

    def opened(self, record: Record) -> Any:
        """The record as the user wants it, or None if it is left out, which is counted and reported. Raises
        the errors of the deserializer."""
        if self.deserialize is None:
            return record
        try:
            return self.deserialize(record)
        except DeserializationError as error:
            if self._policy == "fail":
                raise
            place = TopicPartition(record.topic, record.partition)
            with self._lock:
                self._skipped[place] = self._skipped.get(place, 0) + 1
            text = f"{error.message}: left out, as on_corrupt_batch says"
            self._report(Notice("hightide.consumer", Level.WARNING, text))
        return None

    def opened_all(self, records: Sequence[Record]) -> tuple[list[Any], int]:
        """Those of the records that are not left out, up to the first that cannot be read, and how many were
        looked at. Raises the error of the first record."""
        found: list[Any] = []
        for at, record in enumerate(records):
            try:
                one = self.opened(record)
            except HightideError:
                if at == 0:
                    raise
                return found, at
            if one is not None:
                found.append(one)
        return found, len(records)
