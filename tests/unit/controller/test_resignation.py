"""A controller steps down because an operator asks for it, and lets others be elected first."""

from __future__ import annotations

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.state.cluster_state import Role
from unit.controller.controller_world import World, broker, led, topic


def reigning(epoch: int = 1) -> World:
    world = World()
    world.zk.put(topic((1, 2)))
    world.be_elected(broker(1), broker(2), epoch=epoch)
    world.settle()
    world.others.clear()
    return world


def resign(world: World, epoch: int = 0) -> None:
    world.send(ev.ResignationRequested(7, epoch))


def is_active(world: World) -> bool:
    return world.state.role is Role.ACTIVE


def kinds(world: World) -> list[type[ef.Effect]]:
    return [type(each) for each in world.others]


def test_it_stops_acting_before_its_place_is_free_and_answers_when_it_is() -> None:
    world = reigning(epoch=4)
    resign(world)
    assert kinds(world) == [ef.LogWarning, ef.Resign, ef.StepDown]
    assert not is_active(world)
    assert not world.state.topics
    told = len(world.told)
    world.registered(broker(2))
    assert (world.pending, len(world.told), world.answers) == ([], told, [])
    world.send(ev.SteppedDown(7, 4))
    assert world.others[-1] == ef.AnswerResigned(7, 1, 4)


def test_only_the_controller_of_the_epoch_that_is_named_resigns() -> None:
    world = reigning(epoch=4)
    resign(world, epoch=3)
    assert world.refusal().refusal is ef.Refusal.STALE_CONTROLLER_EPOCH
    assert "controller 1 is active in controller epoch 4, not 3" in world.refusal().message
    assert is_active(world)
    resign(world, epoch=4)
    assert not is_active(world)


def test_a_standby_has_nothing_to_resign() -> None:
    world = World()
    resign(world)
    assert world.refusal().refusal is ef.Refusal.NOT_CONTROLLER
    assert not world.refusal().may_have_begun


def test_while_it_rests_it_does_not_stand_and_then_it_does_where_nobody_was_elected() -> None:
    world = reigning()
    resign(world)
    world.send(ev.ControllerSeen(None, cause="gone"))
    assert ef.Campaign not in kinds(world)
    world.send(ev.Rested())
    assert world.others[-1] == ef.Campaign(None, "gone")
    world.send(ev.Elected(2, 8, world.zk.snapshot(broker(1), broker(2))))
    assert is_active(world)


def test_who_was_elected_while_it_rested_is_left_alone() -> None:
    world = reigning()
    resign(world)
    world.send(ev.ControllerSeen(None))
    world.send(ev.ControllerSeen(2, 2))
    world.send(ev.Rested())
    assert ef.Campaign not in kinds(world)
    world.send(ev.ControllerSeen(2, 2, process_died=True))
    assert world.others[-1] == ef.Campaign(2), "it is a standby like any other from then on"


def test_a_successor_that_dies_while_it_rests_is_succeeded_afterwards() -> None:
    world = reigning()
    resign(world)
    world.send(ev.ControllerSeen(2, 2))
    world.send(ev.ControllerSeen(2, 2, process_died=True))
    world.send(ev.Rested())
    assert world.others[-1] == ef.Campaign(2)


def test_requests_under_way_are_told_that_they_may_have_begun_and_the_next_one_finishes_them() -> None:
    world = reigning()
    world.send(ev.CreateTopicRequested(8, "more", "0" * 31 + "2", 1, 2))
    (store,) = world.pending
    assert isinstance(store, ef.StoreTopic)
    resign(world)
    refused = world.refusal()
    assert (refused.request_id, refused.refusal) == (8, ef.Refusal.NOT_CONTROLLER)
    assert refused.may_have_begun
    world.perform(world.pending.pop(0))  # ZooKeeper had it before the place was free.
    world.take_over_from(broker(1), broker(2))
    world.settle()
    leaders = {name.topic: held.leader for name, held in world.zookeeper.items()}
    assert leaders.keys() == {"flights", "more"}


def test_what_zookeeper_answers_afterwards_changes_nothing() -> None:
    world = reigning()
    world.registered(broker(2))
    (store,) = world.pending
    resign(world)
    world.perform(store)
    assert not is_active(world)
    assert world.zookeeper[next(iter(world.zookeeper))] == led(2, 2, epoch=1, version=1)
