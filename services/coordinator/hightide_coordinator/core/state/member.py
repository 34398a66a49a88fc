"""One member of a group as its coordinator sees it (consumer coordinator §7, §8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from hightide_coordinator.core.values.registration import OffsetReset, Owner, Registration
from hightide_coordinator.core.values.timer_wheel import NeverDue
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["NOT_CONNECTED", "Bucket", "Member", "Order", "OrderKind", "identity_of"]


def identity_of(consumer_id: str, instance_id: str) -> str:
    """Under which name partitions are shared out: it stays the same over failovers, and a static member's
    over its processes. No consumer id has a slash in it, so that the two kinds never meet."""
    return f"{instance_id}/" if instance_id else consumer_id


class OrderKind(Enum):
    """What a member was ordered to do, beside answering Pings."""

    STOP = auto()
    START = auto()


@dataclass(slots=True)
class Order:
    """A StopFetcher or StartFetcher that is not answered yet."""

    kind: OrderKind
    sequence: int
    expires_ms: int
    partitions: dict[TopicPartition, None]


Bucket = dict[TopicPartition, None]
"""Partitions that wait for the same thing, in the order in which they came."""

NOT_CONNECTED: Final = -1


@dataclass(slots=True, eq=False)
class Member:
    """A consumer that registered, or (registration None) one that ZooKeeper says owns something and that has
    not come back to this coordinator yet."""

    group: str
    member_id: str
    consumer_id: str
    instance_id: str
    session_timeout_ms: int
    registration: Registration | None
    heard_ms: int
    """When it last said something."""
    connection_id: int = NOT_CONNECTED
    away_until_ms: int = 0
    """Until when it may come back, while it is not connected."""
    next_ping_ms: int = 0
    sequence: int = 0
    """Of the last order on this stream."""
    order: Order | None = None
    """At most one StopFetcher or StartFetcher is open; the next one waits for its answer."""
    expired_orders: int = 0
    """How many in a row were not answered in time."""
    reading: dict[TopicPartition, Owner | None] = field(default_factory=dict)
    """What it may be reading: it was told to, or says it does, and has not said that it stopped."""
    stops: Bucket = field(default_factory=dict)
    """What it has to be told to stop."""
    starts: Bucket = field(default_factory=dict)
    """What it has to be told to start."""
    unstarted: Bucket = field(default_factory=dict)
    """What it was told to start and never said that it did: it is told again."""
    sought: dict[TopicPartition, int] = field(default_factory=dict)
    """Of what it owns, where it sought another position and committed that as a reset: the last order that it
    had been sent by then. What answers that one, or one before, may tell of a position from before the seek.
    """
    is_resting: bool = False
    """It did not answer an order in time; it is given no other before the next attempt."""
    armed_ms: int = NeverDue

    @property
    def identity(self) -> str:
        """Its name among those that partitions are shared out to."""
        return identity_of(self.consumer_id, self.instance_id)

    @property
    def is_connected(self) -> bool:
        """Whether its stream stands."""
        return self.connection_id != NOT_CONNECTED

    @property
    def ping_interval_ms(self) -> int:
        """A third of its session timeout (§8.1)."""
        return max(self.session_timeout_ms // 3, 1)

    @property
    def answer_timeout_ms(self) -> int:
        """Two thirds of its session timeout (§8.1, §8.2)."""
        return max(self.session_timeout_ms * 2 // 3, 1)

    @property
    def offset_reset(self) -> OffsetReset:
        """Where it wants to start without a committed offset."""
        return OffsetReset.SMALLEST if self.registration is None else self.registration.offset_reset
