"""Producers that were not closed: at the end of the interpreter they get a last moment to deliver, and the
records left are counted on stderr and in the log."""

import atexit
import logging
import sys
import threading
from typing import Final, Protocol

from hightide.errors import HightideError

log = logging.getLogger("hightide.producer")

LAST_MOMENT_S: Final = 5.0


class WatchedProducer(Protocol):
    """The part of a producer that the end of the interpreter needs."""

    @property
    def undelivered_count(self) -> int:
        """Records that are neither acknowledged nor failed."""

    def close(self, timeout_s: float | None = None) -> None:
        """Flush and end. Raises if records are left."""


_open: set[WatchedProducer] = set()
_lock = threading.Lock()


def watch(producer: WatchedProducer) -> None:
    """Count this producer's records at exit, unless it is closed before."""
    with _lock:
        _open.add(producer)


def forget(producer: WatchedProducer) -> None:
    """Stop watching the producer, because it is closed."""
    with _lock:
        _open.discard(producer)


def tell(count: int) -> None:
    """Report on stderr and in the log how many records were lost."""
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
