"""What clients ask of a group's coordinator: finding it, asking again, lags and resets."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import google_crc32c
import pytest
from hightide import groups
from hightide.errors import (
    AddressUnreachableError,
    BrokersUnavailableError,
    CommitGoesBackError,
    CoordinatorLoadingError,
    CoordinatorUnavailableError,
    FencedGenerationError,
    GroupNotEmptyError,
    InvalidArgumentError,
    NotCoordinatorError,
    OffsetOutOfRangeError,
    UnknownGroupError,
)
from hightide.groups import OffsetReset, PartitionLag
from hightide.records import TopicPartition
from hightide.v1.broker_service_pb2 import (
    GetMetadataResponse,
    ListOffsetsPartitionResult,
    ListOffsetsResponse,
    OffsetSpec,
)
from hightide.v1.coordinator_service_pb2 import (
    CommitOffsetsResponse,
    CommittedOffset,
    DeleteOffsetsResponse,
    DescribeGroupResponse,
    FetchOffsetsResponse,
    GroupListing,
    GroupMember,
    GroupPartition,
    GroupState,
    ListGroupsResponse,
    OffsetCommit,
    OffsetCommitResult,
    OffsetResetResult,
    OwnedPartition,
    ResetOffsetsResponse,
    TopicStreams,
)
from hightide.v1.errors_pb2 import ErrorCode
from hightide.v1.metadata_pb2 import Endpoint
from unit.sdk.operation_world import Answer, World, with_controller
from unit.sdk.producer_bench import TOPIC

P0, P1, P2 = (TopicPartition(TOPIC, at) for at in range(3))
LOST = AddressUnreachableError("the answer was lost", address="co1:1")


def told(*coordinators: int | None) -> GetMetadataResponse:
    """Brokers tell these coordinators, one a shard."""
    answer = with_controller(7, leaders=(1, 1, 1))
    for each in coordinators:
        answer.coordinators.append(
            Endpoint() if each is None else Endpoint(id=each, host=f"co{each}", port=each)
        )
    return answer


def world(*numbers: int | None, **answers: Answer) -> World:
    return World(None, **{"GET_METADATA": lambda _: told(*(numbers or (1,))), **answers})


def one_by_one(*answers: Any) -> Answer:
    """Each answer once, the last for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def where(ends: Mapping[TopicPartition, tuple[int, int]], at_a_time: int = -1) -> Answer:
    """ListOffsets, with the first and the next offset of each partition, and the one found by a time."""

    def answer(call: Any) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            partitions=[
                ListOffsetsPartitionResult(
                    offset=at_a_time
                    if each.spec == OffsetSpec.OFFSET_SPEC_TIMESTAMP
                    else ends[TopicPartition(TOPIC, each.partition)][
                        each.spec != OffsetSpec.OFFSET_SPEC_EARLIEST
                    ]
                )
                for each in call.request.partitions
            ]
        )

    return answer


def committed(**offsets: int) -> list[CommittedOffset]:
    """p0=5: 5 is committed of partition 0."""
    return [
        CommittedOffset(topic=TOPIC, partition=int(name[1:]), offset=offset, leader_epoch=3)
        for name, offset in offsets.items()
    ]


# -- committing without being a member -----------------------------------------------------------------------


def committing(*codes: ErrorCode.ValueType) -> World:
    def answer(call: Any) -> CommitOffsetsResponse:
        assert call.request.member_id == ""
        results = [
            OffsetCommitResult(topic=each.topic, partition=each.partition, error_code=code)
            for each, code in zip(call.request.offsets, codes, strict=True)
        ]
        sent.extend((each.partition, each.offset, each.metadata, each.reset) for each in call.request.offsets)
        return CommitOffsetsResponse(offsets=results)

    return world(COMMIT_OFFSETS=answer)


sent: list[tuple[int, int, str, bool]] = []


def test_offsets_are_committed_for_a_group_without_being_in_it_also_lower_ones() -> None:
    sent.clear()
    cluster = committing(ErrorCode.ERROR_CODE_UNSPECIFIED, ErrorCode.ERROR_CODE_UNSPECIFIED)
    offsets: dict[TopicPartition, int | groups.CommittedOffset] = {
        P0: 5,
        P1: groups.CommittedOffset(7, 2, "batch 3"),
    }
    cluster.run(cluster.operations.commit_group_offsets("g", offsets))
    assert sent == [(0, 5, "", True), (1, 7, "batch 3", True)]


@pytest.mark.parametrize("beyond", [groups.CommittedOffset(2**63), groups.CommittedOffset(5, 2**31)])
def test_what_no_request_can_carry_is_not_committed_for_a_group(beyond: groups.CommittedOffset) -> None:
    cluster = committing()
    with pytest.raises(InvalidArgumentError, match="flights-0"):
        cluster.run(cluster.operations.commit_group_offsets("g", {P0: beyond}))


def test_a_group_with_members_commits_by_itself() -> None:
    cluster = committing(ErrorCode.ERROR_CODE_UNKNOWN_MEMBER)
    with pytest.raises(GroupNotEmptyError, match="partition 0"):
        cluster.run(cluster.operations.commit_group_offsets("g", {P0: 5}))
    with pytest.raises(InvalidArgumentError, match="-1 is no offset of flights-0"):
        cluster.run(cluster.operations.commit_group_offsets("g", {P0: -1}))


# -- finding the coordinator ---------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["readers", "writers", "a", "b", "c"])
def test_a_group_is_asked_of_the_coordinator_of_its_shard(group: str) -> None:
    cluster = world(1, 2, 3, FETCH_OFFSETS=lambda _: FetchOffsetsResponse())
    cluster.run(cluster.operations.group_offsets(group))
    shard = google_crc32c.value(group.encode()) % 3
    assert cluster.asked[-1] == ("FETCH_OFFSETS", f"co{shard + 1}:{shard + 1}")


def test_a_coordinator_that_is_none_names_the_one_that_is() -> None:
    elsewhere = NotCoordinatorError("co9 is", metadata={"coordinator_address": "co9:9"})
    cluster = world(FETCH_OFFSETS=one_by_one(elsewhere, FetchOffsetsResponse()))
    cluster.run(cluster.operations.group_offsets("g"))
    assert [address for method, address in cluster.asked if method == "FETCH_OFFSETS"] == ["co1:1", "co9:9"]


def test_one_that_is_loading_is_asked_again() -> None:
    cluster = world(FETCH_OFFSETS=one_by_one(CoordinatorLoadingError("soon"), FetchOffsetsResponse()))
    assert cluster.run(cluster.operations.group_offsets("g")) == {}


def test_without_a_coordinator_it_says_so_when_the_budget_is_over() -> None:
    cluster = world(None)
    with pytest.raises(CoordinatorUnavailableError, match=r"group g .*the brokers know of none"):
        cluster.run(cluster.operations.group_offsets("g"))
    assert cluster.now_ms >= 5_000


def silent_after(answers: int, *coordinators: int | None, **others: Answer) -> World:
    """Brokers answer so often, and then none of them any more."""
    answer = told(*coordinators)
    silence = AddressUnreachableError("nobody is there", address="b1:1")
    return World(None, GET_METADATA=one_by_one(*[answer] * answers, silence), **others)


def test_brokers_that_told_of_no_coordinator_and_then_fell_silent_are_believed() -> None:
    cluster = silent_after(3, None)
    with pytest.raises(CoordinatorUnavailableError, match="the brokers know of none"):
        cluster.run(cluster.operations.group_offsets("g"))


def test_a_coordinator_is_asked_again_where_the_brokers_that_named_it_fell_silent() -> None:
    offsets = one_by_one(LOST, FetchOffsetsResponse(offsets=committed(p0=5)))
    cluster = silent_after(1, 1, FETCH_OFFSETS=offsets)
    assert cluster.run(cluster.operations.group_offsets("g"))[P0].offset == 5
    assert cluster.asked[-1] == ("FETCH_OFFSETS", "co1:1")
    assert cluster.now_ms >= 5_000, "the brokers had all the time there was"


def test_brokers_that_never_answered_are_named() -> None:
    cluster = silent_after(0)
    with pytest.raises(BrokersUnavailableError, match="boot:9"):
        cluster.run(cluster.operations.group_offsets("g"))


def test_groups_are_listed_from_the_coordinators_of_all_shards_each_asked_once() -> None:
    def listed(call: Any) -> ListGroupsResponse:
        name = call.address.partition(":")[0]
        state = GroupState.GROUP_STATE_STABLE
        return ListGroupsResponse(groups=[GroupListing(group=f"of-{name}", state=state, member_count=2)])

    cluster = world(2, 1, 2, LIST_GROUPS=listed)
    found = cluster.run(cluster.operations.list_groups())
    assert [(each.group, each.state, each.coordinator_address) for each in found] == [
        ("of-co1", "stable", "co1:1"),
        ("of-co2", "stable", "co2:2"),
    ]
    assert len([method for method, _ in cluster.asked if method == "LIST_GROUPS"]) == 2


def test_the_coordinators_of_all_shards_are_told_by_any_broker() -> None:
    cluster = world(2, None, 1)
    assert cluster.run(cluster.operations.coordinators()) == ("co2:2", None, "co1:1")


# -- committing ----------------------------------------------------------------------------------------------


def test_a_commit_whose_answer_was_lost_is_made_again() -> None:
    result = OffsetCommitResult(topic=TOPIC, partition=0)
    answers, numbers = one_by_one(LOST, CommitOffsetsResponse(offsets=[result])), []

    def commit_answered(call: Any) -> Any:
        numbers.append(call.request.sequence)
        return answers(call)

    cluster = world(COMMIT_OFFSETS=commit_answered)
    commit = OffsetCommit(topic=TOPIC, partition=0, offset=5)
    assert cluster.run(cluster.operations.commit_offsets("g", "m-1", [commit], 7)) == {}
    assert numbers == [7, 7], "it is the same request"


def test_each_commit_that_is_refused_has_its_own_error() -> None:
    results = [
        OffsetCommitResult(topic=TOPIC, partition=0),
        OffsetCommitResult(
            topic=TOPIC, partition=1, error_code=ErrorCode.ERROR_CODE_FENCED_GENERATION, error_message="moved"
        ),
        OffsetCommitResult(topic=TOPIC, partition=2, error_code=ErrorCode.ERROR_CODE_COMMIT_GOES_BACK),
    ]
    cluster = world(COMMIT_OFFSETS=lambda _: CommitOffsetsResponse(offsets=results))
    commits = [OffsetCommit(topic=TOPIC, partition=each, offset=5) for each in range(3)]
    failed = cluster.run(cluster.operations.commit_offsets("g", "m-1", commits))
    assert {each: type(error) for each, error in failed.items()} == {
        P1: FencedGenerationError,
        P2: CommitGoesBackError,
    }
    assert "topic flights, partition 1" in str(failed[P1])


def test_all_offsets_of_a_group_are_asked_for_page_by_page() -> None:
    asked: list[GroupPartition | None] = []

    def page(call: Any) -> FetchOffsetsResponse:
        assert call.request.offsets_max == 10_000
        asked.append(call.request.cursor if call.request.HasField("cursor") else None)
        if len(asked) == 3:
            return FetchOffsetsResponse(offsets=committed(p2=3))
        at = len(asked) - 1
        after = GroupPartition(topic=TOPIC, partition=at + 1)
        return FetchOffsetsResponse(offsets=committed(**{f"p{at}": at + 1}), next_cursor=after)

    cluster = world(FETCH_OFFSETS=page)
    found = cluster.run(cluster.operations.group_offsets("g"))
    assert {partition.partition: each.offset for partition, each in found.items()} == {0: 1, 1: 2, 2: 3}
    assert asked == [None, *(GroupPartition(topic=TOPIC, partition=at) for at in (1, 2))]


def test_a_group_that_does_not_exist_has_committed_nothing() -> None:
    cluster = world(FETCH_OFFSETS=lambda _: UnknownGroupError("no group g"))
    assert cluster.run(cluster.operations.offsets_of("g", [P0])) == {}
    with pytest.raises(UnknownGroupError):
        cluster.run(cluster.operations.group_offsets("g"))


# -- describing ----------------------------------------------------------------------------------------------


def described(**offsets: int) -> DescribeGroupResponse:
    member = GroupMember(
        consumer_id="c-1",
        peer="10.0.0.1:5",
        session_timeout_ms=9_000,
        is_connected=True,
        topics=[TopicStreams(topic=TOPIC, streams=2)],
        partitions=[OwnedPartition(topic=TOPIC, partition=1, generation=4)],
    )
    return DescribeGroupResponse(
        group="g",
        state=GroupState.GROUP_STATE_REBALANCING,
        reason="consumer c-1 joined",
        generation=4,
        members=[member],
        offsets=committed(**offsets),
        topics=[TOPIC],
        coordinator=Endpoint(id=1, host="co1", port=1),
    )


def test_a_group_is_described_with_its_owners() -> None:
    cluster = world(DESCRIBE_GROUP=lambda _: described(p0=5))
    found = cluster.run(cluster.operations.describe_group("g"))
    assert (found.state, found.reason, found.coordinator_address) == (
        "rebalancing",
        "consumer c-1 joined",
        "co1:1",
    )
    assert found.owners == {P1: "c-1"}
    assert found.members[0].topics == {TOPIC: 2}
    assert found.members[0].partitions == {P1: 4}
    assert (found.offsets[P0].offset, found.offsets[P0].leader_epoch) == (5, 3)


def test_the_lag_tells_every_partition_also_those_without_a_commit_or_owner() -> None:
    ends = {P0: (0, 12), P1: (0, 7), P2: (0, 3)}
    cluster = world(DESCRIBE_GROUP=lambda _: described(p0=5, p1=9), LIST_OFFSETS=where(ends))
    assert cluster.run(cluster.operations.group_lag("g")) == [
        PartitionLag(P0, 5, 12, 7, None),
        PartitionLag(P1, 9, 7, 0, "c-1"),
        PartitionLag(P2, None, 3, None, None),
    ]


# -- deleting and resetting ----------------------------------------------------------------------------------


def test_a_group_that_is_gone_after_a_lost_answer_was_deleted() -> None:
    cluster = world(DELETE_GROUP=one_by_one(LOST, UnknownGroupError("no group g")))
    cluster.run(cluster.operations.delete_group("g"))


@pytest.mark.parametrize("refusal", [UnknownGroupError("no group g"), GroupNotEmptyError("2 members")])
def test_a_deletion_that_is_refused_is_an_error(refusal: Exception) -> None:
    cluster = world(DELETE_GROUP=lambda _: refusal)
    with pytest.raises(type(refusal)):
        cluster.run(cluster.operations.delete_group("g"))


class Resetting:
    """A group with 5 and 9 committed of partitions 0 and 1, and a coordinator that does what it is asked."""

    def __init__(self, *lost: Any, at_a_time: int = -1) -> None:
        self.requests: list[Any] = []
        self._lost = list(lost)
        self.cluster = world(
            FETCH_OFFSETS=lambda _: FetchOffsetsResponse(offsets=committed(p0=5, p1=9)),
            LIST_OFFSETS=where({P0: (2, 20), P1: (4, 10), P2: (0, 3)}, at_a_time),
            RESET_OFFSETS=self._reset,
        )

    def _reset(self, call: Any) -> Any:
        self.requests.append(call.request)
        if self._lost:
            return self._lost.pop()
        results = [
            OffsetResetResult(topic=each.topic, partition=each.partition, previous_offset=77)
            for each in call.request.offsets
        ]
        return ResetOffsetsResponse(offsets=results)

    def run(self, to: Any = None, **how: Any) -> dict[TopicPartition, OffsetReset]:
        options = {"shift_by": None, "topics": None, "partitions": None, "validate_only": False, **how}
        found = self.cluster.run(self.cluster.operations.reset_offsets("g", to, **options))
        return {each.partition: each for each in found}

    def asked(self) -> dict[int, int]:
        (request,) = self.requests[-1:]
        return {each.partition: each.offset for each in request.offsets}


@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ({"to": "earliest"}, {0: 2, 1: 4}),
        ({"to": "latest"}, {0: 20, 1: 10}),
        ({"to": 6}, {0: 6, 1: 6}),
        ({"shift_by": -4}, {0: 2, 1: 5}),
        ({"shift_by": 3}, {0: 8, 1: 10}),
        ({"to": {P0: 3, P2: 1}}, {0: 3, 2: 1}),
        ({"to": "latest", "topics": [TOPIC]}, {0: 20, 1: 10, 2: 3}),
        ({"to": "latest", "topics": TOPIC}, {0: 20, 1: 10, 2: 3}),
        ({"to": "earliest", "partitions": [P1]}, {1: 4}),
    ],
)
def test_a_reset_goes_where_it_says(how: dict[str, Any], asked: dict[int, int]) -> None:
    resetting = Resetting()
    found = resetting.run(**how)
    assert resetting.asked() == asked
    assert {each.partition: outcome.offset for each, outcome in found.items()} == asked
    assert all(outcome.ok and outcome.previous == 77 for outcome in found.values())


@pytest.mark.parametrize(("at_a_time", "asked"), [(-1, {0: 20, 1: 10}), (7, {0: 7, 1: 7})])
def test_a_reset_goes_to_a_time_or_to_the_end_if_no_record_is_as_late(
    at_a_time: int, asked: dict[int, int]
) -> None:
    resetting = Resetting(at_a_time=at_a_time)
    resetting.run(datetime(2013, 1, 1, tzinfo=UTC))
    assert resetting.asked() == asked


def test_a_record_that_is_written_while_a_time_is_looked_up_is_no_offset_that_does_not_exist() -> None:
    resetting = Resetting(at_a_time=25)
    found = resetting.run(datetime(2013, 1, 1, tzinfo=UTC), partitions=[P0])
    assert found[P0].error is None
    assert resetting.asked() == {0: 25}


def test_an_offset_that_does_not_exist_is_refused_for_its_partition_alone() -> None:
    resetting = Resetting()
    found = resetting.run(15)
    assert resetting.asked() == {0: 15}
    assert found[P0].ok
    assert isinstance(found[P1].error, OffsetOutOfRangeError)
    assert "4 to 10" in str(found[P1].error)


def test_what_has_no_committed_offset_cannot_be_shifted() -> None:
    resetting = Resetting()
    found = resetting.run(shift_by=1, topics=[TOPIC])
    assert resetting.asked() == {0: 6, 1: 10}
    assert isinstance(found[P2].error, InvalidArgumentError)


def test_a_rehearsal_tells_the_coordinator_that_it_is_one() -> None:
    resetting = Resetting()
    resetting.run("earliest", validate_only=True)
    assert [request.validate_only for request in resetting.requests] == [True]


def test_a_reset_whose_answer_was_lost_tells_what_was_committed_before_the_first_attempt() -> None:
    resetting = Resetting(LOST)
    assert {each.previous for each in resetting.run("earliest").values()} == {5, 9}


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"to": "earliest", "shift_by": 1},
        {"to": "middle"},
        {"to": {P0: 1}, "topics": [TOPIC]},
    ],
)
def test_a_reset_that_says_nothing_or_too_much_is_refused(how: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        Resetting().run(**how)


# -- forgetting offsets --------------------------------------------------------------------------------------


def forget(cluster: World, *topics: str) -> Any:
    return cluster.run(cluster.operations.delete_group_offsets("g", topics, validate_only=False))


def forgetting(*answers: Any) -> World:
    return world(
        FETCH_OFFSETS=lambda _: FetchOffsetsResponse(offsets=committed(p0=3, p1=4)),
        DELETE_OFFSETS=one_by_one(*answers),
    )


def test_offsets_of_topics_are_forgotten_and_counted_in_pieces_of_what_a_request_may_carry() -> None:
    cluster = forgetting(DeleteOffsetsResponse(deleted_count=2), DeleteOffsetsResponse(deleted_count=1))
    assert forget(cluster, TOPIC, TOPIC, *(f"t{at}" for at in range(1_000))) == 3
    assert forget(cluster) == 0


@pytest.mark.parametrize("answer", [DeleteOffsetsResponse(), UnknownGroupError("gone")])
def test_what_was_forgotten_by_an_attempt_whose_answer_was_lost_is_counted(answer: Any) -> None:
    assert forget(forgetting(LOST, answer), TOPIC) == 2


@pytest.mark.parametrize("refusal", [UnknownGroupError("unknown"), GroupNotEmptyError("it is read")])
def test_offsets_that_may_not_be_forgotten_stay(refusal: Exception) -> None:
    with pytest.raises(type(refusal)):
        forget(forgetting(refusal), TOPIC)
