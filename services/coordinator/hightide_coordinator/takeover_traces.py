"""One trace a takeover of a shard: detection, election, load, recovery (consumer coordinator §10).

And one span a rebalance (§9)."""

from __future__ import annotations

from typing import Final

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import COORDINATOR_FAILOVER, Span, Telemetry

from hightide_coordinator.core.group import Group, GroupState
from hightide_coordinator.core.shard_state import ShardState
from hightide_coordinator.election import Takeover

__all__ = [
    "COORDINATOR_FAILOVER",
    "DETECTION",
    "ELECTION",
    "LOAD",
    "REBALANCE",
    "RECOVERY",
    "ShardTraces",
]

DETECTION: Final = f"{COORDINATOR_FAILOVER}.detection"
ELECTION: Final = f"{COORDINATOR_FAILOVER}.election"
LOAD: Final = f"{COORDINATOR_FAILOVER}.load"
RECOVERY: Final = f"{COORDINATOR_FAILOVER}.recovery"
REBALANCE: Final = "group_rebalance"


class ShardTraces:
    """One for each shard of a process; belongs to the event loop's thread."""

    def __init__(self, shard: int, telemetry: Telemetry, clock: Clock) -> None:
        self._shard = shard
        self._telemetry = telemetry
        self._clock = clock
        self._root: Span | None = None
        self._recovery: Span | None = None
        self._recovering: list[Group] = []
        """Groups that wait for members that they know from ZooKeeper, and some that do not any more."""

    def taken_over(self, takeover: Takeover, state: ShardState) -> None:
        """The core has taken Elected: everything up to here has happened, what follows is the recovery. The
        first election of a shard takes nothing over."""
        self.resigned()
        if not self._telemetry.enabled or takeover.previous is None:
            return
        previous = takeover.previous
        self._root = self._telemetry.span(
            COORDINATOR_FAILOVER,
            parent="",
            start_time_us=takeover.broke_at_us,
            attributes={
                "shard": self._shard,
                "cause": takeover.cause,
                "previous_coordinator": previous.id,
                "coordinator_epoch": state.coordinator_epoch,
            },
        )
        self._step(DETECTION, takeover.broke_at_us, takeover.noticed_at_us)
        self._step(ELECTION, takeover.noticed_at_us, takeover.elected_at_us)
        self._step(LOAD, takeover.elected_at_us, takeover.loaded_at_us, groups=len(state.groups))
        self._recovering = [group for group in state.groups.values() if group.state is GroupState.RECOVERING]
        members = sum(len(group.missing) for group in self._recovering)
        self._recovery = self._telemetry.span(
            RECOVERY,
            parent=self._root.traceparent,
            start_time_us=takeover.loaded_at_us,
            attributes={"groups": len(self._recovering), "members": members},
        )
        self.settle()

    def _step(self, name: str, from_us: int, to_us: int, **attributes: int) -> None:
        assert self._root is not None
        span = self._telemetry.span(
            name, parent=self._root.traceparent, start_time_us=from_us, attributes=attributes
        )
        span.end(to_us)

    def settle(self) -> None:
        """The core has taken an event: end the recovery where no group waits any more."""
        if self._recovery is None:
            return
        while self._recovering and self._recovering[-1].state is not GroupState.RECOVERING:
            self._recovering.pop()
        if not self._recovering:
            self.resigned()

    def rebalanced(self, group: Group) -> None:
        """A rebalance of the group, or an attempt at one, has ended."""
        if not self._telemetry.enabled:
            return
        now_us = self._clock.wall_us()
        is_done = group.failures == 0
        span = self._telemetry.span(
            REBALANCE,
            parent="",
            start_time_us=now_us - (group.last_rebalance_ms * 1000 if is_done else 0),
            attributes={
                "group": group.name,
                "generation": group.generation,
                "members": len(group.members),
                "reason": group.reason,
                "state": group.state.name,
                "failures": group.failures,
            },
        )
        span.end(now_us)

    def resigned(self) -> None:
        """The shard is coordinated elsewhere, or this process ends: what is open ends here."""
        for span in (self._recovery, self._root):
            if span is not None:
                span.end()
        self._root = self._recovery = None
        self._recovering = []
