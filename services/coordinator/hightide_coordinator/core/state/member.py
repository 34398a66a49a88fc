"""One member of a group as its coordinator sees it (consumer coordinator §7, §8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from hightide_runtime.timer_wheel import NeverDue

from hightide_coordinator.core.values.registration import OffsetReset, PartitionOwner, Registration
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["NOT_CONNECTED", "Bucket", "FetcherOrder", "Member", "OrderKind", "identity_of"]


def identity_of(consumer_id: str, instance_id: str) -> str:
    """The name under which partitions are assigned. It stays the same over failovers, and a static member's
    also over its processes. No consumer id has a slash in it, so the two kinds never collide."""
    return f"{instance_id}/" if instance_id else consumer_id


class OrderKind(Enum):
    """The kinds of orders to a member, besides Pings."""

    STOP = auto()
    START = auto()


@dataclass(slots=True)
class FetcherOrder:
    """A StopFetcher or StartFetcher that is not answered yet."""

    kind: OrderKind
    sequence: int
    expires_ms: int
    partitions: dict[TopicPartition, None]


Bucket = dict[TopicPartition, None]
"""Partitions that wait for the same thing, in order of arrival."""

NOT_CONNECTED: Final = -1


@dataclass(slots=True, eq=False)
class Member:
    """A consumer that registered; or (registration None) one that owns something according to ZooKeeper, and
    has not returned to this coordinator yet."""

    group: str
    member_id: str
    consumer_id: str
    instance_id: str
    session_timeout_ms: int
    registration: Registration | None
    heard_ms: int
    """When its last message came."""
    age: tuple[int, int] | None = None
    """When its process registered first, perhaps with an earlier coordinator (`age_of`)."""
    connection_id: int = NOT_CONNECTED
    away_until_ms: int = 0
    """Until when it may return, while it is not connected."""
    next_ping_ms: int = 0
    sequence: int = 0
    """The sequence of the last order on this stream."""
    order: FetcherOrder | None = None
    """At most one StopFetcher or StartFetcher is open; the next one waits for its answer."""
    expired_orders: int = 0
    """How many in a row were not answered in time."""
    reading: dict[TopicPartition, PartitionOwner | None] = field(default_factory=dict)
    """The partitions that it may be reading: it got an order to start them, or says that it reads them, and
    has not said that it stopped."""
    stops: Bucket = field(default_factory=dict)
    """The partitions that it has to stop."""
    starts: Bucket = field(default_factory=dict)
    """The partitions that it has to start."""
    unstarted: Bucket = field(default_factory=dict)
    """The partitions that it was ordered to start and has not confirmed: they are sent again."""
    sought: dict[TopicPartition, int] = field(default_factory=dict)
    """For its own partitions in which it sought another position and committed that as a reset: the last
    order sent to it by then. An answer to that order, or an earlier one, may have a position from before the
    seek."""
    resets: dict[TopicPartition, int] = field(default_factory=dict)
    """For its own partitions the number of the last request in which it committed a reset. One of a lower
    number, which was held up on its way to the core, is from before the seek."""
    is_resting: bool = False
    """It did not answer an order in time, and gets no other before the next attempt."""
    armed_ms: int = NeverDue

    @property
    def identity(self) -> str:
        """Its name in assignments."""
        return identity_of(self.consumer_id, self.instance_id)

    @property
    def is_connected(self) -> bool:
        """Whether it has a stream."""
        return self.connection_id != NOT_CONNECTED

    @property
    def ping_interval_ms(self) -> int:
        """The time between two Pings: a third of the session timeout (§8.1)."""
        return max(self.session_timeout_ms // 3, 1)

    @property
    def answer_timeout_ms(self) -> int:
        """Two thirds of its session timeout (§8.1, §8.2)."""
        return max(self.session_timeout_ms * 2 // 3, 1)

    @property
    def offset_reset(self) -> OffsetReset:
        """Where it wants to start without a committed offset."""
        return OffsetReset.SMALLEST if self.registration is None else self.registration.offset_reset
