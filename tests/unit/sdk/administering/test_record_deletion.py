"""Deleting records at the leaders of their partitions: each partition has its own outcome."""

from collections.abc import Callable
from typing import Any

import pytest
from hightide.errors import (
    AddressUnreachableError,
    InvalidArgumentError,
    NotLeaderError,
    OffsetOutOfRangeError,
    PartitionOfflineError,
    TopicRecreatedError,
    UnexpectedAnswerError,
    UnknownPartitionError,
)
from hightide.records import TopicPartition
from hightide.v1.broker_service_pb2 import DeleteRecordsOutcome, DeleteRecordsResponse
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.operation_world import World
from unit.sdk.producer_bench import TOPIC, TOPIC_ID, metadata

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def delete(world: World, before: Any, *, validate_only: bool = False) -> Any:
    return world.run(world.operations.delete_records(before, validate_only=validate_only))


def outcomes(call: Any, of: Callable[[Any], DeleteRecordsOutcome]) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(outcomes=[of(each) for each in call.request.partitions])


def done(call: Any) -> DeleteRecordsResponse:
    return outcomes(call, lambda each: DeleteRecordsOutcome(log_start_offset=each.before_offset))


def test_each_leader_is_asked_for_its_own() -> None:
    world = World(GET_METADATA=lambda _: metadata([1, 2]), DELETE_RECORDS=done)
    assert delete(world, {SECOND: 7, FIRST: 5}) == {SECOND: 7, FIRST: 5}
    assert world.asked[1:] == [("DELETE_RECORDS", "b2:2"), ("DELETE_RECORDS", "b1:1")]


def test_what_one_partition_is_refused_the_others_are_not() -> None:
    def answer(call: Any) -> DeleteRecordsResponse:
        refusal = DeleteRecordsOutcome(
            error_code=ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE,
            error_message="offset 7 is above the high watermark 6",
        )
        return outcomes(
            call, lambda each: refusal if each.partition else DeleteRecordsOutcome(log_start_offset=5)
        )

    world = World(GET_METADATA=lambda _: metadata([1, 1]), DELETE_RECORDS=answer)
    found = delete(world, {FIRST: 5, SECOND: 7}, validate_only=True)
    assert found[FIRST] == 5
    assert isinstance(found[SECOND], OffsetOutOfRangeError)
    assert "above the high watermark 6" in str(found[SECOND])


def test_a_leader_that_moves_is_followed() -> None:
    leaders = iter([metadata([1, 2]), metadata({0: (3, 2), 1: (2, 1)})])

    def answer(call: Any) -> Any:
        if call.address != "b1:1":
            return done(call)
        moved = DeleteRecordsOutcome(error_code=ErrorCode.ERROR_CODE_NOT_LEADER)
        return outcomes(call, lambda _: moved)

    world = World(GET_METADATA=lambda _: next(leaders), DELETE_RECORDS=answer)
    assert delete(world, {FIRST: 5, SECOND: 7}) == {FIRST: 5, SECOND: 7}
    assert [at for method, at in world.asked if method == "DELETE_RECORDS"] == ["b1:1", "b2:2", "b3:3"]


def test_what_stands_in_the_way_until_the_time_is_over_is_that_partitions_outcome() -> None:
    def answer(call: Any) -> Any:
        return AddressUnreachableError("gone", address="b2:2") if call.address == "b2:2" else done(call)

    world = World(GET_METADATA=lambda _: metadata([1, 2, -1]), DELETE_RECORDS=answer)
    third = TopicPartition(TOPIC, 2)
    found = delete(world, {FIRST: 5, SECOND: 7, third: 1})
    assert found[FIRST] == 5
    assert isinstance(found[SECOND], AddressUnreachableError)
    assert isinstance(found[third], PartitionOfflineError)
    assert world.now_ms >= 5_000


def test_a_namesake_keeps_its_records() -> None:
    ids = iter([TOPIC_ID, bytes(16)])
    asked: list[bytes] = []

    def answer(call: Any) -> Any:
        asked.extend(each.topic_id for each in call.request.partitions)
        return NotLeaderError("not me")

    world = World(GET_METADATA=lambda _: metadata([1], topic_id=next(ids)), DELETE_RECORDS=answer)
    found = delete(world, {FIRST: 5})
    assert isinstance(found[FIRST], TopicRecreatedError)
    assert asked == [TOPIC_ID]


def test_an_older_broker_is_told_by_partition() -> None:
    def answer(call: Any) -> Any:
        return UnexpectedAnswerError("UNIMPLEMENTED") if call.address == "b1:1" else done(call)

    world = World(GET_METADATA=lambda _: metadata([1, 2]), DELETE_RECORDS=answer)
    found = delete(world, {FIRST: 5, SECOND: 7})
    assert isinstance(found[FIRST], UnexpectedAnswerError)
    assert found[SECOND] == 7


def test_what_cannot_be_meant_is_refused_before_anything_is_deleted() -> None:
    world = World(GET_METADATA=lambda _: metadata([1]), DELETE_RECORDS=done)
    for before, error in (
        ({FIRST: -2}, InvalidArgumentError),
        ({FIRST: 2**63}, InvalidArgumentError),
        ({TopicPartition(TOPIC, -1): 0}, InvalidArgumentError),
        ({FIRST: 5, TopicPartition(TOPIC, 5): 0}, UnknownPartitionError),
    ):
        with pytest.raises(error):
            delete(world, before)
    assert delete(world, {}) == {}
    assert not any(method == "DELETE_RECORDS" for method, _ in world.asked)
    assert delete(world, {FIRST: -1}) == {FIRST: -1}
