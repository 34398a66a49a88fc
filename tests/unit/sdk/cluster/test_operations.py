"""What takes several calls: the test answers each of them, and is the clock."""

from typing import Any

import pytest
from hightide.calls.call import Call, Method
from hightide.cluster.leaders_seen import LeadersSeen
from hightide.cluster.metadata import RETRY_PAUSE_MS
from hightide.cluster.offset_at import EARLIEST, LATEST
from hightide.errors import (
    AddressUnreachableError,
    BrokersUnavailableError,
    ControllerUnavailableError,
    HightideError,
    NotControllerError,
    PartitionOfflineError,
    RequestTimeoutError,
    TopicAlreadyExistsError,
    UnknownPartitionError,
    UnknownTopicError,
)
from hightide.records import TopicPartition
from hightide.v1.broker_service_pb2 import (
    GetMetadataResponse,
    ListOffsetsPartitionResult,
    ListOffsetsResponse,
)
from hightide.v1.controller_service_pb2 import (
    CreateTopicResponse,
    DescribeClusterResponse,
    DescribeTopicsResponse,
)
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.operation_world import Answer, World, with_controller
from unit.sdk.producer_bench import TOPIC, metadata, no_topic


def create(world: World) -> Any:
    operation = world.operations.create_topic(TOPIC, 1, 3, configs={}, assignment=None, validate_only=False)
    return world.run(operation)


def created() -> CreateTopicResponse:
    return CreateTopicResponse(topic=metadata([1]).topics[0])


def refused_at(call: Call[Any]) -> HightideError:
    return AddressUnreachableError(f"{call.address} cannot be reached", address=call.address)


def test_an_order_goes_to_the_controller_that_brokers_name() -> None:
    world = World(CREATE_TOPIC=lambda _: created())
    assert create(world).name == TOPIC
    assert world.asked == [("GET_METADATA", "boot:9"), ("CREATE_TOPIC", "c7:7")]


def test_not_controller_is_followed() -> None:
    answers = iter([with_controller(7), with_controller(8)])
    world = World(
        GET_METADATA=lambda _: next(answers),
        CREATE_TOPIC=lambda call: created() if call.address == "c8:8" else NotControllerError("not me"),
    )
    assert create(world).name == TOPIC


def test_why_a_broker_is_not_reached_outlives_a_last_call_that_the_budget_cut_short() -> None:
    def refused(call: Call[Any]) -> HightideError:
        if world.now_ms + 2_000 < 5_000:
            return refused_at(call)
        world.now_ms += call.timeout_ms
        return RequestTimeoutError(f"{call.address} did not answer within {call.timeout_ms} ms")

    world = World(GET_METADATA=refused)
    with pytest.raises(BrokersUnavailableError, match=r"boot:9 \(bootstrap\) cannot be reached") as raised:
        create(world)
    assert "did not answer" not in str(raised.value)


def redirect_to(address: str) -> NotControllerError:
    return NotControllerError("not me", metadata={"controller_address": address})


def test_the_controller_that_a_redirect_names_is_asked_at_once() -> None:
    world = World(CREATE_TOPIC=lambda call: created() if call.address == "c8:8" else redirect_to("c8:8"))
    assert create(world).name == TOPIC
    assert world.asked == [("GET_METADATA", "boot:9"), ("CREATE_TOPIC", "c7:7"), ("CREATE_TOPIC", "c8:8")]
    assert world.now_ms == 0


def test_controllers_that_name_each_other_are_asked_twice_between_two_pauses() -> None:
    world = World(CREATE_TOPIC=lambda call: redirect_to("c8:8" if call.address == "c7:7" else "c7:7"))
    with pytest.raises(ControllerUnavailableError, match="not me"):
        create(world)
    assert 5_000 <= world.now_ms < 6_000
    assert len(world.asked) <= 3 * (1 + world.now_ms // RETRY_PAUSE_MS)


def test_a_topic_that_an_unanswered_attempt_created_is_not_an_error() -> None:
    attempts = iter([AddressUnreachableError("gone"), TopicAlreadyExistsError("exists")])
    world = World(
        CREATE_TOPIC=lambda _: next(attempts),
        DESCRIBE_TOPICS=lambda _: DescribeTopicsResponse(topics=[metadata([1]).topics[0]]),
    )
    assert create(world).name == TOPIC


def test_nor_is_one_that_a_controller_had_begun_to_create_when_it_resigned() -> None:
    resigned = NotControllerError("it has just resigned", metadata={"may_have_begun": "true"})
    attempts = iter([resigned, TopicAlreadyExistsError("exists")])
    world = World(
        CREATE_TOPIC=lambda _: next(attempts),
        DESCRIBE_TOPICS=lambda _: DescribeTopicsResponse(topics=[metadata([1]).topics[0]]),
    )
    assert create(world).name == TOPIC


def test_a_topic_that_was_there_before_is_an_error() -> None:
    with pytest.raises(TopicAlreadyExistsError):
        create(World(CREATE_TOPIC=lambda _: TopicAlreadyExistsError("exists")))


def test_without_a_controller_the_budget_ends_with_a_typed_error() -> None:
    world = World(GET_METADATA=lambda _: metadata([1]))
    with pytest.raises(ControllerUnavailableError, match="brokers know of none"):
        create(world)
    assert 5_000 <= world.now_ms < 6_000


def test_brokers_that_answered_are_not_called_silent_for_a_last_call_that_the_budget_cut_short() -> None:
    """`cluster health` took a cluster without a controller for one without brokers."""

    def answer(call: Call[Any]) -> Any:
        if world.now_ms + 500 < 5_000:
            world.now_ms += 500
            return metadata([1])
        world.now_ms += call.timeout_ms
        return RequestTimeoutError(f"{call.address} did not answer within {call.timeout_ms} ms")

    world = World(GET_METADATA=answer)
    with pytest.raises(ControllerUnavailableError, match="brokers know of none"):
        create(world)


def test_without_brokers_every_address_is_named() -> None:
    with pytest.raises(BrokersUnavailableError, match="boot:9"):
        create(World(GET_METADATA=refused_at))


def test_offsets_are_asked_of_each_leader() -> None:
    world = World(
        GET_METADATA=lambda _: with_controller(7, (1, 2)),
        LIST_OFFSETS=lambda call: ListOffsetsResponse(
            partitions=[ListOffsetsPartitionResult(offset=10 if call.address == "b1:1" else -1)]
        ),
    )
    wanted = {TopicPartition(TOPIC, at): EARLIEST for at in (0, 1)}
    assert list(world.run(world.operations.list_offsets(wanted)).values()) == [10, None]


def test_many_topics_are_found_with_one_question_and_only_what_is_missing_is_asked_for_again() -> None:
    topics = [f"t{at}" for at in range(300)]
    late = "t299"
    asked: list[list[str]] = []

    def describe(call: Any) -> GetMetadataResponse:
        asked.append(list(call.request.topics))
        answer = metadata([])
        answer.ClearField("topics")
        for topic in call.request.topics:
            described = metadata([1]).topics[0] if topic != late or len(asked) > 1 else no_topic().topics[0]
            described.topic, described.topic_id = topic, topic.encode().ljust(16)
            answer.topics.append(described)
        return answer

    world = World(
        GET_METADATA=describe,
        LIST_OFFSETS=lambda _: ListOffsetsResponse(
            partitions=[ListOffsetsPartitionResult(offset=3)] * len(topics)
        ),
    )
    wanted = {TopicPartition(topic, 0): LATEST for topic in topics}
    assert set(world.run(world.operations.list_offsets(wanted)).values()) == {3}
    assert asked == [sorted(topics), [late]]
    assert [method for method, _ in world.asked].count("LIST_OFFSETS") == 1


def test_an_answer_that_lay_there_while_the_process_stood_still_does_not_make_a_topic_unknown() -> None:
    answers = iter([no_topic(), metadata([1])])

    def describe(_: Call[Any]) -> GetMetadataResponse:
        world.now_ms += 3_000
        return next(answers)

    world = World(GET_METADATA=describe)
    assert world.run(world.operations.partitions_for(TOPIC)) == (TopicPartition(TOPIC, 0),)


def test_offsets_are_asked_again_where_the_leader_has_moved() -> None:
    leaders = iter([metadata({0: (1, 1)}), metadata({0: (2, 2)})])
    not_leader = ListOffsetsPartitionResult(error_code=ErrorCode.ERROR_CODE_NOT_LEADER)
    world = World(
        GET_METADATA=lambda _: next(leaders),
        LIST_OFFSETS=lambda call: ListOffsetsResponse(
            partitions=[not_leader if call.address == "b1:1" else ListOffsetsPartitionResult(offset=4)]
        ),
    )
    assert list(world.run(world.operations.list_offsets({TopicPartition(TOPIC, 0): EARLIEST})).values()) == [
        4
    ]


def ends_of(**offsets: int) -> Answer:
    """Brokers b1 to b3, each of which knows of the leader epoch of its own number, and no later one."""

    def answer(call: Any) -> ListOffsetsResponse:
        name = call.address.partition(":")[0]
        (asked,) = call.request.partitions
        if asked.leader_epoch > int(name[1:]):
            behind = ListOffsetsPartitionResult(error_code=ErrorCode.ERROR_CODE_UNKNOWN_LEADER_EPOCH)
            return ListOffsetsResponse(partitions=[behind])
        return ListOffsetsResponse(partitions=[ListOffsetsPartitionResult(offset=offsets[name])])

    return answer


def end_in(world: World) -> int | None:
    wanted = TopicPartition(TOPIC, 0)
    found: dict[TopicPartition, int | None] = world.run(world.operations.list_offsets({wanted: LATEST}))
    return found[wanted]


def test_a_client_that_was_answered_by_a_leader_never_goes_back_to_the_one_before() -> None:
    client, ends = LeadersSeen(), ends_of(b1=165, b2=314)
    told = World(client, GET_METADATA=lambda _: metadata({0: (2, 2)}), LIST_OFFSETS=ends)
    assert end_in(told) == 314
    woken = World(client, GET_METADATA=lambda _: metadata({0: (1, 1)}), LIST_OFFSETS=ends)
    assert end_in(woken) == 314
    assert ("LIST_OFFSETS", "b1:1") not in woken.asked


def test_who_leads_is_asked_of_another_broker_each_time_since_one_may_stay_behind() -> None:
    world = World(
        GET_METADATA=lambda call: metadata({0: (3, 3)} if call.address == "b3:3" else {0: (1, 2)}),
        LIST_OFFSETS=ends_of(b1=165, b3=400),
    )
    assert end_in(world) == 400
    asked = [address for method, address in world.asked if method == "GET_METADATA"]
    assert asked == ["boot:9", "b1:1", "b2:2", "b3:3"]


def test_an_offline_partition_is_told_when_the_budget_is_over() -> None:
    world = World(GET_METADATA=lambda _: metadata([-1]))
    with pytest.raises(PartitionOfflineError, match="partition 0"):
        world.run(world.operations.list_offsets({TopicPartition(TOPIC, 0): EARLIEST}))


def test_what_does_not_exist_is_told_soon() -> None:
    world = World(GET_METADATA=lambda _: no_topic())
    with pytest.raises(UnknownTopicError, match=TOPIC):
        world.run(world.operations.partitions_for(TOPIC))
    assert world.now_ms < 2_500
    there = World()
    with pytest.raises(UnknownPartitionError, match="0 to 0, not 5"):
        there.run(there.operations.list_offsets({TopicPartition(TOPIC, 5): EARLIEST}))


def test_a_partition_that_the_topic_got_a_moment_ago_is_asked_about() -> None:
    answers = iter([metadata([1]), metadata([1, 1])])
    ends = ListOffsetsResponse(partitions=[ListOffsetsPartitionResult(offset=4)])
    world = World(GET_METADATA=lambda _: next(answers), LIST_OFFSETS=lambda _: ends)
    wanted = TopicPartition(TOPIC, 1)
    assert world.run(world.operations.list_offsets({wanted: EARLIEST})) == {wanted: 4}


def test_every_method_has_its_grpc_path() -> None:
    assert {method.value.split("/")[1] for method in Method} == {
        "hightide.v1.BrokerService",
        "hightide.v1.ControllerService",
        "hightide.v1.CoordinatorService",
        "hightide.v1.ServerService",
    }


def test_a_question_that_a_controller_leaves_unanswered_is_asked_of_its_successor_in_time() -> None:
    """One that was stopped holds its connections; it is replaced long before a client's budget is over."""

    def answer(call: Call[Any]) -> Any:
        if call.address == "c7:7":
            world.now_ms += call.timeout_ms
            return RequestTimeoutError("no answer", address=call.address)
        return DescribeClusterResponse(cluster_id="whole")

    world = World(
        GET_METADATA=lambda _: with_controller(7 if world.now_ms == 0 else 8), DESCRIBE_CLUSTER=answer
    )
    assert world.run(world.operations.describe_cluster()).cluster_id == "whole"
