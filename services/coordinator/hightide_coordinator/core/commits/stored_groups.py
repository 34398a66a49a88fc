"""Which parts of a group's content in ZooKeeper are valid: those of a deleted topic, a removed partition or
an earlier topic of the same name are not (§6)."""

from __future__ import annotations

from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.registration import PartitionOwner, StoredGroup, StoredOffset
from hightide_coordinator.core.values.topic_partition import Topic, TopicPartition

__all__ = ["counts", "counts_surely", "identity_in", "valid_offsets", "valid_owners"]


def valid_offsets(
    state: ShardState, stored: StoredGroup
) -> tuple[dict[TopicPartition, StoredOffset], list[TopicPartition]]:
    """The valid offsets, and the znodes of invalid ones. Withheld topics are in neither."""
    valid: dict[TopicPartition, StoredOffset] = {}
    void: list[TopicPartition] = []
    for name, committed in stored.offsets.items():
        if name.topic in stored.withheld:
            continue
        topic = state.topics.get(name.topic)
        if topic is None or not counts(topic, name, committed):
            void.append(name)
        else:
            valid[name] = committed
    return valid, void


def valid_owners(
    state: ShardState, stored: StoredGroup
) -> tuple[dict[TopicPartition, PartitionOwner], list[TopicPartition]]:
    """The valid owners. An owner under another topic id, or of an earlier partition with this number, owned
    that one. Its members may be anywhere in it, and their positions must not count for this one."""
    valid: dict[TopicPartition, PartitionOwner] = {}
    void: list[TopicPartition] = []
    for name, owner in stored.owners.items():
        if name.topic in stored.withheld:
            continue
        topic = state.topics.get(name.topic)
        if topic is None or not _exists(topic, name) or not _is_owned(topic, name, owner):
            void.append(name)
        else:
            valid[name] = owner
    return valid, void


def _is_owned(topic: Topic, name: TopicPartition, owner: PartitionOwner) -> bool:
    if not owner.topic_id:
        return True
    first = topic.first_leader_epochs.get(name.partition, 0)
    return owner.topic_id == topic.topic_id and owner.first_leader_epoch == first


def _exists(topic: Topic, name: TopicPartition) -> bool:
    return 0 <= name.partition < topic.partition_count


def identity_in(state: ShardState, name: TopicPartition) -> tuple[bytes, int] | None:
    """What tells a partition from others that had its name: the topic id and the first leader epoch; None: it
    does not exist."""
    topic = state.topics.get(name.topic)
    if topic is None or not _exists(topic, name):
        return None
    return topic.topic_id, topic.first_leader_epochs.get(name.partition, 0)


def counts_surely(topic: Topic | None, name: TopicPartition, committed: StoredOffset) -> bool:
    """The same for a name that is known to be in use again: an offset without an epoch may belong to
    either."""
    return topic is not None and committed.leader_epoch != -1 and counts(topic, name, committed)


def counts(topic: Topic, name: TopicPartition, committed: StoredOffset) -> bool:
    """Whether an offset belongs to the partition that has this name now."""
    if not _exists(topic, name) or committed.topic_id != topic.topic_id:
        return False
    first = topic.first_leader_epochs.get(name.partition, 0)
    if committed.leader_epoch == -1:  # A first offset, or a reset by an operator.
        return committed.first_leader_epoch == first
    # A consumer may have read in this partition before the coordinator knew of it.
    return committed.leader_epoch >= first
