"""The stream between a consumer and a coordinator: in order both ways, until it breaks or goes silent."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.groups.consumer import SimConsumer

__all__ = ["Broken", "Connection"]


@dataclass(frozen=True, slots=True)
class Broken:
    """The last thing that either side hears of a stream."""


@dataclass(slots=True, eq=False)
class Connection:
    """One RegisterConsumer stream."""

    connection_id: int
    consumer: SimConsumer
    coordinator_id: int
    life: int
    """Of the coordinator's process."""
    up: deque[Any] = field(default_factory=deque)
    """Events that the consumer has sent."""
    down: deque[Any] = field(default_factory=deque)
    """What the coordinator has sent."""
    is_silent: bool = False
    """Nothing arrives, and nobody is told."""
    holds_up: bool = False
    """What the consumer sends stays under way."""
    holds_down: bool = False
    """What the coordinator sends does."""
    is_closed_above: bool = False
    """The coordinator's side is over: it sends and hears nothing more."""
    is_closed_below: bool = False
    """The consumer's side is."""

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for something."""
        return not (self.is_closed_above and self.is_closed_below)

    def break_off(self, kept_up: int, kept_down: int) -> None:
        """It breaks; of what is under way the first so many messages arrive, then each side is told."""
        for queue, kept in ((self.up, kept_up), (self.down, kept_down)):
            if queue and isinstance(queue[-1], Broken):
                continue
            while len(queue) > kept:
                queue.pop()
            queue.append(Broken())
        self.is_silent = False
