"""What clients ask about one partition: another target of a move, the end of one, elections."""

from __future__ import annotations

from dataclasses import replace

from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.values import ChangeKind, Lives
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode
from hightide_runtime.znodes.paths import isr_path, leader_path, reassigned_path, topic_id_path
from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec import structs
from unit.leaders.one_broker import (
    ALL,
    ID,
    NAME,
    SESSION,
    OneBroker,
    change,
    kinds,
    partition,
    the,
    topic,
    written,
)
from unit.leaders.test_admin import admin, read

LED_BY_2 = LeaderNode(2, 4, 71)
MOVING = partition(replicas=(2, 3), leader=LED_BY_2, isr=IsrNode(4, (1, 2, 3), 9), reassigned=(1, 2))
CLOSE = change(ChangeKind.CLOSE_REPLICA, epoch=4)
CANCEL = ev.ReassignmentRequested(-1, NAME, None)
PREFERRED = ev.ElectionRequested(-1, NAME)
UNCLEAN = ev.ElectionRequested(-1, NAME, unclean=True)


def test_a_move_that_is_taken_back_leaves_neither_a_replica_nor_a_place_in_the_isr() -> None:
    broker = admin()
    broker.hear(CANCEL)
    cancelled = read(broker, -1, topic(MOVING, version=3))
    assert written(cancelled) == (
        *wr.check_topic("tide", 3, ID),
        wr.Put(isr_path(*NAME), IsrNode(4, (2, 3), 9), 9),
        wr.Delete(leader_path(*NAME)),
        wr.Delete(reassigned_path(*NAME)),
        wr.Enqueue(1, CLOSE),
    )
    assert broker.end(cancelled) == (fx.Answer(-1, Outcome.DONE),)


def test_of_a_topic_only_the_partition_is_read() -> None:
    broker = admin()
    assert the(fx.ReadTopic, broker.hear(CANCEL)).partition == NAME.partition


def test_when_the_connection_was_lost_what_clients_ask_is_read_again() -> None:
    broker = admin()
    broker.hear(CANCEL)
    assert the(fx.ReadTopic, broker.hear(ev.Connected(SESSION))).request_id == -1


def test_a_move_to_where_the_partition_is_takes_back_the_one_before() -> None:
    broker = admin()
    broker.hear(ev.ReassignmentRequested(-1, NAME, (2, 3)))
    assert wr.Delete(reassigned_path(*NAME)) in written(read(broker, -1, topic(MOVING)))


def test_another_target_closes_the_replicas_that_only_the_first_one_wanted() -> None:
    broker = OneBroker()
    broker.serve()
    broker.hear(ev.ReassignmentRequested(-1, NAME, (3, 2)))
    retargeted = written(read(broker, -1, topic(MOVING)))
    assert wr.Put(reassigned_path(*NAME), (3, 2)) in retargeted
    assert wr.Enqueue(1, CLOSE) in retargeted


def test_a_target_that_keeps_all_replicas_of_the_first_one_is_one_write() -> None:
    broker = admin()
    broker.hear(ev.ReassignmentRequested(-1, NAME, (1, 3)))
    assert written(read(broker, -1, topic(MOVING))) == (
        *wr.check_topic("tide", 0, ID),
        wr.Put(reassigned_path(*NAME), (1, 3)),
    )


def test_a_move_is_not_taken_back_if_only_its_new_replicas_have_everything() -> None:
    broker = admin()
    broker.hear(CANCEL)
    alone = partition(replicas=(2, 3), leader=LED_BY_2, isr=IsrNode(4, (1,), 9), reassigned=(1, 2))
    assert read(broker, -1, topic(alone)) == (fx.Answer(-1, Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE),)


def test_a_move_is_not_taken_back_if_too_few_keep_what_is_committed() -> None:
    """Records are on min.insync.replicas disks, and would be on fewer."""
    nodes = partition(
        replicas=(2, 3), leader=LED_BY_2, isr=IsrNode(4, (1, 2), 9), reassigned=(1, 2), minimum=2
    )
    broker = admin()
    broker.hear(CANCEL)
    assert read(broker, -1, topic(nodes)) == (fx.Answer(-1, Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE),)
    with_another = structs.replace(nodes, isr=IsrNode(4, (1, 2, 3), 9))
    broker.hear(CANCEL)
    assert kinds(read(broker, -1, topic(with_another))) == [fx.Write]


def test_what_is_not_in_sync_may_go_however_few_are() -> None:
    nodes = partition(replicas=(2, 3), leader=LED_BY_2, isr=IsrNode(4, (2,), 9), reassigned=(1, 2), minimum=2)
    broker = admin()
    broker.hear(CANCEL)
    assert kinds(read(broker, -1, topic(nodes))) == [fx.Write]


def test_nor_if_that_has_become_so_before_it_is_written() -> None:
    broker = admin()
    broker.hear(CANCEL)
    assert kinds(broker.end(read(broker, -1, topic(MOVING)), ev.Ending.REFUSED)) == [fx.ReadTopic]
    alone = partition(replicas=(2, 3), leader=LED_BY_2, isr=IsrNode(4, (1,), 10), reassigned=(1, 2))
    assert read(broker, -1, topic(alone)) == (fx.Answer(-1, Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE),)


def test_a_move_is_not_taken_back_from_one_that_has_records_which_all_that_stay_may_have_lost() -> None:
    """All have lost the ends of their logs, and 1, which was to be added, has lost the least. It would be an
    unclean election that nobody has allowed."""
    lost = RecoveredLog(1, 4, 20), RecoveredLog(2, 4, 10), RecoveredLog(3, 4, 7)
    isr = IsrNode(4, (2,), 9, recovered=lost)
    nodes = partition(replicas=(2, 3), isr=isr, reassigned=(1, 2))
    broker = admin()
    broker.hear(CANCEL)
    assert read(broker, -1, topic(nodes)) == (fx.Answer(-1, Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE),)
    less = structs.replace(nodes, isr=replace(isr, recovered=(RecoveredLog(1, 4, 5), *lost[1:])))
    broker.hear(CANCEL)
    assert kinds(read(broker, -1, topic(less))) == [fx.Write]


def test_a_full_queue_ends_a_request_about_a_partition() -> None:
    broker = admin()
    broker.hear(CANCEL)
    ended = broker.end(read(broker, -1, topic(MOVING)), ev.Ending.QUEUE_FULL)
    assert ended == (fx.Answer(-1, Outcome.FOLLOWER_STATE_CHANGE_QUEUE_FULL),)


def test_a_move_that_is_done_cannot_be_taken_back() -> None:
    broker = admin()
    broker.hear(CANCEL)
    still = partition(replicas=(1, 2), isr=IsrNode(5, (1, 2), 10))
    assert read(broker, -1, topic(still)) == (fx.Answer(-1, Outcome.NO_REASSIGNMENT),)


def test_the_preferred_replica_follows_a_leader_whose_term_ends() -> None:
    broker = admin()
    broker.hear(PREFERRED)
    led = partition(replicas=(3, 2), leader=LED_BY_2, isr=IsrNode(4, (2, 3), 9))
    ended = read(broker, -1, topic(led))
    assert written(ended) == (
        wr.Check(topic_id_path(ID), 0),
        wr.Check(isr_path(*NAME), 9),
        wr.Delete(leader_path(*NAME)),
    )
    assert broker.end(ended) == (fx.Answer(-1, Outcome.DONE),)


def test_a_preferred_replica_that_leads_already_is_let_be() -> None:
    broker = admin()
    broker.hear(PREFERRED)
    led = partition(replicas=(2, 3), leader=LED_BY_2, isr=IsrNode(4, (2, 3), 9))
    assert read(broker, -1, topic(led)) == (fx.Answer(-1, Outcome.DONE),)


def test_a_preferred_replica_that_is_dead_or_behind_or_drained_is_not_elected() -> None:
    led = partition(replicas=(3, 2), leader=LED_BY_2, isr=IsrNode(4, (2, 3), 9))
    behind = partition(replicas=(3, 2), leader=LED_BY_2, isr=IsrNode(4, (2,), 9))
    for nodes, lives in ((led, Lives(((1, 0), (2, 0)))), (behind, ALL), (led, Lives(ALL.of, frozenset({3})))):
        broker = admin()
        broker.hear(PREFERRED)
        assert read(broker, -1, topic(nodes), lives) == (
            fx.Answer(-1, Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        )


ONE_DEAD = Lives(((1, 0), (3, 0)))
LOST = partition(replicas=(1, 2, 3), isr=IsrNode(4, (2,), 9, recovered=(RecoveredLog(3, 4, 7),)))


def test_an_unclean_election_makes_the_longest_log_that_is_there_the_only_one_in_sync() -> None:
    broker = admin()
    broker.hear(UNCLEAN)
    elected = read(broker, -1, topic(LOST), ONE_DEAD)
    assert written(elected) == (
        *wr.check_topic("tide", 0, ID),
        wr.Put(isr_path(*NAME), IsrNode(4, (3,), 9, unclean_epoch=5), 9),
        wr.Enqueue(3, change(ChangeKind.START_REPLICA, epoch=4)),
    )
    assert broker.end(elected) == (fx.Answer(-1, Outcome.DONE),)


def test_no_unclean_election_where_one_that_has_everything_is_alive_or_leads() -> None:
    alive = partition(replicas=(1, 2, 3), isr=IsrNode(4, (3,), 9))
    led = partition(replicas=(1, 2, 3), leader=LED_BY_2, isr=IsrNode(4, (2,), 9))
    for nodes in (alive, led):
        broker = admin()
        broker.hear(UNCLEAN)
        assert read(broker, -1, topic(nodes), ONE_DEAD) == (fx.Answer(-1, Outcome.ELECTION_NOT_NEEDED),)
