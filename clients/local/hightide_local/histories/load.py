"""Clients that work while a test injects faults, and note their observations in a history."""

import threading
import time
from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from hightide import Consumer, Delivery, HightideError, Producer, Record, TopicPartition
from hightide.errors import (
    DeliveryTimeoutError,
    NotEnoughReplicasError,
    RecordTooLargeError,
)
from hightide.producing.producer_settings import Acks

from hightide_local.histories.history import EndSeen, History, LogPlace, ReadRecord, SendOutcome, SentRecord
from hightide_local.histories.violation import NotInTimeError, require

_KEYS = 31
_WINDOW = 400
_BURST = 20
_PAUSE_S = 0.03
_VALUE_PADDING = b"." * 150


class HistoryLoad:
    """One producer that sends unique records, with at most _WINDOW of them under way.

    Use it as a with-block, which ends when each record is acknowledged or has failed. `errors` are the
    failures that the application would have seen. The rate is about 600 records/s in bursts. A rate of 2,000
    took nearly twice the processor time, and found no more orders of events.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        history: History,
        *,
        name: str = "load",
        acks: Acks = "all",
        idempotent: bool = True,
        delivery_timeout_ms: int = 60_000,
        request_timeout_ms: int = 5_000,
    ) -> None:
        self.errors: list[HightideError] = []
        self.slowest_ms = 0.0
        self._topic, self._history, self._name = topic, history, name
        self._producer = Producer(
            bootstrap,
            acks=acks,
            idempotent=idempotent,
            linger_ms=1,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
        )
        self._window = threading.Semaphore(_WINDOW)
        self._stopped = threading.Event()
        self._changed = threading.Condition()
        self._acknowledged: Counter[int] = Counter()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def wait_for_acknowledged(self, more: int, partitions: Iterable[int], timeout_s: float) -> None:
        """Wait until `more` records than now are acknowledged in each of these partitions. Raises
        NotInTimeError."""
        with self._changed:
            goals = {partition: self._acknowledged[partition] + more for partition in partitions}
            reached = self._changed.wait_for(
                lambda: all(self._acknowledged[partition] >= goal for partition, goal in goals.items()),
                timeout_s,
            )
        missing = {partition: goal - self._acknowledged[partition] for partition, goal in goals.items()}
        if not reached:
            raise NotInTimeError(
                f"of {more} records in each partition, {missing} were not acknowledged within "
                f"{timeout_s:g} s; errors: {self.errors[:3]}"
            )

    def stop(self) -> None:
        """Stop sending, and wait until each record is acknowledged or has failed."""
        self._stopped.set()
        self._thread.join(90)
        require(not self._thread.is_alive(), "the producer blocks in send()")
        self._producer.close(90)

    def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            for _ in range(_BURST):
                while not self._window.acquire(timeout=0.1):
                    if self._stopped.is_set():
                        return
                self._send(number)
                number += 1
            self._stopped.wait(_PAUSE_S)

    def _send(self, number: int) -> None:
        key = f"{self._name}-{number % _KEYS}".encode()
        value = f"{self._name}-{number}".encode() + _VALUE_PADDING
        sent_ns = time.monotonic_ns()
        try:
            delivery = self._producer.send(self._topic, value, key)
        except HightideError as error:
            self._note(number, key, value, sent_ns, error, None)
            return
        delivery.add_done_callback(lambda done: self._completed(number, key, value, sent_ns, done))

    def _completed(self, number: int, key: bytes, value: bytes, sent_ns: int, delivery: Delivery) -> None:
        error = delivery.exception(0)
        place = None
        if error is None:
            where = delivery.result(0)
            place = LogPlace(where.topic, where.partition, where.offset) if where.offset >= 0 else None
        self._note(number, key, value, sent_ns, error, place)

    def _note(
        self,
        number: int,
        key: bytes,
        value: bytes,
        sent_ns: int,
        error: HightideError | None,
        place: LogPlace | None,
    ) -> None:
        now_ns = time.monotonic_ns()
        send = SentRecord(self._name, number, key, value, outcome_of(error), place, now_ns)
        with self._changed:
            self._history.sends.append(send)
            if error is None:
                if place is not None:
                    self._acknowledged[place.partition] += 1
                self.slowest_ms = max(self.slowest_ms, (now_ns - sent_ns) / 1e6)
            else:
                self.errors.append(error)
            self._changed.notify_all()
        self._window.release()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            # The test has failed. Errors of undelivered records must not hide its own error.
            self._stopped.set()


def outcome_of(error: HightideError | None) -> SendOutcome:
    """The outcome of a record for an application, from the error of its delivery, or None."""
    if error is None:
        return SendOutcome.ACKNOWLEDGED
    if isinstance(error, NotEnoughReplicasError | RecordTooLargeError):
        return SendOutcome.REFUSED
    if isinstance(error, DeliveryTimeoutError) and not error.maybe_appended:
        return SendOutcome.REFUSED
    return SendOutcome.UNKNOWN


class EndWatch:
    """Asks for the high watermarks of some partitions again and again, and notes the answers. A with-block
    runs it."""

    def __init__(self, bootstrap: str, partitions: Iterable[TopicPartition], history: History) -> None:
        self._partitions = list(partitions)
        self._history = history
        self._consumer = Consumer(bootstrap, request_timeout_ms=2_000, unavailable_timeout_ms=60_000)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="end-watch", daemon=True)
        self.errors: list[HightideError] = []

    def _run(self) -> None:
        while not self._stopped.wait(0.05):
            asked_ns = time.monotonic_ns()
            try:
                ends = self._consumer.end_offsets(self._partitions)
            except HightideError as error:
                self.errors.append(error)
                continue
            answered_ns = time.monotonic_ns()
            for partition, offset in ends.items():
                place = LogPlace(partition.topic, partition.partition, offset)
                self._history.ends.append(EndSeen("end-watch", place, asked_ns, answered_ns))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(90)
        require(not self._thread.is_alive(), "the watcher's request never ends")
        self._consumer.close()


class TopicTail:
    """Reads a topic from its beginning during the load, and notes the records. A with-block runs it."""

    def __init__(self, bootstrap: str, topic: str, history: History) -> None:
        self._consumer = Consumer(bootstrap, topics=topic, request_timeout_ms=2_000, fetch_max_wait_ms=100)
        self._history = history
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)
        self.errors: list[HightideError] = []

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                records = self._consumer.poll(timeout_s=0.2, max_records=5_000)
            except HightideError as error:
                self.errors.append(error)
                continue
            self._history.reads += [read_as(record, "tail") for record in records]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(90)
        require(not self._thread.is_alive(), "poll() does not come back")
        self._consumer.close()


def read_as(record: Record, reader: str) -> ReadRecord:
    """A record as an observation of this reader."""
    place = LogPlace(record.topic, record.partition, record.offset)
    return ReadRecord(reader, place, record.key or b"", record.value or b"")


def read_everything(bootstrap: str, topic: str, history: History, *, reader: str) -> None:
    """Read all partitions of a topic once, from the first offset to the present end, and note the records."""
    with Consumer(bootstrap, topics=topic) as consumer:
        for record in consumer.read_to_end():
            history.reads.append(read_as(record, reader))
