"""One multi about a topic while it is assembled, write by write, within ZooKeeper's limits.

topic_writes.py makes one, passes it to each kind of work in turn (removals, additions, settings, moves), and
stores the result. Work that does not fit goes into the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hightide_controller.core.effects import Effect
from hightide_controller.core.events import Topic
from hightide_controller.core.state.multi_limits import BYTES_MAX, OPERATIONS_MAX, cost_of, topic_bytes
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requested_changes import RequestedChange
from hightide_controller.core.writes import LeaderAndIsrWrite, PartitionRemoved, TopicWrite, Write

__all__ = ["TopicPlan"]

_BYTES_BESIDE_TOPIC_MIN: Final = 50_000
"""The size of a multi without its topic znode, which may have the largest size."""


@dataclass(slots=True)
class TopicPlan:
    """The plan of one decision."""

    name: str
    cause: str
    topic: Topic | None
    """The topic after the multi; None if there is no such topic."""
    known_version: int = -1
    """The version of the topic znode on which the plan builds."""
    writes: list[Write] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    """Partitions that the plan writes about already."""
    held: set[TopicPartition] = field(default_factory=set)
    """Partitions whose AR the plan changes: nothing else may be written about them meanwhile."""
    request_ids: list[int] = field(default_factory=list)
    complaints: dict[str, str] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    """Refusals and reports that follow at once."""
    is_altered: bool = False
    operations: int = 1
    size_bytes: int = 0
    limit_bytes: int = BYTES_MAX

    def has_room(self, *writes: Write, extra_bytes: int = 0) -> bool:
        """Whether these writes fit as well; the first ones always do."""
        if not self.writes:
            return True
        costs = [cost_of(write) for write in writes]
        operations = self.operations + sum(cost[0] for cost in costs)
        size_bytes = self.size_bytes + extra_bytes + sum(cost[1] for cost in costs)
        return operations <= OPERATIONS_MAX and size_bytes <= self.limit_bytes

    def add(self, *writes: Write) -> None:
        """Add these writes to the multi; at most one for each partition."""
        for write in writes:
            operations, size_bytes = cost_of(write)
            self.operations += operations
            self.size_bytes += size_bytes
            self.writes.append(write)
            if isinstance(write, LeaderAndIsrWrite | PartitionRemoved) and write.name.topic == self.name:
                assert write.name.partition not in self.touched, write.name
                self.touched.add(write.name.partition)

    def alter(self, topic: Topic) -> None:
        """Change the topic: its znode is written in the multi, together with other changes of it."""
        if not self.is_altered:
            self.is_altered = True
            self.operations += 1
            size_bytes = topic_bytes(topic)
            self.size_bytes += size_bytes
            self.limit_bytes = max(BYTES_MAX, size_bytes + _BYTES_BESIDE_TOPIC_MIN)
        self.topic = topic

    def begin(self, requested: RequestedChange) -> None:
        """Take note that the multi carries out this request."""
        requested.is_begun = True
        self.request_ids.append(requested.request_id)

    def all_writes(self) -> tuple[Write, ...]:
        """The content of the multi, the topic znode first."""
        if not self.is_altered:
            return tuple(self.writes)
        assert self.topic is not None
        return (TopicWrite(self.topic, self.known_version), *self.writes)
