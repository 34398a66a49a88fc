"""The moves under way in all topics, and which of their leaderAndISR znodes are watched (V3 F).

The text's agent looks every 30 seconds; here ZooKeeper reports when an ISR changes. A bounded number is
watched, each until its move ends, so the cost of thousands of moves depends only on what happens to them. The
tick reads the others, like everything that is under-replicated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from hightide_controller.core.effects import WatchStates
from hightide_controller.core.events import StoredReassignment
from hightide_controller.core.values.partition import TopicPartition

__all__ = ["WATCHED_MAX", "MoveWatches"]

WATCHED_MAX: Final = 1_000


@dataclass(slots=True)
class MoveWatches:
    """Part of ClusterState, which reports every move that begins, changes and ends."""

    under_way: dict[TopicPartition, StoredReassignment] = field(default_factory=dict)
    """Moves that have begun."""
    _watched: set[TopicPartition] = field(default_factory=set)
    _waiting: list[TopicPartition] = field(default_factory=list)
    """A heap of moves that are not watched, and of some that have ended since."""
    _is_changed: bool = False

    def note(self, name: TopicPartition, znode: StoredReassignment | None) -> StoredReassignment | None:
        """Take over the znode below /admin about a partition. Returns the move that was under way."""
        before = self.under_way.get(name)
        if znode is not None and znode.original:
            self.under_way[name] = znode
            if before is None:
                heappush(self._waiting, name)
        elif before is not None:
            del self.under_way[name]
            self._is_changed = self._is_changed or name in self._watched
            self._watched.discard(name)
        return before

    def effects(self) -> Sequence[WatchStates]:
        """The new set of watches, if it has changed: in name order, as many as there is room for."""
        while self._waiting and len(self._watched) < WATCHED_MAX:
            name = heappop(self._waiting)
            if name in self.under_way and name not in self._watched:
                self._watched.add(name)
                self._is_changed = True
        if len(self._waiting) > 2 * len(self.under_way) + WATCHED_MAX:
            self._waiting = [name for name in self.under_way if name not in self._watched]
            heapify(self._waiting)
        if not self._is_changed:
            return []
        self._is_changed = False
        return [WatchStates(frozenset(self._watched))]
