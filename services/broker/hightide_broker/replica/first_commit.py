"""The last part of a failover's trace: followers connect, and a record is committed (V3 discussion 1, step
5).

There is one span for each LeaderAndISR request that made this broker a leader, whatever the number of its
partitions. It ends with the first commit in any of them. A leader that receives no records has nothing to
commit. The span says how long that was, so that the leader does not look slow.
"""

from __future__ import annotations

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry.span_kinds import FIRST_COMMIT, FOLLOWERS_CONNECT
from hightide_runtime.telemetry.tracing import Attribute, Span, Telemetry


class FirstCommit:
    """The span `followers_connect`, open until something is committed under the new epoch."""

    __slots__ = ("_began_us", "_clock", "_open", "_span", "_telemetry", "_waited_ms")

    def __init__(self, telemetry: Telemetry, clock: Clock, parent: str, partitions: int) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._began_us = clock.wall_us()
        self._span: Span = telemetry.span(
            FOLLOWERS_CONNECT,
            parent=parent,
            start_time_us=self._began_us,
            attributes={"partition_count": partitions},
        )
        self._open = True
        self._waited_ms: float | None = None

    def traffic_came(self) -> None:
        """Take note that a producer sent new records to one of the partitions. Called before they are
        appended, or refused because replicas are missing. Only the first call counts."""
        if self._waited_ms is None:
            self._waited_ms = max(0, self._clock.wall_us() - self._began_us) / 1000
            self._span.set("waited_for_traffic_ms", self._waited_ms)

    def happened(self, partition: str, leader_epoch: int, high_watermark: int) -> None:
        """Take note that the high watermark of one of the partitions passed the start of its new epoch."""
        if not self._open:
            return
        self._open = False
        attributes: dict[str, Attribute] = {
            "partition": partition, "leader_epoch": leader_epoch, "high_watermark": high_watermark,
        }  # fmt: skip
        if self._waited_ms is not None:
            attributes["waited_for_traffic_ms"] = self._waited_ms
        self._telemetry.span(FIRST_COMMIT, parent=self._span.traceparent, attributes=attributes).end()
        self._span.end()

    def give_up(self) -> None:
        """End the span without a commit: the broker lost the leadership, or stops."""
        if self._open:
            self._open = False
            self._span.set("committed", False)
            self._span.end()
