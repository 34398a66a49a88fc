"""The znodes of the consumer coordinator, below /consumers (consumer coordinator §4).

As in `cluster_znodes`, each znode is a frozen dataclass with JSON content, and `decode` raises ZnodeGarbage.
A group name becomes a part of a path, so `is_legal_group_name` must be checked before.
"""

from dataclasses import dataclass
from typing import Final, Self

import google_crc32c

from hightide_runtime.znodes.content import (
    EPOCH_MAX,
    INT64_MAX,
    Fields,
    dump,
    external_fields,
    topic_id_in,
)
from hightide_runtime.znodes.topic_names import is_legal_topic_name

__all__ = [
    "COORDINATORS",
    "COORDINATOR_EPOCHS",
    "GROUPS",
    "GROUP_PARENTS",
    "METADATA_MAX_CHARACTERS",
    "SHARDS_DEFAULT",
    "SHARDS_MAX",
    "CoordinatorEpochZnode",
    "CoordinatorZnode",
    "GroupZnode",
    "OffsetZnode",
    "OwnerZnode",
    "ShardsZnode",
    "is_legal_group_name",
    "shard_of",
]

GROUPS: Final = "/consumers/groups"
COORDINATORS: Final = "/consumers/coordinators"
COORDINATOR_EPOCHS: Final = "/consumers/coordinator_epochs"
#: The parents that a coordinator creates when it starts.
GROUP_PARENTS: Final = (GROUPS, COORDINATORS, COORDINATOR_EPOCHS)
SHARDS_MAX: Final = 1024
#: Of a new cluster. One, two, three, four or six coordinators get the same number of them. Too few can never
#: be mended, and one costs little: two znodes, an election, an empty core.
SHARDS_DEFAULT: Final = 12
METADATA_MAX_CHARACTERS: Final = 4096


def is_legal_group_name(name: str) -> bool:
    """Whether `name` is allowed for a group, a consumer or an instance; the rules are those of topic
    names."""
    return is_legal_topic_name(name)


def shard_of(group: str, shard_count: int) -> int:
    """The shard that coordinates a group: CRC-32C of its name, modulo. Clients compute the same."""
    value: int = google_crc32c.value(group.encode())
    return value % shard_count


@dataclass(frozen=True, slots=True)
class ShardsZnode:
    """/consumers/shards: the number of shards into which groups are divided. The first coordinator writes
    it."""

    shard_count: int

    @staticmethod
    def path() -> str:
        """/consumers/shards."""
        return "/consumers/shards"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"shard_count": self.shard_count})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        return cls(Fields("/consumers/shards", data).integer("shard_count", 1, SHARDS_MAX))


@dataclass(frozen=True, slots=True)
class CoordinatorZnode:
    """/consumers/coordinator, ephemeral: the active coordinator and its addresses.

    With several shards there is one each, /consumers/coordinators/[shard].
    """

    coordinator_id: int
    host: str
    port: int
    coordinator_epoch: int
    external_host: str = ""
    external_port: int = 0

    @staticmethod
    def path(shard: int, shard_count: int) -> str:
        """The path of this shard's coordinator."""
        return "/consumers/coordinator" if shard_count == 1 else f"{COORDINATORS}/{shard}"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump(
            {
                "coordinator_id": self.coordinator_id,
                "host": self.host,
                "port": self.port,
                "coordinator_epoch": self.coordinator_epoch,
                **external_fields(self.external_host, self.external_port),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/consumers/coordinator", data)
        return cls(
            fields.integer("coordinator_id"),
            fields.text("host"),
            fields.port("port"),
            fields.integer("coordinator_epoch", maximum=EPOCH_MAX),
            *fields.optional_address("external_host", "external_port"),
        )


@dataclass(frozen=True, slots=True)
class CoordinatorEpochZnode:
    """/consumers/coordinator_epoch: the number of elections of a coordinator. Its zkVersion fences every
    write of one (C5). With several shards there is one each, /consumers/coordinator_epochs/[shard].
    """

    coordinator_epoch: int

    @staticmethod
    def path(shard: int, shard_count: int) -> str:
        """The path of this shard's epoch."""
        return "/consumers/coordinator_epoch" if shard_count == 1 else f"{COORDINATOR_EPOCHS}/{shard}"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"coordinator_epoch": self.coordinator_epoch})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        return cls(Fields("/consumers/coordinator_epoch", data).integer("coordinator_epoch", 0, EPOCH_MAX))


@dataclass(frozen=True, slots=True)
class GroupZnode:
    """/consumers/groups/[group]: the group's generation, and the time that a new coordinator waits for
    members."""

    generation: int
    session_timeout_ms: int
    """The longest session timeout of its members."""

    @staticmethod
    def path(group: str) -> str:
        """The path of the group."""
        assert is_legal_group_name(group), group
        return f"{GROUPS}/{group}"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"generation": self.generation, "session_timeout_ms": self.session_timeout_ms})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields(f"{GROUPS}/…", data)
        return cls(fields.integer("generation", maximum=EPOCH_MAX), fields.integer("session_timeout_ms"))


@dataclass(frozen=True, slots=True)
class OwnerZnode:
    """/consumers/groups/[group]/owners/[topic]/[partition]: the owner of a partition, and since which
    generation.

    The pair (member_id, generation) fences commits, since no other member ever has the same pair.
    """

    member_id: str
    consumer_id: str
    instance_id: str
    stream: int
    generation: int
    topic_id: bytes = b""
    """The id of the topic of that name to which the partition belongs; empty if an operator wrote it."""
    first_leader_epoch: int = 0
    """The first leader epoch of the partition, if its number was used before; else 0."""

    @staticmethod
    def parent(group: str) -> str:
        """The path below which the topics are."""
        return f"{GroupZnode.path(group)}/owners"

    @classmethod
    def path(cls, group: str, topic: str, partition: int) -> str:
        """The path of a partition's owner."""
        assert is_legal_topic_name(topic), topic
        return f"{cls.parent(group)}/{topic}/{partition}"

    def encode(self) -> bytes:
        """The content as JSON."""
        content: dict[str, object] = {
            "member_id": self.member_id,
            "consumer_id": self.consumer_id,
            "stream": self.stream,
            "generation": self.generation,
        }
        if self.instance_id:
            content["instance_id"] = self.instance_id
        if self.topic_id:
            content["topic_id"] = self.topic_id.hex()
        if self.first_leader_epoch:
            content["first_leader_epoch"] = self.first_leader_epoch
        return dump(content)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields(f"{GROUPS}/…/owners/…", data)
        return cls(
            fields.text("member_id"),
            fields.text("consumer_id"),
            fields.optional_text("instance_id"),
            fields.integer("stream"),
            fields.integer("generation", maximum=EPOCH_MAX),
            topic_id_in(fields) if "topic_id" in fields.names else b"",
            fields.integer("first_leader_epoch") if "first_leader_epoch" in fields.names else 0,
        )


@dataclass(frozen=True, slots=True)
class OffsetZnode:
    """/consumers/groups/[group]/offsets/[topic]/[partition]: the offset of the next record to read.

    It is valid only for the topic with this id. A later topic of the same name has no committed offset. Where
    the number of a partition was used before, `first_leader_epoch` says for which one it was committed.
    """

    offset: int
    leader_epoch: int
    topic_id: bytes
    metadata: str = ""
    first_leader_epoch: int = 0
    """The first leader epoch of the partition that it was committed for, if its number was used before; else
    0."""

    @staticmethod
    def parent(group: str) -> str:
        """The path below which the topics are."""
        return f"{GroupZnode.path(group)}/offsets"

    @classmethod
    def path(cls, group: str, topic: str, partition: int) -> str:
        """The path of a partition's committed offset."""
        assert is_legal_topic_name(topic), topic
        return f"{cls.parent(group)}/{topic}/{partition}"

    def encode(self) -> bytes:
        """The content as JSON."""
        content: dict[str, object] = {
            "offset": self.offset,
            "leader_epoch": self.leader_epoch,
            "topic_id": self.topic_id.hex(),
        }
        if self.metadata:
            content["metadata"] = self.metadata
        if self.first_leader_epoch:
            content["first_leader_epoch"] = self.first_leader_epoch
        return dump(content)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields(f"{GROUPS}/…/offsets/…", data)
        metadata = fields.optional_text("metadata")
        if len(metadata) > METADATA_MAX_CHARACTERS:
            raise fields.garbage(f"metadata has more than {METADATA_MAX_CHARACTERS} characters")
        return cls(
            fields.integer("offset", 0, INT64_MAX),
            fields.integer("leader_epoch", -1),
            topic_id_in(fields),
            metadata,
            fields.integer("first_leader_epoch") if "first_leader_epoch" in fields.names else 0,
        )
