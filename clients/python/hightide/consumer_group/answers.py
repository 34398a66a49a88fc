"""A coordinator's answers as the SDK's own types."""

from typing import cast

from hightide.groups import CommittedOffset, GroupDescription, GroupListing, GroupMember, GroupStateName
from hightide.records import TopicPartition
from hightide.v1 import coordinator_service_pb2
from hightide.v1.coordinator_service_pb2 import DescribeGroupResponse, GroupState

_PREFIX = "GROUP_STATE_"


def state_name(state: coordinator_service_pb2.GroupState.ValueType) -> GroupStateName:
    """A state in lower case; one that this version does not know is unspecified."""
    if state not in GroupState.values():
        return "unspecified"
    return cast(GroupStateName, GroupState.Name(state).removeprefix(_PREFIX).lower())


def group_listing(listing: coordinator_service_pb2.GroupListing, address: str) -> GroupListing:
    """One group in the list of the coordinator at `address`."""
    return GroupListing(
        listing.group, state_name(listing.state), listing.member_count, listing.generation, address
    )


def group_description(answer: DescribeGroupResponse) -> GroupDescription:
    """The state of one group."""
    return GroupDescription(
        group=answer.group,
        state=state_name(answer.state),
        reason=answer.reason,
        generation=answer.generation,
        assignor=answer.assignor,
        members=tuple(_member(member) for member in answer.members),
        offsets={
            TopicPartition(each.topic, each.partition): CommittedOffset(
                each.offset, each.leader_epoch, each.metadata
            )
            for each in answer.offsets
        },
        topics=tuple(answer.topics),
        coordinator_id=answer.coordinator.id,
        coordinator_address=f"{answer.coordinator.host}:{answer.coordinator.port}",
        coordinator_epoch=answer.coordinator_epoch,
        rebalance_count=answer.rebalance_count,
        last_rebalance_ms=answer.last_rebalance_ms,
    )


def _member(member: coordinator_service_pb2.GroupMember) -> GroupMember:
    return GroupMember(
        consumer_id=member.consumer_id,
        instance_id=member.instance_id,
        peer=member.peer,
        session_timeout_ms=member.session_timeout_ms,
        is_connected=member.is_connected,
        topics={each.topic: each.streams or 1 for each in member.topics},
        pattern=member.pattern,
        exclude=tuple(member.exclude),
        partitions={
            TopicPartition(each.topic, each.partition): each.generation for each in member.partitions
        },
    )
