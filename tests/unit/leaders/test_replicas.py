"""V2's broker startup, startReplica, leaderElection, becomeLeader and becomeFollower."""

from __future__ import annotations

import pytest
from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.state import Phase, Role, next_deadline_ms
from hightide_leaders.core.values import ChangeKind, Lives
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode
from hightide_runtime.znodes.paths import incarnation_path, isr_path, leader_path, topic_id_path
from hightide_runtime.znodes.recovered_log import RecoveredLog
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


def test_a_broker_drains_its_queue_before_it_starts_a_replica_and_registers_last() -> None:
    broker = OneBroker()
    assert kinds(broker.hear(ev.Started(0, SESSION))) == [fx.ReadQueue]
    assert kinds(broker.hear(ev.QueueRead(()))) == [fx.ReadAssignments]
    read = the(fx.Read, broker.hear(ev.AssignmentsRead((NAME,))))
    nodes = partition(leader=LeaderNode(2, 4, 71), isr=ISR)
    effects = broker.hear(ev.PartitionsRead(read.read_id, {NAME: nodes}, ALL))
    assert kinds(effects) == [fx.OpenReplica, fx.Decide, fx.Register]
    assert broker.state.phase is Phase.SERVING


def test_a_leader_that_is_elected_while_a_broker_reads_its_partitions_for_the_first_time_is_followed() -> (
    None
):
    broker = OneBroker()
    read = the(fx.Read, broker.start(NAME))
    # The watch of that read fires before the core hears what was read.
    again = the(fx.Read, broker.hear(ev.PartitionTouched(NAME)))
    before = partition(leader=LeaderNode(2, 4, 71), isr=ISR)
    broker.hear(ev.PartitionsRead(read.read_id, {NAME: before}, ALL))
    after = partition(leader=LeaderNode(2, 5, 72), isr=IsrNode(5, (1, 2, 3), version=10))
    decided = the(fx.Decide, broker.hear(ev.PartitionsRead(again.read_id, {NAME: after}, ALL)))
    assert (decided.decision.leader, decided.decision.leader_epoch) == (2, 5)


def test_a_watch_on_a_partition_of_others_is_not_renewed() -> None:
    broker = OneBroker()
    broker.serve(partition(replicas=(2, 3), isr=ISR))
    assert broker.hear(ev.PartitionTouched(NAME)) == ()


def test_a_close_replica_that_waited_while_the_broker_was_dead_is_obeyed_before_anything_starts() -> None:
    broker = OneBroker()
    broker.hear(ev.Started(0, SESSION))
    effects = broker.queue(change(ChangeKind.CLOSE_REPLICA), nodes=partition(replicas=(2, 3)))
    assert effects[0] == fx.CloseReplica(NAME, ID)
    assert written(effects) == (
        wr.Check(incarnation_path(1), 0),
        wr.Dequeue(1, "change-0000000000"),
    )
    assert kinds(broker.end(effects)) == [fx.ReadQueue]


def test_a_broker_whose_session_ends_while_it_starts_watches_its_queue_in_the_next_one() -> None:
    broker = OneBroker()
    broker.hear(ev.Started(0, SESSION))
    broker.hear(ev.QueueRead(()))
    assert broker.state.phase is Phase.READING
    assert fx.ReadQueue in kinds(broker.hear(ev.Connected(SESSION + 1)))


def test_a_replica_that_is_not_assigned_is_not_started() -> None:
    broker = OneBroker()
    assert kinds(broker.serve(partition(replicas=(2, 3)))) == [fx.Register]
    assert not broker.state.hosted


def test_the_preferred_replica_races_at_once_and_writes_epoch_and_leader_in_one_multi() -> None:
    broker = OneBroker()
    effects = broker.serve(partition(isr=ISR))
    elected = IsrNode(5, (1, 2, 3), 9)
    assert written(effects) == (
        wr.Check(incarnation_path(1), 0),
        wr.Check(topic_id_path(ID), 0),
        wr.Create(leader_path(*NAME), LeaderNode(1, 5)),
        wr.Put(isr_path(*NAME), elected, 9),
    )


def test_before_it_leads_a_replica_is_told_that_the_epoch_of_before_is_over() -> None:
    """So that its core never leads in an epoch in which an earlier life may have led."""
    broker = OneBroker()
    decided = the(fx.Decide, broker.serve(partition(isr=ISR))).decision
    assert (decided.leader, decided.leader_epoch, decided.isr.version) == (-1, 4, 9)


def test_another_replica_leaves_the_race_to_the_preferred_one_for_a_while() -> None:
    broker = OneBroker()
    nodes = partition(replicas=(2, 1, 3), isr=ISR)
    assert fx.Write not in kinds(broker.serve(nodes))
    assert next_deadline_ms(broker.state) == SETTINGS.preferred_replica_time_ms
    assert fx.Write not in kinds(broker.after(SETTINGS.preferred_replica_time_ms - 1, nodes))
    assert fx.Write in kinds(broker.after(1, nodes))


@pytest.mark.parametrize(
    ("replicas", "isr", "lives"),
    [
        ((2, 1, 3), ISR, Lives(((1, 0), (3, 0)))),
        ((2, 1, 3), IsrNode(4, (1, 3), 9), ALL),
    ],
    ids=["dead", "not in sync"],
)
def test_nobody_waits_for_a_preferred_replica_that_cannot_come(
    replicas: tuple[int, ...], isr: IsrNode, lives: Lives
) -> None:
    broker = OneBroker()
    assert fx.Write in kinds(broker.serve(partition(replicas=replicas, isr=isr), lives))


def test_a_replica_out_of_the_isr_does_not_race_and_looks_again_after_leader_election_wait_time() -> None:
    broker = OneBroker()
    nodes = partition(isr=IsrNode(4, (2, 3), 9))
    assert fx.Write not in kinds(broker.serve(nodes))
    assert next_deadline_ms(broker.state) == SETTINGS.leader_election_wait_time_ms
    assert fx.Write not in kinds(broker.after(SETTINGS.leader_election_wait_time_ms, nodes))
    assert next_deadline_ms(broker.state) == 2 * SETTINGS.leader_election_wait_time_ms


def test_a_new_partition_begins_with_its_first_leader_alone_in_sync() -> None:
    broker = OneBroker()
    effects = broker.serve(partition())
    assert written(effects)[2:] == (
        wr.Create(leader_path(*NAME), LeaderNode(1, 1)),
        wr.Create(isr_path(*NAME), IsrNode(1, (1,))),
    )


def test_the_dead_leave_the_isr_with_the_election() -> None:
    broker = OneBroker()
    effects = broker.serve(partition(isr=ISR), Lives(((1, 0), (3, 0))))
    put = written(effects)[-1]
    assert put == wr.Put(isr_path(*NAME), IsrNode(5, (1, 3), 9), 9)


def test_who_leaves_an_isr_that_is_too_small_to_commit_stays_eligible() -> None:
    broker = OneBroker()
    effects = broker.serve(partition(isr=IsrNode(4, (1, 2), 9), minimum=2), Lives(((1, 0),)))
    put = written(effects)[-1]
    assert put == wr.Put(isr_path(*NAME), IsrNode(5, (1,), 9, eligible=(2,)), 9)


def test_the_winner_leads_and_watches_what_admins_ask() -> None:
    broker = OneBroker()
    before = partition(isr=ISR)
    effects = broker.serve(before)
    assert the(fx.Read, broker.end(effects)).as_leader
    effects = broker.see(led_by_me(before))
    decided = the(fx.Decide, effects).decision
    assert (decided.leader, decided.leader_epoch, decided.isr.version) == (1, 5, 10)
    assert broker.replica.role is Role.LEADING


def test_the_loser_follows_whoever_won() -> None:
    broker = OneBroker()
    effects = broker.serve(partition(isr=ISR))
    read = the(fx.Read, broker.end(effects, ev.Ending.REFUSED))
    nodes = partition(leader=LeaderNode(2, 5, 71), isr=IsrNode(5, (1, 2, 3), 10))
    decided = the(fx.Decide, broker.hear(ev.PartitionsRead(read.read_id, {NAME: nodes}, ALL))).decision
    assert (decided.leader, decided.leader_epoch) == (2, 5)
    assert broker.replica.role is Role.FOLLOWING


def test_an_election_of_unknown_outcome_counts_where_its_znode_is_found() -> None:
    broker = OneBroker()
    before = partition(isr=ISR)
    broker.end(broker.serve(before), ev.Ending.UNKNOWN)
    assert the(fx.Decide, broker.see(led_by_me(before))).decision.leader == 1


def test_who_lost_and_finds_no_leader_races_again() -> None:
    broker = OneBroker()
    nodes = partition(isr=ISR)
    read = the(fx.Read, broker.end(broker.serve(nodes), ev.Ending.REFUSED))
    assert fx.Write in kinds(broker.hear(ev.PartitionsRead(read.read_id, {NAME: nodes}, ALL)))


def test_a_leader_znode_of_an_earlier_life_is_nobodys_word() -> None:
    """The text would let this broker follow itself until its old session ends."""
    broker = OneBroker()
    effects = broker.serve(partition(leader=LeaderNode(1, 4, SESSION - 1), isr=ISR))
    assert written(effects)[2:4] == (
        wr.Delete(leader_path(*NAME)),
        wr.Create(leader_path(*NAME), LeaderNode(1, 5)),
    )


def test_a_leader_whose_session_ended_stops_at_once() -> None:
    broker = OneBroker()
    before = partition(isr=ISR)
    broker.win(broker.serve(before), before)
    effects = broker.hear(ev.Connected(SESSION + 1))
    decided = the(fx.Decide, effects).decision
    assert (decided.leader, decided.leader_epoch) == (-1, 5)
    assert kinds(effects) == [fx.Decide, fx.Register, fx.ReadQueue, fx.ReadAssignments]


def test_a_leader_that_cannot_lead_gives_up_its_znode_and_abstains() -> None:
    broker = OneBroker()
    before = partition(isr=ISR)
    led = led_by_me(before)
    broker.win(broker.serve(before), before)
    effects = broker.hear(ev.LeadershipDeclined(NAME, 5))
    assert the(fx.Decide, effects).decision.leader == -1
    alone = Lives(((1, 0),))
    effects = broker.hear(ev.PartitionsRead(the(fx.Read, effects).read_id, {NAME: led}, alone))
    assert written(effects) == (
        wr.Check(topic_id_path(ID), 0),
        wr.Check(isr_path(*NAME), 10),
        wr.Delete(leader_path(*NAME)),
    )
    read = the(fx.Read, broker.end(effects))
    again = broker.hear(ev.PartitionsRead(read.read_id, {NAME: partition(isr=led.isr)}, ALL))
    assert fx.Write not in kinds(again)
    assert fx.Write in kinds(broker.after(SETTINGS.leader_election_wait_time_ms, partition(isr=led.isr)))


def test_a_preferred_replica_that_cannot_lead_leaves_the_isr_or_others_would_give_way_to_it_at_once() -> None:
    broker = OneBroker()
    before = partition(isr=ISR)
    led = led_by_me(before)
    broker.win(broker.serve(before), before)
    effects = broker.hear(ev.LeadershipDeclined(NAME, 5))
    effects = broker.hear(ev.PartitionsRead(the(fx.Read, effects).read_id, {NAME: led}, ALL))
    assert written(effects) == (
        wr.Check(incarnation_path(1), 0),
        wr.Check(topic_id_path(ID), 0),
        wr.Delete(leader_path(*NAME)),
        wr.Put(isr_path(*NAME), IsrNode(5, (2, 3), 10), 10),
    )


def test_a_broker_that_is_superseded_stops_everything() -> None:
    broker = OneBroker()
    before = partition(isr=ISR)
    effects = broker.serve(before)
    assert kinds(broker.end(effects, ev.Ending.SUPERSEDED)) == [fx.StepAside]
    assert broker.hear(ev.PartitionTouched(NAME)) == ()
    assert next_deadline_ms(broker.state) is None, "it waits for nothing any more"


def test_a_replica_that_lost_its_end_does_not_elect_itself_on_its_old_word() -> None:
    broker = OneBroker()
    doubted = IsrNode(4, (1, 2), 9, recovered=(RecoveredLog(1, 3, 7),))
    assert fx.Write not in kinds(broker.serve(partition(isr=doubted)))


def test_where_all_lost_their_ends_the_one_with_the_longest_log_leads() -> None:
    logs = (RecoveredLog(1, 4, 8), RecoveredLog(2, 4, 7))
    broker, other = OneBroker(), OneBroker(2)
    nodes = partition(isr=IsrNode(4, (1,), 9, recovered=logs))
    assert fx.Write not in kinds(other.serve(nodes))
    put = written(broker.serve(nodes))[-1]
    assert isinstance(put, wr.Put)
    assert isinstance(put.content, IsrNode)
    assert (put.content.isr, put.content.unclean_epoch) == ((1,), 5)


def test_a_topic_created_again_under_the_name_gets_another_replica() -> None:
    broker = OneBroker()
    broker.serve(partition(leader=LeaderNode(2, 4, 71), isr=ISR))
    later = partition(topic_id=LATER_ID)
    assert broker.see(later)[:2] == (fx.CloseReplica(NAME, ID), fx.OpenReplica(NAME, later))


def test_garbage_in_a_znode_changes_nothing() -> None:
    broker = OneBroker()
    nodes = partition(leader=LeaderNode(2, 4, 71), isr=ISR)
    broker.serve(nodes)
    garbage = type(nodes)(ID, garbage="…/ISR is not JSON")
    assert broker.see(garbage) == ()
    assert broker.replica.role is Role.FOLLOWING
    assert next_deadline_ms(broker.state) is not None


def test_a_leader_znode_that_nobody_can_read_is_replaced() -> None:
    broker = OneBroker()
    nobody = LeaderNode(-1, -1, 5)
    effects = broker.serve(partition(leader=nobody, isr=ISR))
    assert wr.Delete(leader_path(*NAME)) in written(effects)
