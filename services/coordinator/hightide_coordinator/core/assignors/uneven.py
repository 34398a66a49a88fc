"""How topics are shared out whose readers are not the same: by small steps, each towards balance."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final

from hightide_coordinator.core.assignors.subscriber import StreamId
from hightide_coordinator.core.topic_partition import TopicPartition

__all__ = ["share_unevenly"]

ROUNDS_MAX: Final = 20
"""Each round goes through all topics and ends earlier where nothing moves."""


def share_unevenly(
    names: list[TopicPartition],
    readers: Mapping[str, list[StreamId]],
    current: Mapping[TopicPartition, StreamId],
) -> dict[TopicPartition, StreamId]:
    """Everything stays where it is; what is nobody's goes to the stream with the least; then partitions move
    from streams with more to streams with less, as long as that evens out."""
    loads = {stream: 0 for streams in readers.values() for stream in streams}
    readers_of = {topic: set(streams) for topic, streams in readers.items()}
    held: dict[str, dict[StreamId, list[int]]] = {topic: {} for topic in readers}
    homeless: dict[str, list[int]] = {topic: [] for topic in readers}
    for topic, number in names:
        owner = current.get(TopicPartition(topic, number))
        if owner is None or owner not in readers_of[topic]:
            homeless[topic].append(number)
        else:
            held[topic].setdefault(owner, []).append(number)
            loads[owner] += 1
    # Topics with the fewest readers have the least choice.
    for topic in sorted(readers, key=lambda each: (len(readers[each]), each)):
        _house(homeless[topic], readers[topic], held[topic], loads)
    for _ in range(ROUNDS_MAX):
        moved = [_even_out(readers[topic], held[topic], loads) for topic in readers]
        if not any(moved):
            break
    return {
        TopicPartition(topic, number): stream
        for topic, owners in held.items()
        for stream, numbers in owners.items()
        for number in numbers
    }


def _house(
    numbers: list[int],
    streams: list[StreamId],
    held: dict[StreamId, list[int]],
    loads: dict[StreamId, int],
) -> None:
    if not numbers:
        return
    heap = [(loads[stream], rank) for rank, stream in enumerate(streams)]
    heapq.heapify(heap)
    for number in numbers:
        load, rank = heap[0]
        held.setdefault(streams[rank], []).append(number)
        loads[streams[rank]] += 1
        heapq.heapreplace(heap, (load + 1, rank))


def _even_out(streams: list[StreamId], held: dict[StreamId, list[int]], loads: dict[StreamId, int]) -> int:
    """Move partitions of one topic while a stream that holds some has two more than another reader of it.
    Returns how many moved."""
    poor = [(loads[stream], rank) for rank, stream in enumerate(streams)]
    rich = [(-loads[stream], rank) for rank, stream in enumerate(streams) if held.get(stream)]
    if not rich or -min(rich)[0] - min(poor)[0] <= 1:
        return 0
    heapq.heapify(poor)
    heapq.heapify(rich)
    moved = 0
    # A stream that takes never gives in the same round, and the other way round: what it takes leaves it at
    # or below the level of those that give.
    while rich and -rich[0][0] - poor[0][0] > 1:
        load, giver = rich[0]
        numbers = held[streams[giver]]
        taken, taker = poor[0]
        held.setdefault(streams[taker], []).append(numbers.pop())
        loads[streams[giver]] -= 1
        loads[streams[taker]] += 1
        moved += 1
        heapq.heapreplace(poor, (taken + 1, taker))
        if numbers:
            heapq.heapreplace(rich, (load + 1, giver))
        else:
            heapq.heappop(rich)
    return moved
