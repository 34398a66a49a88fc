"""What a leader does (V3 becomeLeader and section G, the leader's side)."""

from __future__ import annotations

from hightide_broker.core.replica import Replica


def next_deadline_ms(replica: Replica) -> int | None:
    """When the shell shall send Ticked, if at all: when the first lagging ISR member is to be dropped.

    None while no member lags or an ISR write is under way; most partitions have none, so timers cost nothing.
    """
    raise NotImplementedError
