"""The part of a blocking producer that outlives it.

Its batches, its thread and the end of the interpreter know this object and not the producer. So a producer
that nobody closes can be collected, and its records are delivered all the same.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from hightide.errors import HightideError, InternalError, UndeliveredError
from hightide.transport import at_exit
from hightide.transport.driver import Driver, run_callbacks
from hightide.transport.thread_condition import ThreadCondition


class SendingCore(Protocol):
    """The interface of a producer's core to its sender."""

    topics: dict[str, Any]
    callbacks: list[Callable[[], object]]

    @property
    def undelivered_count(self) -> int:
        """The number of records that are neither acknowledged nor failed."""

    def abandon(self, error: HightideError) -> None:
        """Fail all that is not delivered."""


class HurriedBatch(Protocol):
    """A batch whose outcome is waited for."""

    is_urgent: bool

    def leaves(self) -> "Iterator[HurriedBatch]":
        """The batch, or those into which it was split."""


class Sender:
    """The sender of one producer, which sets `core` and `driver`. Thread-safe."""

    core: SendingCore
    driver: Driver

    def __init__(self, changed: ThreadCondition) -> None:
        self._changed = changed

    def hurry(self, batch: HurriedBatch) -> None:
        """Send this batch at once, since its outcome is waited for. Called by deliveries, from any thread.
        Raises ForkedClientError."""
        with self._changed:
            for leaf in batch.leaves():
                leaf.is_urgent = True
        self.driver.poke()

    def failed(self, failure: BaseException) -> None:
        """Fail all deliveries: nobody is left to end them. Called by the driver with the lock when it has
        failed."""
        self.core.abandon(InternalError(f"the sender thread failed: {failure!r}"))

    def ended(self) -> None:
        """Note that everything is delivered or failed. Called by the driver when it has ended by itself."""
        at_exit.forget(self)

    def let_go(self) -> None:
        """Deliver what is left, and end: the producer was collected. Called by the garbage collector."""
        if self.driver.is_running:
            self.driver.let_go()
        else:
            at_exit.forget(self)

    def left_behind(self) -> None:
        """Close the fast path of send(), which would not notice that this is a child process."""
        self.core.topics.clear()

    @property
    def undelivered_count(self) -> int:
        """The number of records that are neither acknowledged nor failed yet."""
        with self._changed:
            return self.core.undelivered_count

    def close(self, timeout_s: float) -> None:
        """Deliver what is left, for so long. Called at the end of the interpreter. Raises UndeliveredError if
        records were left; their deliveries fail."""
        self.driver.let_go()
        self.driver.join(timeout_s)
        with self._changed:
            count = self.core.undelivered_count
            error = UndeliveredError(f"{count} records were not delivered", undelivered_count=count)
            self.core.abandon(error)
            callbacks, self.core.callbacks = self.core.callbacks, []
        run_callbacks(callbacks)
        if count:
            raise error
