"""The shapes of the documents about the partitions of topics."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from hightide_cli.documents.values import (
    Configs,
    DryRun,
    ErrorCode,
    Isr,
    Leader,
    LeaderEpoch,
    PartitionNumber,
    Replicas,
    TopicId,
    TopicName,
)
from hightide_cli.documents.view import Shows


class ListedTopicDocument(TypedDict):
    """One topic in the list of all topics."""

    topic: TopicName
    topic_id: TopicId
    partitions: Annotated[int, "how many there are"]
    replicas: Annotated[int, "of the partition that has the most"]
    configs: Configs


class DescribedPartitionDocument(TypedDict):
    """A partition of a topic."""

    partition: PartitionNumber
    leader: Leader
    leader_epoch: LeaderEpoch
    replicas: Replicas
    isr: Isr


class DescribedTopicDocument(TypedDict):
    """A topic with its partitions."""

    topic: Annotated[TopicName, Shows("name")]
    topic_id: TopicId
    partitions: Annotated[Sequence[DescribedPartitionDocument], "all of them, or those that were asked for"]
    replicas: Annotated[int, Shows("replication_factor"), "of the partition that has the most"]
    configs: Configs


class TrimmedPartitionDocument(TypedDict):
    """The outcome of a trim for the records of one partition."""

    partition: PartitionNumber
    before: Annotated[int, "the offset in front of which records go"]
    records: Annotated[int, "how many went"]
    earliest: Annotated[int | None, "the first offset afterwards; null where it was refused"]
    error: ErrorCode


class TrimDocument(TypedDict):
    """The records that were deleted."""

    dry_run: DryRun
    topic: TopicName
    partitions: Annotated[Sequence[TrimmedPartitionDocument], "those that were meant"]
