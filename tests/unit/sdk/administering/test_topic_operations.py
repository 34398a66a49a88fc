"""What an admin client asks for and how it reads the answers; arguments that no request can carry."""

from typing import Any

import pytest
from hightide.calls.call import MessageCall
from hightide.errors import (
    AddressUnreachableError,
    InvalidArgumentError,
    UnexpectedAnswerError,
)
from hightide.records import (
    BrokerDescription,
    ClusterDescription,
    Complaint,
    ProducerState,
    Reassignment,
    ReplicaDescription,
    TopicPartition,
)
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide.v1.metadata_pb2 import Endpoint
from unit.sdk.operation_world import World
from unit.sdk.producer_bench import metadata

HERE = TopicPartition("flights", 0)
MANY = [TopicPartition("flights", at) for at in range(25_000)]


def name_of(partition: TopicPartition) -> pb2.PartitionName:
    return pb2.PartitionName(topic=partition.topic, partition=partition.partition)


def done(names: Any) -> list[pb2.PartitionResult]:
    return [pb2.PartitionResult(partition=name) for name in names]


class Asked(World):
    """Remembers the requests of one method, and answers each by the function given."""

    def __init__(self, method: str, answer: Any, **others: Any) -> None:
        self.requests: list[Any] = []

        def remember(call: MessageCall[Any]) -> Any:
            self.requests.append(call.request)
            return answer(call.request)

        super().__init__(None, **{method: remember, **others})


def test_more_moves_than_one_request_may_carry_go_in_pieces_and_come_back_in_order() -> None:
    world = Asked(
        "REASSIGN_PARTITIONS",
        lambda request: pb2.ReassignPartitionsResponse(results=done(m.partition for m in request.moves)),
    )
    operation = world.operations.reassign_partitions(
        dict.fromkeys(MANY, (1, 2)), throttle_bytes_per_s=7, validate_only=True
    )
    assert [each.partition for each in world.run(operation)] == MANY
    assert [len(request.moves) for request in world.requests] == [10_000, 10_000, 5_000]
    assert {(request.throttle_bytes_per_s, request.validate_only) for request in world.requests} == {
        (7, True)
    }


def test_so_do_cancellations_listings_and_elections() -> None:
    cancelled = Asked(
        "CANCEL_REASSIGNMENTS",
        lambda request: pb2.CancelReassignmentsResponse(results=done(request.partitions)),
        LIST_REASSIGNMENTS=lambda _: pb2.ListReassignmentsResponse(),
    )
    outcomes = cancelled.run(cancelled.operations.cancel_reassignments(MANY, validate_only=False))
    assert [each.partition for each in outcomes] == MANY
    assert [len(request.partitions) for request in cancelled.requests] == [10_000, 10_000, 5_000]
    elected = Asked(
        "ELECT_LEADERS",
        lambda request: pb2.ElectLeadersResponse(
            elections=[pb2.Election(result=each) for each in done(request.partitions)]
        ),
    )
    elections = elected.run(elected.operations.elect_leaders("preferred", MANY, validate_only=False))
    assert [each.partition for each in elections] == MANY
    assert len(elected.requests) == 3


def test_all_is_asked_for_by_naming_none() -> None:
    world = Asked("CANCEL_REASSIGNMENTS", lambda _: pb2.CancelReassignmentsResponse())
    assert world.run(world.operations.cancel_reassignments(None, validate_only=True)) == []
    assert world.requests == [pb2.CancelReassignmentsRequest(validate_only=True)]
    assert world.run(world.operations.cancel_reassignments([], validate_only=True)) == []
    assert len(world.requests) == 1


def test_no_limit_is_an_order_of_its_own_since_a_move_without_one_leaves_it_as_it_is() -> None:
    limits: list[int] = []

    def alter(call: Any) -> pb2.AlterReassignmentThrottleResponse:
        limits.append(call.request.throttle_bytes_per_s)
        return pb2.AlterReassignmentThrottleResponse()

    world = Asked(
        "REASSIGN_PARTITIONS",
        lambda request: pb2.ReassignPartitionsResponse(results=done(m.partition for m in request.moves)),
        ALTER_REASSIGNMENT_THROTTLE=alter,
    )
    world.run(world.operations.reassign_partitions({HERE: [1]}, throttle_bytes_per_s=0, validate_only=False))
    assert limits == [0]
    assert world.requests[0].throttle_bytes_per_s == 0
    world.run(world.operations.reassign_partitions({}, throttle_bytes_per_s=8, validate_only=False))
    assert limits == [0, 8]
    assert len(world.requests) == 1


def test_a_move_says_who_gets_a_replica_and_who_lets_go_of_one() -> None:
    message = pb2.Reassignment(
        partition=name_of(HERE),
        topic_id=bytes(16),
        original=[1, 2],
        target=[3, 2],
        replicas=[1, 2, 3],
        isr=[1, 2],
        leader=-1,
    )
    answer = pb2.ListReassignmentsResponse(reassignments=[message], throttle_bytes_per_s=9)
    world = World(LIST_REASSIGNMENTS=lambda _: answer)
    listing = world.run(world.operations.list_reassignments())
    assert listing.throttle_bytes_per_s == 9
    (move,) = listing.reassignments
    assert move == Reassignment(HERE, bytes(16), (1, 2), (3, 2), (1, 2, 3), (1, 2), None)
    assert (move.adding, move.removing) == ((3,), (1,))


def test_an_election_that_changed_nothing_has_the_leader_of_before() -> None:
    led = pb2.Election(
        result=pb2.PartitionResult(partition=name_of(HERE), message="broker 2 leads it already"),
        leader=2,
        leader_epoch=4,
        previous_leader=-1,
    )
    elected = pb2.Election(
        result=pb2.PartitionResult(partition=name_of(HERE)), leader=2, leader_epoch=5, previous_leader=-1
    )
    world = World(ELECT_LEADERS=lambda _: pb2.ElectLeadersResponse(elections=[led, elected]))
    found = world.run(world.operations.elect_leaders("preferred", None, validate_only=False))
    assert [(each.leader, each.previous_leader, each.ok) for each in found] == [(2, 2, True), (2, None, True)]


def replicas_at(call: Any) -> broker_pb2.DescribeReplicasResponse:
    broker_id = int(call.address.partition(":")[2])
    replica = broker_pb2.ReplicaDescription(
        topic="flights",
        topic_id=bytes(16),
        partition=0,
        is_leader=broker_id == 1,
        leader_epoch=4,
        log_start_offset=1,
        log_end_offset=9,
        high_watermark=8,
        size_bytes=100,
        log_directory=1,
        error_code=ErrorCode.ERROR_CODE_STORAGE_FAILED
        if broker_id == 3
        else ErrorCode.ERROR_CODE_UNSPECIFIED,
    )
    return broker_pb2.DescribeReplicasResponse(broker_id=broker_id, replicas=[replica])


def test_every_live_broker_is_asked_what_it_holds() -> None:
    world = World(DESCRIBE_REPLICAS=replicas_at)
    listing = world.run(world.operations.describe_replicas(["flights"]))
    assert listing.silent_brokers == {}
    assert [each.broker_id for each in listing.replicas] == [1, 2, 3]
    assert [each.storage_failed for each in listing.replicas] == [False, False, True]
    assert listing.replicas[0] == ReplicaDescription(HERE, bytes(16), 1, True, 4, 1, 9, 8, 100, 1, False)


def test_a_broker_that_does_not_answer_is_named_and_the_others_are_heard() -> None:
    world = World(
        DESCRIBE_REPLICAS=lambda call: (
            AddressUnreachableError("nobody there", address="b2:2")
            if call.address == "b2:2"
            else replicas_at(call)
        )
    )
    listing = world.run(world.operations.describe_replicas(None))
    assert [each.broker_id for each in listing.replicas] == [1, 3]
    assert listing.silent_brokers == {2: "nobody there (at b2:2)"}
    asked = [address for method, address in world.asked if method == "DESCRIBE_REPLICAS"]
    assert asked == ["b1:1", "b2:2", "b3:3", "b2:2"]


def test_where_no_broker_answers_it_is_an_error() -> None:
    world = World(DESCRIBE_REPLICAS=lambda _: UnexpectedAnswerError("of another version"))
    with pytest.raises(UnexpectedAnswerError, match="of another version"):
        world.run(world.operations.describe_replicas(None))


def test_the_cluster_comes_with_what_the_controller_complains_of() -> None:
    answer = pb2.DescribeClusterResponse(
        cluster_id="c",
        controller=Endpoint(id=7, host="c7", port=7),
        controller_epoch=3,
        brokers=[pb2.BrokerDescription(endpoint=Endpoint(id=1, host="b1", port=1), alive=True)],
        complaints=[pb2.Complaint(subject="/admin/x", message="no JSON")],
        reassignment_count=2,
        not_preferred_leader_count=4,
        reassignment_throttle_bytes_per_s=5,
    )
    world = World(DESCRIBE_CLUSTER=lambda _: answer)
    described: ClusterDescription = world.run(world.operations.describe_cluster())
    assert described == ClusterDescription(
        cluster_id="c",
        controller_id=7,
        controller_address="c7:7",
        controller_epoch=3,
        brokers=(BrokerDescription(1, "b1:1", True, 0, 0, 0),),
        topic_count=0,
        partition_count=0,
        offline_partition_count=0,
        under_replicated_partition_count=0,
        under_min_isr_partition_count=0,
        not_preferred_leader_count=4,
        reassignment_count=2,
        reassignment_throttle_bytes_per_s=5,
        complaints=(Complaint("/admin/x", "no JSON"),),
    )
    assert not described.healthy


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (
            lambda o: o.reassign_partitions({HERE: [2**40]}, throttle_bytes_per_s=None, validate_only=True),
            "flights-0: 1099511627776 is no broker id",
        ),
        (
            lambda o: o.reassign_partitions(
                {TopicPartition("flights", -1): [1]}, throttle_bytes_per_s=None, validate_only=True
            ),
            "topic flights has no partition -1",
        ),
        (
            lambda o: o.reassign_partitions({HERE: [1]}, throttle_bytes_per_s=-1, validate_only=True),
            "the speed limit is -1 bytes per second",
        ),
        (lambda o: o.set_reassignment_throttle(2**63), "the speed limit is"),
        (lambda o: o.add_partitions("t", 2**31, assignment=None, validate_only=True), "partition_count"),
        (lambda o: o.alter_topic_config("t", {}, [], validate_only=True), "no setting is given"),
        (lambda o: o.alter_topic_config("t", {"a": "1"}, ["a"], validate_only=True), "a: set it or reset it"),
    ],
)
def test_what_no_request_can_carry_is_told_before_anything_is_asked(operation: Any, said: str) -> None:
    world = World()
    with pytest.raises(InvalidArgumentError, match=said):
        world.run(operation(world.operations))
    assert world.asked == []


def test_producers_are_asked_of_each_leader_under_its_epoch() -> None:
    def answered(result: broker_pb2.DescribeProducersPartitionResult) -> Any:
        return broker_pb2.DescribeProducersResponse(partitions=[result])

    def answer(call: Any) -> Any:
        (asked,) = call.request.partitions
        assert list(call.request.producer_ids) == [5, 9]
        if call.address == "b1:1":
            refused = ErrorCode.ERROR_CODE_NOT_LEADER
            return answered(broker_pb2.DescribeProducersPartitionResult(error_code=refused))
        known = broker_pb2.ProducerDescription(
            producer_id=9,
            producer_epoch=asked.leader_epoch,
            first_sequence=0,
            first_offset=10,
            next_sequence=4,
            end_offset=16,
        )
        return answered(broker_pb2.DescribeProducersPartitionResult(producers=[known]))

    leaders = iter([metadata({0: (1, 1)}), metadata({0: (2, 2)})])
    world = World(GET_METADATA=lambda _: next(leaders), DESCRIBE_PRODUCERS=answer)
    found = world.run(world.operations.describe_producers([HERE], [9, 5, 9]))
    assert found == {HERE: [ProducerState(9, 2, 0, 10, 4, 16)]}
    assert world.run(world.operations.describe_producers([HERE], [])) == {HERE: []}
