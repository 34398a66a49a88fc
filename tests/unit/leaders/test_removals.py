"""Partitions that an admin removes from a topic, and replicas of numbers that are used again."""

from __future__ import annotations

import pytest
from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.values import ChangeKind, PartitionNodes, TopicNodes, TopicPartition
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode
from hightide_runtime.znodes.paths import (
    isr_path,
    leader_path,
    partition_path,
    reassigned_path,
    replicas_path,
    topic_id_path,
)
from msgspec.structs import replace
from unit.leaders.one_broker import (
    ID,
    NAME,
    OneBroker,
    change,
    counted,
    kinds,
    partition,
    the,
    topic,
    written,
)
from unit.leaders.test_admin import admin, queues, read

LAST = TopicPartition("tide", 1)
SHRINK = ev.DeletionRequested(-1, "tide", ID, keep=1)
LIVING = partition(replicas=(2, 3), leader=LeaderNode(2, 4, 71), isr=IsrNode(4, (2, 3), 9))
MARKED = replace(LIVING, leader=None, reassigned=())
CLOSE = change(ChangeKind.CLOSE_REPLICA, epoch=4, name=LAST)
BOTH = topic(LIVING, LIVING, version=5)
HALF = topic(LIVING, MARKED, version=6, count=1, removals=1)


def begun(broker: OneBroker) -> None:
    """The last partition is not counted any more, and the admin waits for its replicas."""
    broker.hear(SHRINK)
    broker.end(read(broker, -1, BOTH))
    assert kinds(read(broker, -1, HALF)) == [fx.ReadQueues]


def test_the_topic_counts_fewer_and_the_replicas_are_told_in_one_multi() -> None:
    broker = admin()
    broker.hear(SHRINK)
    assert written(read(broker, -1, BOTH)) == (
        *counted(1, version=5),
        wr.Create(reassigned_path(*LAST), ()),
        wr.Enqueue(2, CLOSE),
        wr.Enqueue(3, CLOSE),
    )


def test_the_znodes_go_with_the_epoch_with_which_the_number_begins_again() -> None:
    broker = admin()
    begun(broker)
    assert queues(broker, -1, waiting={3: (CLOSE,)}) == ()
    assert kinds(queues(broker, -1)) == [fx.ReadTopic]
    removal = read(broker, -1, HALF)
    assert written(removal) == (
        *counted(1, version=6, removals=2, first_epochs={1: 5}),
        wr.Delete(isr_path(*LAST), 9),
        wr.Delete(replicas_path(*LAST)),
        wr.Delete(reassigned_path(*LAST)),
        wr.Delete(partition_path(*LAST)),
    )
    broker.end(removal)
    assert read(broker, -1, topic(LIVING, version=7)) == (fx.Answer(-1, Outcome.DONE),)


def test_a_partition_that_was_never_led_spends_no_epoch() -> None:
    broker = admin()
    broker.hear(SHRINK)
    unled = topic(LIVING, replace(MARKED, isr=None, first_epoch=3), version=6, count=1)
    assert kinds(read(broker, -1, unled)) == [fx.ReadQueues]
    queues(broker, -1)
    assert written(read(broker, -1, unled))[:2] == counted(1, version=6)


def refused(asked: ev.DeletionRequested, found: TopicNodes | None, outcome: Outcome) -> None:
    broker = admin()
    broker.hear(asked)
    assert read(broker, -1, found) == (fx.Answer(-1, outcome),)


def test_a_partition_that_is_being_moved_stays() -> None:
    refused(SHRINK, topic(LIVING, replace(LIVING, reassigned=(2, 1))), Outcome.REASSIGNMENT_IN_PROGRESS)


def test_a_topic_that_has_fewer_or_is_growing_or_is_gone_is_left_alone() -> None:
    refused(replace(SHRINK, keep=3), BOTH, Outcome.TOPIC_CHANGED)
    growing = topic(LIVING, LIVING, partition(replicas=(), reassigned=(2,)), attempt=(2, 0), count=2)
    refused(SHRINK, growing, Outcome.TOPIC_BEING_CREATED)
    refused(SHRINK, None, Outcome.UNKNOWN_TOPIC)
    refused(SHRINK, topic(LIVING), Outcome.DONE)


def test_partitions_that_another_admin_has_added_meanwhile_stay() -> None:
    broker = admin()
    begun(broker)
    queues(broker, -1)
    assert read(broker, -1, topic(LIVING, LIVING, version=9, removals=2)) == (fx.Answer(-1, Outcome.DONE),)


def test_what_an_admin_that_died_has_left_of_a_removal_goes_before_a_growth() -> None:
    broker = admin()
    broker.hear(ev.AdditionRequested(-1, "tide", "", ((3,),), first=1))
    cleaning = read(broker, -1, HALF)
    assert written(cleaning)[:2] == counted(1, version=6, removals=2, first_epochs={1: 5})
    broker.end(cleaning)
    added = written(read(broker, -1, topic(LIVING, version=7, removals=2)))
    assert wr.Create(reassigned_path(*LAST), (3,)) in added


@pytest.mark.parametrize("asked", [SHRINK, ev.DeletionRequested(-1, "tide", ID)], ids=["shrink", "delete"])
def test_what_nobody_can_read_is_not_removed_and_the_client_is_told(asked: ev.DeletionRequested) -> None:
    """Its znodes would be there already, or not be empty: each attempt would be refused, at once and for
    ever."""
    refused(asked, topic(LIVING, PartitionNodes("", garbage="…/ISR is not JSON")), Outcome.UNREADABLE)


# --- replicas ------------------------------------------------------------------------------------


def test_a_partition_that_is_not_counted_any_more_is_led_by_nobody() -> None:
    broker = OneBroker()
    mine = partition(isr=IsrNode(4, (1,), 9))
    broker.win(broker.serve(mine), mine)
    assert kinds(broker.see(replace(mine, is_counted=False))) == [fx.CloseReplica]
    assert NAME not in broker.state.hosted


def test_a_later_partition_of_the_number_begins_with_its_first_epoch_and_a_log_of_its_own() -> None:
    broker = OneBroker()
    broker.serve(partition(isr=IsrNode(4, (2,), 9)))
    later = partition(replicas=(1, 2, 3))
    later = replace(later, first_epoch=7, removals=2)
    effects = broker.see(later)
    assert effects[:2] == (fx.CloseReplica(NAME, ID), fx.OpenReplica(NAME, later))
    assert the(fx.Write, effects).operations == (
        wr.Check("/brokers/incarnations/1", 0),
        wr.Check(topic_id_path(ID), 2),
        wr.Create(leader_path(*NAME), LeaderNode(1, 7)),
        wr.Create(isr_path(*NAME), IsrNode(7, (1,))),
    )


def test_a_close_of_the_earlier_partition_leaves_the_replica_of_the_later_one() -> None:
    broker = OneBroker()
    later = replace(partition(isr=IsrNode(7, (2,), 0)), first_epoch=7, removals=2)
    broker.serve(later)
    effects = broker.queue(change(ChangeKind.CLOSE_REPLICA, epoch=6), nodes=later)
    assert fx.CloseReplica not in kinds(effects)
