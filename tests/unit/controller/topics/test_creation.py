"""Topics by request and by hand: V3 B, and what is refused."""

from __future__ import annotations

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.effects import Refusal
from hightide_controller.core.elections.waiting_requests import REQUESTS_MAX
from hightide_controller.core.topics.topics import CREATIONS_IN_DOUBT_MAX
from hightide_controller.core.values.partition import TopicPartition
from msgspec.structs import replace
from unit.controller.controller_world import FLIGHTS, TOPIC_ID, World, broker, topic

REQUEST = ev.CreateTopicRequested(1, "flights", TOPIC_ID, partition_count=6, replication_factor=3)


def refusal(world: World) -> ef.RefuseRequest:
    (answer,) = world.answers
    assert isinstance(answer, ef.RefuseRequest)
    return answer


def test_a_topic_is_answered_when_its_leaders_have_acknowledged() -> None:
    world = World.elected(1, 2, 3)
    world.send(REQUEST)
    world.settle()
    assert len(world.zookeeper) == 6
    assert world.answers == []
    world.acknowledge_all()
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerCreateTopic)
    assert len(answer.topic.assignment) == 6


def test_leaders_and_replicas_are_balanced_over_the_live_brokers() -> None:
    world = World.elected(1, 2, 3)
    world.send(REQUEST)
    world.settle()
    assert [len(world.state.led_by[broker_id]) for broker_id in (1, 2, 3)] == [2, 2, 2]


def test_the_topics_watch_may_come_before_the_answer_of_the_store() -> None:
    world = World.elected(1, 2, 3)
    world.send(REQUEST)
    (store,) = world.pending
    assert isinstance(store, ef.StoreTopic)
    world.send(ev.TopicsChanged(added=(store.topic,)))
    world.settle()
    world.acknowledge_all()
    assert isinstance(world.answers[0], ef.AnswerCreateTopic)


def test_a_topic_put_into_zookeeper_by_hand_gets_leaders() -> None:
    world = World.elected(1, 2)
    world.put_topic(topic((2, 1)))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2


def test_a_topic_by_hand_on_brokers_that_are_away_waits_for_them() -> None:
    world = World.elected(1)
    world.put_topic(topic((7, 8)))
    world.settle()
    assert world.zookeeper == {}
    world.registered(broker(1), broker(8))
    world.settle()
    assert world.zookeeper[FLIGHTS].isr == (8,)


@pytest.mark.parametrize(
    "by_hand",
    [
        topic((1, 1)),
        topic(()),
        topic((-1,)),
        topic((1,), name=".."),
        topic((1,), name="a/b"),
        topic(),
    ],
)
def test_a_topic_by_hand_that_makes_no_sense_is_reported_and_left_alone(by_hand: ev.Topic) -> None:
    world = World.elected(1)
    world.send(ev.TopicsChanged(added=(by_hand,)))
    world.settle()
    assert world.state.topics == {}
    assert [type(effect) for effect in world.others if not isinstance(effect, ef.Campaign)] == [ef.LogWarning]


def test_a_topic_whose_znode_is_gone_is_forgotten() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.zk.remove_by_hand("flights")
    world.send(ev.TopicsChanged(removed=("flights", "never seen")))
    world.settle()
    assert world.state.partitions == {}
    assert world.metadata[-1].deleted_topic_ids == (TOPIC_ID,)


def test_a_topic_that_goes_while_it_is_written_is_forgotten_too() -> None:
    world = World.elected(1, 2)
    world.put_topic(topic((1, 2)))
    world.zk.remove_by_hand("flights")
    world.send(ev.TopicsChanged(removed=("flights",)))
    world.settle()
    assert world.told == []


def test_what_is_refused_is_not_written_again_before_the_topic_was_read() -> None:
    """It is gone, and the read of it takes its time: ZooKeeper would refuse the same again and again."""
    world = World.elected(1, 2)
    world.put_topic(topic((1, 2), (2, 1)))
    world.zk.remove_by_hand("flights")
    (store,) = world.pending
    world.pending.clear()
    world.perform(store)
    (read,) = world.pending
    assert isinstance(read, ef.ReadTopics)
    world.settle()
    assert len(world.stores) == 1
    assert world.state.partitions == {}


BAD_REQUESTS: list[tuple[ev.CreateTopicRequested, Refusal]] = [
    *((replace(REQUEST, name=n), Refusal.INVALID_TOPIC_NAME) for n in ("", ".", "..", "../x", "a" * 250)),
    *((replace(REQUEST, name=n), Refusal.INVALID_TOPIC_NAME) for n in ("a\0", "a\n", "a b", "ü", "a/b")),
    (replace(REQUEST, partition_count=0), Refusal.INVALID_PARTITION_COUNT),
    (replace(REQUEST, partition_count=-1), Refusal.INVALID_PARTITION_COUNT),
    (replace(REQUEST, partition_count=1_000_000), Refusal.INVALID_PARTITION_COUNT),
    (replace(REQUEST, replication_factor=0), Refusal.INVALID_REPLICATION_FACTOR),
    (replace(REQUEST, replication_factor=4), Refusal.INVALID_REPLICATION_FACTOR),
    (replace(REQUEST, partition_count=2, assignment=((1,),)), Refusal.INVALID_REQUEST),
    *(
        (
            replace(REQUEST, partition_count=0, replication_factor=0, assignment=assignment),
            Refusal.INVALID_ASSIGNMENT,
        )
        for assignment in (((1, 1),), ((9,),), ((),), ((-1,),))
    ),
    (replace(REQUEST, configs={"retention.mss": "1"}), Refusal.INVALID_CONFIG),
    (replace(REQUEST, configs={"retention.ms": "soon"}), Refusal.INVALID_CONFIG),
    (replace(REQUEST, configs={"retention.ms": "1" * 400}), Refusal.INVALID_CONFIG),
    (replace(REQUEST, configs={"retention.ms": "٣"}), Refusal.INVALID_CONFIG),
    (replace(REQUEST, configs={"segment.bytes": "-1"}), Refusal.INVALID_CONFIG),
    (replace(REQUEST, configs={"flush": "maybe"}), Refusal.INVALID_CONFIG),
    (replace(REQUEST, configs={"min.insync.replicas": "4"}), Refusal.INVALID_CONFIG),
]


@pytest.mark.parametrize(("request_", "expected"), BAD_REQUESTS)
def test_bad_input_is_refused_and_changes_nothing(
    request_: ev.CreateTopicRequested, expected: Refusal
) -> None:
    world = World.elected(1, 2, 3)
    world.send(request_)
    assert refusal(world).refusal is expected
    assert world.pending == []
    assert world.state.topics == {}


def test_an_unknown_setting_is_answered_with_what_may_have_been_meant() -> None:
    world = World.elected(1, 2, 3)
    world.send(replace(REQUEST, configs={"min.insync.replica": "2"}))
    assert "did you mean 'min.insync.replicas'?" in refusal(world).message


@pytest.mark.parametrize(
    ("request_", "configs"),
    [
        pytest.param(REQUEST, {"min.insync.replicas": "2"}, id="three replicas"),
        pytest.param(replace(REQUEST, replication_factor=4), {"min.insync.replicas": "2"}, id="more"),
        pytest.param(replace(REQUEST, replication_factor=2), {}, id="with two one broker away would stop it"),
        pytest.param(replace(REQUEST, replication_factor=1), {}, id="one"),
        pytest.param(
            replace(REQUEST, configs={"flush": "fsync"}),
            {"flush": "fsync", "min.insync.replicas": "2"},
            id="beside other settings",
        ),
        *(
            pytest.param(
                replace(REQUEST, configs={"min.insync.replicas": said}),
                {"min.insync.replicas": said},
                id=f"says {said}",
            )
            for said in ("1", "3")
        ),
        pytest.param(
            replace(REQUEST, partition_count=0, replication_factor=0, assignment=((1, 2, 3), (2, 3, 4))),
            {"min.insync.replicas": "2"},
            id="assigned by hand",
        ),
        pytest.param(
            replace(REQUEST, partition_count=0, replication_factor=0, assignment=((1, 2, 3), (2, 3))),
            {},
            id="a partition of two among those of three",
        ),
    ],
)
def test_a_topic_of_three_replicas_needs_two_in_sync_unless_it_says_otherwise(
    request_: ev.CreateTopicRequested, configs: dict[str, str]
) -> None:
    world = World.elected(1, 2, 3, 4)
    world.send(replace(request_, validate_only=True))
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerCreateTopic)
    assert answer.topic.configs == configs
    world.send(request_)
    (store,) = world.pending
    assert isinstance(store, ef.StoreTopic)
    assert (store.topic.configs, store.topic.config_version) == (configs, 0 if configs else None)


def test_a_topic_that_is_there_or_that_an_operator_wrote_keeps_what_it_says() -> None:
    world = World.elected(1, 2, 3, topics=(topic((1, 2, 3)),))
    world.put_topic(topic((1, 2, 3), name="by-hand"))
    world.settle()
    assert [each.configs for each in world.state.topics.values()] == [{}, {}]


def test_an_assignment_that_no_znode_can_hold_is_refused() -> None:
    brokers = tuple(range(1_000_000_000, 1_000_000_010))
    world = World.elected(*brokers)
    world.send(replace(REQUEST, partition_count=10_000, replication_factor=10))
    assert refusal(world).refusal is Refusal.INVALID_PARTITION_COUNT
    assert world.pending == []


def test_a_topic_that_exists_is_refused() -> None:
    world = World.elected(1, 2, 3, topics=(topic((1, 2)),))
    world.send(REQUEST)
    assert refusal(world).refusal is Refusal.TOPIC_ALREADY_EXISTS


def test_of_two_that_create_the_same_topic_one_is_refused() -> None:
    world = World.elected(1, 2, 3)
    world.send(REQUEST)
    world.send(replace(REQUEST, request_id=2))
    world.settle()
    world.acknowledge_all()
    assert [type(answer) for answer in world.answers] == [ef.RefuseRequest, ef.AnswerCreateTopic]


def test_validate_only_answers_with_the_assignment_and_changes_nothing() -> None:
    world = World.elected(1, 2, 3)
    world.send(replace(REQUEST, validate_only=True))
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerCreateTopic)
    assert len(answer.topic.assignment) == 6
    assert world.pending == []


def test_an_explicit_assignment_is_kept() -> None:
    world = World.elected(1, 2, 3)
    world.send(replace(REQUEST, partition_count=0, replication_factor=0, assignment=((3, 1), (2,))))
    world.settle()
    assert world.zookeeper[TopicPartition("flights", 0)].isr == (3, 1)
    assert world.zookeeper[TopicPartition("flights", 1)].leader == 2


def test_an_unknown_outcome_is_told_as_such() -> None:
    world = World.elected(1, 2, 3)
    world.send(REQUEST)
    world.send(ev.TopicStoreRefused(1, exists=False))
    assert refusal(world).refusal is Refusal.TIMED_OUT
    assert "may have been created" in refusal(world).message


def test_creations_of_unknown_outcome_that_never_were_leave_no_complaint() -> None:
    # ZooKeeper is away, and somebody tries again and again.
    world = World.elected(1, 2, 3)
    for attempt in range(1, 11):
        world.send(replace(REQUEST, request_id=attempt, topic_id=f"{attempt:032x}"))
        world.send(ev.TopicStoreRefused(attempt, exists=False))
        world.pending = [each for each in world.pending if not isinstance(each, ef.StoreTopic)]
    world.settle()
    assert world.state.complaints == {}
    assert world.state.work == {}


def test_no_more_creations_of_unknown_outcome_are_remembered_than_so_many() -> None:
    world = World.elected(1, 2, 3)
    for attempt in range(1, CREATIONS_IN_DOUBT_MAX + 10):
        world.send(replace(REQUEST, request_id=attempt, topic_id=f"{attempt:032x}"))
        world.send(ev.TopicStoreRefused(attempt, exists=False))
    assert len(world.state.work["flights"].perhaps_created) == CREATIONS_IN_DOUBT_MAX


@pytest.mark.parametrize("is_taken_away", [False, True])
def test_a_topic_that_is_created_while_its_name_is_read_has_its_marker_as_long_as_it_stands(
    is_taken_away: bool,
) -> None:
    """An operator who deletes it before that read answers leaves nothing that nobody knows of."""
    world = World.elected(1, 2, 3)
    world.send(replace(REQUEST, request_id=2, topic_id="f" * 32))
    world.pending.clear()
    world.send(ev.TopicStoreRefused(2, exists=False))
    world.send(REQUEST)
    *older, creation = world.pending
    assert [type(each) for each in older] == [ef.ReadTopics]
    assert isinstance(creation, ef.StoreTopic)
    stale = world.zk.read(("flights",))
    world.pending.clear()
    world.perform(creation)
    if is_taken_away:
        world.zk.remove_by_hand("flights")
    world.send(stale)
    world.settle()
    assert world.zk.markers == ({} if is_taken_away else {TOPIC_ID: "flights"})
    assert ("flights" in world.state.topics) != is_taken_away


def test_patience_has_an_end_and_the_topic_stands_if_its_leaders_do() -> None:
    world = World.elected(1, 2, 3)
    world.send(REQUEST)
    world.settle()
    world.send(ev.WaitExpired(1))
    assert isinstance(world.answers[0], ef.AnswerCreateTopic)
    world.send(ev.WaitExpired(1))
    assert len(world.answers) == 1


def test_patience_that_ends_before_the_leaders_are_stored_is_a_timeout() -> None:
    world = World.elected(1, 2, 3)
    world.send(REQUEST)
    world.send(ev.WaitExpired(1))
    assert refusal(world).refusal is Refusal.TIMED_OUT
    world.settle()


def test_a_leader_that_dies_before_it_acknowledges_is_not_waited_for() -> None:
    world = World.elected(1, 2, 3)
    world.send(REQUEST)
    world.settle()
    for each in (1, 2):
        world.send(ev.BrokerAcknowledged(each, broker(each).broker_epoch, 10_000))
    assert world.answers == []
    world.send(ev.BrokerProcessDied(3, broker(3).broker_epoch))
    world.settle()
    assert isinstance(world.answers[0], ef.AnswerCreateTopic)


def test_more_requests_than_may_wait_are_refused() -> None:
    world = World.elected(1)
    for number in range(REQUESTS_MAX + 1):
        world.send(ev.CreateTopicRequested(number, f"t{number}", TOPIC_ID, 1, 1))
    assert refusal(world).refusal is Refusal.OVERLOADED
