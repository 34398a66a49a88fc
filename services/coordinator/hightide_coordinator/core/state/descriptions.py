"""Views of the groups for people and clients; nothing changes.

Called by the shell for ListGroups, DescribeGroup and FetchOffsets, outside of `machine.step`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.state.member import Member
from hightide_coordinator.core.state.shard_state import Role, ShardState
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import OwnedPartition, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = [
    "OFFSETS_BYTES_MAX",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "OffsetPage",
    "QuestionRefused",
    "committed_offsets",
    "committed_page",
    "describe_group",
    "list_groups",
    "not_active",
]

OFFSETS_BYTES_MAX: Final = 8 << 20
"""Bytes of one answer to FetchOffsets: half of the limit of a message."""
_OFFSET_BYTES: Final = 40
"""Bytes of an offset in such an answer, without its topic's name and its metadata."""


class QuestionRefused(Struct, frozen=True):
    """The reason why a question is refused."""

    refusal: Refusal
    message: str
    metadata: Mapping[str, str]


class GroupListing(Struct, frozen=True):
    """One group in a list."""

    group: str
    state: GroupState
    member_count: int
    generation: int


class MemberDescription(Struct, frozen=True):
    """One member. If it has not returned after a takeover, its subscription is not known."""

    consumer_id: str
    instance_id: str
    peer: str
    session_timeout_ms: int
    is_connected: bool
    topics: Mapping[str, int]
    pattern: str
    partitions: tuple[OwnedPartition, ...]
    exclude: tuple[str, ...] = ()


class GroupDescription(Struct, frozen=True):
    """Everything about a group, as in DescribeGroupResponse."""

    group: str
    state: GroupState
    reason: str
    generation: int
    assignor: str
    members: tuple[MemberDescription, ...]
    offsets: Mapping[TopicPartition, StoredOffset]
    topics: tuple[str, ...]
    coordinator_epoch: int
    rebalance_count: int
    last_rebalance_ms: int


class OffsetPage(Struct, frozen=True):
    """Some of the committed offsets of a group, by topic and partition. The next page begins at
    `next_cursor`, which is None after the last one."""

    offsets: Mapping[TopicPartition, StoredOffset]
    next_cursor: TopicPartition | None = None


def not_active(state: ShardState) -> QuestionRefused | None:
    """The reason why this coordinator may not answer for its shard; None: it may."""
    if state.role is Role.ACTIVE:
        return None
    elsewhere = state.active_elsewhere
    if elsewhere is None:
        message = "this coordinator is not the active one, and none is known; try again in a moment"
        return QuestionRefused(Refusal.NOT_COORDINATOR, message, {})
    address = f"{elsewhere.host}:{elsewhere.port}"
    message = f"this coordinator is not the active one; ask coordinator {elsewhere.id} at {address}"
    return QuestionRefused(Refusal.NOT_COORDINATOR, message, {"coordinator_address": address})


def unknown_group(name: str) -> QuestionRefused:
    """The refusal for a group that does not exist."""
    message = f"there is no group {name[:250]!r}"
    return QuestionRefused(Refusal.UNKNOWN_GROUP, message, {"group": name[:250]})


def list_groups(state: ShardState) -> tuple[GroupListing, ...] | QuestionRefused:
    """All groups of the shard, by name."""
    refused = not_active(state)
    if refused is not None:
        return refused
    return tuple(
        GroupListing(name, group.state, len(group.members), group.generation)
        for name, group in sorted(state.groups.items())
    )


def _known(state: ShardState, name: str) -> Group | QuestionRefused:
    return not_active(state) or state.groups.get(name) or unknown_group(name)


def describe_group(state: ShardState, name: str) -> GroupDescription | QuestionRefused:
    """Everything about one group."""
    group = _known(state, name)
    if isinstance(group, QuestionRefused):
        return group
    members = sorted(group.members.values(), key=lambda member: member.consumer_id)
    topics = set(group.named_topics)
    for interest in group.patterns.values():
        topics |= interest.topics
    return GroupDescription(
        group=name,
        state=group.state,
        reason=group.reason,
        generation=group.generation,
        assignor=group.assignor,
        members=tuple(_describe(group, member) for member in members),
        offsets=dict(sorted(group.offsets.items())),
        topics=tuple(sorted(topics)),
        coordinator_epoch=state.coordinator_epoch,
        rebalance_count=group.rebalance_count,
        last_rebalance_ms=group.last_rebalance_ms,
    )


def committed_offsets(
    state: ShardState,
    name: str,
    partitions: Sequence[TopicPartition] = (),
    sees: Callable[[str], bool] | None = None,
) -> Mapping[TopicPartition, StoredOffset] | QuestionRefused:
    """The committed offsets of a group: of the partitions named, or of all. Partitions without one are
    absent, and so are those of topics that whoever asks may not know of (`sees`; None: it may know of all).
    Refused if there are more than one answer may hold."""
    group = _known(state, name)
    if isinstance(group, QuestionRefused):
        return group
    offsets = group.offsets
    if partitions:
        offsets = {key: offsets[key] for key in partitions if key in offsets}
    if sees is not None:
        offsets = {key: each for key, each in offsets.items() if sees(key.topic)}
    size = sum(_told_bytes(key, each) for key, each in offsets.items())
    if size > OFFSETS_BYTES_MAX:
        message = (
            f"the {len(offsets)} committed offsets of group {name} and their metadata are more than "
            f"{OFFSETS_BYTES_MAX} bytes; name fewer `partitions`"
        )
        return QuestionRefused(
            Refusal.LIMIT_EXCEEDED, message, {"group": name, "partitions": str(len(offsets))}
        )
    return dict(sorted(offsets.items()))


def committed_page(
    state: ShardState,
    name: str,
    partitions: Sequence[TopicPartition] = (),
    *,
    offsets_max: int,
    cursor: TopicPartition | None = None,
    sees: Callable[[str], bool] | None = None,
) -> OffsetPage | QuestionRefused:
    """As `committed_offsets`, but from `cursor` on, with at most `offsets_max` offsets, and never more than
    one answer may hold."""
    assert offsets_max > 0, "a page has room for one"
    group = _known(state, name)
    if isinstance(group, QuestionRefused):
        return group
    keys = sorted(group.offsets.keys() & partitions if partitions else group.offsets)
    if sees is not None:
        keys = [key for key in keys if sees(key.topic)]
    first = 0 if cursor is None else bisect_left(keys, cursor)
    page: dict[TopicPartition, StoredOffset] = {}
    size = 0
    for key in keys[first : first + offsets_max]:
        size += _told_bytes(key, group.offsets[key])
        if page and size > OFFSETS_BYTES_MAX:
            break
        page[key] = group.offsets[key]
    after = first + len(page)
    return OffsetPage(page, keys[after] if after < len(keys) else None)


def _told_bytes(key: TopicPartition, committed: StoredOffset) -> int:
    return _OFFSET_BYTES + len(key.topic) + len(committed.metadata.encode())


def _describe(group: Group, member: Member) -> MemberDescription:
    registration = member.registration
    owned = sorted(group.owned.get(member.member_id, ()))
    return MemberDescription(
        consumer_id=member.consumer_id,
        instance_id=member.instance_id,
        peer="" if registration is None else registration.peer,
        session_timeout_ms=member.session_timeout_ms,
        is_connected=member.is_connected,
        topics={} if registration is None else registration.topics,
        pattern="" if registration is None else registration.pattern,
        exclude=() if registration is None else registration.exclude,
        partitions=tuple(OwnedPartition(name, group.owners[name].generation) for name in owned),
    )
