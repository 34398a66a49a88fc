"""One takeover of a shard as one trace: detection, election, load, recovery (consumer coordinator §10), and
the rebalances that it caused.
"""

from __future__ import annotations

from collections.abc import Collection

from hightide_runtime.telemetry.span_kinds import (
    COORDINATOR_DETECTION,
    COORDINATOR_ELECTION,
    COORDINATOR_FAILOVER,
    COORDINATOR_LOAD,
    COORDINATOR_RECOVERY,
)
from hightide_runtime.telemetry.trace_context import root_traceparent
from hightide_runtime.telemetry.tracing import Span, Telemetry

from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.zookeeper.candidacy import ShardTakeover

__all__ = ["TakeoverTrace"]


class TakeoverTrace:
    """The trace of a takeover. It begins when the stream to the old coordinator broke, if that is known. It
    ends when no group waits for its known members any more and the rebalances that it caused are over."""

    def __init__(
        self,
        cluster_id: str,
        shard: int,
        takeover: ShardTakeover,
        previous: Endpoint,
        state: ShardState,
        telemetry: Telemetry,
    ) -> None:
        """Write the finished steps, and begin the recovery. Called when the core has taken Elected."""
        self._telemetry = telemetry
        # Epochs grow by one with each election, so the epoch of the lost coordinator is known.
        lost_epoch = state.coordinator_epoch - 1
        self._root = telemetry.root(
            COORDINATOR_FAILOVER,
            root_traceparent(COORDINATOR_FAILOVER, cluster_id, shard, lost_epoch),
            start_time_us=takeover.noticed_at_us if takeover.broke_at_us is None else takeover.broke_at_us,
            attributes={
                "shard": shard,
                "cause": takeover.cause,
                "previous_coordinator": previous.id,
                "coordinator_epoch": state.coordinator_epoch,
            },
        )
        if takeover.broke_at_us is not None:
            # Otherwise the time of the failure is not known: this process saw only the end of a session.
            self._step(COORDINATOR_DETECTION, takeover.broke_at_us, takeover.noticed_at_us)
        self._step(COORDINATOR_ELECTION, takeover.noticed_at_us, takeover.elected_at_us)
        self._step(COORDINATOR_LOAD, takeover.elected_at_us, takeover.loaded_at_us, groups=len(state.groups))
        self._recovering = {
            name: group for name, group in state.groups.items() if group.state is GroupState.RECOVERING
        }
        """Groups that wait for members that they know from ZooKeeper. Some may have stopped waiting."""
        self._rebalancing: set[str] = set()
        """Groups with a rebalance that the takeover caused and that is not over."""
        self._recovery: Span | None = telemetry.span(
            COORDINATOR_RECOVERY,
            parent=self._root.traceparent,
            start_time_us=takeover.loaded_at_us,
            attributes={
                "groups": len(self._recovering),
                "members": sum(len(group.missing) for group in self._recovering.values()),
            },
        )
        self.is_finished = False
        self.settle(())

    @property
    def traceparent(self) -> str:
        """The traceparent for the rebalances that the takeover causes."""
        return self._root.traceparent

    def causes(self, group: Group) -> bool:
        """Whether the takeover is the cause of the rebalance of the group that begins now."""
        return self._recovering.get(group.name) is group

    def caused(self, group: Group) -> None:
        """Note that a rebalance that the takeover caused has begun and is traced."""
        self._rebalancing.add(group.name)

    def settle(self, rebalanced: Collection[str]) -> None:
        """Note that no rebalance of these groups is under way, after the core has taken an event. End the
        recovery if no group waits any more, and the trace if no rebalance that it caused is under way."""
        self._rebalancing.difference_update(rebalanced)
        # Only the last group is checked, so each group is checked once after its wait and removed.
        while self._recovering:
            last = next(reversed(self._recovering.values()))
            if last.state is GroupState.RECOVERING:
                return
            self._recovering.popitem()
        if self._recovery is not None:
            self._recovery.end()
            self._recovery = None
        if not self._rebalancing:
            self.finish()

    def finish(self) -> None:
        """End all open spans of the takeover."""
        self.is_finished = True
        if self._recovery is not None:
            self._recovery.end()
            self._recovery = None
        self._root.end()

    def _step(self, name: str, from_us: int, to_us: int, **attributes: int) -> None:
        span = self._telemetry.span(
            name, parent=self._root.traceparent, start_time_us=from_us, attributes=attributes
        )
        span.end(to_us)
