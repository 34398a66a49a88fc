"""A broker that stops hands over what others can lead, and takes nothing any more."""

from __future__ import annotations

import pytest
from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Effects, Outcome
from hightide_leaders.core.values import Lives, PartitionNodes
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode
from hightide_runtime.znodes.paths import incarnation_path, isr_path, leader_path, topic_id_path
from hightide_runtime.znodes.recovered_log import RecoveredLog
from unit.leaders.one_broker import (
    ALL,
    ID,
    NAME,
    SESSION,
    OneBroker,
    kinds,
    led_by_me,
    partition,
    the,
    written,
)

ISR = IsrNode(4, (1, 2, 3), 9)
LED = led_by_me(partition(isr=ISR))


def leading() -> OneBroker:
    broker = OneBroker()
    before = partition(isr=ISR)
    broker.win(broker.serve(before), before)
    broker.see(LED)
    return broker


def stop(broker: OneBroker, nodes: PartitionNodes, lives: Lives = ALL) -> Effects:
    read = the(fx.Read, broker.hear(ev.StopRequested(-9)))
    return broker.hear(ev.PartitionsRead(read.read_id, {NAME: nodes}, lives))


def test_a_leader_leaves_the_isr_and_its_leader_znode_in_one_write() -> None:
    broker = leading()
    effects = stop(broker, LED)
    assert written(effects) == (
        wr.Check(incarnation_path(1), 0),
        wr.Check(topic_id_path(ID), 0),
        wr.Delete(leader_path(*NAME)),
        wr.Put(isr_path(*NAME), IsrNode(5, (2, 3), 10), 10),
    )
    assert fx.Answer not in kinds(effects)


def test_it_stops_to_lead_when_that_is_written_and_leaves_the_race_to_others() -> None:
    broker = leading()
    read = the(fx.Read, broker.end(stop(broker, LED)))
    left = partition(isr=IsrNode(5, (2, 3), 11))
    effects = broker.hear(ev.PartitionsRead(read.read_id, {NAME: left}, ALL))
    assert kinds(effects) == [fx.Decide]
    assert the(fx.Decide, effects).decision.leader == -1
    assert broker.after(10_000, left) == ()


def test_it_waits_for_one_that_leads_so_that_it_can_tell_clients_who_that_is() -> None:
    broker = leading()
    broker.end(stop(broker, LED))
    broker.see(partition(isr=IsrNode(5, (2, 3), 11)))
    effects = broker.see(partition(leader=LeaderNode(2, 6, 71), isr=IsrNode(6, (2, 3), 12)))
    assert the(fx.Decide, effects).decision.leader == 2
    assert fx.Answer in kinds(effects)


def test_it_does_not_wait_for_the_dead() -> None:
    broker = leading()
    broker.end(stop(broker, LED))
    left = partition(isr=IsrNode(5, (2, 3), 11))
    assert fx.Answer in kinds(broker.see(left, Lives(((1, 0),))))


def test_a_write_that_is_refused_is_made_again_from_what_is_there() -> None:
    broker = leading()
    read = the(fx.Read, broker.end(stop(broker, LED), ev.Ending.REFUSED))
    later = partition(leader=LeaderNode(1, 5, SESSION), isr=IsrNode(5, (1, 2), 11))
    effects = broker.hear(ev.PartitionsRead(read.read_id, {NAME: later}, ALL))
    assert written(effects)[-1] == wr.Put(isr_path(*NAME), IsrNode(5, (2,), 11), 11)


def test_a_follower_leaves_the_isr_so_that_its_leader_does_not_wait_for_it() -> None:
    broker = OneBroker()
    nodes = partition(replicas=(2, 1), leader=LeaderNode(2, 4, 71), isr=IsrNode(4, (1, 2), 9))
    broker.serve(nodes)
    assert written(stop(broker, nodes)) == (
        wr.Check(incarnation_path(1), 0),
        wr.Check(topic_id_path(ID), 0),
        wr.Put(isr_path(*NAME), IsrNode(4, (2,), 9), 9),
    )


def test_who_leaves_an_isr_that_becomes_too_small_to_commit_stays_eligible() -> None:
    broker = OneBroker()
    nodes = partition(replicas=(2, 1), leader=LeaderNode(2, 4, 71), isr=IsrNode(4, (1, 2), 9), minimum=2)
    broker.serve(nodes)
    put = written(stop(broker, nodes))[-1]
    assert put == wr.Put(isr_path(*NAME), IsrNode(4, (2,), 9, eligible=(1,)), 9)


@pytest.mark.parametrize(
    ("isr", "lives"),
    [
        (IsrNode(5, (1,), 10), ALL),
        (IsrNode(5, (1, 2), 10), Lives(((1, 0), (3, 0)))),
        (IsrNode(5, (1, 2), 10, recovered=(RecoveredLog(2, 3, 7),)), ALL),
    ],
    ids=["the last in sync", "the other is dead", "the other may have lost records"],
)
def test_what_nobody_else_can_lead_stays_until_the_end(isr: IsrNode, lives: Lives) -> None:
    broker = leading()
    effects = stop(broker, partition(leader=LeaderNode(1, 5, SESSION), isr=isr), lives)
    assert kinds(effects) == [fx.Answer]


def test_a_broker_without_replicas_has_nothing_to_hand_over() -> None:
    broker = OneBroker()
    broker.serve()
    assert broker.hear(ev.StopRequested(-9)) == (fx.Answer(-9, Outcome.DONE),)
