"""The one door into the coordinator's core: `step` takes an event and the time, and gives back the effects.

1. `step` is the only way in which a ShardState changes. 2. No clock, no I/O, no logging, no chance.
3. Effects are in order (see effects.py): the shell performs them one after the other.
"""

from __future__ import annotations

from hightide_coordinator.core.effects import Effect
from hightide_coordinator.core.events import Event
from hightide_coordinator.core.limits import GroupLimits
from hightide_coordinator.core.mends import ALL_MENDS, Mends
from hightide_coordinator.core.shard_state import ShardState

__all__ = ["new_state", "next_deadline_ms", "step"]


def new_state(limits: GroupLimits, mends: Mends = ALL_MENDS) -> ShardState:
    """What a coordinator knows of a shard when its process starts: nothing; it is a standby until Elected."""
    return ShardState(limits=limits, mends=mends)


def next_deadline_ms(state: ShardState) -> int | None:
    """When `step` wants to be told that time has passed (Ticked); None: it waits for nothing."""
    return state.wheel.next_due_ms()


def step(state: ShardState, event: Event, now_ms: int) -> tuple[Effect, ...]:
    """Decide what follows from one event at `now_ms` (any monotonic clock). The state is changed in place."""
    state.now_ms = now_ms
    return ()
