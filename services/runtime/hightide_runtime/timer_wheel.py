"""When something is due: a timer wheel of slots that are made as they are needed.

Thousands of members have a Ping due every few seconds, and thousands of partitions may wait for a leader.
Slots of 10 ms let those of one moment come up together. A timer costs a list's append and, once a slot, a
heap's push: nothing looks at all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["SLOT_MS", "HasDeadline", "NeverDue", "TimerWheel"]

SLOT_MS: Final = 10
NeverDue: Final = -1


class HasDeadline(Protocol):
    """Something with one deadline: the earliest of all that it waits for."""

    armed_ms: int
    """The slot in which it is due; NeverDue."""


ItemT = TypeVar("ItemT", bound=HasDeadline)


@dataclass(slots=True)
class TimerWheel(Generic[ItemT]):
    """All timers of a core. An item that was armed for earlier since is skipped where it stood before."""

    slots: dict[int, list[ItemT]] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def arm(self, item: ItemT, due_ms: int) -> None:
        """Let `item` come up at `due_ms`, or earlier where it was to come up earlier anyway."""
        slot_ms = -(-due_ms // SLOT_MS) * SLOT_MS
        if item.armed_ms != NeverDue and item.armed_ms <= slot_ms:
            return
        item.armed_ms = slot_ms
        slot = self.slots.get(slot_ms)
        if slot is None:
            self.slots[slot_ms] = [item]
            heappush(self.order, slot_ms)
        else:
            slot.append(item)

    def next_due_ms(self) -> int | None:
        """When the next slot is due; None: there is none."""
        return self.order[0] if self.order else None

    def take_due(self, now_ms: int) -> list[tuple[ItemT, int]]:
        """Take out what is due, with when it was to be; each has to be armed again if it waits for more."""
        due: list[tuple[ItemT, int]] = []
        while self.order and self.order[0] <= now_ms:
            slot_ms = heappop(self.order)
            for item in self.slots.pop(slot_ms):
                if item.armed_ms == slot_ms:
                    due.append((item, slot_ms))
                    item.armed_ms = NeverDue
        return due

    def clear(self) -> None:
        """Forget everything."""
        self.slots.clear()
        self.order.clear()
