"""The znodes of a cluster that is coordinated by leaders (V2), where they differ from those of one with a
controller.

The rules are those of cluster_znodes.py: JSON that an operator can read and correct, checked by `decode`.
"""

import re
from dataclasses import dataclass
from typing import Self

from hightide_runtime.telemetry.trace_context import is_traceparent
from hightide_runtime.znodes.content import (
    EPOCH_MAX,
    INT64_MAX,
    Fields,
    dump,
    first_leader_epochs_in,
    first_leader_epochs_out,
    is_text,
    number_from_name,
    topic_id_in,
)
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode, TopicNode
from hightide_runtime.znodes.paths import (
    PARTITIONS_REASSIGNED,
    isr_path,
    leader_path,
    moves_path,
    reassigned_path,
    replicas_path,
    topic_path,
)
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.znodes.topic_names import is_legal_topic_name

__all__ = [
    "PARTITIONS_REASSIGNED",
    "STATE",
    "DrainedZnode",
    "IsrZnode",
    "LeaderZnode",
    "LedTopicZnode",
    "ReassignedZnode",
    "ReplicasZnode",
    "StateChangeZnode",
    "StateQueueZnode",
    "is_led",
    "is_queued",
]

STATE = "/brokers/state"
_CHANGE = "change-"
_KINDS = frozenset({"start-replica", "close-replica", "read-assignments"})
_QUEUED = re.compile(r"change-\d{10}")


@dataclass(frozen=True, slots=True)
class LedTopicZnode(TopicNode):
    """/brokers/topics/[topic], in leader-coordinated clusters: the topic's id, its number of partitions, and
    the settings that differ from the defaults.

    While a broker creates the topic, or adds partitions, it also has its id and incarnation, `created_by`.
    `partition_count` tells then how many there were before. Without `created_by`, partitions that are there
    beyond that number are being removed. `removals` counts how often partitions were removed: it is the
    zkVersion of the marker of the topic id. `first_leader_epochs` has the first leader epoch of a later
    partition with the number of a removed one. Fields that have no value are left out.
    """

    @staticmethod
    def path(topic: str) -> str:
        """/brokers/topics/[topic]."""
        return topic_path(topic)

    def encode(self: TopicNode) -> bytes:
        """The content as JSON."""
        assert len(self.topic_id) == 16, "a topic id is a UUID"
        attempt = {"created_by": list(self.attempt)} if self.attempt is not None else {}
        return dump(
            {
                "topic_id": self.topic_id.hex(),
                "partition_count": self.partition_count,
                **({"configs": dict(self.configs)} if self.configs else {}),
                **({"removals": self.removals} if self.removals else {}),
                **first_leader_epochs_out(self.first_leader_epochs),
                **attempt,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/brokers/topics/…", data)
        attempt = None
        if "created_by" in fields.names:
            value = fields.value("created_by")
            if not isinstance(value, list) or len(value) != 2:
                raise fields.garbage("created_by is not a broker id and its incarnation")
            broker_id, incarnation = (fields.checked_integer(each, "created_by") for each in value)
            attempt = (broker_id, incarnation)
        configs = fields.mapping("configs") if "configs" in fields.names else {}
        texts = {name: value for name, value in configs.items() if is_text(name) and is_text(value)}
        if len(texts) != len(configs):
            raise fields.garbage("a setting's value is not a text")
        removals = fields.integer("removals") if "removals" in fields.names else 0
        count = fields.integer("partition_count")
        return cls(topic_id_in(fields), attempt, count, texts, removals, first_leader_epochs_in(fields))


@dataclass(frozen=True, slots=True)
class ReplicasZnode:
    """/brokers/topics/[topic]/[partition]/replicas: AR; the first is the preferred replica. By the admin."""

    replicas: tuple[int, ...]

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/brokers/topics/[topic]/[partition]/replicas."""
        return replicas_path(topic, partition)

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"replicas": list(self.replicas)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("…/replicas", data)
        replicas = fields.broker_ids(fields.value("replicas"), "replicas")
        if not replicas:
            raise fields.garbage("replicas is empty")
        return cls(replicas)


@dataclass(frozen=True, slots=True)
class LeaderZnode(LeaderNode):
    """/brokers/topics/[topic]/[partition]/leader, ephemeral: who leads the partition, in which epoch. By
    the leader."""

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/brokers/topics/[topic]/[partition]/leader."""
        return leader_path(topic, partition)

    def encode(self: LeaderNode) -> bytes:
        """The content as JSON."""
        return dump({"broker_id": self.broker_id, "leader_epoch": self.epoch})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("…/leader", data)
        return cls(fields.integer("broker_id"), fields.integer("leader_epoch", maximum=EPOCH_MAX))


@dataclass(frozen=True, slots=True)
class IsrZnode(IsrNode):
    """/brokers/topics/[topic]/[partition]/ISR: the in-sync replicas, as a leader of this epoch wrote them
    last.

    Its zkVersion is the partition epoch. `eligible`, `recovered` and `unclean_epoch` as in the leaderAndISR
    znode of a cluster with a controller; they are left out if there are none.
    """

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/brokers/topics/[topic]/[partition]/ISR."""
        return isr_path(topic, partition)

    def encode(self: IsrNode) -> bytes:
        """The content as JSON."""
        logs = {str(broker_id): [epoch, end] for broker_id, epoch, end in self.recovered}
        return dump(
            {
                "leader_epoch": self.epoch,
                "isr": list(self.isr),
                **({"eligible": list(self.eligible)} if self.eligible else {}),
                **({"recovered": logs} if logs else {}),
                **({"unclean_epoch": self.unclean_epoch} if self.unclean_epoch else {}),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("…/ISR", data)
        isr = fields.broker_ids(fields.value("isr"), "isr")
        if not isr:
            raise fields.garbage("isr is empty: the last member in sync is always kept")
        eligible = (
            fields.broker_ids(fields.value("eligible"), "eligible") if "eligible" in fields.names else ()
        )
        unclean = fields.integer("unclean_epoch", maximum=EPOCH_MAX) if "unclean_epoch" in fields.names else 0
        epoch = fields.integer("leader_epoch", maximum=EPOCH_MAX)
        recovered = _recovered_in(fields)
        return cls(epoch, isr, eligible=eligible, recovered=recovered, unclean_epoch=unclean)


def _recovered_in(fields: Fields) -> tuple[RecoveredLog, ...]:
    if "recovered" not in fields.names:
        return ()
    logs = []
    for name, value in fields.mapping("recovered").items():
        if not isinstance(value, list) or len(value) != 2:
            raise fields.garbage("recovered is not a leader epoch and a log end for each broker id")
        broker_id = number_from_name("…/ISR/recovered", name)
        epoch = fields.checked_integer(value[0], "a leader epoch in recovered", -1, EPOCH_MAX)
        logs.append(
            RecoveredLog(broker_id, epoch, fields.checked_integer(value[1], "a log end", 0, INT64_MAX))
        )
    return tuple(sorted(logs))


@dataclass(frozen=True, slots=True)
class ReassignedZnode:
    """/brokers/partitions_reassigned/[topic]/[partition]: RAR, the brokers to which the partition is moved.
    Empty: the partition is deleted. By the admin; removed when it is done."""

    replicas: tuple[int, ...]

    @staticmethod
    def topic_path(topic: str) -> str:
        """/brokers/partitions_reassigned/[topic], which has no content."""
        return moves_path(topic)

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/brokers/partitions_reassigned/[topic]/[partition]."""
        return reassigned_path(topic, partition)

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"replicas": list(self.replicas)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/brokers/partitions_reassigned/…", data)
        return cls(fields.broker_ids(fields.value("replicas"), "replicas"))


@dataclass(frozen=True, slots=True)
class StateQueueZnode:
    """/brokers/state/[broker_id]: the queue of state changes for a broker, which has no content. It
    outlives the broker's process."""

    @staticmethod
    def path(broker_id: int) -> str:
        """/brokers/state/[broker_id]."""
        assert broker_id >= 0
        return f"{STATE}/{broker_id}"

    @staticmethod
    def encode() -> bytes:
        """Nothing."""
        return b""


@dataclass(frozen=True, slots=True)
class StateChangeZnode:
    """/brokers/state/[broker_id]/change-[number]: one state change. ZooKeeper gives the number, so that
    they are in the order in which they were put there. `traceparent` is the trace of its life, if it is
    traced."""

    kind: str
    topic: str
    partition: int
    topic_id: bytes
    leader_epoch: int
    """-1 cleans up a failed attempt to create the topic."""
    traceparent: str = ""

    @staticmethod
    def prefix(broker_id: int) -> str:
        """The path to which ZooKeeper adds the number."""
        return f"{StateQueueZnode.path(broker_id)}/{_CHANGE}"

    @staticmethod
    def path(broker_id: int, name: str) -> str:
        """/brokers/state/[broker_id]/change-[number]."""
        assert is_queued(name), name
        return f"{StateQueueZnode.path(broker_id)}/{name}"

    def encode(self) -> bytes:
        """The content as JSON."""
        assert self.kind in _KINDS, self.kind
        trace = {"traceparent": self.traceparent} if self.traceparent else {}
        if self.kind == "read-assignments":
            return dump({"kind": self.kind, **trace})
        return dump(
            {
                "kind": self.kind,
                "topic": self.topic,
                "partition": self.partition,
                "topic_id": self.topic_id.hex(),
                "leader_epoch": self.leader_epoch,
                **trace,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/brokers/state/…", data)
        traceparent = fields.optional_text("traceparent")
        # An invalid traceparent counts as none, since no decision depends on it.
        traceparent = traceparent if is_traceparent(traceparent) else ""
        kind = fields.text("kind")
        if kind not in _KINDS:
            raise fields.garbage(f"kind is not one of {', '.join(sorted(_KINDS))}")
        if kind == "read-assignments":
            return cls(kind, "", 0, bytes(16), -1, traceparent)
        topic = fields.text("topic")
        if not is_legal_topic_name(topic):
            raise fields.garbage(f"no topic can be called {topic[:260]!r}")
        epoch = fields.integer("leader_epoch", minimum=-1, maximum=EPOCH_MAX)
        return cls(kind, topic, fields.integer("partition"), topic_id_in(fields), epoch, traceparent)


@dataclass(frozen=True, slots=True)
class DrainedZnode:
    """/brokers/drained: the lives of brokers, by id and incarnation, that an operator wants to lead nothing
    that others can lead. It means nothing for a broker that has begun another life."""

    lives: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def path() -> str:
        """/brokers/drained."""
        return "/brokers/drained"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"incarnations": {str(broker_id): life for broker_id, life in sorted(self.lives)}})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/brokers/drained", data)
        lives = []
        for name, value in fields.mapping("incarnations").items():
            broker_id = number_from_name("/brokers/drained", name)
            lives.append((broker_id, fields.checked_integer(value, "an incarnation")))
        return cls(tuple(sorted(lives)))


def is_led(data: bytes) -> bool:
    """Whether the content of /brokers/topics/[topic] is that of a leader-coordinated cluster."""
    return b'"partition_count"' in data


def is_queued(name: str) -> bool:
    """Whether a child of a queue is named as a state change is."""
    return _QUEUED.fullmatch(name) is not None
