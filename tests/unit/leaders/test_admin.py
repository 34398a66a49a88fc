"""V2's create and delete topic by an admin, with the clean-up of failed attempts; reassignments that
clients ask for."""

from __future__ import annotations

from collections.abc import Mapping

from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.values import (
    ChangeKind,
    Lives,
    QueuedChange,
    StateChange,
    TopicNodes,
    TopicPartition,
)
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode, TopicNode
from hightide_runtime.znodes.paths import isr_path, partition_path, reassigned_path, replicas_path, topic_path
from unit.leaders.one_broker import (
    ALL,
    ID,
    KEY,
    LATER_ID,
    NAME,
    SETTINGS,
    OneBroker,
    change,
    counted,
    kinds,
    partition,
    the,
    topic,
    written,
)

CREATE = ev.AdditionRequested(-1, "tide", ID, ((2, 3),))
DELETE = ev.DeletionRequested(-2, "tide")
START = change(ChangeKind.START_REPLICA, epoch=0)
EMPTY: dict[int, tuple[QueuedChange, ...]] = {2: (), 3: ()}
LIVING = partition(replicas=(2, 3), leader=LeaderNode(2, 4, 71), isr=IsrNode(4, (2, 3), 9))


def admin() -> OneBroker:
    broker = OneBroker()
    broker.serve()
    return broker


def read(broker: OneBroker, request_id: int, found: TopicNodes | None, lives: Lives = ALL) -> fx.Effects:
    return broker.hear(ev.TopicRead(request_id, found, lives))


def queues(
    broker: OneBroker,
    request_id: int,
    lives: Lives = ALL,
    waiting: Mapping[int, tuple[StateChange, ...]] | None = None,
) -> fx.Effects:
    """The queues that the request waits for were read."""
    content = dict(EMPTY)
    for target, changes in (waiting or {}).items():
        content[target] = tuple(QueuedChange(f"change-{n:010}", each) for n, each in enumerate(changes))
    return broker.hear(ev.QueuesRead(request_id, content, lives))


def created(broker: OneBroker) -> fx.Effects:
    """The topic's znodes and the state changes are written, and the admin waits."""
    broker.hear(CREATE)
    broker.end(read(broker, -1, None))
    return read(broker, -1, topic(partition(replicas=(), reassigned=(2, 3)), attempt=(1, 0)))


def test_creation_writes_rar_and_state_changes_first() -> None:
    broker = admin()
    broker.hear(CREATE)
    assert written(read(broker, -1, None)) == (
        *wr.create_topic("tide", TopicNode(KEY, (1, 0))),
        wr.Create(partition_path(*NAME)),
        wr.Create(reassigned_path(*NAME), (2, 3)),
        wr.Enqueue(2, START),
        wr.Enqueue(3, START),
    )


def test_ar_comes_when_all_replicas_have_started() -> None:
    broker = admin()
    assert the(fx.ReadQueues, created(broker)).broker_ids == (2, 3)
    assert queues(broker, -1, waiting={3: (START,)}) == ()
    done = queues(broker, -1)
    assert written(done) == (
        *wr.check_topic("tide", 0, ID),
        wr.Create(replicas_path(*NAME), (2, 3)),
        wr.Delete(reassigned_path(*NAME)),
        wr.Put(topic_path("tide"), TopicNode(KEY, None, 1), 0),
    )
    broker.end(done)
    assert read(broker, -1, topic(LIVING)) == (fx.Answer(-1, Outcome.DONE),)


def test_a_replica_whose_broker_dies_meanwhile_is_not_waited_for() -> None:
    broker = admin()
    created(broker)
    assert fx.Write in kinds(queues(broker, -1, lives=Lives(((1, 0), (2, 0))), waiting={3: (START,)}))


def test_a_creation_that_takes_too_long_is_cleaned_up_and_fails() -> None:
    broker = admin()
    created(broker)
    broker.now_ms = SETTINGS.keep_in_sync_time_ms
    assert kinds(broker.hear(ev.Ticked())) == [fx.ReadTopic]
    attempt = topic(partition(replicas=(), reassigned=(2, 3)), attempt=(1, 0))
    cleaning = read(broker, -1, attempt)
    close = change(ChangeKind.CLOSE_REPLICA, epoch=-1)
    assert written(cleaning) == (
        *wr.check_topic("tide", 0, ID),
        wr.Enqueue(2, close),
        wr.Enqueue(3, close),
        wr.Delete(reassigned_path(*NAME)),
        wr.Delete(partition_path(*NAME)),
        *wr.delete_topic("tide", 0, ID),
    )
    broker.end(cleaning)
    assert read(broker, -1, None) == (fx.Answer(-1, Outcome.TIMED_OUT),)


def test_the_attempt_of_a_dead_admin_is_cleaned_up_before_a_new_one() -> None:
    broker = admin()
    broker.hear(CREATE)
    begun = partition(replicas=(), reassigned=(3,), topic_id=LATER_ID)
    dead = topic(begun, attempt=(4, 7), topic_id=LATER_ID)
    cleaning = read(broker, -1, dead)
    assert wr.Enqueue(3, change(ChangeKind.CLOSE_REPLICA, -1, LATER_ID)) in written(cleaning)
    broker.end(cleaning)
    assert wr.Enqueue(2, START) in written(read(broker, -1, None))


def test_an_attempt_that_came_to_no_partition_is_cleaned_up_before_a_new_one() -> None:
    broker = admin()
    broker.hear(CREATE)
    cleaning = read(broker, -1, topic(attempt=(4, 7), topic_id=LATER_ID))
    assert written(cleaning)[-3:] == wr.delete_topic("tide", 0, LATER_ID)
    broker.end(cleaning)
    assert wr.Enqueue(2, START) in written(read(broker, -1, None))


def test_the_attempt_of_an_admin_that_lives_is_left_alone() -> None:
    broker = admin()
    broker.hear(CREATE)
    other = topic(partition(replicas=(), reassigned=(3,)), attempt=(2, 0), topic_id=LATER_ID)
    assert read(broker, -1, other) == (fx.Answer(-1, Outcome.TOPIC_BEING_CREATED),)


def test_an_admin_that_died_and_lives_again_has_left_a_failed_attempt() -> None:
    broker = admin()
    broker.hear(CREATE)
    other = topic(partition(replicas=(), reassigned=(3,)), attempt=(2, 0), topic_id=LATER_ID)
    effects = read(broker, -1, other, Lives(((1, 0), (2, 1), (3, 0))))
    assert written(effects)[-3:] == wr.delete_topic("tide", 0, LATER_ID)


def test_an_attempt_that_somebody_cleaned_up_fails() -> None:
    broker = admin()
    created(broker)
    broker.end(queues(broker, -1), ev.Ending.REFUSED)
    assert read(broker, -1, None) == (fx.Answer(-1, Outcome.TIMED_OUT),)


def test_a_topic_with_live_partitions_is_refused() -> None:
    broker = admin()
    broker.hear(CREATE)
    assert read(broker, -1, topic(LIVING, topic_id=LATER_ID)) == (
        fx.Answer(-1, Outcome.TOPIC_ALREADY_EXISTS),
    )


def test_replicas_go_to_brokers_that_are_online_only() -> None:
    broker = admin()
    broker.hear(CREATE)
    assert read(broker, -1, None, Lives(((1, 0), (2, 0)))) == (fx.Answer(-1, Outcome.REPLICA_NOT_ONLINE),)


def test_a_creation_of_unknown_outcome_goes_on_from_what_is_there() -> None:
    broker = admin()
    broker.hear(CREATE)
    assert kinds(broker.end(read(broker, -1, None), ev.Ending.UNKNOWN)) == [fx.ReadTopic]
    there = topic(partition(replicas=(), reassigned=(2, 3)), attempt=(1, 0))
    assert kinds(read(broker, -1, there)) == [fx.ReadQueues]


def test_a_creation_of_which_only_a_part_was_written_is_written_to_the_end() -> None:
    """A topic of many partitions takes several multis, and a connection may break between two of them."""
    broker = admin()
    broker.hear(ev.AdditionRequested(-1, "tide", ID, ((2, 3), (3, 2))))
    broker.end(read(broker, -1, None), ev.Ending.UNKNOWN)
    part = topic(partition(replicas=(), reassigned=(2, 3)), attempt=(1, 0))
    rest = read(broker, -1, part)
    missing = TopicPartition("tide", 1)
    start = change(ChangeKind.START_REPLICA, epoch=0, name=missing)
    assert written(rest) == (
        *wr.check_topic("tide", 0, ID),
        wr.Create(partition_path(*missing)),
        wr.Create(reassigned_path(*missing), (3, 2)),
        wr.Enqueue(3, start),
        wr.Enqueue(2, start),
    )
    broker.end(rest)
    both = topic(*[partition(replicas=(), reassigned=(2, 3))] * 2, attempt=(1, 0))
    assert kinds(read(broker, -1, both)) == [fx.ReadQueues]


def test_of_what_is_completed_already_nothing_is_completed_again() -> None:
    broker = admin()
    broker.hear(ev.AdditionRequested(-1, "tide", ID, ((2, 3), (3, 2))))
    broker.end(read(broker, -1, None))
    starting = partition(replicas=(), reassigned=(3, 2))
    read(broker, -1, topic(starting, starting, attempt=(1, 0)))
    broker.end(queues(broker, -1), ev.Ending.UNKNOWN)
    assert kinds(read(broker, -1, topic(LIVING, starting, attempt=(1, 0)))) == [fx.ReadQueues]
    second = TopicPartition("tide", 1)
    assert written(queues(broker, -1)) == (
        *wr.check_topic("tide", 0, ID),
        wr.Create(replicas_path(*second), (3, 2)),
        wr.Delete(reassigned_path(*second)),
        wr.Put(topic_path("tide"), TopicNode(KEY, None, 2), 0),
    )


def test_a_deletion_of_which_only_a_part_was_written_marks_the_rest_and_tells_its_replicas() -> None:
    broker = admin()
    broker.hear(DELETE)
    broker.end(read(broker, -2, topic(LIVING, LIVING)), ev.Ending.UNKNOWN)
    gone = partition(replicas=(2, 3), isr=IsrNode(4, (2, 3), 9), reassigned=())
    second = TopicPartition("tide", 1)
    close = change(ChangeKind.CLOSE_REPLICA, epoch=4, name=second)
    again = read(broker, -2, topic(gone, LIVING, count=0, version=1, removals=1))
    assert written(again) == (
        *counted(0, version=1, removals=2),
        wr.Create(reassigned_path(*second), ()),
        wr.Enqueue(2, close),
        wr.Enqueue(3, close),
    )
    broker.end(again)
    assert kinds(read(broker, -2, topic(gone, gone, count=0, version=2))) == [fx.ReadQueues]


def test_deletion_marks_every_partition_and_tells_every_replica_in_one_multi() -> None:
    broker = admin()
    broker.hear(DELETE)
    close = change(ChangeKind.CLOSE_REPLICA, epoch=4)
    assert written(read(broker, -2, topic(LIVING, version=3))) == (
        *counted(0, version=3),
        wr.Create(reassigned_path(*NAME), ()),
        wr.Enqueue(2, close),
        wr.Enqueue(3, close),
    )


def marked(broker: OneBroker) -> TopicNodes:
    """The topic is marked, and the admin waits."""
    broker.hear(DELETE)
    broker.end(read(broker, -2, topic(LIVING)))
    gone = topic(partition(replicas=(2, 3), isr=IsrNode(4, (2, 3), 9), reassigned=()), count=0, version=1)
    assert kinds(read(broker, -2, gone)) == [fx.ReadQueues]
    return gone


def test_deletion_does_not_wait_for_a_dead_broker() -> None:
    broker = admin()
    gone = marked(broker)
    waiting = {3: (change(ChangeKind.CLOSE_REPLICA, epoch=4),)}
    assert queues(broker, -2, waiting=waiting) == ()
    effects = queues(broker, -2, Lives(((1, 0), (2, 0))), waiting)
    assert kinds(effects) == [fx.ReadTopic]
    removal = read(broker, -2, gone)
    assert written(removal) == (
        *wr.check_topic("tide", 1, ID),
        wr.Delete(isr_path(*NAME), 9),
        wr.Delete(replicas_path(*NAME)),
        wr.Delete(reassigned_path(*NAME)),
        wr.Delete(partition_path(*NAME)),
        *wr.delete_topic("tide", 1, ID),
    )
    broker.end(removal)
    assert read(broker, -2, None) == (fx.Answer(-2, Outcome.DONE),)


def test_a_broker_that_does_nothing_holds_a_deletion_up_for_keep_in_sync_time() -> None:
    broker = admin()
    gone = marked(broker)
    waiting = {3: (change(ChangeKind.CLOSE_REPLICA, epoch=4),)}
    assert queues(broker, -2, waiting=waiting) == ()
    broker.now_ms = SETTINGS.keep_in_sync_time_ms
    assert kinds(broker.hear(ev.Ticked())) == [fx.ReadTopic]
    assert fx.Write in kinds(read(broker, -2, gone))


def test_a_deletion_that_a_dead_admin_began_is_gone_on_with() -> None:
    broker = admin()
    broker.hear(DELETE)
    gone = topic(partition(replicas=(2, 3), reassigned=()), count=0)
    read(broker, -2, gone)
    assert kinds(queues(broker, -2)) == [fx.ReadTopic]
    assert fx.Write in kinds(read(broker, -2, gone))


def test_reads_of_queues_that_overlap_end_a_deletion_once() -> None:
    """Each watch that fires is another read, and the later ones come when the topic is being removed."""
    broker = admin()
    gone = marked(broker)
    assert kinds(queues(broker, -2)) == [fx.ReadTopic]
    assert queues(broker, -2) == ()
    removal = read(broker, -2, gone)
    assert queues(broker, -2) == ()
    broker.end(removal)
    assert read(broker, -2, None) == (fx.Answer(-2, Outcome.DONE),)


def test_two_admins_that_delete_one_topic_are_both_told_that_it_is_gone() -> None:
    broker = admin()
    gone = marked(broker)
    queues(broker, -2)
    broker.end(read(broker, -2, gone), ev.Ending.REFUSED)
    assert read(broker, -2, None) == (fx.Answer(-2, Outcome.DONE),)


def test_a_later_topic_of_the_name_is_not_deleted() -> None:
    broker = admin()
    marked(broker)
    assert read(broker, -2, topic(LIVING, topic_id=LATER_ID)) == (fx.Answer(-2, Outcome.DONE),)


def test_a_topic_that_is_not_there_cannot_be_deleted() -> None:
    broker = admin()
    broker.hear(DELETE)
    assert read(broker, -2, None) == (fx.Answer(-2, Outcome.UNKNOWN_TOPIC),)


def test_a_creation_finds_a_half_deleted_topic_and_finishes_that_first() -> None:
    broker = admin()
    broker.hear(CREATE)
    half = topic(partition(replicas=(3,), reassigned=()), topic_id=LATER_ID, count=0)
    assert written(read(broker, -1, half))[-3:] == wr.delete_topic("tide", 0, LATER_ID)


def test_a_reassignment_is_asked_for_once() -> None:
    broker = admin()
    broker.hear(ev.ReassignmentRequested(-3, NAME, (1, 2)))
    asked = read(broker, -3, topic(LIVING))
    assert written(asked) == (
        *wr.check_topic("tide", 0, ID),
        wr.Create(reassigned_path(*NAME), (1, 2)),
    )
    assert broker.end(asked) == (fx.Answer(-3, Outcome.DONE),)
    broker.hear(ev.ReassignmentRequested(-4, NAME, (1, 2)))
    moving = partition(replicas=(2, 3), isr=IsrNode(4, (2, 3), 9), reassigned=(1, 2))
    assert read(broker, -4, topic(moving)) == (fx.Answer(-4, Outcome.DONE),)


FULL = fx.Answer(-1, Outcome.FOLLOWER_STATE_CHANGE_QUEUE_FULL)


def test_a_creation_that_finds_a_full_queue_takes_back_what_it_has_written() -> None:
    broker = admin()
    broker.hear(ev.AdditionRequested(-1, "tide", ID, ((2, 3),) * 400))
    assert kinds(broker.end(read(broker, -1, None), ev.Ending.QUEUE_FULL)) == [fx.ReadTopic]
    begun = topic(partition(replicas=(), reassigned=(2, 3)), attempt=(1, 0))
    broker.end(read(broker, -1, begun))
    assert read(broker, -1, None) == (FULL,)


def test_what_cannot_be_cleaned_up_as_a_queue_is_full_waits_for_the_next_admin() -> None:
    broker = admin()
    broker.hear(CREATE)
    dead = topic(partition(replicas=(), reassigned=(3,)), attempt=(4, 7), topic_id=LATER_ID)
    assert broker.end(read(broker, -1, dead), ev.Ending.QUEUE_FULL) == (FULL,)


def test_a_deletion_that_finds_a_full_queue_is_asked_for_again() -> None:
    broker = admin()
    broker.hear(ev.DeletionRequested(-1, "tide"))
    assert broker.end(read(broker, -1, topic(LIVING)), ev.Ending.QUEUE_FULL) == (FULL,)
