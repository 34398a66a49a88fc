"""Leaders are elected by hand, preferred or unclean, and leadership is given back by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.effects import Refusal
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import NO_LEADER, TopicPartition
from unit.controller.controller_world import FLIGHTS, World, broker, led, lost_answers, topic
from unit.controller.moving_world import begun, world_of

PREFERRED = rq.ElectionKind.PREFERRED
UNCLEAN = rq.ElectionKind.UNCLEAN


def elect(
    *names: TopicPartition, kind: rq.ElectionKind = PREFERRED, validate_only: bool = False
) -> rq.ElectLeadersRequested:
    return rq.ElectLeadersRequested(1, kind, names, validate_only)


def led_astray() -> World:
    """Broker 1 is preferred and in sync, but broker 2 leads."""
    return World.elected(1, 2, 3, topics=(topic((1, 2)),), states={FLIGHTS: led(2, 2, 1, epoch=4, version=7)})


def without_leader() -> World:
    """The only member of the ISR, broker 1, is dead."""
    world = World.elected(
        1, 2, 3, topics=(topic((1, 2, 3)),), states={FLIGHTS: led(1, 1, epoch=4, version=7)}
    )
    world.registered(broker(2), broker(3))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == NO_LEADER
    world.others.clear()
    return world


def elections(world: World) -> tuple[ef.ElectionOutcome, ...]:
    """Of the only answer."""
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerElections)
    return answer.elections


# ---- preferred


def test_the_preferred_replica_is_elected_and_the_answer_says_who_led_before() -> None:
    world = led_astray()
    world.send(elect(FLIGHTS))
    world.settle()
    world.acknowledge_all()
    assert world.zookeeper[FLIGHTS] == led(1, 2, 1, epoch=5, version=8)
    (election,) = elections(world)
    assert election == ef.ElectionOutcome(ef.PartitionOutcome(FLIGHTS), 1, 5, 2, (2, 1))


def test_an_election_is_answered_when_the_brokers_have_heard_of_it() -> None:
    world = led_astray()
    world.send(elect(FLIGHTS))
    world.settle()
    assert world.answers == []
    world.acknowledge_all()
    assert len(world.answers) == 1


def test_who_leads_already_is_no_error() -> None:
    world = world_of((1, 2))
    world.send(elect(FLIGHTS))
    (election,) = elections(world)
    assert election.outcome.refusal is None
    assert "already" in election.outcome.message
    assert (election.leader, election.previous_leader) == (1, NO_LEADER)
    assert world.pending == []


def dead(world: World) -> None:
    world.registered(broker(2), broker(3))


def shutting_down(world: World) -> None:
    world.send(ev.ControlledShutdownRequested(7, 1, broker(1).broker_epoch))


def failed(world: World) -> None:
    replica = (world.topics["flights"].topic_id, 0)
    world.send(ev.ReplicasFailed(1, broker(1).broker_epoch, (replica,)))


def out_of_sync(world: World) -> None:
    world.leader_writes_isr(FLIGHTS, 2)
    world.send(ev.StatesRead({FLIGHTS: world.zookeeper[FLIGHTS]}))


@pytest.mark.parametrize("happens", [dead, shutting_down, failed, out_of_sync])
def test_a_preferred_replica_that_cannot_lead_is_not_elected(happens: Callable[[World], None]) -> None:
    world = led_astray()
    happens(world)
    world.settle()
    world.acknowledge_all()
    world.answers.clear()
    world.send(elect(FLIGHTS))
    world.settle()
    (election,) = elections(world)
    assert election.outcome.refusal is Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert "broker 1" in election.outcome.message
    assert world.zookeeper[FLIGHTS].leader == 2


def test_an_isr_that_has_grown_unheard_is_read_before_anybody_is_refused() -> None:
    world = led_astray()
    out_of_sync(world)
    world.leader_writes_isr(FLIGHTS, 2, 1)
    world.send(elect(FLIGHTS))
    world.settle()
    world.acknowledge_all()
    assert elections(world)[0].outcome.refusal is None
    assert world.zookeeper[FLIGHTS].leader == 1


def test_an_election_that_zookeeper_refused_is_decided_on_what_it_holds() -> None:
    world = led_astray()
    world.leader_writes_isr(FLIGHTS, 2)
    world.send(elect(FLIGHTS))
    world.settle()
    world.acknowledge_all()
    (election,) = elections(world)
    assert election.outcome.refusal is Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert world.zookeeper[FLIGHTS] == led(2, 2, epoch=4, version=8)


def test_an_election_that_meets_a_write_under_way_follows_it() -> None:
    world = led_astray()
    world.registered(broker(1), broker(2, life=2), broker(3))
    world.send(elect(FLIGHTS))
    world.settle()
    world.acknowledge_all()
    assert world.zookeeper[FLIGHTS].leader == 1
    assert elections(world)[0].outcome.refusal is None


def test_all_partitions_that_others_lead_are_elected_for_where_none_is_named() -> None:
    second = TopicPartition("flights", 1)
    states = {FLIGHTS: led(2, 2, 1), second: led(2, 2, 3)}
    world = World.elected(1, 2, 3, topics=(topic((1, 2), (2, 3)),), states=states)
    world.send(elect())
    world.settle()
    world.acknowledge_all()
    assert [election.outcome.name for election in elections(world)] == [FLIGHTS]
    assert world.zookeeper[FLIGHTS].leader == 1


def test_what_is_not_there_is_told_apart() -> None:
    world = led_astray()
    world.send(elect(FLIGHTS, TopicPartition("flights", 5), TopicPartition("trains", 0)))
    world.settle()
    world.acknowledge_all()
    assert [election.outcome.refusal for election in elections(world)] == [
        None,
        Refusal.UNKNOWN_PARTITION,
        Refusal.UNKNOWN_TOPIC,
    ]


def test_two_requests_for_one_election_are_both_answered() -> None:
    world = led_astray()
    world.send(elect(FLIGHTS))
    world.send(rq.ElectLeadersRequested(2, PREFERRED, (FLIGHTS,)))
    world.settle()
    world.acknowledge_all()
    assert len(world.answers) == 2
    assert len(world.stores) == 1


def test_a_dry_run_tells_who_would_lead() -> None:
    world = led_astray()
    world.send(elect(FLIGHTS, validate_only=True))
    (election,) = elections(world)
    assert (election.leader, election.leader_epoch, election.previous_leader) == (1, 5, 2)
    assert world.pending == []


def test_a_request_whose_time_is_up_tells_what_is_not_stored() -> None:
    world = led_astray()
    world.send(elect(FLIGHTS))
    world.send(ev.WaitExpired(1))
    assert elections(world)[0].outcome.refusal is Refusal.TIMED_OUT
    world.settle()
    assert world.state.elections == {}


def test_an_election_of_a_topic_that_is_deleted_meanwhile_is_refused() -> None:
    world = led_astray()
    world.leader_writes_isr(FLIGHTS, 2, 1)
    world.send(elect(FLIGHTS))
    world.send(rq.DeleteTopicRequested(5, "flights"))
    world.settle()
    world.acknowledge_all()
    (answer,) = [each for each in world.answers if isinstance(each, ef.AnswerElections)]
    assert answer.elections[0].outcome.refusal is Refusal.TOPIC_BEING_DELETED


def test_an_election_is_told_once_whether_its_answer_is_lost_or_not() -> None:
    def begin() -> World:
        world = led_astray()
        world.send(elect(FLIGHTS))
        return world

    for world in lost_answers(begin):
        world.acknowledge_all()
        (election,) = elections(world)
        assert election.outcome == ef.PartitionOutcome(FLIGHTS)
        assert (election.leader, election.previous_leader) == (1, 2)
        assert world.zookeeper[FLIGHTS].leader_epoch == 5


# ---- unclean


def test_an_unclean_election_takes_the_first_live_replica_and_tells_what_may_be_lost() -> None:
    world = without_leader()
    before = world.zookeeper[FLIGHTS]
    world.send(elect(FLIGHTS, kind=UNCLEAN))
    world.settle()
    world.acknowledge_all()
    held = world.zookeeper[FLIGHTS]
    assert (held.leader, held.isr, held.leader_epoch) == (2, (2,), before.leader_epoch + 1)
    (election,) = elections(world)
    assert (election.outcome.refusal, election.leader, election.previous_isr) == (None, 2, (1,))
    (report,) = [each for each in world.others if isinstance(each, ef.LogWarning)]
    assert "unclean election of flights-0" in report.message


def test_a_partition_that_is_led_needs_no_unclean_election() -> None:
    world = led_astray()
    world.send(elect(FLIGHTS, kind=UNCLEAN))
    (election,) = elections(world)
    assert election.outcome.refusal is Refusal.ELECTION_NOT_NEEDED
    assert election.leader == 2
    assert world.pending == []


def test_a_member_of_the_isr_that_comes_back_in_time_is_elected_cleanly() -> None:
    world = without_leader()
    world.registered(broker(1, life=2), broker(2), broker(3))
    world.send(elect(FLIGHTS, kind=UNCLEAN))
    world.settle()
    world.acknowledge_all()
    assert elections(world)[0].outcome.refusal is Refusal.ELECTION_NOT_NEEDED
    assert world.zookeeper[FLIGHTS].leader == 1


def test_nobody_is_elected_where_nobody_is_alive() -> None:
    world = without_leader()
    world.registered(broker(4))
    world.settle()
    world.send(elect(FLIGHTS, kind=UNCLEAN))
    assert elections(world)[0].outcome.refusal is Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_unclean_elections_are_asked_for_by_name_only() -> None:
    world = without_leader()
    world.send(elect(kind=UNCLEAN))
    assert world.refusal().refusal is Refusal.INVALID_REQUEST


def test_an_unclean_election_is_told_once_whether_its_answer_is_lost_or_not() -> None:
    def begin() -> World:
        world = without_leader()
        world.send(elect(FLIGHTS, kind=UNCLEAN))
        return world

    for world in lost_answers(begin):
        world.acknowledge_all()
        (election,) = elections(world)
        assert (election.outcome.refusal, election.leader, election.previous_isr) == (None, 2, (1,))


# ---- by itself


def back_from_the_dead() -> World:
    """Broker 1 prefers four of six partitions; it died, came back, and caught up."""
    world = world_of(*((1, 2),) * 4, *((2, 1),) * 2, brokers=(1, 2))
    world.registered(broker(2))
    world.settle()
    world.registered(broker(1, life=2), broker(2))
    for name in sorted(world.zookeeper):
        world.leader_writes_isr(name, 2, 1)
    world.send(ev.StatesRead(dict(world.zookeeper)))
    world.settle()
    assert {held.leader for held in world.zookeeper.values()} == {2}
    return world


def test_leadership_is_even_again_after_a_broker_has_come_back() -> None:
    world = back_from_the_dead()
    world.send(ev.BalanceDue())
    world.settle()
    assert [world.zookeeper[TopicPartition("flights", n)].leader for n in range(6)] == [1, 1, 1, 1, 2, 2]
    assert world.state.elections == {}


def test_a_small_imbalance_is_left_alone() -> None:
    world = back_from_the_dead()
    world.state.leader_imbalance_percent = 100
    world.send(ev.BalanceDue())
    assert world.pending == []


def test_leadership_is_not_given_back_while_a_broker_shuts_down() -> None:
    world = back_from_the_dead()
    world.state.shutting_down[2] = broker(2).broker_epoch
    world.send(ev.BalanceDue())
    assert world.pending == []


def test_leadership_of_what_moves_is_not_given_back() -> None:
    world = back_from_the_dead()
    world.registered(broker(1, life=2), broker(2), broker(3))
    world.settle()
    begun(world, 3)
    world.send(ev.BalanceDue())
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2
    assert world.zookeeper[TopicPartition("flights", 1)].leader == 1


def test_leadership_is_not_given_back_to_who_is_not_in_sync_or_has_lost_the_replica() -> None:
    world = back_from_the_dead()
    world.leader_writes_isr(FLIGHTS, 2)
    world.send(ev.StatesRead({FLIGHTS: world.zookeeper[FLIGHTS]}))
    replica = (world.topics["flights"].topic_id, 1)
    world.send(ev.ReplicasFailed(1, broker(1, life=2).broker_epoch, (replica,)))
    world.settle()
    world.send(ev.BalanceDue())
    world.settle()
    assert [world.zookeeper[TopicPartition("flights", n)].leader for n in range(4)] == [2, 2, 1, 1]
