"""The topics of a failover benchmark, whose partitions all have the same preferred leader."""

from collections.abc import Mapping, Sequence

Replicas = tuple[int, ...]
Numbered = tuple[str, int]
PARTITIONS_A_TOPIC = 1_000
REPLICAS_MAX = 3


def spread(
    prefix: str, partitions: int, brokers: Sequence[int], leader: int, a_topic: int = PARTITIONS_A_TOPIC
) -> dict[str, list[Replicas]]:
    """Return the assignment of each topic: `leader` is the preferred replica of every partition.

    The other brokers take turns as the second replica, so that each of them leads the same number of
    partitions when the leader is gone. A topic has at most `a_topic` partitions.
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
    """Return all partitions, in the order of their topics."""
    return [(name, number) for name, each in topics.items() for number in range(len(each))]


def evenly(partitions: Sequence[Numbered], count: int) -> list[Numbered]:
    """Return `count` of the partitions, evenly from the first to the last. A failover decides partitions in
    some order, and the clients of the last one wait longest."""
    if count >= len(partitions):
        return list(partitions)
    if count == 1:
        return [partitions[-1]]
    last = len(partitions) - 1
    return [partitions[at * last // (count - 1)] for at in range(count)]
