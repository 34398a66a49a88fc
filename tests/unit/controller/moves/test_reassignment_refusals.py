"""What partitions cannot be moved, or not there, and what a request is told about it."""

from __future__ import annotations

import pytest
from hightide_controller.core import events as ev
from hightide_controller.core.effects import Refusal
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from unit.controller.controller_world import FLIGHTS, broker
from unit.controller.moving_world import move, outcomes, world_of

SECOND = TopicPartition("flights", 1)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ((), "no broker"),
        ((3, 3), "named twice"),
        ((3, 9), "broker 9 is not registered"),
        ((1, 2, 3, 4, 5, 6), "more than there are brokers"),
        ((1, 2), "already there"),
    ],
)
def test_nonsense_is_refused_with_what_is_wrong(target: tuple[int, ...], says: str) -> None:
    world = world_of((1, 2))
    world.send(move(*target))
    (outcome,) = outcomes(world)
    assert outcome.refusal is Refusal.INVALID_ASSIGNMENT
    assert says in outcome.message
    assert world.pending == []


def test_a_dead_broker_is_given_no_replica_but_may_keep_one() -> None:
    world = world_of((1, 2))
    world.registered(broker(1), broker(3), broker(4))
    world.settle()
    world.send(ev.BrokerProcessDied(4, broker(4).broker_epoch))
    world.settle()
    world.send(move(1, 4))
    (outcome,) = outcomes(world)
    assert outcome.refusal is Refusal.INVALID_ASSIGNMENT
    assert "broker 4 is not alive" in outcome.message
    world.answers.clear()
    world.send(move(1, 2, 3, request_id=2))
    world.settle()
    assert outcomes(world)[0].refusal is None


def test_a_broker_that_shuts_down_is_given_no_replica() -> None:
    world = world_of((1, 2))
    world.send(ev.ControlledShutdownRequested(7, 3, broker(3).broker_epoch))
    world.settle()
    world.answers.clear()
    world.send(move(1, 3))
    assert "broker 3 is shutting down" in outcomes(world)[0].message


def test_fewer_replicas_than_the_settings_need_are_refused() -> None:
    world = world_of((1, 2), min_insync_replicas="2")
    world.send(move(3))
    assert outcomes(world)[0].refusal is Refusal.INVALID_ASSIGNMENT
    assert "min.insync.replicas" in outcomes(world)[0].message


def test_each_partition_of_a_request_is_refused_for_itself() -> None:
    world = world_of((1, 2), (2, 3))
    moves = (
        rq.Move(FLIGHTS, (4, 5)),
        rq.Move(TopicPartition("flights", 7), (4, 5)),
        rq.Move(TopicPartition("trains", 0), (4, 5)),
        rq.Move(SECOND, (9,)),
    )
    world.send(rq.ReassignmentsRequested(1, moves))
    world.settle()
    assert [outcome.refusal for outcome in outcomes(world)] == [
        None,
        Refusal.UNKNOWN_PARTITION,
        Refusal.UNKNOWN_TOPIC,
        Refusal.INVALID_ASSIGNMENT,
    ]
    assert [outcome.name for outcome in outcomes(world)] == [each.name for each in moves]
    assert set(world.zk.moves) == {FLIGHTS}


def test_a_request_that_names_a_partition_twice_is_refused_as_a_whole() -> None:
    world = world_of((1, 2))
    world.send(rq.ReassignmentsRequested(1, (rq.Move(FLIGHTS, (3,)), rq.Move(FLIGHTS, (4,)))))
    assert world.refusal().refusal is Refusal.INVALID_REQUEST


def test_a_dry_run_tells_what_would_be_refused_and_changes_nothing() -> None:
    world = world_of((1, 2), (2, 3))
    moves = (rq.Move(FLIGHTS, (4, 5)), rq.Move(SECOND, (2, 3)))
    world.send(rq.ReassignmentsRequested(1, moves, throttle_bytes_per_s=5, validate_only=True))
    assert [outcome.refusal for outcome in outcomes(world)] == [None, Refusal.INVALID_ASSIGNMENT]
    assert world.pending == []


def test_a_topic_that_is_being_deleted_is_not_moved() -> None:
    world = world_of((1, 2))
    world.send(rq.DeleteTopicRequested(5, "flights"))
    world.send(move(3, 4))
    assert outcomes(world)[0].refusal is Refusal.TOPIC_BEING_DELETED


def test_moves_that_have_not_begun_when_their_time_is_up_are_told_so() -> None:
    world = world_of((1, 2))
    world.send(rq.AddPartitionsRequested(4, "flights", 2))
    world.send(move(3, 4))
    world.send(ev.WaitExpired(1))
    assert outcomes(world)[0].refusal is Refusal.TIMED_OUT
    world.settle()
    assert world.zk.moves == {}
