"""Every znode that Hightide writes: the only place that spells a ZooKeeper path (DESIGN §4).

One frozen dataclass a znode, with `path(...)`, `encode()` and `decode(data)`. The content is JSON, so
that it can be read and mended in a ZooKeeper shell. `decode` checks whatever it is given and raises
`ZnodeGarbage`: what another process or a hand wrote is input from outside.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from hightide_runtime.topic_names import is_legal_topic_name
from hightide_runtime.trace_context import is_traceparent

_Json: TypeAlias = Mapping[str, Any]
_TOPIC_ID = re.compile(r"[0-9a-f]{32}")
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"

#: What must exist before anything else is written. Every service makes sure of it when it starts.
PARENTS = ("/cluster", BROKER_IDS, TOPICS, TOPIC_CONFIGS)


class ZnodeGarbage(Exception):
    """A znode's content is not what Hightide writes there. Names the znode and what is wrong with it."""

    def __init__(self, znode: str, reason: str) -> None:
        super().__init__(f"znode {znode}: {reason}")
        self.znode = znode
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """/controller, ephemeral: who the active controller is and where it is reached."""

    controller_id: int
    host: str
    port: int
    controller_epoch: int

    @staticmethod
    def path() -> str:
        """/controller."""
        return "/controller"

    def encode(self) -> bytes:
        """The content as JSON."""
        return _dump(
            {
                "controller_id": self.controller_id,
                "host": self.host,
                "port": self.port,
                "controller_epoch": self.controller_epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = _Fields("/controller", data)
        return cls(
            fields.integer("controller_id"),
            fields.text("host"),
            fields.port("port"),
            fields.integer("controller_epoch"),
        )


@dataclass(frozen=True, slots=True)
class ControllerEpochZnode:
    """/controller_epoch: how often a controller was elected. Its zkVersion fences every controller write."""

    controller_epoch: int

    @staticmethod
    def path() -> str:
        """/controller_epoch."""
        return "/controller_epoch"

    def encode(self) -> bytes:
        """The content as JSON."""
        return _dump({"controller_epoch": self.controller_epoch})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        return cls(_Fields("/controller_epoch", data).integer("controller_epoch"))


@dataclass(frozen=True, slots=True)
class BrokerZnode:
    """/brokers/ids/[id], ephemeral: a live broker. Its czxid is the broker epoch."""

    host: str
    port: int
    started_at_ms: int
    boot_id: str = ""

    @staticmethod
    def path(broker_id: int) -> str:
        """/brokers/ids/[broker_id]."""
        return f"{BROKER_IDS}/{broker_id}"

    @staticmethod
    def broker_id_of(name: str) -> int:
        """The broker id of a child of /brokers/ids; raises ZnodeGarbage where it is no number."""
        return _number_from_name(BROKER_IDS, name)

    def encode(self) -> bytes:
        """The content as JSON."""
        return _dump(
            {
                "host": self.host,
                "port": self.port,
                "started_at_ms": self.started_at_ms,
                **({"boot_id": self.boot_id} if self.boot_id else {}),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = _Fields("/brokers/ids/…", data)
        return cls(
            fields.text("host"),
            fields.port("port"),
            fields.integer("started_at_ms", maximum=_INT64_MAX),
            fields.optional_text("boot_id"),
        )


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """/brokers/topics/[topic]: the topic's id and its AR, by partition from 0; the first is preferred."""

    topic_id: bytes
    partitions: tuple[tuple[int, ...], ...]

    @staticmethod
    def path(topic: str) -> str:
        """/brokers/topics/[topic]."""
        assert is_legal_topic_name(topic), topic
        return f"{TOPICS}/{topic}"

    def encode(self) -> bytes:
        """The content as JSON."""
        assert len(self.topic_id) == 16, "a topic id is a UUID"
        return _dump(
            {
                "topic_id": self.topic_id.hex(),
                "partitions": {
                    str(partition): list(replicas) for partition, replicas in enumerate(self.partitions)
                },
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = _Fields("/brokers/topics/…", data)
        topic_id = fields.text("topic_id")
        if not _TOPIC_ID.fullmatch(topic_id):
            raise fields.garbage("topic_id is not 32 hexadecimal digits")
        assigned = fields.mapping("partitions")
        if not assigned:
            raise fields.garbage("it has no partitions")
        partitions = []
        for partition in range(len(assigned)):
            if str(partition) not in assigned:
                raise fields.garbage(f"partition {partition} is missing: they must run from 0 without a gap")
            replicas = fields.broker_ids(assigned[str(partition)], f"partition {partition}")
            if not replicas:
                raise fields.garbage(f"partition {partition} has no replicas")
            partitions.append(replicas)
        return cls(bytes.fromhex(topic_id), tuple(partitions))


@dataclass(frozen=True, slots=True)
class PartitionZnode:
    """/brokers/topics/[topic]/[partition]: holds nothing, only the leaderAndISR below it."""

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/brokers/topics/[topic]/[partition]."""
        assert partition >= 0
        return f"{TopicZnode.path(topic)}/{partition}"

    @staticmethod
    def encode() -> bytes:
        """Nothing."""
        return b""


@dataclass(frozen=True, slots=True)
class LeaderAndIsrZnode:
    """/brokers/topics/[topic]/[partition]/leaderAndISR: who leads, and who is in sync.

    Its zkVersion is the partition epoch. `leader` is -1 where the partition is offline; the ISR then
    still names the last members. `traceparent` is the trace of the failover that wrote it, if any.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    traceparent: str = ""

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/brokers/topics/[topic]/[partition]/leaderAndISR."""
        return f"{PartitionZnode.path(topic, partition)}/leaderAndISR"

    def encode(self) -> bytes:
        """The content as JSON, put together by hand: a failover writes ten thousand of them."""
        isr = ",".join(map(str, self.isr))
        trace = ""
        if self.traceparent:
            assert is_traceparent(self.traceparent), self.traceparent
            trace = f',"traceparent":"{self.traceparent}"'
        return (
            f'{{"leader":{self.leader},"leader_epoch":{self.leader_epoch},"isr":[{isr}],'
            f'"controller_epoch":{self.controller_epoch}{trace}}}'
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage. What is no traceparent is left out: it decides nothing."""
        fields = _Fields("…/leaderAndISR", data)
        traceparent = fields.optional_text("traceparent")
        isr = fields.broker_ids(fields.value("isr"), "isr")
        if not isr:
            raise fields.garbage("isr is empty: the last member in sync is always kept")
        return cls(
            fields.integer("leader", minimum=-1),
            fields.integer("leader_epoch"),
            isr,
            fields.integer("controller_epoch"),
            traceparent if is_traceparent(traceparent) else "",
        )


@dataclass(frozen=True, slots=True)
class TopicConfigZnode:
    """/config/topics/[topic]: the settings that differ from the defaults, both sides text."""

    configs: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def path(topic: str) -> str:
        """/config/topics/[topic]."""
        assert is_legal_topic_name(topic), topic
        return f"{TOPIC_CONFIGS}/{topic}"

    def encode(self) -> bytes:
        """The content as JSON."""
        return _dump({"configs": dict(self.configs)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage. The controller says whether the settings make sense."""
        fields = _Fields("/config/topics/…", data)
        configs = fields.mapping("configs")
        texts = {name: value for name, value in configs.items() if isinstance(value, str)}
        if len(texts) != len(configs):
            raise fields.garbage("a setting's value is not a string")
        return cls(texts)


@dataclass(frozen=True, slots=True)
class ClusterIdZnode:
    """/cluster/id: the cluster's identity, written once by whoever starts first."""

    cluster_id: str

    @staticmethod
    def path() -> str:
        """/cluster/id."""
        return "/cluster/id"

    def encode(self) -> bytes:
        """The content as JSON."""
        return _dump({"cluster_id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        return cls(_Fields("/cluster/id", data).text("cluster_id"))


@dataclass(frozen=True, slots=True)
class ProducerIdsZnode:
    """/producer_ids: the first producer id not given out yet. Brokers take blocks by conditional set."""

    next_id: int

    BLOCK_SIZE = 1000

    @staticmethod
    def path() -> str:
        """/producer_ids."""
        return "/producer_ids"

    def encode(self) -> bytes:
        """The content as JSON."""
        return _dump({"next": self.next_id})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        return cls(_Fields("/producer_ids", data).integer("next", maximum=_INT64_MAX))


def partition_of(name: str) -> int:
    """The partition of a child of /brokers/topics/[topic]; raises ZnodeGarbage where it is no number."""
    return _number_from_name(f"{TOPICS}/…", name)


def _dump(content: _Json) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _number_from_name(parent: str, name: str) -> int:
    if not (name.isascii() and name.isdigit()) or len(name) > 10 or int(name) > _INT32_MAX:
        raise ZnodeGarbage(f"{parent}/{name}", "its name is not a number from 0 to 2^31-1")
    return int(name)


class _Fields:
    """The checked fields of one znode's JSON object."""

    __slots__ = ("_fields", "_znode")

    def __init__(self, znode: str, data: bytes) -> None:
        self._znode = znode
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ZnodeGarbage(znode, f"not JSON ({error})") from None
        if not isinstance(fields, dict):
            raise ZnodeGarbage(znode, "not a JSON object")
        self._fields: dict[str, Any] = fields

    def garbage(self, reason: str) -> ZnodeGarbage:
        """The error to raise for this znode."""
        return ZnodeGarbage(self._znode, reason)

    def value(self, name: str) -> object:
        """The field, of any type."""
        if name not in self._fields:
            raise self.garbage(f"field {name} is missing")
        value: object = self._fields[name]
        return value

    def integer(self, name: str, minimum: int = 0, maximum: int = _INT32_MAX) -> int:
        """The field as a whole number within bounds."""
        value = self.value(name)
        if type(value) is not int or not minimum <= value <= maximum:
            raise self.garbage(f"field {name} is not a whole number from {minimum} to {maximum}")
        return value

    def port(self, name: str) -> int:
        """The field as a TCP port."""
        return self.integer(name, 1, 65535)

    def text(self, name: str) -> str:
        """The field as text that is not empty."""
        value = self.value(name)
        if not isinstance(value, str) or not value:
            raise self.garbage(f"field {name} is not a text")
        return value

    def optional_text(self, name: str) -> str:
        """The field as text, empty where it is absent."""
        value = self._fields.get(name, "")
        return value if isinstance(value, str) else ""

    def mapping(self, name: str) -> Mapping[str, object]:
        """The field as a JSON object."""
        value = self.value(name)
        if not isinstance(value, dict):
            raise self.garbage(f"field {name} is not an object")
        return value

    def broker_ids(self, value: object, what: str) -> tuple[int, ...]:
        """A list of different broker ids."""
        if not isinstance(value, list) or not all(type(i) is int and 0 <= i <= _INT32_MAX for i in value):
            raise self.garbage(f"{what} is not a list of broker ids")
        if len(set(value)) != len(value):
            raise self.garbage(f"{what} names a broker twice")
        return tuple(value)
