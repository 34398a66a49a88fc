"""V2's reassignment by the leader, and checkLoadBalancing."""

from __future__ import annotations

import pytest
from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.moves import GIVES_WAY_EVERY
from hightide_leaders.core.values import ChangeKind, Lives, PartitionNodes
from hightide_runtime.timer_wheel import NeverDue
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode
from hightide_runtime.znodes.paths import (
    incarnation_path,
    isr_path,
    leader_path,
    reassigned_path,
    replicas_path,
    topic_id_path,
)
from unit.leaders.one_broker import (
    ALL,
    ID,
    LATER_ID,
    NAME,
    SESSION,
    SETTINGS,
    OneBroker,
    change,
    kinds,
    led_by_me,
    partition,
    the,
    written,
)

ISR = IsrNode(4, (1, 2, 3), version=9)
FOUR = Lives((*ALL.of, (4, 0)))


def leading(before: PartitionNodes, lives: Lives = FOUR) -> tuple[OneBroker, fx.Effects]:
    """Broker 1 has won the race for the partition; what comes of that."""
    broker = OneBroker()
    effects = broker.serve(before, lives)
    return broker, broker.win(effects, before, lives)


def test_the_leader_sends_start_replica_to_the_new_replicas_and_only_once() -> None:
    before = partition(isr=ISR, reassigned=(1, 2, 4))
    broker, effects = leading(before)
    assert written(effects) == (
        wr.Check(isr_path(*NAME), 10),
        wr.Enqueue(4, change(ChangeKind.START_REPLICA, epoch=5)),
    )
    read = the(fx.Read, broker.end(effects))
    assert not broker.hear(ev.PartitionsRead(read.read_id, {NAME: led_by_me(before)}, FOUR))


def test_a_new_leader_goes_on_with_what_its_predecessor_began() -> None:
    _, effects = leading(partition(isr=ISR, reassigned=(1, 4)))
    assert wr.Enqueue(4, change(ChangeKind.START_REPLICA, epoch=5)) in written(effects)


def test_the_new_replicas_are_replicas_for_the_core_before_they_are_in_ar() -> None:
    before = partition(isr=ISR, reassigned=(4, 1))
    _, effects = leading(before)
    assert the(fx.Decide, effects).decision.replicas == (1, 2, 3, 4)


def test_when_all_of_rar_are_in_sync_one_multi_makes_them_the_replicas_and_closes_the_others() -> None:
    before = partition(isr=ISR, reassigned=(1, 4))
    broker = OneBroker()
    broker.win(broker.serve(before, FOUR), before, FOUR)
    broker.replica.writing = None
    news = ev.IsrAdopted(NAME, 5, (1, 2, 3, 4), 11)
    read = the(fx.Read, broker.hear(news))
    caught_up = led_by_me(before, isr=(1, 2, 3, 4), changes=1)
    done = broker.hear(ev.PartitionsRead(read.read_id, {NAME: caught_up}, FOUR))
    assert written(done) == (
        wr.Check(incarnation_path(1), 0),
        wr.Check(topic_id_path(ID), 0),
        wr.Put(isr_path(*NAME), IsrNode(6, (1, 4), 11), 11),
        wr.Put(replicas_path(*NAME), (1, 4)),
        wr.Delete(reassigned_path(*NAME)),
        wr.Delete(leader_path(*NAME)),
        wr.Create(leader_path(*NAME), LeaderNode(1, 6)),
        wr.Enqueue(2, change(ChangeKind.CLOSE_REPLICA, epoch=5)),
        wr.Enqueue(3, change(ChangeKind.CLOSE_REPLICA, epoch=5)),
    )


def test_a_move_whose_replicas_came_in_sync_while_it_was_read_is_finished() -> None:
    """The read that tells of the move is older than the ISR, and no other news of the ISR will come."""
    broker, _ = leading(partition(isr=IsrNode(4, (1,), 9)))
    assert broker.hear(ev.IsrAdopted(NAME, 5, (1, 2, 3), 11)) == ()
    older = led_by_me(partition(isr=IsrNode(4, (1,), 9), reassigned=(3, 2)), isr=(1,))
    read = the(fx.Read, broker.hear(ev.PartitionTouched(NAME)))
    again = the(fx.Read, broker.hear(ev.PartitionsRead(read.read_id, {NAME: older}, FOUR)))
    newer = led_by_me(partition(isr=IsrNode(4, (1,), 9), reassigned=(3, 2)), isr=(1, 2, 3), changes=1)
    finishing = broker.hear(ev.PartitionsRead(again.read_id, {NAME: newer}, FOUR))
    assert wr.Put(replicas_path(*NAME), (3, 2)) in written(finishing)


def test_a_move_by_which_nobody_leaves_ends_no_epoch() -> None:
    before = partition(replicas=(1, 2), isr=IsrNode(4, (1, 2), 9), reassigned=(2, 1))
    _, effects = leading(before)
    assert written(effects) == (
        wr.Check(incarnation_path(1), 0),
        wr.Check(topic_id_path(ID), 0),
        wr.Put(isr_path(*NAME), IsrNode(5, (1, 2), 10), 10),
        wr.Put(replicas_path(*NAME), (2, 1)),
        wr.Delete(reassigned_path(*NAME)),
    )


def test_a_leader_that_is_not_in_rar_gives_up_its_znode_with_the_move() -> None:
    before = partition(replicas=(1, 2), isr=IsrNode(4, (1, 2), 9), reassigned=(2,))
    _, effects = leading(before)
    assert wr.Delete(leader_path(*NAME)) in written(effects)
    close = change(ChangeKind.CLOSE_REPLICA, epoch=5)
    assert wr.Enqueue(1, close) in written(effects), "it closes its own replica by its own queue"


def test_a_queue_that_is_full_of_closes_holds_a_move_up_and_is_tried_again() -> None:
    before = partition(isr=ISR, reassigned=(1, 4))
    broker, effects = leading(before)
    assert broker.end(effects, ev.Ending.QUEUE_FULL) == ()
    again = broker.after(SETTINGS.leader_election_wait_time_ms, led_by_me(before), FOUR)
    assert fx.Write in kinds(again)


def test_a_leader_gives_way_to_the_preferred_replica_when_that_is_in_sync() -> None:
    before = partition(replicas=(2, 1), isr=IsrNode(4, (1,), 9))
    broker, effects = leading(before)
    assert fx.Write not in kinds(effects)
    read = the(fx.Read, broker.hear(ev.IsrAdopted(NAME, 5, (1, 2), 11)))
    joined = led_by_me(before, isr=(1, 2), changes=1)
    gives_way = broker.hear(ev.PartitionsRead(read.read_id, {NAME: joined}, ALL))
    assert written(gives_way) == (
        wr.Check(topic_id_path(ID), 0),
        wr.Check(isr_path(*NAME), 11),
        wr.Delete(leader_path(*NAME)),
    )


def test_it_does_not_give_way_again_soon_to_one_that_gave_the_partition_back() -> None:
    before = partition(replicas=(2, 1), isr=IsrNode(4, (1,), 9))
    broker, _ = leading(before)
    given = broker.see(led_by_me(before, isr=(1, 2)))
    assert fx.Write in kinds(given)
    broker.end(given)
    # Broker 2 led in epoch 6, and does not any more.
    back = partition(replicas=(2, 1), leader=LeaderNode(1, 7, SESSION), isr=IsrNode(7, (1, 2), 13))
    assert fx.Write not in kinds(broker.see(back))
    wait_ms = GIVES_WAY_EVERY * SETTINGS.leader_election_wait_time_ms
    assert fx.Write not in kinds(broker.after(wait_ms - 1, back))
    assert fx.Write in kinds(broker.after(1, back))


def test_a_write_that_was_refused_is_made_again_at_once() -> None:
    before = partition(replicas=(2, 1), isr=IsrNode(4, (1,), 9))
    broker, _ = leading(before)
    read = the(fx.Read, broker.end(broker.see(led_by_me(before, isr=(1, 2))), ev.Ending.REFUSED))
    joined = led_by_me(before, isr=(1, 2, 3))
    assert fx.Write in kinds(broker.hear(ev.PartitionsRead(read.read_id, {NAME: joined}, ALL)))


def test_it_does_not_give_way_to_a_dead_one() -> None:
    before = partition(replicas=(2, 1), isr=IsrNode(4, (1,), 9))
    broker, _ = leading(before)
    read = the(fx.Read, broker.hear(ev.IsrAdopted(NAME, 5, (1, 2), 11)))
    joined = led_by_me(before, isr=(1, 2), changes=1)
    alone = Lives(((1, 0),))
    assert broker.replica.armed_ms == NeverDue
    assert broker.hear(ev.PartitionsRead(read.read_id, {NAME: joined}, alone))[1:] == ()
    assert broker.replica.armed_ms != NeverDue, "it may be between two sessions: look again"


def test_news_of_an_isr_costs_a_read_only_where_there_is_something_to_do() -> None:
    broker, _ = leading(partition(isr=ISR))
    assert broker.hear(ev.IsrAdopted(NAME, 5, (1, 2), 11)) == ()


def test_a_leader_reads_an_isr_that_another_broker_has_written_and_leads_by_it() -> None:
    """A broker whose log may have lost its end takes itself out."""
    before = partition(isr=ISR)
    broker, _ = leading(before)
    read = the(fx.Read, broker.hear(ev.IsrChanged(NAME, ID, 11)))
    departed = led_by_me(before, isr=(1, 2), changes=1)
    decided = the(fx.Decide, broker.hear(ev.PartitionsRead(read.read_id, {NAME: departed}, ALL))).decision
    assert (decided.leader_epoch, decided.isr) == (5, IsrNode(5, (1, 2), 11))


def test_its_own_isr_and_that_of_an_earlier_topic_are_no_news_to_a_leader() -> None:
    broker, _ = leading(partition(isr=ISR))
    broker.hear(ev.IsrAdopted(NAME, 5, (1, 2), 11))
    assert broker.hear(ev.IsrChanged(NAME, ID, 11)) == ()
    assert broker.hear(ev.IsrChanged(NAME, LATER_ID, 12)) == ()


def test_a_leader_that_reads_an_older_isr_than_it_has_heard_of_reads_once_more() -> None:
    """And not for ever: an operator may have made the znode anew."""
    before = partition(isr=ISR)
    broker, _ = leading(before)
    read = the(fx.Read, broker.hear(ev.PartitionTouched(NAME)))
    broker.hear(ev.IsrChanged(NAME, ID, 11))
    older = {NAME: led_by_me(before)}
    again = broker.hear(ev.PartitionsRead(read.read_id, older, ALL))
    assert kinds(again) == [fx.Read]
    assert broker.hear(ev.PartitionsRead(the(fx.Read, again).read_id, older, ALL)) == ()


def drained(*broker_ids: int) -> Lives:
    return Lives(ALL.of, frozenset(broker_ids))


def test_a_drained_leader_gives_way_to_any_other_that_is_in_sync() -> None:
    before = partition(isr=IsrNode(4, (1, 2), 9))
    broker, _ = leading(before)
    given = broker.see(led_by_me(before), drained(1))
    assert written(given)[-1] == wr.Delete(leader_path(*NAME))


@pytest.mark.parametrize(("isr", "others"), [((1,), ()), ((1, 2), (2,))], ids=["alone", "all-drained"])
def test_a_drained_leader_leads_what_nobody_else_can(isr: tuple[int, ...], others: tuple[int, ...]) -> None:
    before = partition(isr=IsrNode(4, isr, 9))
    broker, _ = leading(before)
    assert fx.Write not in kinds(broker.see(led_by_me(before, isr), drained(1, *others)))
    assert broker.replica.armed_ms != NeverDue, "another one may come in sync"


def test_nobody_gives_way_to_a_preferred_replica_that_is_drained() -> None:
    before = partition(replicas=(2, 1), isr=IsrNode(4, (1,), 9))
    broker, _ = leading(before)
    assert fx.Write not in kinds(broker.see(led_by_me(before, isr=(1, 2)), drained(2)))


def test_a_drained_broker_leaves_the_race_to_others_for_a_while() -> None:
    nodes = partition(isr=ISR)
    broker = OneBroker()
    assert fx.Write not in kinds(broker.serve(nodes, drained(1)))
    wait_ms = SETTINGS.preferred_replica_time_ms
    assert fx.Write not in kinds(broker.after(wait_ms - 1, nodes, drained(1)))
    assert fx.Write in kinds(broker.after(1, nodes, drained(1)))


def test_the_next_replica_does_not_wait_for_a_preferred_one_that_is_drained() -> None:
    assert fx.Write in kinds(OneBroker().serve(partition(replicas=(2, 1, 3), isr=ISR), drained(2)))
