"""Ends the streams of consumers that do not read them. If a host hangs, there are thousands at once."""

from __future__ import annotations

import logging

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_coordinator.core.values.enumeration import first_few
from hightide_coordinator.streams.consumer_streams import ConsumerStream

__all__ = ["UnreadStreams"]

_log = logging.getLogger(__name__)


class UnreadStreams:
    """Ends streams, counts them, and logs them together. One for each shard, on the event loop's thread."""

    def __init__(self, shard: int) -> None:
        self.count = 0
        """The number of streams that were ended so far."""
        self._shard = shard
        self._not_logged: list[str] = []

    def end(self, stream: ConsumerStream) -> None:
        """End a stream whose queue is full. `log` reports it later."""
        self.count += 1
        self._not_logged.append(stream.peer)
        message = (
            f"the consumer at {stream.peer} does not read its stream; read it all the time, then register "
            "again"
        )
        stream.end(ServiceError(ErrorCode.ERROR_CODE_SESSION_TIMED_OUT, message), at_once=True)

    def log(self) -> None:
        """Log one line about all streams that were ended since the last call. The shell calls it now and
        then."""
        if self._not_logged:
            which = "consumer that does" if len(self._not_logged) == 1 else "consumers that do"
            _log.warning(
                "shard %d: ended the streams of %d %s not read: at %s",
                *(self._shard, len(self._not_logged), which, first_few(self._not_logged)),
            )
            self._not_logged.clear()
