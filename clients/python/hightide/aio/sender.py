"""The part of an asyncio producer that outlives it; see `hightide.transport.sender`."""

from hightide.aio.driver import Driver
from hightide.aio.loop_condition import LoopCondition
from hightide.errors import InternalError, UndeliveredError
from hightide.transport import at_exit
from hightide.transport.sender import HurriedBatch, SendingCore


class Sender:
    """The sender of one producer, which sets `core` and `driver`."""

    core: SendingCore
    driver: Driver

    def __init__(self, changed: LoopCondition) -> None:
        self._changed = changed

    def hurry(self, batch: HurriedBatch) -> None:
        """Send this batch at once, since its outcome is waited for. Called by deliveries, on the loop. Raises
        ForkedClientError, WrongEventLoopError."""
        with self._changed:
            for leaf in batch.leaves():
                leaf.is_urgent = True
        self.driver.poke()

    def failed(self, failure: BaseException) -> None:
        """Fail all deliveries: nobody is left to end them. Called by the driver with the lock when it has
        failed."""
        self.core.abandon(InternalError(f"the sender task failed: {failure!r}"))

    def ended(self) -> None:
        """Note that everything is delivered or failed. Called by the driver when it has ended by itself."""
        at_exit.forget(self)

    def let_go(self) -> None:
        """Deliver what is left, and end: the producer was collected. Called by the garbage collector. What is
        left after the end of the loop is counted at the end of the interpreter."""
        if not self.driver.let_go() and not self.core.undelivered_count:
            at_exit.forget(self)

    def left_behind(self) -> None:
        """Nothing: whatever uses the producer in a child process is on another loop, and notices."""

    @property
    def undelivered_count(self) -> int:
        """The number of records that are neither acknowledged nor failed yet."""
        return self.core.undelivered_count

    def close(self, timeout_s: float) -> None:
        """Raise UndeliveredError if records are left: at the end of the interpreter the loop has ended, so
        that nothing can be sent any more."""
        if count := self.undelivered_count:
            raise UndeliveredError(f"{count} records were not delivered", undelivered_count=count)
