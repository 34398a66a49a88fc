"""Whether processes that a test starts can be interrupted from the terminal."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum


class Job(Enum):
    """Where a shell would have started a process. A background job of a script is born with SIGINT ignored
    (POSIX, 2.11 "Signals and error handling"), and so is what it starts in turn."""

    FOREGROUND = "foreground"
    BACKGROUND = "background"


@contextmanager
def started_as(job: Job) -> Iterator[None]:
    """Processes started in this block are such a job, whatever the tests themselves were started as.

    Only on the main thread. A signal that is handled here is reset to its default in what is started, one
    that is ignored stays ignored.
    """
    handler = signal.default_int_handler if job is Job.FOREGROUND else signal.SIG_IGN
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
