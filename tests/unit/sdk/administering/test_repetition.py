"""Orders whose first attempt was carried out, or not, while its answer was lost: what a repetition means."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hightide.calls.call import Call
from hightide.errors import (
    AddressUnreachableError,
    HightideError,
    InconsistentTopicIdError,
    InvalidArgumentError,
    InvalidPartitionCountError,
    NoReassignmentError,
    TopicBeingDeletedError,
    UnknownTopicError,
)
from hightide.records import TopicPartition
from hightide.v1 import controller_service_pb2 as pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide.v1.metadata_pb2 import PartitionMetadata, TopicMetadata
from unit.sdk.operation_world import World

TOPIC = "flights"
FIRST_ID, SECOND_ID = bytes(range(1, 17)), bytes(range(16))
HERE = TopicPartition(TOPIC, 0)


def lost(call: Call[Any]) -> HightideError:
    return AddressUnreachableError("the connection broke", address=call.address)


def one_after_another(*answers: Callable[[Any], Any]) -> Callable[[Any], Any]:
    remaining = iter(answers)

    def answer(call: Any) -> Any:
        return next(remaining)(call)

    return answer


class Controller:
    """One topic, as `DescribeTopics` and `ListReassignments` tell it. Orders are carried out by the test's
    functions, each of which may lose its answer."""

    def __init__(self, *replicas: Sequence[int]) -> None:
        self.topic_id = FIRST_ID
        self.assignment: list[tuple[int, ...]] | None = [tuple(each) for each in replicas]
        self.moves: dict[TopicPartition, tuple[Sequence[int], Sequence[int]]] = {}
        self.orders = 0

    def world(self, **orders: Callable[[Any], Any]) -> World:
        def counted(carry_out: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def answer(call: Any) -> Any:
                self.orders += 1
                return carry_out(call)

            return answer

        return World(
            None,
            DESCRIBE_TOPICS=lambda _: pb2.DescribeTopicsResponse(topics=[self.topic()]),
            LIST_REASSIGNMENTS=lambda _: self.listing(),
            **{name: counted(carry_out) for name, carry_out in orders.items()},
        )

    def topic(self) -> TopicMetadata:
        if self.assignment is None:
            return TopicMetadata(topic=TOPIC, error_code=ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)
        return TopicMetadata(
            topic=TOPIC,
            topic_id=self.topic_id,
            partitions=[
                PartitionMetadata(partition=at, leader=replicas[0], replicas=replicas, isr=replicas)
                for at, replicas in enumerate(self.assignment)
            ],
        )

    def listing(self) -> pb2.ListReassignmentsResponse:
        return pb2.ListReassignmentsResponse(
            reassignments=[
                pb2.Reassignment(partition=name_of(partition), original=original, target=target)
                for partition, (original, target) in self.moves.items()
            ]
        )


def name_of(partition: TopicPartition) -> pb2.PartitionName:
    return pb2.PartitionName(topic=partition.topic, partition=partition.partition)


def result(code: str = "UNSPECIFIED") -> pb2.PartitionResult:
    return pb2.PartitionResult(
        partition=name_of(HERE), error_code=ErrorCode.Value(f"ERROR_CODE_{code}"), message="so it is"
    )


def delete(world: World) -> Any:
    return world.run(world.operations.delete_topic(TOPIC, validate_only=False))


def test_a_topic_that_an_unanswered_attempt_deleted_is_deleted() -> None:
    controller = Controller([1], [2])

    def carry_out(call: Call[Any]) -> HightideError:
        controller.assignment = None
        return lost(call)

    deleted = delete(controller.world(DELETE_TOPIC=carry_out))
    assert (deleted.topic.topic_id, len(deleted.topic.partitions)) == (FIRST_ID, 2)
    assert controller.orders == 1


def test_a_namesake_created_after_an_unanswered_deletion_is_left_alone() -> None:
    controller = Controller([1])

    def carry_out(call: Call[Any]) -> HightideError:
        controller.topic_id = SECOND_ID
        return lost(call)

    assert delete(controller.world(DELETE_TOPIC=carry_out)).topic.topic_id == FIRST_ID
    assert controller.orders == 1


def test_a_namesake_created_before_the_order_arrives_is_left_alone() -> None:
    controller = Controller([1])
    named: list[bytes] = []

    def refuse(call: Call[Any]) -> HightideError:
        named.append(pb2.DeleteTopicRequest.FromString(call.encode()).topic_id)
        return InconsistentTopicIdError("it has another id")

    assert delete(controller.world(DELETE_TOPIC=refuse)).topic.topic_id == FIRST_ID
    assert named == [FIRST_ID]


def test_a_deletion_that_never_arrived_is_given_again() -> None:
    controller = Controller([1])
    attempts = one_after_another(lost, lambda _: pb2.DeleteTopicResponse(absent_brokers=[3]))
    assert delete(controller.world(DELETE_TOPIC=attempts)).absent_brokers == (3,)
    assert controller.orders == 2


def test_a_deletion_under_way_is_waited_for() -> None:
    controller = Controller([1])
    attempts = iter([TopicBeingDeletedError("soon"), UnknownTopicError("gone")])
    assert delete(controller.world(DELETE_TOPIC=lambda _: next(attempts))).topic.name == TOPIC


def test_a_topic_that_is_not_there_cannot_be_deleted() -> None:
    controller = Controller()
    controller.assignment = None
    with pytest.raises(UnknownTopicError, match=TOPIC):
        delete(controller.world(DELETE_TOPIC=lost))
    assert controller.orders == 0


def add(world: World, count: int) -> Any:
    operation = world.operations.add_partitions(TOPIC, count, assignment=None, validate_only=False)
    return world.run(operation)


def test_partitions_that_an_unanswered_attempt_added_are_added() -> None:
    controller = Controller([1])

    def carry_out(call: Call[Any]) -> HightideError:
        controller.assignment = [(1,), (2,), (3,)]
        return lost(call)

    assert len(add(controller.world(ADD_PARTITIONS=carry_out), 3).partitions) == 3
    assert controller.orders == 1


def test_partitions_that_a_slow_attempt_adds_before_its_repetition_is_heard_are_added() -> None:
    controller = Controller([1])

    def late(_: Call[Any]) -> HightideError:
        controller.assignment = [(1,), (2,), (3,)]
        return InvalidPartitionCountError("it has 3 partitions, and cannot be grown to 3")

    world = controller.world(ADD_PARTITIONS=one_after_another(lost, late))
    assert len(add(world, 3).partitions) == 3
    assert controller.orders == 2


def test_a_repetition_that_is_refused_is_an_error_where_the_first_attempt_did_nothing() -> None:
    controller = Controller([1])
    refused = one_after_another(lost, lambda _: InvalidPartitionCountError("too many"))
    with pytest.raises(InvalidPartitionCountError):
        add(controller.world(ADD_PARTITIONS=refused), 3)


def test_a_topic_that_has_so_many_partitions_before_is_refused() -> None:
    controller = Controller([1], [2])
    refused = controller.world(ADD_PARTITIONS=lambda _: InvalidPartitionCountError("it has 2"))
    with pytest.raises(InvalidPartitionCountError):
        add(refused, 2)


def remove(world: World, count: int) -> Any:
    return world.run(world.operations.remove_partitions(TOPIC, count, validate_only=False))


def test_partitions_that_an_unanswered_attempt_removed_are_removed() -> None:
    controller = Controller([1], [2], [3])

    def carry_out(call: Call[Any]) -> HightideError:
        controller.assignment = [(1,)]
        return lost(call)

    assert len(remove(controller.world(REMOVE_PARTITIONS=carry_out), 1).partitions) == 1
    assert controller.orders == 1


def test_a_namesake_keeps_its_partitions() -> None:
    controller = Controller([1], [2], [3])

    def carry_out(call: Call[Any]) -> HightideError:
        controller.topic_id = SECOND_ID
        return lost(call)

    with pytest.raises(UnknownTopicError, match="another one of this name"):
        remove(controller.world(REMOVE_PARTITIONS=carry_out), 1)
    assert controller.orders == 1


def test_a_namesake_created_before_the_order_arrives_keeps_its_partitions() -> None:
    controller = Controller([1], [2], [3])
    named: list[bytes] = []

    def refuse(call: Call[Any]) -> HightideError:
        named.append(pb2.RemovePartitionsRequest.FromString(call.encode()).topic_id)
        return InconsistentTopicIdError("it has another id")

    with pytest.raises(UnknownTopicError, match="another one of this name"):
        remove(controller.world(REMOVE_PARTITIONS=refuse), 1)
    assert named == [FIRST_ID]


def move(world: World, *replicas: int, **options: Any) -> Any:
    operation = world.operations.reassign_partitions(
        {HERE: replicas}, throttle_bytes_per_s=None, validate_only=False, **options
    )
    return world.run(operation)


def test_a_move_that_an_unanswered_attempt_finished_is_no_error() -> None:
    controller = Controller([1, 2])

    def carry_out(call: Call[Any]) -> Any:
        if controller.assignment == [(3, 2)]:
            return pb2.ReassignPartitionsResponse(results=[result("INVALID_ASSIGNMENT")])
        controller.assignment = [(3, 2)]
        return lost(call)

    (outcome,) = move(controller.world(REASSIGN_PARTITIONS=carry_out), 3, 2)
    assert outcome.ok
    assert controller.orders == 2


def test_a_move_to_where_the_partition_is_stays_an_error() -> None:
    controller = Controller([1, 2])
    refused = pb2.ReassignPartitionsResponse(results=[result("INVALID_ASSIGNMENT")])
    (outcome,) = move(controller.world(REASSIGN_PARTITIONS=lambda _: refused), 1, 2)
    assert not outcome.ok
    assert str(outcome.error).startswith("so it is (topic flights, partition 0)")


def test_a_refusal_after_a_lost_answer_that_is_about_something_else_stays_an_error() -> None:
    controller = Controller([1, 2])
    refused = pb2.ReassignPartitionsResponse(results=[result("UNKNOWN_BROKER")])
    attempts = one_after_another(lost, lambda _: refused)
    (outcome,) = move(controller.world(REASSIGN_PARTITIONS=attempts), 9)
    assert not outcome.ok


def cancel(controller: Controller, moved_to: Sequence[int]) -> Any:
    """The first attempt ends the move with the partition there, and its answer is lost."""
    controller.moves[HERE] = ((1, 2), (3, 2))

    def carry_out(call: Call[Any]) -> Any:
        if not controller.moves:
            return pb2.CancelReassignmentsResponse(results=[result("NO_REASSIGNMENT")])
        controller.moves.clear()
        controller.assignment = [tuple(moved_to)]
        return lost(call)

    world = controller.world(CANCEL_REASSIGNMENTS=carry_out)
    (outcome,) = world.run(world.operations.cancel_reassignments([HERE], validate_only=False))
    return outcome


def test_a_cancellation_whose_answer_was_lost_is_done_where_the_partition_is_where_it_was() -> None:
    assert cancel(Controller([1, 2, 3]), moved_to=(1, 2)).ok


def test_a_move_that_was_done_before_it_could_be_cancelled_is_told() -> None:
    assert isinstance(cancel(Controller([1, 2, 3]), moved_to=(3, 2)).error, NoReassignmentError)


def elect(world: World, kind: Any, partitions: Any) -> Any:
    return world.run(world.operations.elect_leaders(kind, partitions, validate_only=False))


def not_needed(_: Call[Any]) -> pb2.ElectLeadersResponse:
    election = pb2.Election(result=result("ELECTION_NOT_NEEDED"), leader=2, leader_epoch=5)
    return pb2.ElectLeadersResponse(elections=[election])


def test_an_unclean_election_whose_answer_was_lost_is_done_where_the_partition_is_led() -> None:
    world = Controller([1, 2]).world(ELECT_LEADERS=one_after_another(lost, not_needed))
    (election,) = elect(world, "unclean", [HERE])
    assert (election.ok, election.leader, election.leader_epoch) == (True, 2, 5)
    assert "controller's log" in election.message


def test_an_unclean_election_of_a_partition_that_is_led_is_refused() -> None:
    (election,) = elect(Controller([1, 2]).world(ELECT_LEADERS=not_needed), "unclean", [HERE])
    assert not election.ok


def test_an_unclean_election_names_its_partitions() -> None:
    world = Controller([1]).world(ELECT_LEADERS=not_needed)
    with pytest.raises(InvalidArgumentError, match="name each partition"):
        elect(world, "unclean", None)
    with pytest.raises(InvalidArgumentError, match="'clean'"):
        elect(world, "clean", [HERE])
    assert elect(world, "unclean", []) == []
    assert world.asked == []
