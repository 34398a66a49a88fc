"""The demo's load: sends all rows over some seconds, so that processes are killed under load."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from hightide import Delivery, HightideError, Producer
from hightide_bench.measuring.comparison import RecordRow
from hightide_bench.measuring.deliveries import DeliveryTimes

from hightide_demo.pace import LoadPace

_STEP_S = 0.01


class DemoLoad:
    """Sends rows at an even pace, and notes when each was acknowledged.

    `send_all` runs in the main thread, so that Ctrl-C ends it. Any thread may read `acknowledged`.
    """

    def __init__(self, rows: Sequence[RecordRow], topic: str, partitions: int, duration_s: float) -> None:
        self._rows = rows
        self._topic = topic
        self.partition_count = partitions
        self.pace = LoadPace(len(rows), duration_s)
        self.times = DeliveryTimes(range(partitions))
        self._failed: dict[int, HightideError] = {}
        self._stop = threading.Event()

    @property
    def rows_total(self) -> int:
        """The number of rows to send."""
        return len(self._rows)

    @property
    def acknowledged(self) -> int:
        """The number of rows that are acknowledged by now."""
        return self.times.total()

    @property
    def first_error(self) -> HightideError | None:
        """The error of the first row that failed; None if none failed."""
        return next(iter(self._failed.values()), None)

    def written(self) -> list[RecordRow]:
        """Return the rows that were acknowledged, in the order of sending. Call it after the flush."""
        return [row for at, row in enumerate(self._rows) if at not in self._failed]

    def unsure(self) -> list[RecordRow]:
        """Return the rows that failed, which may be in the log or not. Call it after the flush."""
        return [self._rows[at] for at in self._failed]

    def stop(self) -> None:
        """End the sending, so that `send_all` returns soon. Called when the script of the demo has failed."""
        self._stop.set()

    def send_all(self, producer: Producer, on_progress: Callable[[], None]) -> None:
        """Send all rows, and return when each is acknowledged or has failed. `on_progress` is called every
        few milliseconds."""
        before_s = time.monotonic()
        sent = 0
        while sent < len(self._rows) and not self._stop.is_set():
            now_s = time.monotonic()
            due = self.pace.advance(now_s - before_s)
            before_s = now_s
            for at in range(sent, due):
                row = self._rows[at]
                delivery = producer.send(self._topic, row.value, row.key)
                delivery.add_done_callback(partial(self._done, at))
            sent = due
            on_progress()
            self._stop.wait(_STEP_S)
        while producer.undelivered_count and not self._stop.is_set():
            on_progress()
            self._stop.wait(_STEP_S)
        producer.flush()
        on_progress()

    def _done(self, at: int, delivery: Delivery) -> None:
        error = delivery.exception(0)
        if error is None:
            self.times.acknowledged(delivery.result(0).partition, time.monotonic() * 1000)
        else:
            self._failed[at] = error
