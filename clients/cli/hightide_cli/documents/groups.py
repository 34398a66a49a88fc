"""The shapes of the documents of `group`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NotRequired, TypedDict

from hightide_cli.documents.values import (
    DryRun,
    ErrorCode,
    GroupName,
    NumberOfPartition,
    PartitionNumber,
    TopicName,
    TopicOfPartition,
)
from hightide_cli.documents.view import Shows


class ListedGroupDocument(TypedDict):
    """One group in the list of all groups."""

    group: GroupName
    state: Annotated[str, "empty, recovering, gathering, rebalancing, stable or failed"]
    members: Annotated[int, Shows("member_count"), "how many there are"]
    generation: Annotated[int, "counts the assignments"]
    coordinator_address: Annotated[str, "where its coordinator is"]


class PartitionLagDocument(TypedDict):
    """The lag of a group in one partition."""

    topic: TopicOfPartition
    partition: NumberOfPartition
    committed: Annotated[int | None, "the offset of the next record to read; null where nothing is committed"]
    end: Annotated[int | None, "the end of the log; null where the partition is gone"]
    lag: Annotated[int | None, "how many records are to be read; null where that is not known"]
    consumer: Annotated[str | None, Shows("owner"), "who owns it; null where nobody does"]


class LagDocument(TypedDict):
    """The lag of a group."""

    group: GroupName
    lag: Annotated[int, "of all partitions together"]
    partitions: Annotated[Sequence[PartitionLagDocument], "each with its lag"]


class WatchedLagDocument(LagDocument):
    """One look at the lag, with the pace if `--watch` looks again."""

    read_per_s: NotRequired[
        Annotated[float | None, "how fast the group reads; null at the first look; only with --watch"]
    ]
    written_per_s: NotRequired[
        Annotated[float | None, "how fast others write; null at the first look; only with --watch"]
    ]
    seconds_left: NotRequired[
        Annotated[
            float | None, "until it has caught up; null where the lag does not shrink; only with --watch"
        ]
    ]
    stalled_s: NotRequired[
        Annotated[float, "for how long nothing was committed; 0 where something was; only with --watch"]
    ]


class OwnedPartitionDocument(TypedDict):
    """A partition that a member owns."""

    topic: TopicName
    partition: PartitionNumber
    generation: Annotated[int, "the generation in which it was given to the member"]


class MemberDocument(TypedDict):
    """A consumer of a group."""

    consumer: Annotated[str, "its name"]
    instance: Annotated[str | None, "the name by which it comes back; null where it has none"]
    host: Annotated[str, "from where it is connected"]
    session_timeout_ms: Annotated[int, "for how long it may be away"]
    connected: Annotated[bool, "whether it is connected now"]
    topics: Annotated[Mapping[str, int], "the topics that it subscribes to, each with its number of streams"]
    pattern: Annotated[str | None, "the expression that it subscribes to; null where it names topics"]
    exclude: Annotated[Sequence[str], "the expressions of topics that it leaves out of the pattern's"]
    partitions: Annotated[Sequence[OwnedPartitionDocument], "what it owns"]


class GroupDocument(LagDocument):
    """A group with its members and its lag."""

    state: Annotated[str, "empty, recovering, gathering, rebalancing, stable or failed"]
    reason: Annotated[str | None, "what began the last rebalance, or why it failed"]
    generation: Annotated[int, "counts the assignments"]
    assignor: Annotated[str | None, "how partitions are shared out"]
    coordinator: Annotated[int, "the coordinator's id"]
    coordinator_address: Annotated[str, "where it is"]
    coordinator_epoch: Annotated[int, "counts the coordinators' elections"]
    rebalances: Annotated[int, "since this coordinator took over"]
    last_rebalance_ms: Annotated[float, "how long the last one took"]
    topics: Annotated[Sequence[str], "what its members subscribe to"]
    members: Annotated[Sequence[MemberDocument], "the consumers of the group"]


class PartitionResetDocument(TypedDict):
    """The new position of a group in one partition."""

    topic: TopicName
    partition: PartitionNumber
    committed: Annotated[int | None, "what was committed before; null where nothing was"]
    wanted: Annotated[int, "what was asked for"]
    new: Annotated[int, "the nearest offset to that which the log has"]
    lag: Annotated[int, "how many records are to be read from there"]
    error: ErrorCode


class ResetDocument(TypedDict):
    """The new positions of a group."""

    group: GroupName
    dry_run: DryRun
    partitions: Annotated[Sequence[PartitionResetDocument], "those that were meant"]
