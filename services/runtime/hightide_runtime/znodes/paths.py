"""The paths of the znodes that operators read and write, without their content.

The controller's core names them in its complaints, and needs nothing else about znodes.
"""

from hightide_runtime.znodes.topic_names import is_legal_topic_name

#: All that hangs directly from the chroot.
TOP_LEVEL = frozenset(
    (
        *("/admin", "/brokers", "/candidates", "/cluster", "/config", "/consumers"),
        *("/controller", "/controller_epoch", "/producer_ids"),
    )
)
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
REASSIGNMENTS = "/admin/partitions_reassigned"
PARTITIONS_ADD = "/admin/partitions_add"
PARTITIONS_REMOVE = "/admin/partitions_remove"
DELETE_TOPICS = "/admin/delete_topics"


def topic_config_path(topic: str) -> str:
    """/config/topics/[topic]."""
    return _of_topic(TOPIC_CONFIGS, topic)


def delete_topic_path(topic: str) -> str:
    """/admin/delete_topics/[topic]."""
    return _of_topic(DELETE_TOPICS, topic)


def reassignment_path(topic: str, partition: int) -> str:
    """/admin/partitions_reassigned/[topic]/[partition]."""
    return _of_partition(REASSIGNMENTS, topic, partition)


def partition_add_path(topic: str, partition: int) -> str:
    """/admin/partitions_add/[topic]/[partition]."""
    return _of_partition(PARTITIONS_ADD, topic, partition)


def partition_remove_path(topic: str, partition: int) -> str:
    """/admin/partitions_remove/[topic]/[partition]."""
    return _of_partition(PARTITIONS_REMOVE, topic, partition)


def _of_topic(parent: str, topic: str) -> str:
    assert is_legal_topic_name(topic), topic
    return f"{parent}/{topic}"


def _of_partition(parent: str, topic: str, partition: int) -> str:
    assert partition >= 0
    return f"{_of_topic(parent, topic)}/{partition}"
