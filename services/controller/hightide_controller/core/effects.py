"""What the controller wants done. The shell performs effects in the order given, the durability order.

A decision is in ZooKeeper before any broker hears of it: SendLeaderAndIsr only ever follows from the
StoreCommitted (or the StatesRead) that proves it. Stores are independent of each other and may run
pipelined; each is answered by exactly one of StoreCommitted, StoreRefused, StoreUnknown or Fenced.
Each ReadStates is answered by one StatesRead, retried until ZooKeeper answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from hightide_controller.core.events import Topic
from hightide_controller.core.values.partition import RecoveredLog, TopicPartition
from hightide_controller.core.writes import Change, StoreWrites

__all__ = [
    "ANY_LEADER_EPOCH",
    "AnswerControlledShutdown",
    "AnswerCreateTopic",
    "AnswerDone",
    "AnswerElections",
    "AnswerPartitions",
    "AnswerResigned",
    "AnswerTopic",
    "Campaign",
    "Change",
    "Decision",
    "Effect",
    "ElectionOutcome",
    "PartitionOutcome",
    "ReadStates",
    "ReadTopics",
    "Refusal",
    "RefuseRequest",
    "Report",
    "Resign",
    "SendLeaderAndIsr",
    "SendStopReplica",
    "SendUpdateMetadata",
    "StepDown",
    "Stop",
    "StoreLeaderAndIsr",
    "StoreTopic",
    "StoreWrites",
    "WatchStates",
]


class Refusal(Enum):
    """Why a request is refused; convert.py maps each to its ErrorCode."""

    NOT_CONTROLLER = auto()
    STALE_CONTROLLER_EPOCH = auto()
    TOPIC_ALREADY_EXISTS = auto()
    INVALID_TOPIC_NAME = auto()
    INVALID_PARTITION_COUNT = auto()
    INVALID_REPLICATION_FACTOR = auto()
    INVALID_ASSIGNMENT = auto()
    INVALID_CONFIG = auto()
    INVALID_REQUEST = auto()
    OVERLOADED = auto()
    TIMED_OUT = auto()
    UNKNOWN_BROKER = auto()
    STALE_BROKER_EPOCH = auto()
    UNKNOWN_TOPIC = auto()
    UNKNOWN_PARTITION = auto()
    INCONSISTENT_TOPIC_ID = auto()
    TOPIC_BEING_DELETED = auto()
    NO_REASSIGNMENT = auto()
    REASSIGNMENT_IN_PROGRESS = auto()
    ELIGIBLE_LEADERS_NOT_AVAILABLE = auto()
    ELECTION_NOT_NEEDED = auto()


@dataclass(frozen=True, slots=True)
class Campaign:
    """Run the election: one multi that creates /controller and sets /controller_epoch.

    `stale_controller_epoch`: the znode of a controller of this epoch, whose process is dead, is deleted
    in the same multi; None where no znode stands. Answered by Elected or CampaignLost.
    """

    stale_controller_epoch: int | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Resign:
    """Stop acting as the active controller: drop queues and streams, and watch /controller again."""

    reason: str


@dataclass(frozen=True, slots=True)
class StepDown:
    """Take this process's own /controller away, however long ZooKeeper takes to do it: answered by
    SteppedDown, and some time after that, in which others may be elected, by Rested."""

    request_id: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class StoreLeaderAndIsr:
    """One multi: check /controller_epoch at the version given, and changes."""

    store_id: int
    controller_epoch_version: int
    changes: tuple[Change, ...]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ReadStates:
    """Read these leaderAndISR znodes in one multiRead."""

    names: tuple[TopicPartition, ...]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class StoreTopic:
    """One multi: check /controller_epoch, create the topic znode, its id marker and its settings if any.

    The versions of what is created are 0.
    """

    request_id: int
    controller_epoch_version: int
    topic: Topic
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What one broker is told about one partition (V3 C, with epochs)."""

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    first_leader_epoch: int = 0
    adding_replicas: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    recovered: tuple[RecoveredLog, ...] = ()
    unclean_epoch: int = 0


ANY_LEADER_EPOCH: Final = 2**31 - 1
"""In a Stop: whatever leader epoch the replica is in."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One replica to stop (V3's StopReplica, fenced as KIP-570 does). `delete`: its data goes too.

    `partition_epoch` is the one with which it was not assigned any more, None where the topic or the
    partition is gone for good. A replica that was moved away and back is in the same leader epoch, so a late
    StopReplica is told from the LeaderAndISR that came after it by this alone.
    """

    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int | None
    delete: bool = True


@dataclass(frozen=True, slots=True)
class SendStopReplica:
    """Tell one broker, in one RPC, to stop replicas.

    Only ever follows from the StoreCommitted (or the read) that proves that they are not assigned any more.
    Repeated until that life of the broker answers or ends; a broker that is down finds out by itself when
    it starts. A LeaderAndISR about the same partition that was put later replaces it.
    """

    broker_id: int
    broker_epoch: int
    sequence: int
    stops: tuple[Stop, ...]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class SendLeaderAndIsr:
    """Tell one broker, in one RPC, to lead or to follow.

    Repeated until that life of the broker answers or ends; a later decision about the same partition
    replaces one that was not delivered yet. `sequence` grows with each send effect of a controller;
    BrokerAcknowledged names the highest one up to which a broker has everything.
    """

    broker_id: int
    broker_epoch: int
    sequence: int
    decisions: tuple[Decision, ...]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class SendUpdateMetadata:
    """Tell each of these brokers what changed; `full`: everything, `names` is then empty.

    What is sent is the state at the time of sending, so repeated effects melt into one. A name of a topic
    that is known, whose partition is not, is a removed partition, and told as one (UNKNOWN_PARTITION).
    """

    brokers: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of each receiver."""
    sequence: int
    names: tuple[TopicPartition, ...] = ()
    deleted_topic_ids: tuple[str, ...] = ()
    full: bool = False
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ReadTopics:
    """Read all that ZooKeeper holds about these topics. Answered by one TopicsRead, retried until it is."""

    names: tuple[str, ...]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class WatchStates:
    """Watch the leaderAndISR of exactly these partitions, those under reassignment (V3 F), and no others.

    When one of them changes, the shell reads it and brings StatesRead. A bounded number; the partitions
    beyond it are read again by the tick like all that are under-replicated.
    """

    names: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AnswerTopic:
    """A request about one topic is carried out: the topic as it is now, or, deleted, as it was.

    `absent_brokers`: of a deletion, brokers that are down and hold replicas.
    """

    request_id: int
    topic: Topic
    absent_brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """What became of one partition of a request about many; no refusal: it was done."""

    name: TopicPartition
    refusal: Refusal | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class AnswerPartitions:
    """A request about many partitions is carried out, each on its own; in the order of the request."""

    request_id: int
    outcomes: tuple[PartitionOutcome, ...]


@dataclass(frozen=True, slots=True)
class ElectionOutcome:
    """What became of one election by hand."""

    outcome: PartitionOutcome
    leader: int
    leader_epoch: int
    previous_leader: int
    previous_isr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerElections:
    """The elections by hand are stored and told."""

    request_id: int
    elections: tuple[ElectionOutcome, ...]


@dataclass(frozen=True, slots=True)
class AnswerDone:
    """A request that has nothing to tell is carried out."""

    request_id: int


@dataclass(frozen=True, slots=True)
class AnswerCreateTopic:
    """The topic is there and its partitions have leaders; with validate_only, it could be created so."""

    request_id: int
    topic: Topic


@dataclass(frozen=True, slots=True)
class AnswerControlledShutdown:
    """Leadership was moved as far as it can be."""

    request_id: int
    remaining_leader_count: int


@dataclass(frozen=True, slots=True)
class AnswerResigned:
    """The controller has stepped down, and its znode is gone."""

    request_id: int
    controller_id: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class RefuseRequest:
    """The request changed nothing (TIMED_OUT: it may still happen).

    `may_have_begun`: this controller has resigned while it was at it, and the next one may go on with it.
    """

    request_id: int
    refusal: Refusal
    message: str
    may_have_begun: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Something that an operator should read: goes to the log, as a warning."""

    message: str


Effect = (
    Campaign
    | Resign
    | StepDown
    | StoreLeaderAndIsr
    | StoreWrites
    | ReadStates
    | ReadTopics
    | StoreTopic
    | SendLeaderAndIsr
    | SendStopReplica
    | SendUpdateMetadata
    | WatchStates
    | AnswerTopic
    | AnswerPartitions
    | AnswerElections
    | AnswerDone
    | AnswerCreateTopic
    | AnswerControlledShutdown
    | AnswerResigned
    | RefuseRequest
    | Report
)
