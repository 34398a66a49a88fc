"""Producers that were not closed: at the end of the interpreter they get a last moment to deliver, and the
records left are counted on stderr and in the log."""

import atexit
import logging
import os
import sys
from typing import Final, Protocol

from hightide.errors import HightideError

log = logging.getLogger("hightide.producer")

LAST_MOMENT_S: Final = 5.0


class WatchedSender(Protocol):
    """The part of a producer that the end of the interpreter, and a fork, need."""

    @property
    def undelivered_count(self) -> int:
        """Records that are neither acknowledged nor failed."""

    def close(self, timeout_s: float) -> None:
        """Deliver what is left, and end. Raises UndeliveredError if records are left."""

    def left_behind(self) -> None:
        """Note that this is a child process, where the producer cannot be used."""


# It has no lock, since the garbage collector may call `forget` on any thread: each use of the set is one step
# for other threads.
_open: set[WatchedSender] = set()


def watch(sender: WatchedSender) -> None:
    """Count this producer's records at exit, unless it is closed before."""
    _open.add(sender)


def forget(sender: WatchedSender) -> None:
    """Stop watching the producer, because it is closed, or has ended by itself."""
    _open.discard(sender)


def tell(count: int) -> None:
    """Report on stderr and in the log how many records were lost."""
    text = f"hightide: {count} records were not delivered when the program ended; close() the producer"
    log.warning(text)
    print(text, file=sys.stderr, flush=True)


@atexit.register
def _close_all() -> None:
    for sender in list(_open):
        count = sender.undelivered_count
        try:
            sender.close(LAST_MOMENT_S)
        except HightideError as error:
            tell(getattr(error, "undelivered_count", count))


def _leave_behind() -> None:
    """Leave the producers to the parent process, which delivers their records and counts them."""
    for sender in list(_open):
        sender.left_behind()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_behind)
