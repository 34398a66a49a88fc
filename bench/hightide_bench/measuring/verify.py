"""`bench verify`: sends numbered records and reads them, while something else injects faults."""

import os
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from hightide import Consumer, Delivery, HightideError, Producer, TopicPartition
from hightide_cli.printing.progress import WorkDone

from hightide_bench.measuring.deliveries import DeliveryTimes
from hightide_bench.measuring.sequence_check import SequenceCheck, SequenceFindings

_NUMBERED: Final = struct.Struct("<16sq")
_STEP_S: Final = 0.01
_POLL_TIMEOUT_S: Final = 0.2
# A fault may last long before it is mended.
_UNAVAILABLE_TIMEOUT_MS: Final = 600_000


@dataclass(frozen=True, slots=True)
class VerifyPlan:
    """The load: records of `record_bytes` bytes, `records_per_s` of them in all, to the partitions in
    turns."""

    partitions: int
    records_per_s: float
    measured_s: float
    record_bytes: int
    acks: Literal["all", 1]


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The result. `unavailable_ms_max` is the longest time in which a partition acknowledged no record."""

    findings: SequenceFindings
    unavailable_ms_max: float
    first_error: HightideError | None


class VerifyRun:
    """One run on one topic. The main thread sends, and another thread reads from the beginning."""

    def __init__(self, bootstrap: str, topic: str, plan: VerifyPlan) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._plan = plan
        self._run_id = os.urandom(16)
        self._padding = bytes(max(0, plan.record_bytes - _NUMBERED.size))
        self._check = SequenceCheck(plan.partitions)
        self._times = DeliveryTimes(range(plan.partitions))
        self._sent = [0] * plan.partitions
        self._unsure: list[set[int]] = [set() for _ in range(plan.partitions)]
        self._first_error: HightideError | None = None
        self._all_is_sent = threading.Event()
        self._reading_failed: list[BaseException] = []

    def run(self, done: WorkDone) -> VerifyResult:
        """Send, read everything back, and return the result. Ctrl-C ends the sending, and the check follows.
        Raises HightideError if the cluster was not available for ten minutes."""
        reader = threading.Thread(target=self._read_guarded, name="verify-reader", daemon=True)
        reader.start()
        started_ms = time.monotonic() * 1000
        with Producer(
            self._bootstrap, acks=self._plan.acks, delivery_timeout_ms=_UNAVAILABLE_TIMEOUT_MS
        ) as producer:
            with suppress(KeyboardInterrupt):
                self._send(producer, done)
            producer.flush()
        waits = self._times.longest_waits_ms(started_ms, time.monotonic() * 1000)
        self._all_is_sent.set()
        reader.join()
        if self._reading_failed:
            raise self._reading_failed[0]
        findings = self._check.result(self._sent, self._unsure)
        return VerifyResult(findings, max(waits.values()), self._first_error)

    def _send(self, producer: Producer, done: WorkDone) -> None:
        wanted = int(self._plan.records_per_s * self._plan.measured_s)
        started_s, sent = time.monotonic(), 0
        while sent < wanted and not self._reading_failed:
            due = min(wanted, int((time.monotonic() - started_s) * self._plan.records_per_s) + 1)
            for number in range(sent, due):
                partition = number % self._plan.partitions
                sequence = self._sent[partition]
                value = _NUMBERED.pack(self._run_id, sequence) + self._padding
                delivery = producer.send(self._topic, value, partition=partition)
                self._sent[partition] = sequence + 1
                delivery.add_done_callback(partial(self._delivered, partition, sequence))
            sent = max(sent, due)
            done.reach(sent)
            time.sleep(_STEP_S)

    def _delivered(self, partition: int, sequence: int, delivery: Delivery) -> None:
        error = delivery.exception(0)
        if error is None:
            self._times.acknowledged(partition, time.monotonic() * 1000)
        else:
            self._unsure[partition].add(sequence)
            self._first_error = self._first_error or error

    def _read_guarded(self) -> None:
        try:
            self._read()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._reading_failed.append(error)

    def _read(self) -> None:
        places = [TopicPartition(self._topic, number) for number in range(self._plan.partitions)]
        with Consumer(
            self._bootstrap, offset_reset="error", unavailable_timeout_ms=_UNAVAILABLE_TIMEOUT_MS
        ) as consumer:
            consumer.assign(places)
            consumer.seek_to_beginning()
            ends: dict[TopicPartition, int] | None = None
            while ends is None or any(consumer.position(place) < ends[place] for place in places):
                for record in consumer.poll(_POLL_TIMEOUT_S):
                    self._take(record)
                if ends is None and self._all_is_sent.is_set():
                    ends = consumer.end_offsets(places)

    def _take(self, record: Any) -> None:
        value = record.value or b""
        if len(value) < _NUMBERED.size:
            self._check.read_foreign(record.partition, record.offset)
            return
        run_id, sequence = _NUMBERED.unpack_from(value)
        if run_id != self._run_id:
            self._check.read_foreign(record.partition, record.offset)
        else:
            self._check.read(record.partition, sequence)
