"""The writes that go together in one multi of a StoreWrites effect: all of them happen, or none.

Versions are those that the controller read. If another process has changed a znode meanwhile, the whole multi
fails with StoreRefused, and its subject is read again. store.py translates each write into ZooKeeper
operations, one by one, in order.
"""

from __future__ import annotations

from msgspec import Struct

from hightide_controller.core.events import Topic
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition

__all__ = [
    "AdditionDone",
    "ConfigWrite",
    "DeletionAdopted",
    "DeletionDone",
    "LeaderAndIsrWrite",
    "MarkerCreated",
    "MarkerRaised",
    "MarkerRemoved",
    "PartitionRemoved",
    "ReassignmentDone",
    "ReassignmentWrite",
    "RemovalDone",
    "StoreWrites",
    "ThrottleWrite",
    "TopicRemoved",
    "TopicWrite",
    "Write",
]


class LeaderAndIsrWrite(Struct, frozen=True):
    """One conditional write of a leaderAndISR znode.

    `expected_partition_epoch` None: the znode (and its parent) is created, and must not exist.
    `decided.partition_epoch` is the version that the write gives it.
    """

    name: TopicPartition
    expected_partition_epoch: int | None
    decided: LeaderAndIsr


class TopicWrite(Struct, frozen=True):
    """Set the topic znode: id, AR and first leader epochs of `topic`. Its version grows by one."""

    topic: Topic
    expected_version: int


class TopicRemoved(Struct, frozen=True):
    """Delete the topic znode, its id marker if `topic.has_marker`, and its settings if it has any.

    Its partitions' znodes must be gone. Settings are deleted at `topic.config_version`; None: it has none.
    After the multi, store.py also deletes the empty parents /admin/*/[topic].
    """

    topic: Topic
    expected_version: int


class MarkerCreated(Struct, frozen=True):
    """Create /brokers/topic_ids/[topic id] for a topic that has none."""

    topic_name: str
    topic_id: str


class MarkerRaised(Struct, frozen=True):
    """Give /brokers/topic_ids/[topic id] another version, because partitions of the topic are removed in this
    multi.

    A leader that does not know of it can then not write into a partition that gets the number later.
    """

    topic_name: str
    topic_id: str


class MarkerRemoved(Struct, frozen=True):
    """Delete /brokers/topic_ids/[topic id] of a topic whose znode an operator deleted."""

    topic_id: str


class ConfigWrite(Struct, frozen=True):
    """Set /config/topics/[topic], or create it if `expected_version` is None."""

    topic_name: str
    configs: dict[str, str]
    expected_version: int | None


class PartitionRemoved(Struct, frozen=True):
    """Delete a partition's leaderAndISR at this partition epoch (None: it has none), and its parent.

    If it has no leaderAndISR, the parent /brokers/topics/[topic]/[partition] may exist or not. store.py knows
    from its last read. If that is wrong, the multi is refused, and all is read again.
    """

    name: TopicPartition
    expected_partition_epoch: int | None


class ReassignmentWrite(Struct, frozen=True):
    """Write RAR and the original AR of a move; created if `expected_version` is None."""

    name: TopicPartition
    target: tuple[int, ...]
    original: tuple[int, ...]
    expected_version: int | None
    traceparent: str = ""
    """The trace of the move, added on the way to ZooKeeper; empty if it is not traced."""


class ReassignmentDone(Struct, frozen=True):
    """Delete the znode of a move, which is done or cancelled."""

    name: TopicPartition
    expected_version: int


class AdditionDone(Struct, frozen=True):
    """Delete /admin/partitions_add/[topic]/[partition]."""

    name: TopicPartition
    expected_version: int


class RemovalDone(Struct, frozen=True):
    """Delete /admin/partitions_remove/[topic]/[partition]."""

    name: TopicPartition
    expected_version: int


class DeletionAdopted(Struct, frozen=True):
    """Write the topic's id into /admin/delete_topics/[topic]; created if `expected_version` is None."""

    topic_name: str
    topic_id: str
    expected_version: int | None


class DeletionDone(Struct, frozen=True):
    """Delete /admin/delete_topics/[topic]."""

    topic_name: str
    expected_version: int


class ThrottleWrite(Struct, frozen=True):
    """Set /config/reassignment, or create it if `expected_version` is None."""

    throttle_bytes_per_s: int
    expected_version: int | None


class StoreWrites(Struct, frozen=True):
    """One multi: check /controller_epoch at the version given, and `writes`.

    Answered like StoreLeaderAndIsr by exactly one of StoreCommitted, StoreRefused, StoreUnknown or Fenced;
    every znode that is not as expected (BadVersion, NodeExists, NoNode, NotEmpty) means StoreRefused. What is
    set has then the expected version plus one, what is created version 0. An effect of the core (effects.py),
    here because its writes are.
    """

    store_id: int
    controller_epoch_version: int
    writes: tuple[Write, ...]
    cause: str = ""


Write = (
    LeaderAndIsrWrite
    | TopicWrite
    | TopicRemoved
    | MarkerCreated
    | MarkerRaised
    | MarkerRemoved
    | ConfigWrite
    | PartitionRemoved
    | ReassignmentWrite
    | ReassignmentDone
    | AdditionDone
    | RemovalDone
    | DeletionAdopted
    | DeletionDone
    | ThrottleWrite
)
