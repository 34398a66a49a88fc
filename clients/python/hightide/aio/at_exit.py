"""The end of the interpreter for an asyncio producer that was not closed."""

from hightide.errors import UndeliveredError
from hightide.producing.producer_core import ProducerCore


class LoopIsGone:
    """A producer whose loop has ended, as `hightide.transport.at_exit` watches it: nothing can be sent any
    more, only counted."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core

    @property
    def undelivered_count(self) -> int:
        """Records that are neither acknowledged nor failed."""
        return self._core.undelivered_count

    def close(self, timeout_s: float | None = None) -> None:
        """Raise if records are left."""
        if count := self.undelivered_count:
            raise UndeliveredError(f"{count} records were not delivered", undelivered_count=count)
