"""Partitions that an admin adds to a topic."""

from __future__ import annotations

from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.values import ChangeKind, Lives, TopicPartition
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode, TopicNode
from hightide_runtime.znodes.paths import (
    partition_path,
    reassigned_path,
    replicas_path,
    topic_id_path,
    topic_path,
)
from msgspec.structs import replace
from unit.leaders.one_broker import (
    ID,
    KEY,
    LATER_ID,
    SETTINGS,
    OneBroker,
    change,
    counted,
    kinds,
    partition,
    topic,
    written,
)
from unit.leaders.test_admin import admin, queues, read

ADDED = TopicPartition("tide", 1)
GROW = ev.AdditionRequested(-1, "tide", "", ((2, 3),), first=1)
START = change(ChangeKind.START_REPLICA, epoch=0, name=ADDED)
LIVING = partition(replicas=(2, 3), leader=LeaderNode(2, 4, 71), isr=IsrNode(4, (2, 3), 9))
STARTING = partition(replicas=(), reassigned=(2, 3))
SET = (("retention.ms", "1000"),)
GROWN = topic(LIVING, version=5, configs=SET)
GROWING = topic(LIVING, STARTING, attempt=(1, 0), version=6, count=1, configs=SET)


def begun(broker: OneBroker) -> None:
    """The attempt and the state changes are written, and the admin waits."""
    broker.hear(GROW)
    broker.end(read(broker, -1, GROWN))
    assert kinds(read(broker, -1, GROWING)) == [fx.ReadQueues]


def test_growth_names_its_attempt_in_the_topic_and_starts_the_replicas() -> None:
    broker = admin()
    broker.hear(GROW)
    assert written(read(broker, -1, GROWN)) == (
        wr.Check(topic_id_path(ID)),
        wr.Put(topic_path("tide"), TopicNode(KEY, (1, 0), 1, dict(SET)), 5),
        wr.Create(partition_path(*ADDED)),
        wr.Create(reassigned_path(*ADDED), (2, 3)),
        wr.Enqueue(2, START),
        wr.Enqueue(3, START),
    )


def test_clients_see_the_new_partitions_when_all_replicas_have_started() -> None:
    broker = admin()
    begun(broker)
    assert queues(broker, -1, waiting={3: (START,)}) == ()
    done = queues(broker, -1)
    assert written(done) == (
        *wr.check_topic("tide", 6, ID),
        wr.Create(replicas_path(*ADDED), (2, 3)),
        wr.Delete(reassigned_path(*ADDED)),
        wr.Put(topic_path("tide"), TopicNode(KEY, None, 2, dict(SET)), 6),
    )
    broker.end(done)
    assert read(broker, -1, topic(LIVING, LIVING, version=7)) == (fx.Answer(-1, Outcome.DONE),)


def test_a_growth_that_takes_too_long_takes_back_what_it_added_and_nothing_else() -> None:
    broker = admin()
    begun(broker)
    broker.now_ms = SETTINGS.keep_in_sync_time_ms
    assert kinds(broker.hear(ev.Ticked())) == [fx.ReadTopic]
    close = change(ChangeKind.CLOSE_REPLICA, epoch=-1, name=ADDED)
    cleaning = read(broker, -1, GROWING)
    assert written(cleaning) == (
        *counted(1, version=6, configs=SET),
        wr.Enqueue(2, close),
        wr.Enqueue(3, close),
        wr.Delete(reassigned_path(*ADDED)),
        wr.Delete(partition_path(*ADDED)),
    )
    broker.end(cleaning)
    assert read(broker, -1, topic(LIVING, version=7)) == (fx.Answer(-1, Outcome.TIMED_OUT),)


def test_what_a_dead_admin_has_begun_to_add_goes_before_another_growth() -> None:
    broker = admin()
    broker.hear(GROW)
    dead = topic(LIVING, STARTING, attempt=(4, 7), version=6, count=1)
    cleaning = read(broker, -1, dead)
    assert written(cleaning)[:2] == counted(1, version=6)
    broker.end(cleaning)
    begun = written(read(broker, -1, topic(LIVING, version=7)))
    assert begun[1] == wr.Put(topic_path("tide"), TopicNode(KEY, (1, 0), 1), 7)


def test_a_creation_leaves_a_topic_alone_that_a_dead_admin_was_growing() -> None:
    broker = admin()
    broker.hear(ev.AdditionRequested(-2, "tide", LATER_ID, ((2, 3),)))
    dead = topic(LIVING, STARTING, attempt=(4, 7), version=6, count=1)
    assert read(broker, -2, dead) == (fx.Answer(-2, Outcome.TOPIC_ALREADY_EXISTS),)


def test_what_another_admin_adds_is_left_alone() -> None:
    broker = admin()
    broker.hear(GROW)
    other = topic(LIVING, STARTING, attempt=(2, 0), count=1)
    assert read(broker, -1, other) == (fx.Answer(-1, Outcome.TOPIC_BEING_CREATED),)


def test_one_admin_grows_a_topic_for_one_client_at_a_time() -> None:
    broker = admin()
    broker.hear(GROW)
    assert broker.hear(replace(GROW, request_id=-2)) == (fx.Answer(-2, Outcome.TOPIC_BEING_CREATED),)


def test_a_topic_that_has_grown_meanwhile_is_left_as_it_is() -> None:
    broker = admin()
    broker.hear(GROW)
    assert read(broker, -1, topic(LIVING, LIVING)) == (fx.Answer(-1, Outcome.TOPIC_CHANGED),)


def test_a_topic_that_goes_does_not_grow() -> None:
    broker = admin()
    broker.hear(GROW)
    gone = topic(partition(replicas=(2, 3), reassigned=()), count=0)
    assert read(broker, -1, gone) == (fx.Answer(-1, Outcome.TOPIC_BEING_DELETED),)


def test_new_replicas_go_to_brokers_that_are_online_only() -> None:
    broker = admin()
    broker.hear(GROW)
    assert read(broker, -1, GROWN, Lives(((1, 0), (2, 0)))) == (fx.Answer(-1, Outcome.REPLICA_NOT_ONLINE),)


def test_a_topic_whose_znode_nobody_can_read_is_left_alone() -> None:
    unreadable = topic(topic_id="")
    for asked, outcome in (
        (GROW, Outcome.UNKNOWN_TOPIC),
        (ev.DeletionRequested(-1, "tide"), Outcome.UNKNOWN_TOPIC),
        (ev.AdditionRequested(-1, "tide", LATER_ID, ((2, 3),)), Outcome.TOPIC_ALREADY_EXISTS),
    ):
        broker = admin()
        broker.hear(asked)
        assert read(broker, -1, unreadable) == (fx.Answer(-1, outcome),)
