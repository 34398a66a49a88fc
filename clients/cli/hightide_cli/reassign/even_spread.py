"""Spreading things over brokers: as evenly as possible and, of all even spreads, one that moves least. Pure.

It is a minimum-cost flow with a convex cost for each broker's load (Ahuja, Magnanti and Orlin, "Network
Flows", chapters 9 and 14), solved by shortest augmenting paths. The network is condensed to the brokers: the
arc from a broker to another stands for the cheapest thing that can go from the one to the other. So the cost
of finding a path depends on the number of brokers, not of partitions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final

# The place of things that have no broker yet.
_NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class Spreadable:
    """A set of `count` equal things that go to as many different brokers of `allowed`. A thing moves if its
    broker is not in `home`; if there are more homes than needed, the first are taken."""

    count: int
    allowed: tuple[int, ...]
    home: tuple[int, ...]


def spread(
    things: Sequence[Spreadable], brokers: Iterable[int], load: Mapping[int, int] | None = None
) -> list[set[int]]:
    """The brokers of each thing. The loads, counted from `load`, differ by at most one if possible: the sum
    of their squares is the smallest possible. Of all ways to reach it, one moves the fewest things."""
    return _Spread(things, brokers, load or {}).settle()


class _Spread:
    def __init__(self, things: Sequence[Spreadable], brokers: Iterable[int], load: Mapping[int, int]) -> None:
        self._things = things
        self._brokers = sorted(set(brokers))
        self._load = {broker: load.get(broker, 0) for broker in self._brokers}
        self._placed: list[set[int]] = []
        self._waiting: list[int] = []
        for thing in things:
            assert len(thing.allowed) >= thing.count, "there are too few brokers for it"
            first = [broker for broker in thing.home if broker in thing.allowed][: thing.count]
            self._placed.append(set(first))
            self._waiting.append(thing.count - len(first))
            for broker in first:
                self._load[broker] += 1
        # Evenness comes first: one step of it outweighs whatever a path through all brokers may cost.
        self._step = 2 * (len(self._brokers) + 2)
        self._urgency = self._step * (2 + sum(self._load.values()) + sum(self._waiting))
        self._candidates: dict[tuple[int, int], list[tuple[int, int]]] = {
            (source, target): []
            for source in (*self._brokers, _NOWHERE)
            for target in self._brokers
            if source != target
        }
        for at in range(len(things)):
            for source, target in self._possible(at):
                self._candidates[source, target].append((self._cost(at, source, target), at))
        for heap in self._candidates.values():
            heapify(heap)

    def settle(self) -> list[set[int]]:
        """Improve until no step improves it."""
        while (path := self._best_path()) is not None:
            # Each arc's candidate is looked up before anything moves: the path was priced with these.
            for (source, target), at in [(arc, self._cheapest(arc)) for arc in pairwise(path)]:
                assert at is not None, "an arc of a path has a candidate"
                self._move(at[1], source, target)
            if path[0] != _NOWHERE:
                self._load[path[0]] -= 1
            self._load[path[-1]] += 1
        assert not any(self._waiting), "everything has found its brokers"
        return self._placed

    def _possible(self, at: int) -> Iterable[tuple[int, int]]:
        sources = [*self._placed[at], *([_NOWHERE] if self._waiting[at] else ())]
        targets = [broker for broker in self._things[at].allowed if broker not in self._placed[at]]
        return [(source, target) for source in sources for target in targets]

    def _cost(self, at: int, source: int, target: int) -> int:
        home = self._things[at].home
        return (target not in home) - (source != _NOWHERE and source not in home)

    def _cheapest(self, arc: tuple[int, int]) -> tuple[int, int] | None:
        """(cost, thing) of the cheapest thing that can go along an arc. Outdated entries are dropped:
        whenever a thing can go again, it is entered again."""
        source, target = arc
        heap = self._candidates[arc]
        while heap:
            _, at = heap[0]
            is_there = self._waiting[at] > 0 if source == _NOWHERE else source in self._placed[at]
            if is_there and target not in self._placed[at]:
                return heap[0]
            heappop(heap)
        return None

    def _move(self, at: int, source: int, target: int) -> None:
        if source == _NOWHERE:
            self._waiting[at] -= 1
        else:
            self._placed[at].remove(source)
        self._placed[at].add(target)
        for arc in self._possible(at):
            if arc[0] == target or arc[1] == source:
                heappush(self._candidates[arc], (self._cost(at, *arc), at))

    def _best_path(self) -> list[int] | None:
        """The path from a fuller to an emptier broker that gains most, or None if none gains anything
        (Bellman and Ford: arcs that undo a move have negative costs, but no cycle has)."""
        arcs = [
            (*arc, cheapest[0]) for arc in self._candidates if (cheapest := self._cheapest(arc)) is not None
        ]
        reached = {broker: -self._step * load for broker, load in self._load.items() if load}
        if any(self._waiting):
            reached[_NOWHERE] = -self._urgency
        came_from: dict[int, int] = {}
        changed = True
        while changed:
            changed = False
            for source, target, cost in arcs:
                if source in reached and reached[source] + cost < reached.get(target, 1 + self._urgency):
                    reached[target] = reached[source] + cost
                    came_from[target] = source
                    changed = True
        ends = [
            (reached[broker] + self._step * (self._load[broker] + 1), broker)
            for broker in self._brokers
            if broker in came_from
        ]
        if not ends or min(ends)[0] >= 0:
            return None
        path = [min(ends)[1]]
        while path[-1] in came_from:
            path.append(came_from[path[-1]])
        return path[::-1]
