"""Controllers come and go: V3 D, with epochs."""

from __future__ import annotations

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.machine import step
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.core.values.partition import NO_LEADER, TopicPartition
from sim.known_wrong import CONTROLLER_RULES, without
from unit.controller.controller_world import FLIGHTS, World, broker, led, topic


def test_a_standby_campaigns_when_nobody_is_active() -> None:
    state, effects = step(ClusterState(controller_id=1), ev.ControllerSeen(None, cause="c"))
    assert effects == (ef.Campaign(None, "c"),)
    assert state.role is Role.CAMPAIGNING


def test_a_standby_waits_while_another_is_active() -> None:
    state, effects = step(ClusterState(controller_id=1), ev.ControllerSeen(2, 5))
    assert effects == ()
    assert state.role is Role.STANDBY


def test_a_dead_controllers_znode_is_replaced_without_waiting_for_its_session() -> None:
    _, effects = step(ClusterState(controller_id=1), ev.ControllerSeen(2, 5, process_died=True))
    assert effects == (ef.Campaign(stale_controller_epoch=5),)


def test_a_refusal_of_what_an_earlier_term_wrote_does_not_end_a_campaign() -> None:
    # The election may be won already, and nobody else could win it while /controller stands.
    state, _ = step(ClusterState(controller_id=1), ev.ControllerSeen(None))
    state, effects = step(state, ev.Fenced())
    assert effects == ()
    assert state.role is Role.CAMPAIGNING


def test_who_loses_an_election_stands_by_again() -> None:
    state, _ = step(ClusterState(controller_id=1), ev.ControllerSeen(None))
    state, effects = step(state, ev.CampaignLost())
    assert effects == ()
    assert state.role is Role.STANDBY


def test_a_takeover_writes_nothing_where_all_is_well() -> None:
    states = {FLIGHTS: led(1, 1, 2, version=4)}
    world = World.elected(1, 2, topics=(topic((1, 2)),), states=states)
    assert world.stores == []
    assert {sent.broker_id for sent in world.told} == {1, 2}
    assert [sent.full for sent in world.metadata] == [True]


def test_a_takeover_does_not_initialise_again_what_exists() -> None:
    states = {FLIGHTS: led(NO_LEADER, 3, epoch=6, version=9)}
    world = World.elected(1, 2, topics=(topic((1, 2, 3), (1, 2, 3)),), states=states)
    assert world.zookeeper[FLIGHTS] == states[FLIGHTS], "its last ISR member is not alive"
    assert world.zookeeper[TopicPartition("flights", 1)].isr == (1, 2), "this one is new"


def test_v3_to_the_letter_overwrites_the_isr_of_an_offline_partition() -> None:
    states = {FLIGHTS: led(NO_LEADER, 3, epoch=6, version=9)}
    with without(*CONTROLLER_RULES):
        world = World.elected(1, 2, topics=(topic((1, 2, 3)),), states=states)
    assert world.zookeeper[FLIGHTS].isr == (1, 2)


def test_a_takeover_acts_on_what_died_while_nobody_was_active() -> None:
    world = World.elected(2, 3, topics=(topic((1, 2, 3)),), states={FLIGHTS: led(1, 1, 2, 3)})
    assert (world.zookeeper[FLIGHTS].leader, world.zookeeper[FLIGHTS].isr) == (2, (2, 3))
    assert [d.state.leader for d in world.decisions_told_to(2)] == [2], "nobody is told to follow the dead"


@pytest.mark.parametrize("event", [ev.Fenced(), ev.SessionLost(), ev.ControllerSeen(2, 9)])
def test_a_controller_that_is_not_the_newest_resigns_and_forgets(event: ev.Event) -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.registered(broker(2))
    world.send(event)
    assert any(isinstance(effect, ef.Resign) for effect in world.others)
    assert world.state.role is Role.STANDBY
    world.settle()
    assert world.state.partitions == {}


def test_a_stale_controllers_write_is_refused() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.epoch_version += 1
    before = dict(world.zookeeper)
    world.registered(broker(2))
    world.settle()
    assert world.zookeeper == before
    assert world.state.role is Role.STANDBY


def test_without_the_fence_a_stale_controller_still_writes() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.epoch_version += 1
    with without("fenced_writes"):
        world.registered(broker(2))
        world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2


def test_a_controller_whose_znode_is_gone_resigns_and_campaigns_again() -> None:
    world = World.elected(1, topics=(topic((1,)),))
    world.send(ev.ControllerSeen(None))
    assert [type(effect) for effect in world.others[-2:]] == [ef.Resign, ef.Campaign]
    world.send(ev.Elected(2, 8, ev.ClusterSnapshot((broker(1),), (topic((1,)),), dict(world.zookeeper))))
    assert world.state.controller_epoch == 2


def test_whoever_waits_is_refused_when_the_controller_resigns() -> None:
    world = World.elected(1)
    world.send(ev.CreateTopicRequested(5, "a", "0" * 32, 1, 1))
    world.send(ev.SessionLost())
    (refused,) = world.answers
    assert isinstance(refused, ef.RefuseRequest)
    assert refused.refusal is ef.Refusal.NOT_CONTROLLER


def test_a_standby_refuses_requests_and_ignores_old_answers() -> None:
    state = ClusterState(controller_id=1)
    state, effects = step(state, ev.ControlledShutdownRequested(1, 2, 3))
    assert [effect.refusal for effect in effects if isinstance(effect, ef.RefuseRequest)] == [
        ef.Refusal.NOT_CONTROLLER
    ]
    assert step(state, ev.StoreCommitted(3)) == (state, ())
    assert step(state, ev.BrokersChanged((broker(1),)))[1] == ()


def test_an_election_that_comes_after_the_session_was_lost_counts_for_nothing() -> None:
    state, _ = step(ClusterState(controller_id=1), ev.ControllerSeen(None))
    state, _ = step(state, ev.SessionLost())
    state, effects = step(state, ev.Elected(1, 1, ev.ClusterSnapshot((), (), {})))
    assert effects == ()
    assert state.role is Role.STANDBY


def test_a_leader_that_bounced_before_the_takeover_declines_and_gets_a_new_epoch() -> None:
    # After all of a cluster was killed, the new controller sees a live leader; only that broker knows better.
    world = World.elected(1, topics=(topic((1, 2)),), states={FLIGHTS: led(1, 1, epoch=3, version=4)})
    world.send(ev.LeadershipDeclined(FLIGHTS, 1, broker(1).broker_epoch, leader_epoch=3))
    world.settle()
    assert world.zookeeper[FLIGHTS] == led(1, 1, epoch=4, version=5)


@pytest.mark.parametrize(("life", "epoch"), [(2, 3), (1, 2)])
def test_a_decline_from_another_life_or_epoch_is_an_echo(life: int, epoch: int) -> None:
    world = World.elected(1, topics=(topic((1, 2)),), states={FLIGHTS: led(1, 1, epoch=3, version=4)})
    world.send(ev.LeadershipDeclined(FLIGHTS, 1, broker(1, life).broker_epoch, epoch))
    assert world.stores == []
