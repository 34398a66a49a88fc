"""What the controller wants done. The shell performs effects in the order given, the durability order.

A decision is in ZooKeeper before any broker hears of it: SendLeaderAndIsr only ever follows from the
StoreCommitted (or the StatesRead) that proves it. Stores are independent of each other and may run
pipelined; each is answered by exactly one of StoreCommitted, StoreRefused, StoreUnknown or Fenced.
Each ReadStates is answered by one StatesRead, retried until ZooKeeper answers.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from msgspec import Struct

from hightide_controller.core.events import Topic
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_controller.core.writes import LeaderAndIsrWrite, StoreWrites

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
    "Decision",
    "Effect",
    "ElectionOutcome",
    "LeaderAndIsrWrite",
    "LogWarning",
    "PartitionOutcome",
    "ReadStates",
    "ReadTopics",
    "Refusal",
    "RefuseRequest",
    "ReplicaStop",
    "Resign",
    "SendLeaderAndIsr",
    "SendStopReplica",
    "SendUpdateMetadata",
    "StepDown",
    "StoreLeaderAndIsr",
    "StoreTopic",
    "StoreWrites",
    "WatchStates",
]


class Refusal(Enum):
    """The reason why a request is refused; convert.py maps each to its ErrorCode."""

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


class Campaign(Struct, frozen=True):
    """Run the election: one multi that creates /controller and sets /controller_epoch.

    `stale_controller_epoch`: the znode of a controller with this epoch, whose process is dead, is deleted in
    the same multi; None if there is no znode. Answered by Elected or CampaignLost.
    """

    stale_controller_epoch: int | None = None
    cause: str = ""


class Resign(Struct, frozen=True):
    """Stop acting as the active controller: drop queues and streams, and watch /controller again."""

    reason: str


class StepDown(Struct, frozen=True):
    """Delete this process's own /controller, however long ZooKeeper takes. Answered by SteppedDown, and by
    Rested some time later, so that others may be elected in between."""

    request_id: int
    controller_epoch: int


class StoreLeaderAndIsr(Struct, frozen=True):
    """One multi: check /controller_epoch at the version given, and changes."""

    store_id: int
    controller_epoch_version: int
    changes: tuple[LeaderAndIsrWrite, ...]
    cause: str = ""


class ReadStates(Struct, frozen=True):
    """Read these leaderAndISR znodes in one multiRead."""

    names: tuple[TopicPartition, ...]
    cause: str = ""


class StoreTopic(Struct, frozen=True):
    """One multi: check /controller_epoch, create the topic znode, its id marker and its settings if any.

    The versions of what is created are 0.
    """

    request_id: int
    controller_epoch_version: int
    topic: Topic
    cause: str = ""


class Decision(Struct, frozen=True):
    """The decision about one partition for one broker (V3 C, with epochs)."""

    name: TopicPartition
    topic_id: str
    replicas: tuple[int, ...]
    state: LeaderAndIsr
    first_leader_epoch: int = 0
    adding_replicas: tuple[int, ...] = ()


ANY_LEADER_EPOCH: Final = 2**31 - 1
"""In a Stop: any leader epoch of the replica."""


class ReplicaStop(Struct, frozen=True):
    """An order to stop one replica (V3's StopReplica, fenced as KIP-570 does). `delete`: its data goes too.

    `partition_epoch` is the one with which the replica was not assigned any more; None if the topic or the
    partition is gone for good. A replica that was moved away and back is in the same leader epoch. Only the
    partition epoch tells a late StopReplica from the LeaderAndISR that came after it.
    """

    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int | None
    delete: bool = True


class SendStopReplica(Struct, frozen=True):
    """Order one broker, in one RPC, to stop replicas.

    It only follows from the StoreCommitted (or the read) that proves that they are not assigned any more. It
    is repeated until that life of the broker answers or ends. A broker that is down finds out when it starts.
    A later LeaderAndISR about the same partition replaces it.
    """

    broker_id: int
    broker_epoch: int
    sequence: int
    stops: tuple[ReplicaStop, ...]
    cause: str = ""


class SendLeaderAndIsr(Struct, frozen=True):
    """Order one broker, in one RPC, to lead or to follow.

    It is repeated until that life of the broker answers or ends. A later decision about the same partition
    replaces one that was not delivered yet. `sequence` grows with each send effect of a controller.
    BrokerAcknowledged names the highest one up to which a broker has everything.
    """

    broker_id: int
    broker_epoch: int
    sequence: int
    decisions: tuple[Decision, ...]
    cause: str = ""


class SendUpdateMetadata(Struct, frozen=True):
    """Send each of these brokers what changed; `full`: everything, and `names` is then empty.

    The state at the time of sending is sent, so repeated effects become one. If the topic of a name is known
    and its partition is not, the partition was removed, and is sent as such (UNKNOWN_PARTITION).
    """

    brokers: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of each receiver."""
    sequence: int
    names: tuple[TopicPartition, ...] = ()
    deleted_topic_ids: tuple[str, ...] = ()
    full: bool = False
    cause: str = ""


class ReadTopics(Struct, frozen=True):
    """Read all that ZooKeeper holds about these topics. Answered by one TopicsRead, retried until it is."""

    names: tuple[str, ...]
    cause: str = ""


class WatchStates(Struct, frozen=True):
    """Watch the leaderAndISR of exactly these partitions, which are being reassigned (V3 F).

    When one changes, the shell reads it and feeds StatesRead. Their number is bounded. The tick reads the
    others again, like all under-replicated partitions.
    """

    names: frozenset[TopicPartition]


class AnswerTopic(Struct, frozen=True):
    """Answer a request about one topic: the topic as it is now, or, if deleted, as it was.

    `absent_brokers`: for a deletion, the brokers that are down and hold replicas.
    """

    request_id: int
    topic: Topic
    absent_brokers: tuple[int, ...] = ()


class PartitionOutcome(Struct, frozen=True):
    """The outcome of one partition of a request about many. Without a refusal it was done."""

    name: TopicPartition
    refusal: Refusal | None = None
    message: str = ""


class AnswerPartitions(Struct, frozen=True):
    """Answer a request about many partitions, each on its own, in the order of the request."""

    request_id: int
    outcomes: tuple[PartitionOutcome, ...]


class ElectionOutcome(Struct, frozen=True):
    """The outcome of one requested election."""

    outcome: PartitionOutcome
    leader: int
    leader_epoch: int
    previous_leader: int
    previous_isr: tuple[int, ...] = ()


class AnswerElections(Struct, frozen=True):
    """Answer a request for elections: they are stored and sent."""

    request_id: int
    elections: tuple[ElectionOutcome, ...]


class AnswerDone(Struct, frozen=True):
    """Answer a request without a result: it is carried out."""

    request_id: int


class AnswerCreateTopic(Struct, frozen=True):
    """Answer a creation: the topic exists and its partitions have leaders. With validate_only: it could be
    created so."""

    request_id: int
    topic: Topic


class AnswerControlledShutdown(Struct, frozen=True):
    """Answer a broker's shutdown: leadership was moved as far as possible."""

    request_id: int
    remaining_leader_count: int


class AnswerResigned(Struct, frozen=True):
    """Answer a resignation: the controller has resigned, and its znode is gone."""

    request_id: int
    controller_id: int
    controller_epoch: int


class RefuseRequest(Struct, frozen=True):
    """Refuse a request: it changed nothing (TIMED_OUT: it may still happen).

    `may_have_begun`: this controller resigned while it worked on the request, and the next one may finish it.
    """

    request_id: int
    refusal: Refusal
    message: str
    may_have_begun: bool = False


class LogWarning(Struct, frozen=True):
    """Log a warning for operators."""

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
    | LogWarning
)
