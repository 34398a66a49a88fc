"""The last part of a failover's trace: followers connect, a record is committed (V3 discussion 1, step 5).

One span for each LeaderAndISR request that made this broker a leader, whatever the number of
partitions in it; it ends with the first commit in any of them.
"""

from __future__ import annotations

from hightide_runtime.telemetry import FIRST_COMMIT, FOLLOWERS_CONNECT, Attribute, Span, Telemetry


class FirstCommit:
    """The span `followers_connect`, open until something is committed under the new epoch."""

    __slots__ = ("_open", "_span", "_telemetry")

    def __init__(self, telemetry: Telemetry, parent: str, partitions: int) -> None:
        self._telemetry = telemetry
        self._span: Span = telemetry.span(
            FOLLOWERS_CONNECT, parent=parent, attributes={"partition_count": partitions}
        )
        self._open = True

    def happened(self, partition: str, leader_epoch: int, high_watermark: int) -> None:
        """The high watermark of one of the partitions passed the start of its new epoch."""
        if not self._open:
            return
        self._open = False
        attributes: dict[str, Attribute] = {
            "partition": partition, "leader_epoch": leader_epoch, "high_watermark": high_watermark,
        }  # fmt: skip
        self._telemetry.span(FIRST_COMMIT, parent=self._span.traceparent, attributes=attributes).end()
        self._span.end()

    def give_up(self) -> None:
        """The broker lost the leadership, or stops, before anything was committed."""
        if self._open:
            self._open = False
            self._span.set("committed", False)
            self._span.end()
