"""What happens to producers that nobody closed: at the end of the interpreter they get a last moment to
deliver, and what is left is counted loudly, on stderr and in the log."""

import atexit
import logging
import sys
import threading
from typing import Final, Protocol

from hightide.errors import HightideError

log = logging.getLogger("hightide.producer")

LAST_MOMENT_S: Final = 5.0


class WatchedProducer(Protocol):
    """A producer, as far as its end is concerned."""

    @property
    def undelivered_count(self) -> int:
        """Records that are neither acknowledged nor failed."""

    def close(self, timeout_s: float | None = None) -> None:
        """Flush and end; raises where records are left."""


_open: set[WatchedProducer] = set()
_lock = threading.Lock()


def watch(producer: WatchedProducer) -> None:
    """Count this producer's records at exit, unless it is closed before."""
    with _lock:
        _open.add(producer)


def forget(producer: WatchedProducer) -> None:
    """The producer is closed."""
    with _lock:
        _open.discard(producer)


def tell(count: int) -> None:
    """Say loudly how many records were lost."""
    text = f"hightide: {count} records were not delivered when the program ended; close() the producer"
    log.warning(text)
    print(text, file=sys.stderr, flush=True)


@atexit.register
def _close_all() -> None:
    with _lock:
        producers = list(_open)
    for producer in producers:
        count = producer.undelivered_count
        try:
            producer.close(LAST_MOMENT_S)
        except HightideError as error:
            tell(getattr(error, "undelivered_count", count))
