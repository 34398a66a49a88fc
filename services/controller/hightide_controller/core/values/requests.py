"""Requests of clients and brokers to the active controller, as events of the core.

Each has a `request_id` and is answered once: by an Answer effect of its kind or by RefuseRequest.
`validate_only` checks everything and changes nothing.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct, field

from hightide_controller.core.values.partition import TopicPartition

__all__ = [
    "AddPartitionsRequested",
    "AlterTopicConfigRequested",
    "CancelReassignmentsRequested",
    "DeleteTopicRequested",
    "ElectLeadersRequested",
    "ElectionKind",
    "Move",
    "ReassignmentThrottleRequested",
    "ReassignmentsRequested",
    "RemovePartitionsRequested",
]


class DeleteTopicRequested(Struct, frozen=True):
    """Delete a topic. Answered by AnswerTopic when its name is free and the live brokers have stopped.

    Refused if the topic of the name has another id than `topic_id` (hex; empty: any).
    """

    request_id: int
    name: str
    validate_only: bool = False
    topic_id: str = ""
    cause: str = ""


class AddPartitionsRequested(Struct, frozen=True):
    """Grow a topic to `partition_count`. An empty `assignment` lets the controller balance the new ones.

    Answered by AnswerTopic when the new partitions have leaders.
    """

    request_id: int
    name: str
    partition_count: int
    assignment: tuple[tuple[int, ...], ...] = ()
    validate_only: bool = False
    cause: str = ""


class RemovePartitionsRequested(Struct, frozen=True):
    """Shrink a topic to `partition_count`: the highest numbers are removed. Answered by AnswerTopic.

    Refused if the topic of the name has another id than `topic_id` (hex; empty: any).
    """

    request_id: int
    name: str
    partition_count: int
    validate_only: bool = False
    topic_id: str = ""
    cause: str = ""


class AlterTopicConfigRequested(Struct, frozen=True):
    """Change settings of a topic. Answered by AnswerTopic when the live brokers have applied them."""

    request_id: int
    name: str
    to_set: dict[str, str] = field(default_factory=dict)
    to_reset: tuple[str, ...] = ()
    validate_only: bool = False
    cause: str = ""


class Move(Struct, frozen=True):
    """One partition and its RAR, the first being the preferred replica."""

    name: TopicPartition
    target: tuple[int, ...]


class ReassignmentsRequested(Struct, frozen=True):
    """Move partitions (V3 F). Answered by AnswerPartitions when all accepted moves have begun.

    `throttle_bytes_per_s`: the speed limit from now on; None leaves it as it is.
    """

    request_id: int
    moves: tuple[Move, ...]
    throttle_bytes_per_s: int | None = None
    validate_only: bool = False
    cause: str = ""


class CancelReassignmentsRequested(Struct, frozen=True):
    """Cancel moves; no names means all. Answered by AnswerPartitions when it is stored."""

    request_id: int
    names: tuple[TopicPartition, ...] = ()
    validate_only: bool = False
    cause: str = ""


class ReassignmentThrottleRequested(Struct, frozen=True):
    """Change the speed limit of moves; 0: none. Answered by AnswerDone when the live brokers have applied
    it."""

    request_id: int
    throttle_bytes_per_s: int
    cause: str = ""


class ElectionKind(Enum):
    """The replicas that may become the leader.

    PREFERRED: the first of AR, if it is alive and in sync. UNCLEAN: any live replica, if no in-sync one is
    alive; records that only the others have are lost.
    """

    PREFERRED = auto()
    UNCLEAN = auto()


class ElectLeadersRequested(Struct, frozen=True):
    """Elect leaders at an operator's request. No names means all partitions, which only PREFERRED accepts.

    Answered by AnswerElections when the decisions are stored and the live brokers have them.
    """

    request_id: int
    kind: ElectionKind
    names: tuple[TopicPartition, ...] = ()
    validate_only: bool = False
    cause: str = ""
