"""Assigning the replicas of a new topic: without regard to racks, balanced within one.

Brokers form a ring. Partition p takes the next `replication_factor` places on it, so the numbers of replicas
differ by at most one. Each time the windows come round to the same places, the leader's place within the
window moves on, so the numbers of leaders differ by at most one as well. After as many partitions as there
are brokers, the distribution is exactly even. The ring is then shuffled, so that the partitions of one leader
do not all have the same successor.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

__all__ = ["assign"]


def assign(
    broker_ids: Sequence[int], partition_count: int, replication_factor: int, start: int
) -> tuple[tuple[int, ...], ...]:
    """AR of each partition, with the first leader first. `start` selects the broker that leads partition
    0."""
    count = len(broker_ids)
    assert partition_count >= 1
    assert 1 <= replication_factor <= count
    assert len(set(broker_ids)) == count
    steps = [step for step in range(1, count) if gcd(step, count) == 1] or [1]
    shared = gcd(replication_factor, count)
    assignment = []
    for partition in range(partition_count):
        deal, place = divmod(partition, count)
        step = steps[deal % len(steps)]
        ring_at = place * replication_factor
        leads = (place // (count // shared)) % shared
        replicas = []
        for turn in range(replication_factor):
            within = (leads + turn) % replication_factor
            replicas.append(broker_ids[(start + (ring_at + within) * step) % count])
        assignment.append(tuple(replicas))
    return tuple(assignment)
