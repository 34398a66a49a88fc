"""The speed limit of moves is written, told to all brokers, and holds before moves that come with it."""

from __future__ import annotations

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.effects import Refusal
from hightide_controller.core.values import requests as rq
from unit.controller.controller_world import FLIGHTS, World, broker, lost_answers
from unit.controller.moving_world import move, outcomes, world_of


def limit(throttle_bytes_per_s: int, request_id: int = 1) -> rq.ReassignmentThrottleRequested:
    return rq.ReassignmentThrottleRequested(request_id, throttle_bytes_per_s)


def written(world: World) -> int:
    assert world.zk.throttle is not None
    return world.zk.throttle.throttle_bytes_per_s


def test_a_limit_is_stored_told_to_all_brokers_and_answered_when_they_hold_it() -> None:
    world = world_of((1, 2))
    world.metadata.clear()
    world.send(limit(1000))
    world.settle()
    assert written(world) == 1000
    (told,) = world.metadata
    assert {broker_id for broker_id, _ in told.brokers} == {1, 2, 3, 4, 5}
    assert told.names == ()
    assert world.answers == []
    world.acknowledge_all()
    assert world.answers == [ef.AnswerDone(1)]


def test_a_limit_that_holds_already_is_not_written_again() -> None:
    world = world_of((1, 2))
    world.send(limit(0))
    assert world.pending == []
    world.acknowledge_all()
    assert world.answers == [ef.AnswerDone(1)]


def test_a_limit_by_hand_is_told_to_all_brokers() -> None:
    world = world_of((1, 2))
    world.metadata.clear()
    world.send(ev.AdminChanged(ev.AdminZnodes(throttle=ev.StoredThrottle(500, 0))))
    assert len(world.metadata) == 1
    world.send(ev.AdminChanged(ev.AdminZnodes(throttle=ev.StoredThrottle(500, 0))))
    assert len(world.metadata) == 1


def test_of_limits_asked_for_at_the_same_time_the_last_one_holds_and_all_are_answered() -> None:
    world = world_of((1, 2))
    world.send(limit(1000))
    world.send(limit(2000, request_id=2))
    world.settle()
    world.acknowledge_all()
    assert written(world) == 2000
    assert len(world.answers) == 2


def test_a_limit_that_an_operator_has_written_meanwhile_is_written_over_when_that_is_known() -> None:
    world = world_of((1, 2))
    world.zk.throttle = ev.StoredThrottle(77, 3)
    world.send(limit(1000))
    world.settle()
    assert written(world) == 77
    world.send(ev.AdminChanged(ev.AdminZnodes(throttle=world.zk.throttle)))
    world.settle()
    assert written(world) == 1000


def test_a_limit_that_an_operator_has_deleted_and_written_anew_holds() -> None:
    """Its znode begins with version 0 again, and both were read at once."""
    world = world_of((1, 2))
    world.zk.throttle = ev.StoredThrottle(500, 3)
    world.send(ev.AdminChanged(ev.AdminZnodes(throttle=world.zk.throttle)))
    world.zk.throttle = ev.StoredThrottle(77, 0)
    world.send(ev.AdminChanged(ev.AdminZnodes(throttle=world.zk.throttle)))
    assert world.state.throttle == world.zk.throttle
    world.send(limit(1000))
    world.settle()
    assert written(world) == 1000


def test_a_limit_that_was_read_before_the_write_was_answered_is_not_taken_back() -> None:
    """An operator wrote over this controller's limit at once."""
    world = world_of((1, 2))
    world.send(limit(1000))
    (store,) = world.pending
    assert isinstance(store, ef.StoreWrites)
    assert world.try_apply(store)
    world.zk.throttle = ev.StoredThrottle(77, 1)
    world.send(ev.AdminChanged(ev.AdminZnodes(throttle=world.zk.throttle)))
    world.send(ev.StoreCommitted(store.store_id))
    assert world.state.throttle == ev.StoredThrottle(77, 1)


def test_a_limit_whose_answer_was_lost_is_seen_to_with_the_next_tick_or_by_the_watch() -> None:
    def begin() -> World:
        world = world_of((1, 2))
        world.send(limit(1000))
        return world

    for world in lost_answers(begin):
        world.send(ev.Ticked())
        world.settle()
        world.send(ev.AdminChanged(ev.AdminZnodes(throttle=world.zk.throttle)))
        world.settle()
        world.acknowledge_all()
        assert written(world) == 1000
        assert world.answers == [ef.AnswerDone(1)]


def test_a_new_controller_finds_the_limit() -> None:
    world = world_of((1, 2))
    world.send(limit(1000))
    world.settle()
    world.take_over()
    assert world.state.throttle == ev.StoredThrottle(1000, 0)


def test_a_request_for_a_limit_whose_time_is_up_is_told_so() -> None:
    world = world_of((1, 2))
    world.send(limit(1000))
    world.send(ev.WaitExpired(1))
    assert world.refusal().refusal is Refusal.TIMED_OUT


def test_moves_begin_when_brokers_hold_the_limit_that_they_come_with() -> None:
    world = world_of((1, 2))
    world.send(rq.ReassignmentsRequested(1, (rq.Move(FLIGHTS, (3, 4)),), throttle_bytes_per_s=1000))
    world.settle()
    assert written(world) == 1000
    assert world.zk.moves == {}
    world.acknowledge_all()
    world.settle()
    assert FLIGHTS in world.zk.moves
    assert outcomes(world)[0].refusal is None


def test_a_dead_broker_does_not_hold_up_moves_that_come_with_a_limit() -> None:
    world = world_of((1, 2))
    world.send(rq.ReassignmentsRequested(1, (rq.Move(FLIGHTS, (3, 4)),), throttle_bytes_per_s=1000))
    world.settle()
    for broker_id in (1, 2, 3, 4):
        world.send(ev.BrokerAcknowledged(broker_id, broker(broker_id).broker_epoch, 10_000))
    assert world.pending == []
    world.registered(*(broker(broker_id) for broker_id in (1, 2, 3, 4)))
    world.settle()
    assert FLIGHTS in world.zk.moves


def test_nor_does_one_that_does_not_acknowledge_anything() -> None:
    world = world_of((1, 2))
    world.send(rq.ReassignmentsRequested(1, (rq.Move(FLIGHTS, (3, 4)),), throttle_bytes_per_s=1000))
    world.settle()
    for broker_id in (1, 2, 3, 4):
        world.send(ev.BrokerAcknowledged(broker_id, broker(broker_id).broker_epoch, 10_000))
    world.send(ev.BrokerSilent(5, broker(5).broker_epoch, ()))
    world.settle()
    assert FLIGHTS in world.zk.moves
    assert outcomes(world)[0].refusal is None


def test_moves_without_a_limit_leave_it_as_it_is() -> None:
    world = world_of((1, 2))
    world.send(limit(1000))
    world.settle()
    world.send(move(3, 4, request_id=2))
    world.settle()
    assert written(world) == 1000
