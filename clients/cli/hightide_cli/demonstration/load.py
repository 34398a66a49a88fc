"""The demo's load: every row, spread over some seconds, so that what is killed is killed under load."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from hightide import Delivery, HightideError, Producer

from hightide_cli.comparison import Row
from hightide_cli.deliveries import DeliveryTimes

_STEP_S = 0.01
# While a mark is held, the distance to it shrinks by this factor a second: a trickle goes on for long.
_SLOWING_PER_S = 2.0


class Load:
    """Sends rows at an even pace and notes when each was acknowledged.

    `send_all` runs in the main thread, so that Ctrl-C ends it. `acknowledged` may be asked by any thread.
    """

    def __init__(self, rows: Sequence[Row], topic: str, partitions: int, duration_s: float) -> None:
        assert rows
        assert duration_s > 0
        self._rows = rows
        self._topic = topic
        self._rows_per_s = len(rows) / duration_s
        self.times = DeliveryTimes(range(partitions))
        self._failed: dict[int, HightideError] = {}
        self._stop = threading.Event()
        self._mark: int | None = None

    def hold_before(self, share: float) -> None:
        """Slow down towards this share of the rows, never quite reaching it, until `release`.

        The script calls it so that what it waits for, and what it kills next, comes under load, on a slow
        machine as on a fast one.
        """
        self._mark = int(len(self._rows) * share)

    def release(self) -> None:
        """Go on at the full pace."""
        self._mark = None

    @property
    def rows_total(self) -> int:
        """How many rows there are to send."""
        return len(self._rows)

    @property
    def acknowledged(self) -> int:
        """How many rows are acknowledged by now."""
        return self.times.total()

    @property
    def first_error(self) -> HightideError | None:
        """Why the first row that failed did so; None where none failed."""
        return next(iter(self._failed.values()), None)

    def written(self) -> list[Row]:
        """Return the rows that were acknowledged, in the order of sending. Call it after the flush."""
        return [row for at, row in enumerate(self._rows) if at not in self._failed]

    def unsure(self) -> list[Row]:
        """Return the rows that failed, which may be in the log or not. Call it after the flush."""
        return [self._rows[at] for at in self._failed]

    def stop(self) -> None:
        """Send no more; `send_all` returns soon. Called when the script of the demo has failed."""
        self._stop.set()

    def send_all(self, producer: Producer, on_progress: Callable[[], None]) -> None:
        """Send every row, and return when all are acknowledged or failed."""
        before_s = time.monotonic()
        sent, due = 0, 0.0
        while sent < len(self._rows) and not self._stop.is_set():
            now_s = time.monotonic()
            due = self._due(due, now_s - before_s)
            before_s = now_s
            for at in range(sent, int(due)):
                row = self._rows[at]
                delivery = producer.send(self._topic, row.value, row.key)
                delivery.add_done_callback(partial(self._done, at))
            sent = int(due)
            on_progress()
            self._stop.wait(_STEP_S)
        while producer.undelivered_count and not self._stop.is_set():
            on_progress()
            self._stop.wait(_STEP_S)
        producer.flush()
        on_progress()

    def _due(self, due: float, elapsed_s: float) -> float:
        """Return how many rows shall have been sent, given how many that were a moment ago."""
        rows_per_s = self._rows_per_s
        mark = self._mark
        if mark is not None:
            rows_per_s = min(rows_per_s, max(mark - due, 1.0) * _SLOWING_PER_S)
        return min(due + elapsed_s * rows_per_s, float(len(self._rows)))

    def _done(self, at: int, delivery: Delivery) -> None:
        error = delivery.exception(0)
        if error is None:
            self.times.acknowledged(delivery.result(0).partition, time.monotonic() * 1000)
        else:
            self._failed[at] = error
