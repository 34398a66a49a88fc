"""The events of a controller. They enter the core through `machine.step` only.

`cause` names the origin of an event (a failover, a takeover, a request). The effects that follow from the
event carry it on, so that one trace holds all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_controller.core.values.requests import (
    AddPartitionsRequested,
    AlterTopicConfigRequested,
    CancelReassignmentsRequested,
    DeleteTopicRequested,
    ElectLeadersRequested,
    ReassignmentsRequested,
    ReassignmentThrottleRequested,
    RemovePartitionsRequested,
)

__all__ = [
    "AdminChanged",
    "AdminZnodes",
    "BalanceDue",
    "Broker",
    "BrokerAcknowledged",
    "BrokerAnswers",
    "BrokerProcessAlive",
    "BrokerProcessDied",
    "BrokerSilent",
    "BrokersChanged",
    "CampaignLost",
    "ClusterSnapshot",
    "ConfigsChanged",
    "ControlledShutdownRequested",
    "ControllerSeen",
    "CreateTopicRequested",
    "Elected",
    "Event",
    "Fenced",
    "LeadershipDeclined",
    "ReplicasDamaged",
    "ReplicasFailed",
    "ResignationRequested",
    "Rested",
    "SessionLost",
    "StatesRead",
    "SteppedDown",
    "StoreCommitted",
    "StoreRefused",
    "StoreUnknown",
    "StoredAddition",
    "StoredDeletion",
    "StoredReassignment",
    "StoredRemoval",
    "StoredThrottle",
    "Ticked",
    "Topic",
    "TopicStoreRefused",
    "TopicStored",
    "TopicsChanged",
    "TopicsRead",
    "WaitExpired",
]


class Broker(Struct, frozen=True):
    """A registration under /brokers/ids; `broker_epoch` is its czxid."""

    broker_id: int
    broker_epoch: int
    host: str = "127.0.0.1"
    port: int = 9092
    external_host: str = ""
    """The address for clients from outside; empty: none."""
    external_port: int = 0
    incarnation: int = -1
    """The number of this life of the broker's process; -1: not given."""
    registered_before: int = 0
    """How often that life was registered before."""


class Topic(Struct, frozen=True):
    """A topic znode with its settings; `assignment` holds AR of each partition, by partition number.

    `topic_id` is 32 hexadecimal digits. If an operator wrote the znode as V3 describes it, without an id, the
    store has made up one (`is_bare`). It takes effect when it is written.
    """

    name: str
    topic_id: str
    assignment: tuple[tuple[int, ...], ...]
    configs: dict[str, str] = msgspec.field(default_factory=dict)
    version: int = 0
    """The zkVersion of the topic znode."""
    config_version: int | None = None
    """The zkVersion of /config/topics/[topic]; None if it does not exist."""
    first_leader_epochs: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → the leader epoch with which it begins, if its number was used and removed before."""
    has_marker: bool = True
    """Whether /brokers/topic_ids/[topic id] exists and names this topic."""
    is_bare: bool = False
    """Whether the znode holds no id, so that `topic_id` was made up by its reader."""
    has_garbled_configs: bool = False
    """Whether /config/topics/[topic] cannot be decoded, so that `configs` are none."""


@dataclass(frozen=True, slots=True)
class StoredReassignment:
    """The content of /admin/partitions_reassigned/[topic]/[partition]; without `original` the move has not
    begun."""

    target: tuple[int, ...]
    original: tuple[int, ...]
    version: int
    traceparent: str = field(default="", compare=False)
    """The trace of the move. Neither this nor the czxid of the znode influences any decision."""
    czxid: int = field(default=0, compare=False)


class StoredAddition(Struct, frozen=True):
    """The content of /admin/partitions_add/[topic]/[partition]."""

    replicas: tuple[int, ...]
    version: int


class StoredRemoval(Struct, frozen=True):
    """A znode /admin/partitions_remove/[topic]/[partition]: the partition is to be removed."""

    version: int


class StoredDeletion(Struct, frozen=True):
    """The content of /admin/delete_topics/[topic]; an empty `topic_id`: not begun."""

    topic_id: str
    version: int


class StoredThrottle(Struct, frozen=True):
    """The content of /config/reassignment; `version` None: it does not exist."""

    throttle_bytes_per_s: int
    version: int | None


class AdminZnodes(Struct, frozen=True):
    """The znodes below /admin, or some of them; None: the znode is gone.

    At a takeover it has all of them; in AdminChanged those that changed. `complaints`: path → the reason why
    it is invalid; None: it is valid now, or gone.
    """

    reassignments: dict[TopicPartition, StoredReassignment | None] = msgspec.field(default_factory=dict)
    additions: dict[TopicPartition, StoredAddition | None] = msgspec.field(default_factory=dict)
    removals: dict[TopicPartition, StoredRemoval | None] = msgspec.field(default_factory=dict)
    deletions: dict[str, StoredDeletion | None] = msgspec.field(default_factory=dict)
    throttle: StoredThrottle | None = None
    """Also None if it was not read."""
    complaints: dict[str, str | None] = msgspec.field(default_factory=dict)


class AdminChanged(Struct, frozen=True):
    """Znodes below /admin, or /config/reassignment, were created, changed or deleted, and read again."""

    admin: AdminZnodes
    cause: str = ""


class ConfigsChanged(Struct, frozen=True):
    """Settings of topics changed, at /config/topics/[topic]: settings and zkVersion; None: gone.

    Settings that cannot be decoded are left out, and complained about in an AdminChanged.
    """

    configs: dict[str, tuple[dict[str, str], int] | None]
    cause: str = ""


class TopicsRead(Struct, frozen=True):
    """The answer to ReadTopics: all that ZooKeeper holds about these topics. None: there is no such topic.

    `unreadable` are topics that cannot be decoded; `admin` has the complaints about them. `states` holds the
    partitions of these topics: None if there is no leaderAndISR, absent if it cannot be decoded. `admin` is
    all that is below /admin about these topics: what is absent in it does not exist. `leftovers` are znodes
    below the topic that belong to no partition of AR, or have no leaderAndISR below them, with the partition
    epoch of the leaderAndISR; None: there is only the parent.
    """

    topics: dict[str, Topic | None]
    states: dict[TopicPartition, LeaderAndIsr | None]
    admin: AdminZnodes
    leftovers: dict[TopicPartition, int | None] = msgspec.field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    cause: str = ""


class ReplicasFailed(Struct, frozen=True):
    """A report that these replicas of a broker cannot be used in this life of it: their log directory failed
    (KIP-112)."""

    broker_id: int
    broker_epoch: int
    replicas: tuple[tuple[str, int], ...]
    """(topic id, partition)."""
    cause: str = ""


class Divergence(Struct, frozen=True):
    """A follower should have truncated its log at `offset`, and knows that everything below `high_watermark`
    is committed: the leader in that epoch has lost records."""

    offset: int
    high_watermark: int
    leader: int
    leader_epoch: int


class ReplicasDamaged(Struct, frozen=True):
    """A report about replicas of a broker in this life of it: those with damaged batches at rest, those that
    keep committed records which their leader lacks, those that wait for a disk that does not answer, and
    those of which one of these is over."""

    broker_id: int
    broker_epoch: int
    damaged: tuple[tuple[str, int, int], ...]
    """(topic id, partition, offset of the first batch that cannot be used or -1)."""
    whole: tuple[tuple[str, int], ...] = ()
    """(topic id, partition)."""
    diverged: tuple[tuple[str, int, Divergence], ...] = ()
    """(topic id, partition, the truncation that it does not make)."""
    hanging: tuple[tuple[str, int], ...] = ()
    """(topic id, partition)."""
    differing: tuple[tuple[str, int, Divergence], ...] = ()
    """(topic id, partition, where it differs from its leader; offset -1: nowhere any more). The controller
    only complains about it."""
    cause: str = ""


class BalanceDue(Struct, frozen=True):
    """It is time to check whether leadership has moved too far away from the preferred replicas."""

    cause: str = ""


class ClusterSnapshot(Struct, frozen=True):
    """Everything that a new controller reads from ZooKeeper (V3 D.3); a NEW partition has no state.

    What cannot be decoded is left out, and complained about in `admin.complaints`. A topic of which only the
    settings cannot be decoded is in it, without them.
    """

    brokers: tuple[Broker, ...]
    topics: tuple[Topic, ...]
    states: dict[TopicPartition, LeaderAndIsr]
    admin: AdminZnodes = msgspec.field(default_factory=AdminZnodes)
    orphan_markers: dict[str, str] = msgspec.field(default_factory=dict)
    """Topic id → name, of markers whose topic is gone because an operator deleted its znode."""


class ControllerSeen(Struct, frozen=True):
    """The /controller watch fired: this controller is the active one now, None if there is none.

    `process_died`: its process is known to be dead although its znode still exists, so campaigning begins
    without waiting for ZooKeeper to expire its session.
    """

    controller_id: int | None
    controller_epoch: int = 0
    process_died: bool = False
    cause: str = ""


class Elected(Struct, frozen=True):
    """The election multi committed and ZooKeeper was read: this controller is the active one."""

    controller_epoch: int
    controller_epoch_version: int
    snapshot: ClusterSnapshot
    cause: str = ""


class CampaignLost(Struct, frozen=True):
    """Another controller was elected. The ControllerSeen that follows names it."""


class Fenced(Struct, frozen=True):
    """A write or a broker refused this controller because a newer controller epoch exists."""

    is_write: bool = False
    """Whether ZooKeeper refused a write; a broker has said so else."""


class SessionLost(Struct, frozen=True):
    """ZooKeeper expired this controller's session."""


class ResignationRequested(Struct, frozen=True):
    """An operator asks the controller of this epoch to step down; 0: any epoch."""

    request_id: int
    controller_epoch: int = 0


class SteppedDown(Struct, frozen=True):
    """The answer to StepDown: this process does not hold /controller any more."""

    request_id: int
    controller_epoch: int


class Rested(Struct, frozen=True):
    """The time is over in which others could be elected after this controller stepped down."""


class BrokersChanged(Struct, frozen=True):
    """The children of /brokers/ids were read again: exactly these are registered."""

    brokers: tuple[Broker, ...]
    cause: str = ""


class BrokerProcessDied(Struct, frozen=True):
    """The detector saw that the stream to a broker was reset and the reconnect refused.

    The broker counts as dead until its broker epoch changes, or the same life of it answers again.
    """

    broker_id: int
    broker_epoch: int
    cause: str = ""


class BrokerSilent(Struct, frozen=True):
    """A broker has not acknowledged anything for the duration of the session, although there was something to
    acknowledge.

    `leads`: partitions that it should lead and has not acknowledged, with the leader epoch. The event is fed
    again when they change.
    """

    broker_id: int
    broker_epoch: int
    leads: tuple[tuple[TopicPartition, int], ...]
    cause: str = ""


class BrokerAnswers(Struct, frozen=True):
    """A broker that was silent has acknowledged everything."""

    broker_id: int
    broker_epoch: int


class BrokerProcessAlive(Struct, frozen=True):
    """A broker that was declared dead has accepted a message to the life with this epoch: its port refused
    connections for a while, and the process lived on."""

    broker_id: int
    broker_epoch: int
    cause: str = ""


class TopicsChanged(Struct, frozen=True):
    """The children of /brokers/topics changed: topics that are new to this controller, and names gone.

    A topic that was deleted and created again between two reads is in `added`, with its new id. Content about
    a topic that this controller knows already is only a hint, and is read again by ReadTopics.
    `is_everything`: `added` has all topics that can be decoded, known ones too.
    """

    added: tuple[Topic, ...] = ()
    removed: tuple[str, ...] = ()
    cause: str = ""
    is_everything: bool = False


class StoreCommitted(Struct, frozen=True):
    """The multi of a StoreLeaderAndIsr or StoreWrites committed as a whole."""

    store_id: int


class StoreRefused(Struct, frozen=True):
    """A znode of the multi was not as expected (version, or existence), so all of it was rolled back."""

    store_id: int


class StoreUnknown(Struct, frozen=True):
    """The connection broke before the answer: the multi may or may not have committed."""

    store_id: int


class StatesRead(Struct, frozen=True):
    """The answer to ReadStates. None: the znode does not exist."""

    states: dict[TopicPartition, LeaderAndIsr | None]
    cause: str = ""


class BrokerAcknowledged(Struct, frozen=True):
    """A broker has taken over everything sent to it up to `sequence` (see effects.SendLeaderAndIsr)."""

    broker_id: int
    broker_epoch: int
    sequence: int


class LeadershipDeclined(Struct, frozen=True):
    """A broker that a decision names as leader answers that the decision's leader epoch is behind its own.

    A broker also answers so if it led in that epoch in an earlier life and may have lost the end of its log
    since (docs/protocol.md, "A restarted broker is not trusted"). After a whole cluster was killed, only that
    broker can know.
    """

    name: TopicPartition
    broker_id: int
    broker_epoch: int
    leader_epoch: int
    cause: str = ""


class CreateTopicRequested(Struct, frozen=True):
    """A client asks for a topic. An empty `assignment` lets the controller balance it."""

    request_id: int
    name: str
    topic_id: str
    partition_count: int
    replication_factor: int
    assignment: tuple[tuple[int, ...], ...] = ()
    configs: dict[str, str] = msgspec.field(default_factory=dict)
    validate_only: bool = False
    cause: str = ""


class TopicStored(Struct, frozen=True):
    """The topic znode of a StoreTopic was created."""

    request_id: int


class TopicStoreRefused(Struct, frozen=True):
    """The topic znode exists already (`exists`), or the outcome is not known because the connection broke."""

    request_id: int
    exists: bool


class ControlledShutdownRequested(Struct, frozen=True):
    """A broker is about to stop and asks the controller to move its leaderships first."""

    request_id: int
    broker_id: int
    broker_epoch: int
    cause: str = ""


class WaitExpired(Struct, frozen=True):
    """A request has waited for its longest time; it is answered with the current state."""

    request_id: int


class Ticked(Struct, frozen=True):
    """About a second has passed: a bounded number of partitions whose ISR may have grown is read again."""


Event = (
    ControllerSeen
    | Elected
    | CampaignLost
    | Fenced
    | SessionLost
    | ResignationRequested
    | SteppedDown
    | Rested
    | BrokersChanged
    | BrokerAnswers
    | BrokerProcessAlive
    | BrokerProcessDied
    | BrokerSilent
    | TopicsChanged
    | TopicsRead
    | AdminChanged
    | ConfigsChanged
    | StoreCommitted
    | StoreRefused
    | StoreUnknown
    | StatesRead
    | BrokerAcknowledged
    | LeadershipDeclined
    | CreateTopicRequested
    | DeleteTopicRequested
    | AddPartitionsRequested
    | RemovePartitionsRequested
    | AlterTopicConfigRequested
    | ReassignmentsRequested
    | CancelReassignmentsRequested
    | ReassignmentThrottleRequested
    | ElectLeadersRequested
    | ReplicasDamaged
    | ReplicasFailed
    | BalanceDue
    | TopicStored
    | TopicStoreRefused
    | ControlledShutdownRequested
    | WaitExpired
    | Ticked
)
