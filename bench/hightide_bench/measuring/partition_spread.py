"""Which topics a failover is measured on: as many partitions as wanted, all led by one broker."""

from collections.abc import Mapping, Sequence
from itertools import islice

Replicas = tuple[int, ...]
Numbered = tuple[str, int]
PARTITIONS_A_TOPIC = 1_000
REPLICAS_MAX = 3


def spread(
    prefix: str, partitions: int, brokers: Sequence[int], leader: int, a_topic: int = PARTITIONS_A_TOPIC
) -> dict[str, list[Replicas]]:
    """Return the assignment of each topic: `leader` is the preferred replica of every partition.

    The other replicas take turns, so that each of them leads as many partitions when the leader is gone.
    """
    assert leader in brokers
    others = [broker for broker in brokers if broker != leader]
    turns = [tuple(others[at:] + others[:at])[: REPLICAS_MAX - 1] for at in range(max(len(others), 1))]
    assigned = [(leader, *turns[number % len(turns)]) for number in range(partitions)]
    return {
        f"{prefix}-{start // a_topic}": assigned[start : start + a_topic]
        for start in range(0, partitions, a_topic)
    }


def partitions_of(topics: Mapping[str, Sequence[Replicas]]) -> list[Numbered]:
    """Return every partition, topic by topic."""
    return [(name, number) for name, each in topics.items() for number in range(len(each))]


def evenly(partitions: Sequence[Numbered], count: int) -> list[Numbered]:
    """Return so many of them, from the first to the last and as far apart as can be: a failover is decided in
    some order, and clients of what comes last wait longest."""
    if count >= len(partitions):
        return list(partitions)
    if count == 1:
        return [partitions[-1]]
    last = len(partitions) - 1
    return list(islice((partitions[at * last // (count - 1)] for at in range(count)), count))
