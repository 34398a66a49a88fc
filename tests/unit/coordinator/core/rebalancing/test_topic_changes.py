"""§6: topics and partitions come and go, and groups follow (C6)."""

from __future__ import annotations

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.state.descriptions import committed_offsets
from hightide_coordinator.core.state.group import GroupState
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import StoredOffset
from hightide_coordinator.core.values.topic_partition import Topic
from unit.coordinator.core.group_world import World, topic, tp

OTHER = b"o" * 16


def test_a_topic_that_grows_gives_its_new_partitions_out_and_stops_nobody() -> None:
    world = World(topic(partitions=2))
    first, second = world.join("a"), world.join("b")
    world.run(100)
    world.change_topics(topic(partitions=4))
    world.run(100)
    assert first.partitions | second.partitions == {0, 1, 2, 3}
    assert world.all(ef.SendStopFetcher) == []


def test_a_topic_may_be_named_before_it_exists() -> None:
    world = World(topic())
    consumer = world.join(topics={"later": 1})
    world.run(100)
    assert world.group_state() is GroupState.STABLE
    assert world.all(ef.WatchTopics)[-1].more == {"later"}
    world.change_topics(topic("later", 2, OTHER))
    world.run(100)
    assert set(consumer.reading) == {tp(0, "later"), tp(1, "later")}


def test_a_pattern_takes_the_topics_that_match_it_wholly_now_and_later() -> None:
    world = World(topic("flights-a", 1), topic("flights-ab", 1), topic("xflights-a", 1))
    consumer = world.join(pattern="flights-.")
    world.run(100)
    assert {name.topic for name in consumer.reading} == {"flights-a"}
    world.change_topics(topic("flights-b", 1, OTHER))
    world.run(100)
    assert {name.topic for name in consumer.reading} == {"flights-a", "flights-b"}
    world.change_topics(gone=("flights-a",))
    world.run(100)
    assert {name.topic for name in consumer.reading} == {"flights-b"}


def test_a_topic_that_an_exclusion_matches_is_not_read_nor_shown_nor_waited_for() -> None:
    world = World(topic("flights-a", 1), topic("flights-test", 1), topic("flights-b", 1, OTHER))
    consumer = world.join(pattern="flights-.*", exclude=(".*-test",))
    world.run(100)
    assert {name.topic for name in consumer.reading} == {"flights-a", "flights-b"}
    assert world.describe().topics == ("flights-a", "flights-b")
    assert world.describe().members[0].exclude == (".*-test",)
    rebalances = world.describe().rebalance_count
    world.change_topics(topic("more-test", 1, OTHER), gone=("flights-test",))
    world.run(1_000)
    assert world.describe().rebalance_count == rebalances


def test_a_member_that_excludes_more_than_before_gives_that_back() -> None:
    world = World(topic("flights-a", 1), topic("flights-test", 1))
    consumer = world.join(pattern="flights-.*")
    other = world.join("other", pattern="flights-.*", exclude=(".*-a",))
    world.run(1_000)
    assert {name.topic for name in other.reading} <= {"flights-test"}
    again = world.come_back(consumer, pattern="flights-.*", exclude=(".*-test",))
    world.run(1_000)
    assert {name.topic for name in again.reading} == {"flights-a"}
    assert {name.topic for name in other.reading} == {"flights-test"}


def test_a_deleted_topics_partitions_are_stopped_and_its_offsets_deleted() -> None:
    world = World(topic("t", 1), topic("u", 1, OTHER))
    consumer = world.join(topics={"t": 1, "u": 1})
    world.run(100)
    world.change_topics(gone=("t",))
    world.run(100)
    assert set(consumer.reading) == {tp(0, "u")}
    assert set(world.offsets["g"]) == set(world.owners["g"]) == {tp(0, "u")}


def test_offsets_of_a_group_without_members_go_with_their_topic() -> None:
    world = World(topic(partitions=1))
    world.commit(ev.OffsetCommit(tp(0), 0, 5))
    world.change_topics(gone=("t",))
    assert world.offsets["g"] == {}


def test_a_topic_that_was_deleted_and_created_again_begins_anew() -> None:
    world = World(topic(partitions=1))
    consumer = world.join()
    world.run(100)
    before = consumer.owned()
    consumer.positions[tp(0)] = 50
    world.change_topics(topic(partitions=1, topic_id=OTHER))
    world.run(100)
    (start,) = consumer.reading.values()
    assert isinstance(start, ef.StartPartition)
    assert (start.topic_id, start.offset) == (OTHER, 0)
    stale = ev.OffsetCommit(tp(0), before[0].generation, 50)
    (outcome,) = world.commit(stale, member_id=consumer.member_id)
    assert outcome.refusal is Refusal.FENCED_GENERATION


def test_removed_partitions_are_stopped_and_their_offsets_deleted() -> None:
    world = World(topic(partitions=3))
    consumer = world.join()
    world.run(100)
    world.change_topics(topic(partitions=2))
    world.run(100)
    assert consumer.partitions == {0, 1}
    assert set(world.offsets["g"]) == {tp(0), tp(1)}


def test_a_partition_whose_number_is_used_again_begins_anew() -> None:
    world = World(topic(partitions=2))
    consumer = world.join()
    world.run(100)
    consumer.commit(tp(1), 50)
    world.change_topics(Topic("t", b"i" * 16, 2, {1: 3}))
    world.run(100)
    start = consumer.reading[tp(1)]
    assert isinstance(start, ef.StartPartition)
    assert start.offset == 0
    assert consumer.reading[tp(0)].generation < start.generation


def test_a_look_up_of_before_the_partitions_number_was_used_again_does_not_count() -> None:
    world = World(topic(partitions=1))
    world.look_ups_answer = False
    consumer = world.join()
    world.run(100)
    found = {tp(0): StoredOffset(77, 2, b"i" * 16)}
    world.change_topics(Topic("t", b"i" * 16, 1, {0: 3}))
    world.feed(ev.OffsetsLookedUp(world.look_ups[0].look_up_id, found))
    world.look_ups_answer = True
    world.look_up()
    world.run(200)
    assert consumer.positions == {tp(0): 0}


def test_a_topic_that_goes_while_its_offset_is_being_written_leaves_nothing_behind() -> None:
    world = World(topic(partitions=1))
    consumer = world.join()
    world.run(100)
    world.stores_answer = False
    world._ids += 1
    generation = consumer.reading[tp(0)].generation
    commits = (ev.OffsetCommit(tp(0), generation, 9),)
    world.feed(ev.CommitRequested(world._ids, "g", consumer.member_id, commits))
    world.change_topics(gone=("t",))
    world.stores_answer = True
    world.store()
    world.run(200)
    (outcome,) = world.the(ef.AnswerCommit).outcomes
    assert outcome.refusal is Refusal.UNKNOWN_PARTITION, "nobody is promised what does not count"
    assert world.offsets["g"] == {}
    assert consumer.reading == {}


def test_a_full_list_of_topics_says_which_are_gone() -> None:
    world = World(topic("t", 1), topic("u", 1, OTHER))
    consumer = world.join(topics={"t": 1, "u": 1})
    world.run(100)
    world.feed(ev.TopicsChanged({"u": world.topics["u"]}, is_full=True))
    world.run(100)
    assert set(consumer.reading) == {tp(0, "u")}


def test_what_changes_of_topics_that_nobody_reads_concerns_nobody() -> None:
    world = World(topic())
    world.join()
    world.run(100)
    count = len(world.log)
    world.change_topics(topic("other", 8, OTHER))
    assert len(world.log) == count


def test_many_changes_of_topics_are_one_rebalance() -> None:
    world = World(topic(partitions=1))
    world.join(pattern=".*")
    world.run(100)
    for number in range(20):
        world.change_topics(topic(f"t{number}", 1, OTHER))
    world.run(200)
    assert world.describe().rebalance_count == 2
    assert len(world.owners["g"]) == 21


def test_a_group_is_gone_over_once_however_many_topics_go_together() -> None:
    world = World(*(topic(f"t{number}", 1) for number in range(40)))
    consumer = world.join(pattern="t.*")
    world.run(100)
    generation = world.describe().generation
    world.change_topics(gone=tuple(f"t{number}" for number in range(30)))
    assert world.describe().generation == generation + 1
    world.run(1_000)
    assert {name.topic for name in consumer.reading} == {f"t{number}" for number in range(30, 40)}


# ---- topics that cannot be read


def unreadable_at_takeover() -> World:
    """A coordinator took over a group without members while the znode of the topic made no sense."""
    world = World(topic(partitions=1))
    world.commit(ev.OffsetCommit(tp(0), 0, 50))
    world.unreadable = {"t"}
    return world.fail_over()


def become_readable(world: World) -> None:
    world.unreadable = set()
    world.change_topics(*world.topics.values())


def test_what_was_withheld_while_a_topic_made_no_sense_counts_when_it_does_again() -> None:
    world = unreadable_at_takeover()
    assert committed_offsets(world.state, "g") == {}
    assert world.offsets["g"], "nobody takes it for deleted"
    become_readable(world)
    offsets = committed_offsets(world.state, "g")
    assert isinstance(offsets, dict)
    assert offsets[tp(0)].offset == 50
    assert world.state.withheld == {}


def test_a_consumer_of_a_topic_that_makes_sense_again_begins_where_its_group_was() -> None:
    world = unreadable_at_takeover()
    consumer = world.join()
    world.run(200)
    assert consumer.reading == {}
    become_readable(world)
    world.run(200)
    assert consumer.positions == {tp(0): 50}
    assert world.group_state() is GroupState.STABLE


def test_what_was_withheld_goes_with_its_topic() -> None:
    world = unreadable_at_takeover()
    world.unreadable = set()
    world.change_topics(gone=("t",))
    assert world.offsets["g"] == {}


def test_a_group_that_is_read_before_its_topic_is_told_loses_nothing() -> None:
    world = unreadable_at_takeover()
    world.stores_answer = False
    world.change_topics(topic("u", 1, OTHER))
    world.feed(ev.CommitRequested(90, "g", "", (ev.OffsetCommit(tp(0, "u"), 0, 1),)))
    world.unreadable = set()
    world.feed(ev.StoreRefused(world.stores[-1].store_id))
    world.stores_answer = True
    world.read()
    world.run(1_000)
    assert world.offsets["g"].keys() == {tp(0), tp(0, "u")}
    become_readable(world)
    offsets = committed_offsets(world.state, "g")
    assert isinstance(offsets, dict)
    assert offsets.keys() == {tp(0), tp(0, "u")}


def test_a_group_waits_for_its_store_before_it_is_read_again() -> None:
    world = unreadable_at_takeover()
    world.change_topics(topic("u", 1, OTHER))
    world.stores_answer = False
    world.feed(ev.CommitRequested(90, "g", "", (ev.OffsetCommit(tp(0, "u"), 0, 1),)))
    become_readable(world)
    assert world.reads == []
    world.stores_answer = True
    world.store()
    assert [each.group for each in world.reads] == ["g"]
    assert set(world.state.groups["g"].offsets) == {tp(0), tp(0, "u")}


def test_nobody_loses_a_partition_because_its_topic_makes_no_sense_for_a_while() -> None:
    world = World(topic(partitions=1))
    consumer = world.join()
    world.run(100)
    world.stores_answer = False
    generation = consumer.reading[tp(0)].generation
    world.feed(ev.CommitRequested(90, "g", consumer.member_id, (ev.OffsetCommit(tp(0), generation, 9),)))
    world.unreadable = {"t"}
    world.feed(ev.StoreUnknown(world.stores[-1].store_id))
    world.read()
    world.run(1_000)
    assert world.owner_of(0) == consumer.consumer_id
    assert consumer.partitions == {0}
    assert world.all(ef.SendStopFetcher) == []
    world.feed(ev.StoreRefused(world.stores[-1].store_id))
    world.stores_answer = True
    world.read()
    become_readable(world)
    world.run(2_000)
    assert world.committed(0) == 9
    assert world.all(ef.SendStopFetcher) == []
