"""The traces of one shard of a coordinator: one for a takeover with the rebalances that it caused, and one
for each other rebalance."""

from __future__ import annotations

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry.tracing import Telemetry

from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.tracing.rebalance_trace import RebalanceTraces
from hightide_coordinator.tracing.takeover_trace import TakeoverTrace
from hightide_coordinator.zookeeper.candidacy import ShardTakeover

__all__ = ["ShardTraces"]


class ShardTraces:
    """Makes the traces of one shard. The shell of the shard calls it, on the event loop's thread."""

    def __init__(self, cluster_id: str, shard: int, telemetry: Telemetry, clock: Clock) -> None:
        self._cluster_id = cluster_id
        self._shard = shard
        self._telemetry = telemetry
        self.rebalances = RebalanceTraces(telemetry, clock)
        self._takeover: TakeoverTrace | None = None
        """The trace of the takeover that is under way."""

    def taken_over(self, takeover: ShardTakeover, state: ShardState) -> None:
        """Begin the trace of a takeover, when the core has taken Elected and only the recovery is left. The
        first election of a shard has no such trace."""
        self._end_takeover()
        if self._telemetry.enabled and takeover.previous is not None:
            trace = TakeoverTrace(
                self._cluster_id, self._shard, takeover, takeover.previous, state, self._telemetry
            )
            self._takeover = None if trace.is_finished else trace

    def settle(self, state: ShardState) -> None:
        """End the steps and traces that are over, after the core has taken an event."""
        self.rebalances.settle(state)
        if self._takeover is not None:
            self._takeover.settle([name for name in state.looked_at if name not in self.rebalances])
            if self._takeover.is_finished:
                self._takeover = None

    def begun(self, group: Group) -> None:
        """Note that an attempt to rebalance a group begins."""
        takeover = self._takeover
        if takeover is None or not takeover.causes(group):
            self.rebalances.begun(group, parent="")
            return
        self.rebalances.begun(group, parent=takeover.traceparent)
        if group.name in self.rebalances:
            takeover.caused(group)

    def rebalanced(self, group: Group) -> None:
        """Note that an attempt to rebalance a group has ended."""
        self.rebalances.ended(group)

    def resigned(self) -> None:
        """End all open traces, because another process coordinates the shard, or this one ends."""
        self.rebalances.resigned()
        self._end_takeover()

    def _end_takeover(self) -> None:
        if self._takeover is not None:
            self._takeover.finish()
            self._takeover = None
