"""The paths of znodes, without their content, for cores: the controller's names in its complaints what
operators write, and that of a leader-coordinated cluster (V2) decides what is written where.
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
TOPIC_IDS = "/brokers/topic_ids"
BROKER_INCARNATIONS = "/brokers/incarnations"
PARTITIONS_REASSIGNED = "/brokers/partitions_reassigned"
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


def topic_path(topic: str) -> str:
    """/brokers/topics/[topic]."""
    return _of_topic(TOPICS, topic)


def topic_id_path(topic_id: str) -> str:
    """/brokers/topic_ids/[topic id as 32 hexadecimal digits]."""
    assert len(topic_id) == 32, "a topic id is a UUID"
    return f"{TOPIC_IDS}/{topic_id}"


def incarnation_path(broker_id: int) -> str:
    """/brokers/incarnations/[id]."""
    assert broker_id >= 0
    return f"{BROKER_INCARNATIONS}/{broker_id}"


def partition_path(topic: str, partition: int) -> str:
    """/brokers/topics/[topic]/[partition]."""
    return _of_partition(TOPICS, topic, partition)


def replicas_path(topic: str, partition: int) -> str:
    """/brokers/topics/[topic]/[partition]/replicas."""
    return f"{partition_path(topic, partition)}/replicas"


def leader_path(topic: str, partition: int) -> str:
    """/brokers/topics/[topic]/[partition]/leader."""
    return f"{partition_path(topic, partition)}/leader"


def isr_path(topic: str, partition: int) -> str:
    """/brokers/topics/[topic]/[partition]/ISR."""
    return f"{partition_path(topic, partition)}/ISR"


def moves_path(topic: str) -> str:
    """/brokers/partitions_reassigned/[topic]."""
    return _of_topic(PARTITIONS_REASSIGNED, topic)


def reassigned_path(topic: str, partition: int) -> str:
    """/brokers/partitions_reassigned/[topic]/[partition]."""
    return _of_partition(PARTITIONS_REASSIGNED, topic, partition)


def _of_topic(parent: str, topic: str) -> str:
    assert is_legal_topic_name(topic), topic
    return f"{parent}/{topic}"


def _of_partition(parent: str, topic: str, partition: int) -> str:
    assert partition >= 0
    return f"{_of_topic(parent, topic)}/{partition}"
