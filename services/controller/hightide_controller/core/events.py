"""What happens to a controller. Events enter the core through `machine.step` and nowhere else.

`cause` names what an event began with (a failover, a takeover, a request); the effects that follow
from it carry it on, so that one trace holds all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    "AdditionZnode",
    "Admin",
    "AdminChanged",
    "BalanceDue",
    "Broker",
    "BrokerAcknowledged",
    "BrokerAnswers",
    "BrokerProcessAlive",
    "BrokerProcessDied",
    "BrokerSilent",
    "BrokersChanged",
    "CampaignLost",
    "ConfigsChanged",
    "ControlledShutdownRequested",
    "ControllerSeen",
    "CreateTopicRequested",
    "DeletionZnode",
    "Elected",
    "Event",
    "Fenced",
    "LeadershipDeclined",
    "ReassignmentZnode",
    "RemovalZnode",
    "ReplicasDamaged",
    "ReplicasFailed",
    "ResignationRequested",
    "Rested",
    "SessionLost",
    "Snapshot",
    "StatesRead",
    "SteppedDown",
    "StoreCommitted",
    "StoreRefused",
    "StoreUnknown",
    "ThrottleZnode",
    "Ticked",
    "Topic",
    "TopicStoreRefused",
    "TopicStored",
    "TopicsChanged",
    "TopicsRead",
    "WaitExpired",
]


@dataclass(frozen=True, slots=True)
class Broker:
    """A registration under /brokers/ids; `broker_epoch` is its czxid."""

    broker_id: int
    broker_epoch: int
    host: str = "127.0.0.1"
    port: int = 9092
    external_host: str = ""
    """Where clients from outside reach it; empty: nowhere."""
    external_port: int = 0
    incarnation: int = -1
    """Which life of the broker's process this is; -1: not told."""
    registered_before: int = 0
    """How often that life was registered before."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic znode with its settings; `assignment` holds AR of each partition, by partition number.

    `topic_id` is 32 hexadecimal digits. Where a hand wrote the znode as V3 describes it, without an id, the
    store has made one up (`is_bare`), which holds when it is written.
    """

    name: str
    topic_id: str
    assignment: tuple[tuple[int, ...], ...]
    configs: dict[str, str] = field(default_factory=dict)
    version: int = 0
    """The zkVersion of the topic znode."""
    config_version: int | None = None
    """The zkVersion of /config/topics/[topic]; None where there is none."""
    first_leader_epochs: dict[int, int] = field(default_factory=dict)
    """Partition → the leader epoch that it begins with, where its number was used and removed before."""
    has_marker: bool = True
    """Whether /brokers/topic_ids/[topic id] exists and names this topic."""
    is_bare: bool = False
    """Whether the znode holds no id: `topic_id` was made up by who read it."""


@dataclass(frozen=True, slots=True)
class ReassignmentZnode:
    """What /admin/partitions_reassigned/[topic]/[partition] holds; no `original`: the move has not begun."""

    target: tuple[int, ...]
    original: tuple[int, ...]
    version: int
    traceparent: str = field(default="", compare=False)
    """The trace of the move; neither this nor the czxid of the znode decides anything."""
    czxid: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class AdditionZnode:
    """What /admin/partitions_add/[topic]/[partition] holds."""

    replicas: tuple[int, ...]
    version: int


@dataclass(frozen=True, slots=True)
class RemovalZnode:
    """What stands at /admin/partitions_remove/[topic]/[partition]: that it shall go."""

    version: int


@dataclass(frozen=True, slots=True)
class DeletionZnode:
    """What stands at /admin/delete_topics/[topic]; an empty `topic_id`: not begun."""

    topic_id: str
    version: int


@dataclass(frozen=True, slots=True)
class ThrottleZnode:
    """What /config/reassignment holds; `version` None: it does not exist."""

    throttle_bytes_per_s: int
    version: int | None


@dataclass(frozen=True, slots=True)
class Admin:
    """What stands below /admin, or of a part of it; None: it is gone.

    At a takeover it is all there is; in AdminChanged it is what changed. `complaints`: path → why it
    makes no sense; None: it does now, or is gone.
    """

    reassignments: dict[TopicPartition, ReassignmentZnode | None] = field(default_factory=dict)
    additions: dict[TopicPartition, AdditionZnode | None] = field(default_factory=dict)
    removals: dict[TopicPartition, RemovalZnode | None] = field(default_factory=dict)
    deletions: dict[str, DeletionZnode | None] = field(default_factory=dict)
    throttle: ThrottleZnode | None = None
    """Also None where it was not read."""
    complaints: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdminChanged:
    """Znodes below /admin, or /config/reassignment, were created, changed or deleted, and read again."""

    admin: Admin
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ConfigsChanged:
    """Settings of topics changed, at /config/topics/[topic]: settings and zkVersion; None: gone.

    What cannot be decoded is left out, and complained about in an AdminChanged.
    """

    configs: dict[str, tuple[dict[str, str], int] | None]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """The answer to ReadTopics: all that ZooKeeper holds about these topics. None: there is no such topic.

    `unreadable` are those that cannot be understood; they are complained about in `admin`. `states` holds
    the partitions of these topics, None where there is no leaderAndISR, absent where it cannot be understood;
    `admin` is all that stands below /admin about these topics: what is absent there is not there.
    `leftovers`: znodes below the topic that belong to no partition of AR, or have no leaderAndISR below
    them, with the partition epoch of the leaderAndISR; None: the parent stands alone.
    """

    topics: dict[str, Topic | None]
    states: dict[TopicPartition, LeaderAndIsr | None]
    admin: Admin
    leftovers: dict[TopicPartition, int | None] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ReplicasFailed:
    """These replicas of a broker cannot be used in this life of it: their log directory failed (KIP-112)."""

    broker_id: int
    broker_epoch: int
    replicas: tuple[tuple[str, int], ...]
    """(topic id, partition)."""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Divergence:
    """A follower was to cut its log at `offset`, and knows all below `high_watermark` to be committed: the
    leader in that epoch has lost records."""

    offset: int
    high_watermark: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ReplicasDamaged:
    """Replicas of a broker in this life of it whose batches at rest are not what was written, that keep
    committed records which their leader lacks, or that wait for a disk that does not answer, and such that
    were mended, follow again or wait no more."""

    broker_id: int
    broker_epoch: int
    damaged: tuple[tuple[str, int, int], ...]
    """(topic id, partition, offset of the first batch that cannot be used or -1)."""
    whole: tuple[tuple[str, int], ...] = ()
    """(topic id, partition)."""
    diverged: tuple[tuple[str, int, Divergence], ...] = ()
    """(topic id, partition, what it does not cut)."""
    hanging: tuple[tuple[str, int], ...] = ()
    """(topic id, partition)."""
    differing: tuple[tuple[str, int, Divergence], ...] = ()
    """(topic id, partition, where it has other batches than its leader; offset -1: nowhere any more). It is
    complained about, and nothing else."""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class BalanceDue:
    """It is time to look whether leadership has moved too far away from the preferred replicas."""

    cause: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a new controller reads from ZooKeeper (V3 D.3); a NEW partition has no state.

    What cannot be understood is left out, and complained about in `admin.complaints`; a topic whose settings
    alone cannot be is in, without them.
    """

    brokers: tuple[Broker, ...]
    topics: tuple[Topic, ...]
    states: dict[TopicPartition, LeaderAndIsr]
    admin: Admin = field(default_factory=Admin)
    orphan_markers: dict[str, str] = field(default_factory=dict)
    """Topic id → name, of markers that stand though their topic is gone: a hand took its znode away."""


@dataclass(frozen=True, slots=True)
class ControllerSeen:
    """The /controller watch spoke: this controller is the active one now, None where there is none.

    `process_died`: its process is known to be dead though its znode still stands, so that campaigning
    begins without waiting for ZooKeeper to expire its session.
    """

    controller_id: int | None
    controller_epoch: int = 0
    process_died: bool = False
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Elected:
    """The election multi committed and ZooKeeper was read: this controller is the active one."""

    controller_epoch: int
    controller_epoch_version: int
    snapshot: Snapshot
    cause: str = ""


@dataclass(frozen=True, slots=True)
class CampaignLost:
    """Another controller was elected; who, is told by the ControllerSeen that follows."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """A write or a broker refused this controller because a newer controller epoch exists."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """ZooKeeper expired this controller's session."""


@dataclass(frozen=True, slots=True)
class ResignationRequested:
    """An operator asks the controller of this epoch to step down; 0: whichever it is."""

    request_id: int
    controller_epoch: int = 0


@dataclass(frozen=True, slots=True)
class SteppedDown:
    """The answer to StepDown: this process does not hold /controller any more."""

    request_id: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class Rested:
    """Whoever else wanted to be elected after this controller stepped down has had the time to be."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """The children of /brokers/ids were read again: these, and only these, are registered."""

    brokers: tuple[Broker, ...]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class BrokerProcessDied:
    """The detector saw the stream to a broker reset and the reconnect refused.

    The broker counts as dead until its broker epoch changes, or the same life of it answers again.
    """

    broker_id: int
    broker_epoch: int
    cause: str = ""


@dataclass(frozen=True, slots=True)
class BrokerSilent:
    """A broker has acknowledged nothing for the session's time, though there was something to acknowledge.

    `leads`: what it was told to lead and has not acknowledged, with the leader epoch; told again when that
    changes.
    """

    broker_id: int
    broker_epoch: int
    leads: tuple[tuple[TopicPartition, int], ...]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class BrokerAnswers:
    """A broker that was silent has acknowledged all that it was told."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerProcessAlive:
    """A broker that was declared dead has accepted what was addressed to the life with this epoch: its port
    refused connections for a while, and it lived on."""

    broker_id: int
    broker_epoch: int
    cause: str = ""


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The children of /brokers/topics changed: topics that are new to this controller, and names gone.

    A topic that was deleted and created again between two reads is in `added`, with its new id. What is
    about a topic that this controller knows already is a hint, and looked at by ReadTopics.
    `is_everything`: all topics that can be understood are in `added`, those known too.
    """

    added: tuple[Topic, ...] = ()
    removed: tuple[str, ...] = ()
    cause: str = ""
    is_everything: bool = False


@dataclass(frozen=True, slots=True)
class StoreCommitted:
    """The multi of a StoreLeaderAndIsr or StoreWrites committed as a whole."""

    store_id: int


@dataclass(frozen=True, slots=True)
class StoreRefused:
    """A znode of the multi was not as expected (version, or existence): all of it is rolled back."""

    store_id: int


@dataclass(frozen=True, slots=True)
class StoreUnknown:
    """The connection broke before the answer: the multi may have committed or may not."""

    store_id: int


@dataclass(frozen=True, slots=True)
class StatesRead:
    """The answer to ReadStates. None: the znode does not exist."""

    states: dict[TopicPartition, LeaderAndIsr | None]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class BrokerAcknowledged:
    """A broker has taken over everything sent to it up to `sequence` (see effects.SendLeaderAndIsr)."""

    broker_id: int
    broker_epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class LeadershipDeclined:
    """A broker that a decision names as leader answers that the decision's leader epoch is behind it.

    So does a broker that led in that epoch in an earlier life and may have lost the end of its log since
    (docs/protocol.md, "A restarted broker is not trusted"): after all of a cluster was killed, only that
    broker can know.
    """

    name: TopicPartition
    broker_id: int
    broker_epoch: int
    leader_epoch: int
    cause: str = ""


@dataclass(frozen=True, slots=True)
class CreateTopicRequested:
    """A client asks for a topic. An empty `assignment` lets the controller balance it."""

    request_id: int
    name: str
    topic_id: str
    partition_count: int
    replication_factor: int
    assignment: tuple[tuple[int, ...], ...] = ()
    configs: dict[str, str] = field(default_factory=dict)
    validate_only: bool = False
    cause: str = ""


@dataclass(frozen=True, slots=True)
class TopicStored:
    """The topic znode of a StoreTopic was created."""

    request_id: int


@dataclass(frozen=True, slots=True)
class TopicStoreRefused:
    """The topic znode exists already (`exists`), or its fate is not known because the connection broke."""

    request_id: int
    exists: bool


@dataclass(frozen=True, slots=True)
class ControlledShutdownRequested:
    """A broker is about to stop and wants its leaders moved first."""

    request_id: int
    broker_id: int
    broker_epoch: int
    cause: str = ""


@dataclass(frozen=True, slots=True)
class WaitExpired:
    """A request has waited as long as the shell lets it; it is answered with what there is."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Ticked:
    """About a second has passed: partitions whose ISR may have grown are read again, a bounded number."""


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
