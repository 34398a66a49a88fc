"""The subject of a request that waits: it decides what the request waits for, and how it is answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from hightide_controller.core.effects import ElectionOutcome, PartitionOutcome
from hightide_controller.core.events import Topic
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requests import Move

__all__ = [
    "AltersTopic",
    "CreatesTopic",
    "DeletesTopic",
    "ElectsLeaders",
    "MovesPartitions",
    "Purpose",
    "SetsThrottle",
    "ShutsDown",
]


class CreatesTopic(Struct, frozen=True):
    """CreateTopic, of this topic."""

    topic: Topic


class AltersTopic(Struct, frozen=True):
    """AddPartitions, RemovePartitions or AlterTopicConfig, of the topic as it was."""

    topic: Topic


class DeletesTopic(Struct, frozen=True):
    """DeleteTopic, of the topic as it was; brokers that are down and hold replicas of it."""

    topic: Topic
    absent_brokers: tuple[int, ...] = ()


class ShutsDown(Struct, frozen=True):
    """ControlledShutdown, of this broker."""

    broker_id: int


@dataclass(slots=True)
class MovesPartitions:
    """ReassignPartitions and CancelReassignments, of these partitions."""

    names: tuple[TopicPartition, ...]
    outcomes: dict[TopicPartition, PartitionOutcome] = field(default_factory=dict)
    """The outcomes so far."""
    held: tuple[Move, ...] = ()
    """Moves that begin when brokers have acknowledged the speed limit of the request."""


@dataclass(slots=True)
class ElectsLeaders:
    """ElectLeaders, of these partitions."""

    names: tuple[TopicPartition, ...]
    outcomes: dict[TopicPartition, ElectionOutcome] = field(default_factory=dict)
    """The outcomes so far."""


class SetsThrottle(Struct, frozen=True):
    """AlterReassignmentThrottle."""


Purpose = (
    CreatesTopic | AltersTopic | DeletesTopic | ShutsDown | MovesPartitions | ElectsLeaders | SetsThrottle
)
