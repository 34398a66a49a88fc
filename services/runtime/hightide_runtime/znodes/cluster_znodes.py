"""The znodes of the cluster, its brokers and its topics. No module outside of this room has paths of
ZooKeeper.

Each znode is a frozen dataclass with `path(...)`, `encode()` and `decode(data)`. The content is JSON, so that
an operator can read and correct it in a ZooKeeper shell. `decode` checks all content, since another process
or an operator may have written it, and raises `ZnodeGarbage`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from hightide_runtime.telemetry.trace_context import is_traceparent
from hightide_runtime.znodes.content import (
    EPOCH_MAX,
    INT32_MAX,
    INT64_MAX,
    Fields,
    ZnodeGarbage,
    dump,
    external_fields,
    first_leader_epochs_in,
    first_leader_epochs_out,
    is_text,
    number_from_name,
    topic_id_from_name,
    topic_id_in,
)
from hightide_runtime.znodes.paths import (
    BROKER_INCARNATIONS,
    DELETE_TOPICS,
    PARTITIONS_ADD,
    PARTITIONS_REMOVE,
    REASSIGNMENTS,
    TOPIC_CONFIGS,
    TOPIC_IDS,
    TOPICS,
    incarnation_path,
    partition_path,
    topic_config_path,
    topic_id_path,
    topic_path,
)
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.znodes.topic_names import is_legal_topic_name

__all__ = [
    "ADMIN",
    "BROKER_IDS",
    "BROKER_INCARNATIONS",
    "CONFIG",
    "CONTROLLER_CANDIDATES",
    "COORDINATOR_CANDIDATES",
    "DELETE_TOPICS",
    "PARENTS",
    "PARTITIONS_ADD",
    "PARTITIONS_REMOVE",
    "REASSIGNMENTS",
    "TOPICS",
    "TOPIC_CONFIGS",
    "TOPIC_IDS",
    "BrokerIncarnationZnode",
    "BrokerZnode",
    "CandidateZnode",
    "ClusterIdZnode",
    "ControllerEpochZnode",
    "ControllerZnode",
    "LeaderAndIsrZnode",
    "PartitionZnode",
    "ProducerIdsZnode",
    "ProducerOwnersZnode",
    "TopicConfigZnode",
    "TopicIdZnode",
    "TopicZnode",
    "ZnodeGarbage",
    "partition_of",
]

_PRODUCER_KEY = re.compile(r"[0-9a-f]{64}")
BROKER_IDS = "/brokers/ids"
CONFIG = "/config"
ADMIN = "/admin"
CONTROLLER_CANDIDATES = "/candidates/controllers"
COORDINATOR_CANDIDATES = "/candidates/coordinators"

#: The parents of all other znodes. Every service creates the missing ones when it starts.
PARENTS = (
    "/cluster",
    BROKER_IDS,
    BROKER_INCARNATIONS,
    TOPICS,
    TOPIC_IDS,
    TOPIC_CONFIGS,
    REASSIGNMENTS,
    PARTITIONS_ADD,
    PARTITIONS_REMOVE,
    DELETE_TOPICS,
    CONTROLLER_CANDIDATES,
    COORDINATOR_CANDIDATES,
)


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """/controller, ephemeral: the active controller and its addresses."""

    controller_id: int
    host: str
    port: int
    controller_epoch: int
    external_host: str = ""
    external_port: int = 0

    @staticmethod
    def path() -> str:
        """/controller."""
        return "/controller"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump(
            {
                "controller_id": self.controller_id,
                "host": self.host,
                "port": self.port,
                "controller_epoch": self.controller_epoch,
                **external_fields(self.external_host, self.external_port),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/controller", data)
        return cls(
            fields.integer("controller_id"),
            fields.text("host"),
            fields.port("port"),
            fields.integer("controller_epoch"),
            *fields.optional_address("external_host", "external_port"),
        )


@dataclass(frozen=True, slots=True)
class ControllerEpochZnode:
    """/controller_epoch: the number of elections of a controller. Its zkVersion fences every controller
    write."""

    controller_epoch: int

    @staticmethod
    def path() -> str:
        """/controller_epoch."""
        return "/controller_epoch"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"controller_epoch": self.controller_epoch})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        return cls(Fields("/controller_epoch", data).integer("controller_epoch", maximum=EPOCH_MAX))


@dataclass(frozen=True, slots=True)
class CandidateZnode:
    """/candidates/controllers/[id]-[session], ephemeral, and the same for coordinators: a process that is
    active or may be elected, and its addresses. It is for operators; elections do not use it.
    """

    id: int
    host: str
    port: int
    external_host: str = ""
    external_port: int = 0

    @staticmethod
    def path(parent: str, candidate_id: int, session_id: int) -> str:
        """The path below CONTROLLER_CANDIDATES or COORDINATOR_CANDIDATES. It has the session id, so that the
        znode of an earlier run of the process is no obstacle."""
        return f"{parent}/{candidate_id}-{session_id:x}"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump(
            {
                "id": self.id,
                "host": self.host,
                "port": self.port,
                **external_fields(self.external_host, self.external_port),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/candidates/…", data)
        return cls(
            fields.integer("id"),
            fields.text("host"),
            fields.port("port"),
            *fields.optional_address("external_host", "external_port"),
        )


@dataclass(frozen=True, slots=True)
class BrokerZnode:
    """/brokers/ids/[id], ephemeral: a live broker. Its czxid is the broker epoch.

    `incarnation` (-1 if not given) and `registered_before`, the number of earlier registrations of this
    process, name the trace of its failover. Unlike the epoch, another controller can find out the incarnation
    of a dead broker.
    """

    host: str
    port: int
    started_at_ms: int
    boot_id: str = ""
    external_host: str = ""
    external_port: int = 0
    incarnation: int = -1
    registered_before: int = 0

    @staticmethod
    def path(broker_id: int) -> str:
        """/brokers/ids/[broker_id]."""
        return f"{BROKER_IDS}/{broker_id}"

    @staticmethod
    def broker_id_of(name: str) -> int:
        """The broker id of a child of /brokers/ids. Raises ZnodeGarbage if the name is no number."""
        return number_from_name(BROKER_IDS, name)

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump(
            {
                "host": self.host,
                "port": self.port,
                "started_at_ms": self.started_at_ms,
                **({"boot_id": self.boot_id} if self.boot_id else {}),
                **external_fields(self.external_host, self.external_port),
                **({"incarnation": self.incarnation} if self.incarnation >= 0 else {}),
                **({"registered_before": self.registered_before} if self.registered_before else {}),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/brokers/ids/…", data)
        return cls(
            fields.text("host"),
            fields.port("port"),
            fields.integer("started_at_ms", maximum=INT64_MAX),
            fields.optional_text("boot_id"),
            *fields.optional_address("external_host", "external_port"),
            _count_in(fields, "incarnation", -1),
            _count_in(fields, "registered_before", 0),
        )


@dataclass(frozen=True, slots=True)
class BrokerIncarnationZnode:
    """/brokers/incarnations/[id]: the number of starts of a broker's process, as the zkVersion. It has no
    content.

    A broker writes it before it reads in which ISRs it is. A leader that adds a follower to the ISR checks in
    the same multi that this is still the version under which the follower fetched, since records that it had
    before a restart may be lost (KIP-841, KIP-903). The broker epoch cannot serve for this: a multi cannot
    check a czxid, and a broker has none before it registers.
    """

    @staticmethod
    def path(broker_id: int) -> str:
        """/brokers/incarnations/[id]."""
        return incarnation_path(broker_id)

    @staticmethod
    def encode() -> bytes:
        """Nothing."""
        return b""


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """/brokers/topics/[topic]: the topic's id and its AR, by partition from 0; the first is preferred.

    `topic_id` is empty if an operator wrote the znode as V3 describes it (only partitions with replicas).
    Then the controller adds one. `first_leader_epochs` is for partitions that were removed: it has the first
    leader epoch of a later partition with the same number.
    """

    topic_id: bytes
    partitions: tuple[tuple[int, ...], ...]
    first_leader_epochs: Mapping[int, int] = field(default_factory=dict)

    @staticmethod
    def path(topic: str) -> str:
        """/brokers/topics/[topic]."""
        return topic_path(topic)

    def encode(self) -> bytes:
        """The content as JSON."""
        assert len(self.topic_id) == 16, "a topic id is a UUID"
        return dump(
            {
                "topic_id": self.topic_id.hex(),
                "partitions": {
                    str(partition): list(replicas) for partition, replicas in enumerate(self.partitions)
                },
                **first_leader_epochs_out(self.first_leader_epochs),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/brokers/topics/…", data)
        is_bare = fields.names.isdisjoint({"topic_id", "partitions"})
        assigned = fields.all() if is_bare else fields.mapping("partitions")
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
        if is_bare or "topic_id" not in fields.names:
            return cls(b"", tuple(partitions))
        return cls(topic_id_in(fields), tuple(partitions), first_leader_epochs_in(fields))


@dataclass(frozen=True, slots=True)
class TopicIdZnode:
    """/brokers/topic_ids/[topic id]: the name of the topic with this id.

    It is created and deleted in the same multi as the topic's znode. A leader's ISR write checks that it
    exists, so that a deposed leader never writes to a later topic of the same name: the versions of a znode
    begin at 0 again when it is created again.
    """

    topic: str

    @staticmethod
    def path(topic_id: bytes) -> str:
        """/brokers/topic_ids/[topic id as 32 hexadecimal digits]."""
        return topic_id_path(topic_id.hex())

    @staticmethod
    def topic_id_of(name: str) -> bytes:
        """The topic id of a child of /brokers/topic_ids. Raises ZnodeGarbage if the name is no topic id."""
        return topic_id_from_name(TOPIC_IDS, name)

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"topic": self.topic})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/brokers/topic_ids/…", data)
        topic = fields.text("topic")
        if not is_legal_topic_name(topic):
            raise fields.garbage(f"no topic can be called {topic[:260]!r}")
        return cls(topic)


@dataclass(frozen=True, slots=True)
class PartitionZnode:
    """/brokers/topics/[topic]/[partition]: the parent of leaderAndISR, without content."""

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/brokers/topics/[topic]/[partition]."""
        return partition_path(topic, partition)

    @staticmethod
    def encode() -> bytes:
        """Nothing."""
        return b""


@dataclass(frozen=True, slots=True)
class LeaderAndIsrZnode:
    """/brokers/topics/[topic]/[partition]/leaderAndISR: the leader and the in-sync replicas.

    Its zkVersion is the partition epoch. `leader` is -1 if the partition is offline; the ISR still names the
    last members then. `traceparent` is the trace of the failover that wrote it, if any. `eligible` are
    brokers that left the ISR when it fell below min.insync.replicas, and that have all committed records.
    `recovered` are the remaining logs of brokers that may have lost the end of theirs (id: latest leader
    epoch, log end offset). `unclean_epoch` is the last leader epoch that began with an election that may have
    lost records. The last three are left out if there are none.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    traceparent: str = ""
    eligible: tuple[int, ...] = ()
    recovered: tuple[RecoveredLog, ...] = ()
    unclean_epoch: int = 0

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """/brokers/topics/[topic]/[partition]/leaderAndISR."""
        return f"{PartitionZnode.path(topic, partition)}/leaderAndISR"

    def encode(self) -> bytes:
        """The content as JSON. It is joined from texts for speed, since a failover writes ten thousand of
        them."""
        isr = ",".join(map(str, self.isr))
        trace = ""
        if self.traceparent:
            assert is_traceparent(self.traceparent), self.traceparent
            trace = f',"traceparent":"{self.traceparent}"'
        doubts = self._encode_doubts() if self.eligible or self.recovered or self.unclean_epoch else ""
        return (
            f'{{"leader":{self.leader},"leader_epoch":{self.leader_epoch},"isr":[{isr}],'
            f'"controller_epoch":{self.controller_epoch}{doubts}{trace}}}'
        ).encode()

    def _encode_doubts(self) -> str:
        """The fields that few partitions have."""
        text = ""
        if self.eligible:
            text += f',"eligible":[{",".join(map(str, self.eligible))}]'
        if self.recovered:
            logs = ",".join(f'"{broker_id}":[{epoch},{end}]' for broker_id, epoch, end in self.recovered)
            text += f',"recovered":{{{logs}}}'
        if self.unclean_epoch:
            text += f',"unclean_epoch":{self.unclean_epoch}'
        return text

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage. An invalid traceparent counts as none, since no decision
        depends on it."""
        fields = Fields("…/leaderAndISR", data)
        traceparent = fields.optional_text("traceparent")
        isr = fields.broker_ids(fields.value("isr"), "isr")
        if not isr:
            raise fields.garbage("isr is empty: the last member in sync is always kept")
        names = fields.all()
        leader_epoch = fields.integer("leader_epoch", maximum=EPOCH_MAX)
        eligible = fields.broker_ids(fields.value("eligible"), "eligible") if "eligible" in names else ()
        if eligible and not set(eligible).isdisjoint(isr):
            raise fields.garbage("a broker is both in isr and in eligible")
        return cls(
            fields.integer("leader", minimum=-1),
            leader_epoch,
            isr,
            fields.integer("controller_epoch"),
            traceparent if is_traceparent(traceparent) else "",
            eligible,
            _recovered_logs(fields) if "recovered" in names else (),
            fields.integer("unclean_epoch", maximum=leader_epoch) if "unclean_epoch" in names else 0,
        )


def _recovered_logs(fields: Fields) -> tuple[RecoveredLog, ...]:
    logs = []
    for name, found in sorted(fields.mapping("recovered").items()):
        broker_id = number_from_name("recovered", name)
        if not isinstance(found, list) or len(found) != 2:
            raise fields.garbage(f"recovered: {name} has no leader epoch and log end offset")
        epoch = fields.checked_integer(found[0], f"recovered: the leader epoch of {name}", minimum=-1)
        end = fields.checked_integer(found[1], f"recovered: the log end of {name}", maximum=INT64_MAX)
        logs.append(RecoveredLog(broker_id, epoch, end))
    return tuple(sorted(logs))


@dataclass(frozen=True, slots=True)
class TopicConfigZnode:
    """/config/topics/[topic]: the settings that differ from the defaults, by name. Values are texts."""

    configs: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def path(topic: str) -> str:
        """/config/topics/[topic]."""
        return topic_config_path(topic)

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"configs": dict(self.configs)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage. The controller checks the settings."""
        fields = Fields("/config/topics/…", data)
        configs = fields.mapping("configs")
        texts = {name: value for name, value in configs.items() if is_text(name) and is_text(value)}
        if len(texts) != len(configs):
            raise fields.garbage("a setting's value is not a text")
        return cls(texts)


@dataclass(frozen=True, slots=True)
class ClusterIdZnode:
    """/cluster/id: the cluster's identity, written once by the first process."""

    cluster_id: str

    @staticmethod
    def path() -> str:
        """/cluster/id."""
        return "/cluster/id"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"cluster_id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        return cls(Fields("/cluster/id", data).text("cluster_id"))


@dataclass(frozen=True, slots=True)
class ProducerIdsZnode:
    """/producer_ids: the first producer id that is not assigned yet. Brokers take blocks by conditional
    writes."""

    next_id: int

    BLOCK_SIZE = 1000

    @staticmethod
    def path() -> str:
        """/producer_ids."""
        return "/producer_ids"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"next": self.next_id})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        return cls(Fields("/producer_ids", data).integer("next", maximum=INT64_MAX))


@dataclass(frozen=True, slots=True)
class ProducerOwnersZnode:
    """/cluster/producer_owners: the secret by which brokers tell whose a producer id is. The first broker
    makes it."""

    key: str

    @staticmethod
    def path() -> str:
        """/cluster/producer_owners."""
        return "/cluster/producer_owners"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"key": self.key})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/cluster/producer_owners", data)
        key = fields.text("key")
        if not _PRODUCER_KEY.fullmatch(key):
            raise fields.garbage("field key is not 64 hexadecimal digits")
        return cls(key)


def partition_of(name: str) -> int:
    """The partition of a child of /brokers/topics/[topic]. Raises ZnodeGarbage if the name is no number."""
    return number_from_name(f"{TOPICS}/…", name)


def _count_in(fields: Fields, name: str, otherwise: int) -> int:
    """A number on which no decision depends. Any other content counts as not given."""
    value = fields.all().get(name)
    return value if type(value) is int and 0 <= value <= INT32_MAX else otherwise
