"""Consumers that do not read their streams: a host that stands still has thousands of them at once."""

from __future__ import annotations

import logging

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_coordinator.core.values.enumeration import first_few
from hightide_coordinator.streams.consumer_streams import ConsumerStream

__all__ = ["UnreadStreams"]

_log = logging.getLogger(__name__)


class UnreadStreams:
    """One for each shard. Belongs to the event loop's thread."""

    def __init__(self, shard: int) -> None:
        self.count = 0
        """How many there were so far."""
        self._shard = shard
        self._untold: list[str] = []

    def end(self, stream: ConsumerStream) -> None:
        """End a stream whose queue is full; `tell` says so to people."""
        self.count += 1
        self._untold.append(stream.peer)
        message = (
            f"the consumer at {stream.peer} does not read its stream; read it all the time, then register "
            "again"
        )
        stream.end(ServiceError(ErrorCode.ERROR_CODE_SESSION_TIMED_OUT, message), at_once=True)

    def tell(self) -> None:
        """One line about all that were ended since the last."""
        if self._untold:
            which = "consumer that does" if len(self._untold) == 1 else "consumers that do"
            _log.warning(
                "shard %d: ended the streams of %d %s not read: at %s",
                *(self._shard, len(self._untold), which, first_few(self._untold)),
            )
            self._untold.clear()
