"""The limits of one multi: ZooKeeper drops the connection of a client that sends a packet that is too
large."""

from __future__ import annotations

from typing import Final

from hightide_controller.core.events import Topic
from hightide_controller.core.state.topic_rules import partition_bytes
from hightide_controller.core.writes import (
    ConfigWrite,
    LeaderAndIsrWrite,
    PartitionRemoved,
    ReassignmentWrite,
    TopicRemoved,
    TopicWrite,
    Write,
)

__all__ = ["BYTES_MAX", "OPERATIONS_MAX", "cost_of", "topic_bytes"]

OPERATIONS_MAX: Final = 1_000
"""Operations or bytes of one multi, with the epoch check. Beyond the packet limit ZooKeeper drops the
connection."""
BYTES_MAX: Final = 400_000
_BYTES_BESIDE_NAMES: Final = 330
"""Bytes of one operation: its header, the fixed part of the path, and the JSON with ISR and traceparent."""
_BYTES_OF_DELETE: Final = 80
_BYTES_A_REPLICA: Final = 11
_BYTES_OF_DOUBTS: Final = 60
"""The names of the fields that hardly any leaderAndISR has."""
_BYTES_A_RECOVERED_LOG: Final = 46


def cost_of(write: Write) -> tuple[int, int]:
    """Operations and bytes of one write, at most."""
    match write:
        case LeaderAndIsrWrite(name, expected, decided):
            # A create needs the partition's own znode as a parent: two operations.
            operations = 1 if expected is not None else 2
            size_bytes = _BYTES_BESIDE_NAMES + len(name.topic)
            size_bytes += _BYTES_A_REPLICA * len(decided.isr)
            if decided.eligible or decided.recovered or decided.unclean_epoch:
                size_bytes += _BYTES_OF_DOUBTS + _BYTES_A_REPLICA * len(decided.eligible)
                size_bytes += _BYTES_A_RECOVERED_LOG * len(decided.recovered)
            return operations, operations * size_bytes
        case PartitionRemoved(name, _):
            return 2, 2 * (_BYTES_OF_DELETE + len(name.topic))
        case TopicWrite(topic, _):
            return 1, topic_bytes(topic)
        case TopicRemoved(topic, _):
            return 3, 3 * (_BYTES_OF_DELETE + len(topic.name))
        case ConfigWrite(topic_name, configs, _):
            size_bytes = sum(len(name) + len(value) + 6 for name, value in configs.items())
            return 1, _BYTES_BESIDE_NAMES + len(topic_name) + size_bytes
        case ReassignmentWrite(name, target, original, _):
            # The parent of the topic may have to be created first.
            replicas = _BYTES_A_REPLICA * (len(target) + len(original))
            return 2, 2 * (_BYTES_BESIDE_NAMES + len(name.topic)) + replicas
        case _:
            return 1, _BYTES_BESIDE_NAMES


def topic_bytes(topic: Topic) -> int:
    """The size of a topic znode; "1234":5 is a first leader epoch."""
    assigned = sum(
        partition_bytes(partition, replicas) for partition, replicas in enumerate(topic.assignment)
    )
    first_epochs = sum(len(str(p)) + len(str(epoch)) + 4 for p, epoch in topic.first_leader_epochs.items())
    return _BYTES_BESIDE_NAMES + len(topic.name) + assigned + first_epochs
