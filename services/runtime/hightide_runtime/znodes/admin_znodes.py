"""The znodes below /admin, and the settings of moves, by which an operator makes requests to the controller.

An operator may write them in a ZooKeeper shell as V3 describes them (its paths 5 and 6). So they may have
other forms: a JSON list of broker ids counts as replicas, and an empty znode as an empty object.
"""

from dataclasses import dataclass
from typing import Self

from hightide_runtime.telemetry.trace_context import is_traceparent
from hightide_runtime.znodes.content import INT64_MAX, Fields, dump, topic_id_in
from hightide_runtime.znodes.paths import (
    PARTITIONS_ADD,
    PARTITIONS_REMOVE,
    REASSIGNMENTS,
    delete_topic_path,
    partition_add_path,
    partition_remove_path,
    reassignment_path,
)
from hightide_runtime.znodes.topic_names import is_legal_topic_name

__all__ = [
    "DeleteTopicZnode",
    "PartitionAddZnode",
    "PartitionRemoveZnode",
    "ReassignmentThrottleZnode",
    "ReassignmentZnode",
]


@dataclass(frozen=True, slots=True)
class ReassignmentZnode:
    """/admin/partitions_reassigned/[topic]/[partition]: RAR, the future replicas of a partition (V3 F).

    The controller adds `original`, the replicas before the move, when the move begins, so that it can be
    cancelled. It is empty before. `traceparent` is the trace of the move, if it is traced.
    """

    replicas: tuple[int, ...]
    original: tuple[int, ...] = ()
    traceparent: str = ""

    @staticmethod
    def topic_path(topic: str) -> str:
        """/admin/partitions_reassigned/[topic], which has no content."""
        assert is_legal_topic_name(topic), topic
        return f"{REASSIGNMENTS}/{topic}"

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/admin/partitions_reassigned/[topic]/[partition]."""
        return reassignment_path(topic, partition)

    def encode(self) -> bytes:
        """The content as JSON."""
        original = {"original": list(self.original)} if self.original else {}
        trace = {"traceparent": self.traceparent} if self.traceparent else {}
        return dump({"replicas": list(self.replicas), **original, **trace})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = _generous("/admin/partitions_reassigned/…", data)
        replicas = fields.broker_ids(fields.value("replicas"), "replicas")
        if not replicas:
            raise fields.garbage("replicas is empty")
        original = fields.all().get("original", [])
        traceparent = fields.optional_text("traceparent")
        # An invalid traceparent counts as none, since no decision depends on it.
        traceparent = traceparent if is_traceparent(traceparent) else ""
        return cls(replicas, fields.broker_ids(original, "original"), traceparent)


@dataclass(frozen=True, slots=True)
class PartitionAddZnode:
    """/admin/partitions_add/[topic]/[partition]: the replicas of a new partition (V3 H)."""

    replicas: tuple[int, ...]

    @staticmethod
    def topic_path(topic: str) -> str:
        """/admin/partitions_add/[topic], which has no content."""
        assert is_legal_topic_name(topic), topic
        return f"{PARTITIONS_ADD}/{topic}"

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/admin/partitions_add/[topic]/[partition]."""
        return partition_add_path(topic, partition)

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"replicas": list(self.replicas)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = _generous("/admin/partitions_add/…", data)
        replicas = fields.broker_ids(fields.value("replicas"), "replicas")
        if not replicas:
            raise fields.garbage("replicas is empty")
        return cls(replicas)


@dataclass(frozen=True, slots=True)
class PartitionRemoveZnode:
    """/admin/partitions_remove/[topic]/[partition]: the request to remove a partition (V3 H). It has no
    content."""

    @staticmethod
    def topic_path(topic: str) -> str:
        """/admin/partitions_remove/[topic], which has no content."""
        assert is_legal_topic_name(topic), topic
        return f"{PARTITIONS_REMOVE}/{topic}"

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/admin/partitions_remove/[topic]/[partition]."""
        return partition_remove_path(topic, partition)

    @staticmethod
    def encode() -> bytes:
        """The content, which is empty."""
        return b""


@dataclass(frozen=True, slots=True)
class DeleteTopicZnode:
    """/admin/delete_topics/[topic]: the request to delete a topic.

    The controller writes the id of the topic into it before it deletes anything, so that a controller that
    continues does not delete a later topic of the same name. It is empty before.
    """

    topic_id: bytes = b""

    @staticmethod
    def path(topic: str) -> str:
        """/admin/delete_topics/[topic]."""
        return delete_topic_path(topic)

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"topic_id": self.topic_id.hex()} if self.topic_id else {})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = _generous("/admin/delete_topics/…", data)
        return cls(topic_id_in(fields) if "topic_id" in fields.names else b"")


@dataclass(frozen=True, slots=True)
class ReassignmentThrottleZnode:
    """/config/reassignment: the limit on moves, in bytes per second that each broker sends; 0 means no
    limit."""

    throttle_bytes_per_s: int = 0

    @staticmethod
    def path() -> str:
        """/config/reassignment."""
        return "/config/reassignment"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"throttle_bytes_per_s": self.throttle_bytes_per_s})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/config/reassignment", data)
        return cls(fields.integer("throttle_bytes_per_s", maximum=INT64_MAX))


def _generous(znode: str, data: bytes) -> Fields:
    """The fields of a znode that an operator may have written: also if it is empty, or only a list of
    replicas."""
    text = data.strip()
    if not text:
        return Fields(znode, b"{}")
    if text.startswith(b"["):
        return Fields(znode, b'{"replicas":' + text + b"}")
    return Fields(znode, text)
