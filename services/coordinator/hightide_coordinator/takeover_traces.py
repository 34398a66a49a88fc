"""One trace a takeover of a shard: detection, election, load, recovery (consumer coordinator §10), and the
rebalances that it caused. One trace for each other rebalance (§9)."""

from __future__ import annotations

from hightide_runtime.clock import Clock
from hightide_runtime.span_kinds import (
    COORDINATOR_DETECTION,
    COORDINATOR_ELECTION,
    COORDINATOR_FAILOVER,
    COORDINATOR_LOAD,
    COORDINATOR_RECOVERY,
)
from hightide_runtime.telemetry import Span, Telemetry
from hightide_runtime.trace_context import root_traceparent

from hightide_coordinator.core.group import Group, GroupState
from hightide_coordinator.core.shard_state import ShardState
from hightide_coordinator.election import Takeover
from hightide_coordinator.rebalance_traces import RebalanceTraces

__all__ = ["ShardTraces"]


class ShardTraces:
    """One for each shard of a process; belongs to the event loop's thread."""

    def __init__(self, shard: int, telemetry: Telemetry, clock: Clock) -> None:
        self._shard = shard
        self._telemetry = telemetry
        self.rebalances = RebalanceTraces(telemetry, clock)
        self._caused: set[str] = set()
        """Groups whose rebalance the takeover has caused, and that are not done with it."""
        self._root: Span | None = None
        self._recovery: Span | None = None
        self._recovering: dict[str, Group] = {}
        """Groups that wait for members that they know from ZooKeeper, and some that do not any more."""

    def taken_over(self, takeover: Takeover, state: ShardState) -> None:
        """The core has taken Elected: everything up to here has happened, what follows is the recovery. The
        first election of a shard takes nothing over."""
        self._end_takeover()
        if not self._telemetry.enabled or takeover.previous is None:
            return
        previous = takeover.previous
        # Epochs grow by one with each election, so that the one that was lost is known.
        lost_epoch = state.coordinator_epoch - 1
        self._root = self._telemetry.root(
            COORDINATOR_FAILOVER,
            root_traceparent(COORDINATOR_FAILOVER, self._telemetry.cluster_id, self._shard, lost_epoch),
            start_time_us=takeover.noticed_at_us if takeover.broke_at_us is None else takeover.broke_at_us,
            attributes={
                "shard": self._shard,
                "cause": takeover.cause,
                "previous_coordinator": previous.id,
                "coordinator_epoch": state.coordinator_epoch,
            },
        )
        if takeover.broke_at_us is not None:
            # Who was not on standby, or saw no more than a session end, cannot tell how long it was gone.
            self._step(COORDINATOR_DETECTION, takeover.broke_at_us, takeover.noticed_at_us)
        self._step(COORDINATOR_ELECTION, takeover.noticed_at_us, takeover.elected_at_us)
        self._step(COORDINATOR_LOAD, takeover.elected_at_us, takeover.loaded_at_us, groups=len(state.groups))
        self._recovering = {
            name: group for name, group in state.groups.items() if group.state is GroupState.RECOVERING
        }
        members = sum(len(group.missing) for group in self._recovering.values())
        self._recovery = self._telemetry.span(
            COORDINATOR_RECOVERY,
            parent=self._root.traceparent,
            start_time_us=takeover.loaded_at_us,
            attributes={"groups": len(self._recovering), "members": members},
        )
        self._settle_recovery()

    def _step(self, name: str, from_us: int, to_us: int, **attributes: int) -> None:
        assert self._root is not None
        span = self._telemetry.span(
            name, parent=self._root.traceparent, start_time_us=from_us, attributes=attributes
        )
        span.end(to_us)

    def settle(self, state: ShardState) -> None:
        """The core has taken an event: end the recovery where no group waits any more, and the takeover where
        no rebalance of its is under way."""
        self.rebalances.settle(state)
        if self._root is None:
            return
        if self._caused:
            ended = [name for name in state.looked_at if name not in self.rebalances]
            self._caused.difference_update(ended)
        self._settle_recovery()

    def _settle_recovery(self) -> None:
        if self._root is None:
            return
        # The last of them stands for all: what is taken away is looked at once.
        while self._recovering:
            last = next(reversed(self._recovering.values()))
            if last.state is GroupState.RECOVERING:
                return
            self._recovering.popitem()
        if self._recovery is not None:
            self._recovery.end()
            self._recovery = None
        if not self._caused:
            self._root.end()
            self._root = None

    def begun(self, group: Group) -> None:
        """An attempt to rebalance the group begins."""
        is_caused = self._root is not None and self._recovering.get(group.name) is group
        parent = self._root.traceparent if self._root is not None and is_caused else ""
        self.rebalances.begun(group, parent)
        if is_caused and group.name in self.rebalances:
            self._caused.add(group.name)

    def rebalanced(self, group: Group) -> None:
        """A rebalance of the group, or an attempt at one, has ended."""
        self.rebalances.ended(group)

    def resigned(self) -> None:
        """The shard is coordinated elsewhere, or this process ends: what is open ends here."""
        self.rebalances.resigned()
        self._end_takeover()

    def _end_takeover(self) -> None:
        for span in (self._recovery, self._root):
            if span is not None:
                span.end()
        self._root = self._recovery = None
        self._recovering = {}
        self._caused = set()
