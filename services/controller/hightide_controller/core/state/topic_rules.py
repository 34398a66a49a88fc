"""The rules for names and assignments of topics. Each function returns the fault, or None."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from hightide_runtime.topics.topic_configs import config_fault
from hightide_runtime.znodes.topic_names import is_legal_topic_name

from hightide_controller.core.effects import Refusal
from hightide_controller.core.events import Topic

__all__ = [
    "ASSIGNMENT_BYTES_MAX",
    "PARTITIONS_PER_TOPIC_MAX",
    "Fault",
    "assignment_fault",
    "layout_fault",
    "name_fault",
    "partition_bytes",
    "request_fault",
    "size_fault",
    "topic_id_fault",
]

PARTITIONS_PER_TOPIC_MAX: Final = 10_000
ASSIGNMENT_BYTES_MAX: Final = 350_000
"""The size of the topic znode: it is written in one operation, and ZooKeeper refuses more than 1 MiB."""

Fault = tuple[Refusal, str]


def name_fault(name: str) -> str | None:
    """What is wrong with the name of a topic."""
    if not is_legal_topic_name(name):
        return f"topic name {name[:260]!r} is not 1 to 249 characters of [a-zA-Z0-9._-], or is '.' or '..'"
    return None


def topic_id_fault(topic: Topic, topic_id: str) -> Fault | None:
    """Whether a request is about another topic that had, or has, the name; an empty id means any."""
    if topic_id in ("", topic.topic_id):
        return None
    return (
        Refusal.INCONSISTENT_TOPIC_ID,
        f"topic {topic.name!r} has id {topic.topic_id}, and not {topic_id}: another topic has this name "
        "now; if you mean that one, repeat the request with its id, or without an id",
    )


def assignment_fault(
    assignment: Sequence[Sequence[int]], known: Collection[int] | None, first: int = 0
) -> str | None:
    """What is wrong with the replicas of partitions; `known` None: any broker id is valid.

    `first`: the number of the first partition in `assignment`. A topic that an operator put into ZooKeeper
    may name brokers that are not registered at the moment.
    """
    for partition, replicas in enumerate(assignment, first):
        if not replicas:
            return f"partition {partition} is assigned to no broker"
        if len(set(replicas)) != len(replicas):
            return f"partition {partition} names a broker twice: {list(replicas)}"
        for broker_id in replicas:
            if broker_id < 0 or (known is not None and broker_id not in known):
                names = "none" if known is None else ", ".join(str(known_id) for known_id in sorted(known))
                return f"partition {partition} names broker {broker_id}, which is not alive; alive: {names}"
    return None


def layout_fault(assignment: Sequence[Sequence[int]]) -> str | None:
    """What is wrong with a topic znode that an operator wrote; it may name brokers that are not
    registered."""
    if not 1 <= len(assignment) <= PARTITIONS_PER_TOPIC_MAX:
        return f"{len(assignment)} partitions; a topic has 1 to {PARTITIONS_PER_TOPIC_MAX:,}"
    return size_fault(assignment) or assignment_fault(assignment, known=None)


def partition_bytes(partition: int, replicas: Sequence[int]) -> int:
    """How many bytes one partition adds to the topic znode: "1234":[1,2,3] and a comma."""
    return len(str(partition)) + 6 + len(replicas) + sum(map(len, map(str, replicas)))


def size_fault(assignment: Sequence[Sequence[int]]) -> str | None:
    """Whether the assignment is too large for the topic znode."""
    size_bytes = sum(partition_bytes(partition, replicas) for partition, replicas in enumerate(assignment))
    if size_bytes > ASSIGNMENT_BYTES_MAX:
        return (
            f"{len(assignment)} partitions with so many replicas take {size_bytes:,} bytes in ZooKeeper; "
            f"{ASSIGNMENT_BYTES_MAX:,} is the most: use fewer of either"
        )
    return None


def request_fault(
    name: str,
    partition_count: int,
    replication_factor: int,
    assignment: Sequence[Sequence[int]],
    configs: dict[str, str],
    live: Collection[int],
) -> Fault | None:
    """What is wrong with a request for a topic, checked in a fixed order; None if nothing is."""
    if (fault := name_fault(name)) is not None:
        return Refusal.INVALID_TOPIC_NAME, fault
    if assignment:
        shape = _assignment_shape_fault(partition_count, replication_factor, assignment, live)
    else:
        shape = _balanced_shape_fault(partition_count, replication_factor, len(live))
    if shape is not None:
        return shape
    replicas_min = min(len(replicas) for replicas in assignment) if assignment else replication_factor
    if (fault := config_fault(configs, replicas_min)) is not None:
        return Refusal.INVALID_CONFIG, fault
    return None


def _balanced_shape_fault(partition_count: int, replication_factor: int, live_count: int) -> Fault | None:
    if not 1 <= partition_count <= PARTITIONS_PER_TOPIC_MAX:
        return (
            Refusal.INVALID_PARTITION_COUNT,
            f"{partition_count} partitions; a topic has 1 to {PARTITIONS_PER_TOPIC_MAX:,}",
        )
    if not 1 <= replication_factor <= live_count:
        return (
            Refusal.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor}; it is at least 1 and at most the number of live "
            f"brokers, now {live_count}",
        )
    return None


def _assignment_shape_fault(
    partition_count: int, replication_factor: int, assignment: Sequence[Sequence[int]], live: Collection[int]
) -> Fault | None:
    if len(assignment) > PARTITIONS_PER_TOPIC_MAX:
        return (
            Refusal.INVALID_PARTITION_COUNT,
            f"{len(assignment)} partitions; a topic has 1 to {PARTITIONS_PER_TOPIC_MAX:,}",
        )
    if partition_count not in (0, len(assignment)):
        return (
            Refusal.INVALID_REQUEST,
            f"partition_count {partition_count} contradicts the assignment of {len(assignment)} partitions; "
            "leave it out",
        )
    if replication_factor and any(len(replicas) != replication_factor for replicas in assignment):
        return (
            Refusal.INVALID_REQUEST,
            f"replication_factor {replication_factor} contradicts the assignment; leave it out",
        )
    if (fault := assignment_fault(assignment, live)) is not None:
        return Refusal.INVALID_ASSIGNMENT, fault
    return None
