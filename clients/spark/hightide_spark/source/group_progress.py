"""Tells a consumer group how far a stream is, so that lag tools see it; never one of the group's members."""

import logging
import time
from typing import Final

from hightide import Admin
from hightide.errors import HightideError

from hightide_spark.core.stream_offsets import StreamOffsets, positions

_LOG = logging.getLogger(__name__)
# What a trigger may wait for it at most, and how long it is left alone after a failure.
_TIMEOUT_MS: Final = 10_000
_PAUSE_S: Final = 30.0


class GroupProgress:
    """Publishes for one stream. A refusal or failure is told once in the log and never fails the query; the
    next micro-batch publishes the same and more."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._admin: Admin | None = None
        self._published: StreamOffsets | None = None
        self._not_before_s = 0.0
        self._is_told = False

    def publish(self, offsets: StreamOffsets, *, is_last: bool = False) -> None:
        """Publish the positions behind what is processed, if they are new; the last ones also soon after a
        failure."""
        is_too_early = time.monotonic() < self._not_before_s and not is_last
        if offsets == self._published or is_too_early:
            return
        if self._admin is None:
            self._admin = Admin(self._bootstrap, timeout_ms=_TIMEOUT_MS, client_id="spark")
        try:
            self._admin.commit_group_offsets(self._group, positions(offsets))
        except HightideError as error:
            self._not_before_s = time.monotonic() + _PAUSE_S
            if not self._is_told:
                _LOG.warning("group %s is not told how far this stream is: %s", self._group, error)
                self._is_told = True
            return
        self._published = offsets

    def close(self) -> None:
        """Let go of the connections."""
        if self._admin is not None:
            self._admin.close()
