"""The shapes of the documents about partitions that move or get another leader."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NotRequired, TypedDict

from hightide_cli.documents.values import (
    Before,
    BytesToMove,
    ErrorCode,
    Isr,
    Leader,
    LeaderEpoch,
    NumberOfPartition,
    PartitionNumber,
    Reason,
    Replicas,
    Target,
    TopicName,
    TopicOfPartition,
)
from hightide_cli.documents.view import Shows


class OutcomeDocument(TypedDict):
    """The outcome of a request about one partition."""

    topic: TopicName
    partition: PartitionNumber
    error: ErrorCode
    message: Reason


class ElectionDocument(TypedDict):
    """An election of one partition."""

    topic: TopicName
    partition: PartitionNumber
    leader: Leader
    leader_epoch: LeaderEpoch
    previous_leader: Annotated[int | None, "who led before; null where nobody did"]
    previous_isr: Annotated[Sequence[int], "the ISR before an unclean election: what only those held is lost"]
    error: ErrorCode
    message: Annotated[str, "a sentence on what happened; may be empty"]
    log_end_offsets: NotRequired[
        Annotated[Mapping[str, int], "by broker, how far its log went; only of unclean elections"]
    ]


MoveDocument = TypedDict(
    "MoveDocument",
    {
        "topic": TopicOfPartition,
        "partition": NumberOfPartition,
        "from": Annotated[Before, Shows("original")],
        "to": Annotated[Target, Shows("target")],
        "replicas": Replicas,
        "isr": Isr,
        "leader": Leader,
    },
)
"""A move that is not done."""

PlannedMoveDocument = TypedDict(
    "PlannedMoveDocument",
    {
        "topic": TopicName,
        "partition": PartitionNumber,
        "replicas": Annotated[
            Sequence[int], Shows("after"), "the brokers that shall hold it, the preferred leader first"
        ],
        "from": Annotated[Before, Shows("before")],
        "bytes_to_move": BytesToMove,
    },
)
"""A partition that shall move."""


class PlannedBrokerDocument(TypedDict):
    """The effect of a plan on one broker."""

    broker: Annotated[int, "the broker's id"]
    replicas: Annotated[Mapping[str, int], "how many, `from` and `to`"]
    preferred_leaders: Annotated[Mapping[str, int], "how many, `from` and `to`"]
    bytes_to_receive: Annotated[int, "what it gets"]
    bytes_to_send: Annotated[int, "what it sends"]


class PlanDocument(TypedDict):
    """A plan."""

    version: Annotated[int, "1"]
    partitions: Annotated[Sequence[PlannedMoveDocument], "those that move"]
    brokers: Annotated[Sequence[PlannedBrokerDocument], "what it means for each"]
    bytes_to_move: BytesToMove


class CopyDocument(TypedDict):
    """The progress of a new replica."""

    broker: Annotated[int, Shows("broker_id"), "the broker's id"]
    bytes_done: Annotated[int, "what it has"]
    bytes_total: Annotated[int, "what it shall have"]
    offset: Annotated[int, "up to where it has come"]
    end_offset: Annotated[int, "up to where it has to come"]
    in_sync: Annotated[bool, "whether it is in sync"]


MoveProgressDocument = TypedDict(
    "MoveProgressDocument",
    {
        "topic": Annotated[TopicName, Shows("move.partition.topic")],
        "partition": Annotated[PartitionNumber, Shows("move.partition.partition")],
        "from": Annotated[Before, Shows("move.original")],
        "to": Annotated[Target, Shows("move.target")],
        "bytes_done": Annotated[int, "of the new replicas"],
        "bytes_total": Annotated[int, "of the new replicas"],
        "copies": Annotated[Sequence[CopyDocument], "the new replicas"],
    },
)
"""How far one move has come."""


class ProgressDocument(TypedDict):
    """The progress of all moves."""

    moves: Annotated[Sequence[MoveProgressDocument], "the moves under way"]
    moves_done: Annotated[int, "how many have ended since the first look"]
    bytes_done: Annotated[int, "of all"]
    bytes_total: Annotated[int, "of all"]
    bytes_per_s: Annotated[float | None, "the pace; null until it is known"]
    seconds_left: Annotated[float | None, "null where it is not known"]
