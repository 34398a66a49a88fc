"""Partitions with problems. Pure: descriptions in, the matching ones out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide import PartitionDescription, TopicDescription

MIN_ISR_BY_DEFAULT = 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """The problems to look for. A partition matches if it has one of them; without any, all match."""

    under_replicated: bool = False
    offline: bool = False
    under_min_isr: bool = False

    @property
    def is_any(self) -> bool:
        """Whether any problem is looked for."""
        return self.under_replicated or self.offline or self.under_min_isr

    def of(self, topics: "Iterable[TopicDescription]") -> "list[TopicDescription]":
        """These topics with their matching partitions; a topic without one is left out."""
        if not self.is_any:
            return list(topics)
        found = (
            replace(each, partitions=tuple(part for part in each.partitions if self._has(each, part)))
            for each in topics
        )
        return [each for each in found if each.partitions]

    def _has(self, topic: "TopicDescription", part: "PartitionDescription") -> bool:
        if self.under_replicated and not set(part.replicas) <= set(part.isr):
            return True
        if self.offline and part.leader is None:
            return True
        least = int(topic.configs.get("min.insync.replicas", MIN_ISR_BY_DEFAULT))
        return self.under_min_isr and len(part.isr) < min(least, len(part.replicas))
