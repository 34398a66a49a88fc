"""What brokers and ZooKeeper of a cluster without a controller say to one another, beside what all clusters
say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.leaders.zookeeper import LeadersZooKeeper


@dataclass(frozen=True)
class Inquiry:
    """A read or a write at ZooKeeper: done as a whole when it arrives there, or never."""

    words: object
    """For the story."""
    run: Callable[[LeadersZooKeeper], Any]
    writes: bool = False

    def __str__(self) -> str:
        return str(self.words)


@dataclass(frozen=True)
class Told:
    """The answer to an inquiry."""

    value: Any
