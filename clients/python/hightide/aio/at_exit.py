"""What is left to do at the end of the interpreter for an asyncio producer that nobody closed."""

from hightide.errors import UndeliveredError
from hightide.producing.producer_core import ProducerCore


class LoopIsGone:
    """A producer without its loop, as `hightide.producing.at_exit` watches it: nothing can be sent any more,
    only counted."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core

    @property
    def undelivered_count(self) -> int:
        """Records that are neither acknowledged nor failed."""
        return self._core.undelivered_count

    def close(self, timeout_s: float | None = None) -> None:
        """Raise where records are left."""
        if count := self.undelivered_count:
            raise UndeliveredError(f"{count} records were left", undelivered_count=count)
