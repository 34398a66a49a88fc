"""§4, §11: positions in answers, commits, resets, and who may make them (C2, C3)."""

from __future__ import annotations

import pytest
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.state.descriptions import QuestionRefused, committed_offsets
from hightide_coordinator.core.state.group import GroupState
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import (
    ConsumerPosition,
    OffsetReset,
    OwnedPartition,
    StoredOffset,
)
from sim.known_wrong import without
from unit.coordinator.core.group_world import Consumer, World, topic, tp


def alone(partitions: int = 2, auto_commit: bool = True) -> tuple[World, Consumer]:
    world = World(topic(partitions=partitions))
    consumer = world.join("a", session_timeout_ms=30_000, auto_commit=auto_commit)
    world.run(100)
    consumer.is_mute = True
    return world, consumer


def pinged(world: World, consumer: Consumer) -> None:
    world.run(10_000)
    assert consumer.pings


def test_positions_in_ping_answers_are_written_down_within_the_commit_interval() -> None:
    world, consumer = alone()
    pinged(world, consumer)
    consumer.positions[tp(0)] = 5
    consumer.answer_ping(tp(0))
    assert world.committed(0) == 0
    world.run(5_010)
    assert world.committed(0) == 5


def test_positions_of_a_consumer_without_auto_commit_count_for_nothing() -> None:
    world, consumer = alone(auto_commit=False)
    pinged(world, consumer)
    consumer.positions[tp(0)] = 5
    consumer.answer_ping(tp(0))
    world.run(6_000)
    assert world.committed(0) == 0


def positions_that_go_back() -> int | None:
    world = World(topic(partitions=1))
    consumer = world.join("a", session_timeout_ms=30_000)
    world.run(100)
    consumer.is_mute = True
    pinged(world, consumer)
    for offset in (9, 5):
        consumer.positions[tp(0)] = offset
        consumer.answer_ping(tp(0))
        world.run(5_010)
    return world.committed(0)


def test_positions_only_go_forward() -> None:
    assert positions_that_go_back() == 9


def test_without_c3_a_late_ping_takes_the_committed_offset_back() -> None:
    with without("positions_fenced"):
        assert positions_that_go_back() == 5


@pytest.mark.parametrize("generation", [0, 2])
def test_positions_of_another_generation_are_passed_over(generation: int) -> None:
    world, consumer = alone(1)
    pinged(world, consumer)
    position = ConsumerPosition(tp(0), generation, 7)
    world.feed(ev.PingAnswered(consumer.connection_id, consumer.pings[-1][0], 1, 0, (position,)))
    world.run(6_000)
    assert world.committed(0) == 0


def test_a_position_that_is_no_offset_ends_the_stream() -> None:
    world, consumer = alone(1)
    pinged(world, consumer)
    position = ConsumerPosition(tp(0), 1, -7)
    world.feed(ev.PingAnswered(consumer.connection_id, consumer.pings[-1][0], 1, 0, (position,)))
    assert consumer.refusal() is Refusal.INVALID_REQUEST


def test_a_commit_is_answered_when_it_is_durable() -> None:
    world, consumer = alone()
    world.stores_answer = False
    commit = ev.OffsetCommit(tp(0), consumer.owned()[0].generation, 7)
    world.feed(ev.CommitRequested(99, "g", consumer.member_id, (commit,)))
    assert world.all(ef.AnswerCommit) == []
    world.store()
    (outcome,) = world.the(ef.AnswerCommit).outcomes
    assert outcome == ef.ItemOutcome(tp(0), previous_offset=0)
    assert world.committed(0) == 7


def test_commits_that_come_while_a_store_is_under_way_are_one_store() -> None:
    world, consumer = alone()
    world.stores_answer = False
    count = len(world.stores)
    for offset in (1, 2, 3, 4):
        commit = ev.OffsetCommit(tp(0), consumer.owned()[0].generation, offset)
        world.feed(ev.CommitRequested(90 + offset, "g", consumer.member_id, (commit,)))
    world.store()
    world.store()
    assert len(world.stores) - count == 2
    assert len(world.all(ef.AnswerCommit)) == 4
    assert world.committed(0) == 4


def test_commits_do_not_pile_up_while_zookeeper_is_away() -> None:
    world = World(limits=GroupLimits(commits_waiting_max=3))
    world.stores_answer = False
    for request_id in range(90, 96):
        world.feed(ev.CommitRequested(request_id, "g", "", (ev.OffsetCommit(tp(0), 0, request_id),)))
    refused = [each.request_id for each in world.all(ef.RefuseRequest) if each.refusal is Refusal.OVERLOADED]
    assert refused == [94, 95]


def test_a_commit_whose_store_was_cut_off_is_answered_after_another() -> None:
    world, consumer = alone()
    world.stores_answer = False
    commit = ev.OffsetCommit(tp(0), consumer.owned()[0].generation, 7)
    world.feed(ev.CommitRequested(99, "g", consumer.member_id, (commit,)))
    world.feed(ev.StoreUnknown(world.stores[-1].store_id))
    world.stores_answer = True
    world.read()
    world.run(1_000)
    assert world.the(ef.AnswerCommit).outcomes[0].refusal is None
    assert world.committed(0) == 7


def test_a_commit_that_came_during_a_store_that_was_cut_off_is_answered_too() -> None:
    world, consumer = alone()
    world.stores_answer = False
    generation = consumer.owned()[0].generation
    for request_id, name in ((98, tp(0)), (99, tp(1))):
        commit = ev.OffsetCommit(name, generation, 7)
        world.feed(ev.CommitRequested(request_id, "g", consumer.member_id, (commit,)))
    world.feed(ev.StoreUnknown(world.stores[-1].store_id))
    world.stores_answer = True
    world.read()
    world.run(1_000)
    assert {each.request_id for each in world.all(ef.AnswerCommit)} == {98, 99}
    assert (world.committed(0), world.committed(1)) == (7, 7)


def test_a_commit_that_goes_back_has_to_say_so() -> None:
    world, consumer = alone()
    assert consumer.commit(tp(0), 7).refusal is None
    refused = consumer.commit(tp(0), 6)
    assert refused.refusal is Refusal.COMMIT_GOES_BACK
    assert "6" in refused.message
    assert "7" in refused.message
    assert consumer.commit(tp(0), 7).refusal is None
    assert consumer.commit(tp(0), 6, is_reset=True).refusal is None
    assert world.committed(0) == 6


def test_a_reset_by_the_consumer_forgets_positions_that_it_told_before() -> None:
    world, consumer = alone()
    pinged(world, consumer)
    consumer.positions[tp(0)] = 50
    consumer.answer_ping(tp(0))
    consumer.commit(tp(0), 3, is_reset=True)
    world.run(6_000)
    assert world.committed(0) == 3


def test_a_position_of_before_a_seek_that_arrives_after_its_reset_is_passed_over() -> None:
    world, consumer = alone()
    pinged(world, consumer)
    consumer.positions[tp(0)] = 50
    assert consumer.commit(tp(0), 3, is_reset=True).refusal is None
    consumer.answer_ping(tp(0))
    world.run(6_000)
    assert world.committed(0) == 3
    pinged(world, consumer)
    consumer.positions[tp(0)] = 5
    consumer.answer_ping(tp(0))
    world.run(6_000)
    assert world.committed(0) == 5, "what answers a later Ping was read after the seek"


def test_the_answer_to_a_stop_of_before_a_seek_does_not_overtake_its_reset() -> None:
    world, consumer = alone()
    world.join("b")
    world.run(100)
    (order,) = consumer.open_orders
    (moving,) = (each.name for each in order.partitions)
    consumer.positions[moving] = 50
    assert consumer.commit(moving, 3, is_reset=True).refusal is None
    consumer.answer()
    world.run(200)
    assert world.owner_of(moving.partition) == "b"
    assert world.committed(moving.partition) == 3


def test_what_is_told_on_another_stream_or_with_a_goodbye_was_read_after_the_seek() -> None:
    world, consumer = alone()
    pinged(world, consumer)
    consumer.commit(tp(0), 3, is_reset=True)
    world.lose(consumer)
    consumer = world.come_back(consumer)
    consumer.positions[tp(0)] = 4
    world.run(10_000)
    assert world.state.groups["g"].members[consumer.member_id].sought == {}
    consumer.commit(tp(0), 2, is_reset=True)
    consumer.positions[tp(0)] = 5
    consumer.leave()
    world.run(100)
    assert world.committed(0) == 5


def test_a_seek_is_remembered_for_what_the_member_owns_only() -> None:
    world, consumer = alone()
    pinged(world, consumer)
    for partition in (0, 1):
        consumer.commit(tp(partition), 3, is_reset=True)
    world.commit(ev.OffsetCommit(tp(7), 1, 3, is_reset=True), member_id=consumer.member_id)
    member = world.state.groups["g"].members[consumer.member_id]
    assert set(member.sought) == {tp(0), tp(1)}
    consumer.is_mute = False
    world.join("b")
    world.run(200)
    assert set(member.sought) == set(consumer.reading)
    assert len(member.sought) == 1


def test_a_last_commit_counts_for_more_than_where_the_next_owner_would_begin() -> None:
    world = World(topic(partitions=2))
    first = world.join("a", offset_reset=OffsetReset.ERROR)
    world.run(100)
    first.is_mute = True
    world.join("b", offset_reset=OffsetReset.LARGEST)
    world.run(100)
    (order,) = first.open_orders
    (moving,) = (each.name for each in order.partitions)
    (kept,) = first.reading.keys() - {moving}
    generation = first.reading[moving].generation
    world.stores_answer = False
    for request_id, name in ((901, kept), (902, moving)):
        commit = ev.OffsetCommit(name, generation, 50)
        world.feed(ev.CommitRequested(request_id, "g", first.member_id, (commit,)))
    first.answer()
    world.stores_answer = True
    world.store()
    answer = world.the(ef.AnswerCommit, lambda each: each.request_id == 902)
    assert answer.outcomes[0].refusal is None
    assert world.owner_of(moving.partition) == "b"
    assert world.committed(moving.partition) == 50


def test_one_request_mixes_outcomes() -> None:
    world, consumer = alone()
    generation = consumer.owned()[0].generation
    outcomes = world.commit(
        ev.OffsetCommit(tp(0), generation, 5),
        ev.OffsetCommit(tp(1), generation + 1, 5),
        ev.OffsetCommit(tp(7), generation, 5),
        ev.OffsetCommit(tp(0, "gone"), generation, 5),
        member_id=consumer.member_id,
    )
    assert [outcome.refusal for outcome in outcomes] == [
        None,
        Refusal.FENCED_GENERATION,
        Refusal.UNKNOWN_PARTITION,
        Refusal.UNKNOWN_TOPIC,
    ]


def commit_by_the_dead() -> ef.ItemOutcome:
    world = World(topic(partitions=1))
    first = world.join("a", session_timeout_ms=3_000)
    world.run(100)
    first.is_mute = True
    second = world.join("b", session_timeout_ms=3_000)
    world.run(4_000)
    assert second.partitions == {0}
    return first.commit(tp(0), 99)


def test_a_member_that_was_declared_dead_commits_nothing() -> None:
    assert commit_by_the_dead().refusal is Refusal.UNKNOWN_MEMBER


def test_without_c2_a_zombie_commits_for_the_next_owner() -> None:
    with without("commits_fenced"):
        assert commit_by_the_dead().refusal is None


def test_a_member_commits_nothing_for_what_another_one_owns_in_the_same_generation() -> None:
    world, first = alone()
    first.is_mute = False
    second = world.join("b")
    world.run(20_000)
    (theirs,) = second.owned()
    first.reading[theirs.name] = theirs
    assert first.commit(theirs.name, 5).refusal is Refusal.FENCED_GENERATION


def test_the_last_owner_commits_nothing_once_its_partition_was_given_away() -> None:
    world, first = alone(1)
    second = world.join("b")
    first.is_mute = False
    before = first.owned()
    world.run(100)
    first.leave()
    world.run(100)
    assert second.partitions == {0}
    third = world.join("c")
    third.reading[tp(0)] = OwnedPartition(tp(0), before[0].generation)
    assert third.commit(tp(0), 5).refusal is Refusal.FENCED_GENERATION


def test_a_commit_that_waits_while_its_partition_is_given_away_is_fenced() -> None:
    world, first = alone(1)
    generation = first.owned()[0].generation
    second = world.join("b")
    world.run(200)
    world.lose(first)
    world.stores_answer = False
    world.run(10_100)
    store = world.stores[-1]
    assert store.owners[tp(0)] is not None
    world.feed(ev.CommitRequested(99, "g", first.member_id, (ev.OffsetCommit(tp(0), generation, 5),)))
    world.stores_answer = True
    world.store()
    assert world.the(ef.AnswerCommit).outcomes[0].refusal is Refusal.UNKNOWN_MEMBER
    assert second.positions[tp(0)] == 0


def test_who_is_no_member_commits_only_while_there_are_none() -> None:
    world = World()
    (outcome,) = world.commit(ev.OffsetCommit(tp(0), 0, 5))
    assert outcome.refusal is None
    consumer = world.join()
    world.run(100)
    assert consumer.positions[tp(0)] == 5
    (outcome,) = world.commit(ev.OffsetCommit(tp(0), 0, 9))
    assert outcome.refusal is Refusal.UNKNOWN_MEMBER


def test_a_stranger_to_a_group_that_nobody_knows_makes_none() -> None:
    world = World()
    world.feed(ev.CommitRequested(1, "g", "m", (ev.OffsetCommit(tp(0), 0, 5),)))
    assert world.the(ef.RefuseRequest).refusal is Refusal.UNKNOWN_MEMBER
    assert world.state.groups == {}


@pytest.mark.parametrize(
    ("group", "commits", "refusal"),
    [
        ("a/b", (ev.OffsetCommit(tp(0), 0, 5),), Refusal.INVALID_GROUP_NAME),
        ("g", (ev.OffsetCommit(tp(0), 0, -1),), Refusal.INVALID_REQUEST),
        ("g", (ev.OffsetCommit(tp(0), 0, 1 << 63),), Refusal.INVALID_REQUEST),
        ("g", (ev.OffsetCommit(tp(0), 0, 5, leader_epoch=-2),), Refusal.INVALID_REQUEST),
        ("g", (ev.OffsetCommit(tp(0), 0, 5, metadata="x" * 4_097),), Refusal.INVALID_REQUEST),
        ("g", (ev.OffsetCommit(tp(0), 0, 5), ev.OffsetCommit(tp(0), 0, 6)), Refusal.INVALID_REQUEST),
        ("g", tuple(ev.OffsetCommit(tp(number), 0, 5) for number in range(11)), Refusal.LIMIT_EXCEEDED),
    ],
)
def test_a_request_that_cannot_be_is_refused_as_a_whole(
    group: str, commits: tuple[ev.OffsetCommit, ...], refusal: Refusal
) -> None:
    world = World(limits=GroupLimits(commits_per_request_max=10))
    world.feed(ev.CommitRequested(1, group, "", commits))
    world.feed(ev.ResetRequested(2, group, commits))
    assert [each.refusal for each in world.all(ef.RefuseRequest)] == [refusal, refusal]
    assert world.state.groups == {}


def test_metadata_is_kept_with_the_offset() -> None:
    world = World()
    world.commit(ev.OffsetCommit(tp(0), 0, 5, leader_epoch=3, metadata="mine"))
    assert world.offsets["g"][tp(0)] == StoredOffset(5, 3, b"i" * 16, "mine")
    assert committed_offsets(world.state, "g") == {tp(0): StoredOffset(5, 3, b"i" * 16, "mine")}
    assert committed_offsets(world.state, "g", (tp(1),)) == {}
    assert isinstance(committed_offsets(world.state, "nobody"), QuestionRefused)


# ---- resets and deletion


def test_an_operator_resets_the_offsets_of_a_group_without_members() -> None:
    world = World()
    world.commit(ev.OffsetCommit(tp(0), 0, 50))
    world.feed(ev.ResetRequested(99, "g", (ev.OffsetCommit(tp(0), 0, 3), ev.OffsetCommit(tp(1), 0, 4))))
    outcomes = world.the(ef.AnswerReset).outcomes
    assert outcomes == (ef.ItemOutcome(tp(0), previous_offset=50), ef.ItemOutcome(tp(1), previous_offset=-1))
    assert (world.committed(0), world.committed(1)) == (3, 4)


def test_a_dry_run_changes_nothing() -> None:
    world = World()
    world.commit(ev.OffsetCommit(tp(0), 0, 50))
    count = len(world.stores)
    world.feed(
        ev.ResetRequested(99, "g", (ev.OffsetCommit(tp(0), 0, 3), ev.OffsetCommit(tp(0, "gone"), 0, 3)), True)
    )
    outcomes = world.the(ef.AnswerReset).outcomes
    assert [(each.refusal, each.previous_offset) for each in outcomes] == [
        (None, 50),
        (Refusal.UNKNOWN_TOPIC, -1),
    ]
    assert len(world.stores) == count


def test_a_reset_beyond_the_end_is_refused() -> None:
    world = World()
    world.ends = {tp(0): 10, tp(1): 10}
    world.feed(ev.ResetRequested(99, "g", (ev.OffsetCommit(tp(0), 0, 11), ev.OffsetCommit(tp(1), 0, 10))))
    outcomes = world.the(ef.AnswerReset).outcomes
    assert [each.refusal for each in outcomes] == [Refusal.OFFSET_OUT_OF_RANGE, None]


def test_offsets_of_a_group_with_members_are_not_reset() -> None:
    world, _ = alone()
    world.feed(ev.ResetRequested(99, "g", (ev.OffsetCommit(tp(0), 0, 3),)))
    assert world.the(ef.RefuseRequest).refusal is Refusal.GROUP_NOT_EMPTY


def test_a_consumer_that_comes_while_a_reset_is_checked_stops_it() -> None:
    world = World()
    world.look_ups_answer = False
    world.feed(ev.ResetRequested(99, "g", (ev.OffsetCommit(tp(0), 0, 3),)))
    world.join()
    world.look_up()
    assert world.the(ef.RefuseRequest).refusal is Refusal.GROUP_NOT_EMPTY


def test_a_consumer_that_comes_while_a_reset_waits_for_zookeeper_stops_it() -> None:
    world = World()
    world.stores_answer = False
    world.feed(ev.CommitRequested(98, "g", "", (ev.OffsetCommit(tp(0), 0, 50),)))
    world.feed(ev.ResetRequested(99, "g", (ev.OffsetCommit(tp(0), 0, 3),)))
    consumer = world.join()
    world.stores_answer = True
    world.store()
    world.run(200)
    assert [each.refusal for each in world.the(ef.AnswerReset).outcomes] == [Refusal.GROUP_NOT_EMPTY]
    assert consumer.positions[tp(0)] == 50


def test_a_group_is_deleted_with_its_offsets() -> None:
    world = World()
    world.commit(ev.OffsetCommit(tp(0), 0, 50))
    world.feed(ev.DeleteGroupRequested(99, "g"))
    assert world.the(ef.AnswerDelete).request_id == 99
    assert world.generations == {}
    assert world.state.groups == {}
    assert world.state.concerned == {}


def test_a_group_with_members_is_not_deleted() -> None:
    world, _ = alone()
    world.feed(ev.DeleteGroupRequested(99, "g"))
    assert world.the(ef.RefuseRequest).refusal is Refusal.GROUP_NOT_EMPTY


def test_a_group_that_nobody_knows_is_not_deleted() -> None:
    world = World()
    world.feed(ev.DeleteGroupRequested(99, "g"))
    assert world.the(ef.RefuseRequest).refusal is Refusal.UNKNOWN_GROUP


def test_a_consumer_that_comes_while_its_group_is_deleted_begins_anew() -> None:
    world = World()
    world.commit(ev.OffsetCommit(tp(0), 0, 50))
    world.stores_answer = False
    world.feed(ev.DeleteGroupRequested(99, "g"))
    consumer = world.join()
    world.stores_answer = True
    world.store()
    world.run(200)
    assert consumer.positions[tp(0)] == 0
    assert world.group_state() is GroupState.STABLE


def test_a_delete_that_was_cut_off_is_done_again() -> None:
    world = World()
    world.commit(ev.OffsetCommit(tp(0), 0, 50))
    world.stores_answer = False
    world.feed(ev.DeleteGroupRequested(99, "g"))
    world.feed(ev.StoreUnknown(world.stores[-1].store_id))
    world.stores_answer = True
    world.read()
    world.run(1_000)
    assert world.all(ef.AnswerDelete)
    assert world.generations == {}


def test_a_consumer_that_comes_and_goes_while_its_group_is_deleted_is_let_go() -> None:
    """Its stream ends when its goodbye is carried out; it waited for that until its own time was up."""
    world = World()
    world.commit(ev.OffsetCommit(tp(0), 0, 50))
    world.stores_answer = False
    world.feed(ev.DeleteGroupRequested(99, "g"))
    consumer = world.join()
    consumer.leave()
    world.stores_answer = True
    world.store()
    world.run(1_000)
    assert consumer.closed is not None
    assert consumer.refusal() is None
    assert world.the(ef.AnswerDelete).request_id == 99


@pytest.mark.parametrize("is_reset", [False, True])
def test_an_offset_of_a_topic_is_not_committed_for_its_namesake(is_reset: bool) -> None:
    """Who is no member names no generation. The next consumer would have skipped what the new topic gets."""
    world = World(topic(partitions=1))
    world.commit(ev.OffsetCommit(tp(0), 0, 1))
    world.stores_answer = False
    world.feed(ev.CommitRequested(97, "g", "", (ev.OffsetCommit(tp(0), 0, 2),)))
    commit = (ev.OffsetCommit(tp(0), 0, 50),)
    world.feed(ev.ResetRequested(98, "g", commit) if is_reset else ev.CommitRequested(98, "g", "", commit))
    world.change_topics(topic(partitions=1, topic_id=b"j" * 16))
    world.stores_answer = True
    world.store()
    world.run(1_000)
    answers = [each for each in world.log if isinstance(each, ef.AnswerCommit | ef.AnswerReset)]
    (outcome,) = next(each.outcomes for each in answers if each.request_id == 98)
    assert outcome.refusal is Refusal.UNKNOWN_PARTITION
    assert world.committed(0) is None
