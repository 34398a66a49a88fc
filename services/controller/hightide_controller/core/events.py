"""What happens to a controller. Events enter the core through `machine.step` and nowhere else.

`cause` names what an event began with (a failover, a takeover, a request); the effects that follow
from it carry it on, so that one trace holds all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hightide_controller.core.partition import LeaderAndIsr, TopicPartition

__all__ = [
    "Broker",
    "BrokerAcknowledged",
    "BrokerProcessDied",
    "BrokersChanged",
    "CampaignLost",
    "ControlledShutdownRequested",
    "ControllerSeen",
    "CreateTopicRequested",
    "Elected",
    "Event",
    "Fenced",
    "LeadershipDeclined",
    "SessionLost",
    "Snapshot",
    "StatesRead",
    "StoreCommitted",
    "StoreRefused",
    "StoreUnknown",
    "Ticked",
    "Topic",
    "TopicStoreRefused",
    "TopicStored",
    "TopicsChanged",
    "WaitExpired",
]


@dataclass(frozen=True, slots=True)
class Broker:
    """A registration under /brokers/ids; `broker_epoch` is its czxid."""

    broker_id: int
    broker_epoch: int
    host: str = "127.0.0.1"
    port: int = 9092


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic znode with its settings; `assignment` holds AR of each partition, by partition number.

    `topic_id` is 32 hexadecimal digits.
    """

    name: str
    topic_id: str
    assignment: tuple[tuple[int, ...], ...]
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a new controller reads from ZooKeeper (V3 D.3); a NEW partition has no state."""

    brokers: tuple[Broker, ...]
    topics: tuple[Topic, ...]
    states: dict[TopicPartition, LeaderAndIsr]


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
class BrokersChanged:
    """The children of /brokers/ids were read again: these, and only these, are registered."""

    brokers: tuple[Broker, ...]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class BrokerProcessDied:
    """The detector saw the stream to a broker reset and the reconnect refused.

    The broker counts as dead until its broker epoch changes.
    """

    broker_id: int
    broker_epoch: int
    cause: str = ""


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The children of /brokers/topics changed: topics that are new to this controller, and names gone."""

    added: tuple[Topic, ...] = ()
    removed: tuple[str, ...] = ()
    cause: str = ""


@dataclass(frozen=True, slots=True)
class StoreCommitted:
    """The multi of a StoreLeaderAndIsr committed as a whole."""

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
    (DESIGN §6.8): after all of a cluster was killed, only that broker can know.
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
    | BrokersChanged
    | BrokerProcessDied
    | TopicsChanged
    | StoreCommitted
    | StoreRefused
    | StoreUnknown
    | StatesRead
    | BrokerAcknowledged
    | LeadershipDeclined
    | CreateTopicRequested
    | TopicStored
    | TopicStoreRefused
    | ControlledShutdownRequested
    | WaitExpired
    | Ticked
)
