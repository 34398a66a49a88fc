"""Commits the positions of a stream to a consumer group, so that lag tools see them. The stream is not a
member of the group."""

import logging
import time
from typing import TYPE_CHECKING, Final

from hightide.errors import HightideError

from hightide_spark.core.cluster_options import Cluster
from hightide_spark.core.stream_offsets import StreamOffsets, positions

if TYPE_CHECKING:
    from hightide import Admin

_LOG = logging.getLogger(__name__)
# A trigger waits no longer than this for a commit.
_TIMEOUT_MS: Final = 10_000
# After a failed commit the next one is tried no earlier.
_PAUSE_S: Final = 30.0


class GroupProgress:
    """Commits the positions of one stream, for option groupId. Failures do not fail the query: the first is
    logged, and a later micro-batch commits newer positions."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._admin: Admin | None = None
        self._published: StreamOffsets | None = None
        self._not_before_s = 0.0
        self._is_warned = False

    def publish(self, offsets: StreamOffsets, *, is_last: bool = False) -> None:
        """Commit these positions (the offset of each partition's next record), unless they are committed.
        After a failure this does nothing for _PAUSE_S, except for the last positions of a query. The stream
        reader calls it for each trigger."""
        is_too_early = time.monotonic() < self._not_before_s and not is_last
        if offsets == self._published or is_too_early:
            return
        if self._admin is None:
            from hightide import Admin

            self._admin = Admin(**self._cluster.arguments(), timeout_ms=_TIMEOUT_MS)
        try:
            self._admin.commit_group_offsets(self._group, positions(offsets))
        except HightideError as error:
            self._not_before_s = time.monotonic() + _PAUSE_S
            if not self._is_warned:
                _LOG.warning("group %s is not told how far this stream is: %s", self._group, error)
                self._is_warned = True
            return
        self._published = offsets

    def close(self) -> None:
        """Close the connections. The stream reader calls it at the end of the query."""
        if self._admin is not None:
            self._admin.close()
