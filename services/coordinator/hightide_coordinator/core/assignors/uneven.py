"""Assigning topics whose readers are not the same: by small steps, each of which improves the balance."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final

from hightide_coordinator.core.assignors.subscriber import StreamId
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["share_unevenly"]

ROUNDS_MAX: Final = 20
"""Each round goes through all pools. The rounds end earlier if nothing moves."""


def share_unevenly(
    names: list[TopicPartition],
    readers: Mapping[str, list[StreamId]],
    current: Mapping[TopicPartition, StreamId],
) -> dict[TopicPartition, StreamId]:
    """Every partition stays where it is, and those without a stream go to the stream with the fewest. Then
    partitions move from streams with more to streams with fewer, as long as that improves the balance."""
    pools: dict[int, _Pool] = {}
    pool_of = {}
    for topic, streams in readers.items():
        pool = pools.get(id(streams))
        if pool is None:
            pool = pools[id(streams)] = _Pool(streams)
        pool_of[topic] = pool
    loads = {stream: 0 for pool in pools.values() for stream in pool.streams}
    for name in names:
        pool = pool_of[name.topic]
        owner = current.get(name)
        if owner is None or owner not in pool.members:
            pool.homeless.append(name)
        else:
            pool.held.setdefault(owner, []).append(name)
            loads[owner] += 1
    # Those with the fewest readers have the least choice.
    for pool in sorted(pools.values(), key=lambda each: len(each.streams)):
        _house(pool.homeless, pool.streams, pool.held, loads)
    for _ in range(ROUNDS_MAX):
        moved = [_even_out(pool.streams, pool.held, loads) for pool in pools.values()]
        if not any(moved):
            break
    return {name: stream for pool in pools.values() for stream, held in pool.held.items() for name in held}


class _Pool:
    """Topics that the same streams read, so that their partitions are all alike."""

    __slots__ = ("held", "homeless", "members", "streams")

    def __init__(self, streams: list[StreamId]) -> None:
        self.streams = streams
        self.members = frozenset(streams)
        self.held: dict[StreamId, list[TopicPartition]] = {}
        self.homeless: list[TopicPartition] = []


def _house(
    names: list[TopicPartition],
    streams: list[StreamId],
    held: dict[StreamId, list[TopicPartition]],
    loads: dict[StreamId, int],
) -> None:
    if not names:
        return
    heap = [(loads[stream], rank) for rank, stream in enumerate(streams)]
    heapq.heapify(heap)
    for name in names:
        load, rank = heap[0]
        held.setdefault(streams[rank], []).append(name)
        loads[streams[rank]] += 1
        heapq.heapreplace(heap, (load + 1, rank))


def _even_out(
    streams: list[StreamId], held: dict[StreamId, list[TopicPartition]], loads: dict[StreamId, int]
) -> int:
    """Move partitions of one pool while a stream that has some has two more than another reader of the pool.
    Returns how many moved."""
    most = max((loads[stream] for stream, names in held.items() if names), default=0)
    if most - min(map(loads.__getitem__, streams)) <= 1:
        return 0
    poor = [(loads[stream], rank) for rank, stream in enumerate(streams)]
    rich = [(-loads[stream], rank) for rank, stream in enumerate(streams) if held.get(stream)]
    heapq.heapify(poor)
    heapq.heapify(rich)
    moved = 0
    # A stream that takes never gives in the same round, and the other way round: what it takes leaves it at
    # or below the level of those that give.
    while rich and -rich[0][0] - poor[0][0] > 1:
        load, giver = rich[0]
        names = held[streams[giver]]
        taken, taker = poor[0]
        held.setdefault(streams[taker], []).append(names.pop())
        loads[streams[giver]] -= 1
        loads[streams[taker]] += 1
        moved += 1
        heapq.heapreplace(poor, (taken + 1, taker))
        if names:
            heapq.heapreplace(rich, (load + 1, giver))
        else:
            heapq.heappop(rich)
    return moved
