"""What a request that waits is about: decides what it waits for, and how it is answered."""

from __future__ import annotations

from dataclasses import dataclass

from hightide_controller.core.events import Topic

__all__ = ["AltersTopic", "CreatesTopic", "DeletesTopic", "Purpose", "ShutsDown"]


@dataclass(frozen=True, slots=True)
class CreatesTopic:
    """CreateTopic, of this topic."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class AltersTopic:
    """AddPartitions, RemovePartitions or AlterTopicConfig, of the topic as it was."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class DeletesTopic:
    """DeleteTopic, of the topic as it was; brokers that are down and hold replicas of it."""

    topic: Topic
    absent_brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ShutsDown:
    """ControlledShutdown, of this broker."""

    broker_id: int


Purpose = CreatesTopic | AltersTopic | DeletesTopic | ShutsDown
