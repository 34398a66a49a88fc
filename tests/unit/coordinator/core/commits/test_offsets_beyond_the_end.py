"""What lies beyond the end of its partition is never committed (C3); it would keep all true offsets out."""

from __future__ import annotations

import pytest
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.commits.plausible_offsets import LEAP_RECORDS
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import StoredOffset
from unit.coordinator.core.commits.test_offsets import alone, pinged
from unit.coordinator.core.group_world import World, tp


def test_who_is_no_member_commits_nothing_beyond_the_end_of_a_partition() -> None:
    world = World()
    world.ends = {tp(0): 10, tp(1): 10}
    outcomes = world.commit(
        ev.OffsetCommit(tp(0), 0, 2**63 - 1), ev.OffsetCommit(tp(1), 0, 11), ev.OffsetCommit(tp(2), 0, 10)
    )
    assert [each.refusal for each in outcomes] == [
        Refusal.OFFSET_OUT_OF_RANGE,
        Refusal.OFFSET_OUT_OF_RANGE,
        None,
    ]
    assert "beyond the end of t/0, which is 10" in outcomes[0].message
    assert [each.refusal for each in world.commit(ev.OffsetCommit(tp(0), 0, 7))] == [None]


def test_a_member_that_commits_a_leap_is_held_to_the_end_of_its_partition() -> None:
    world, consumer = alone()
    world.ends = {tp(0): 2 * LEAP_RECORDS, tp(1): 10}
    assert consumer.commit(tp(1), 2**63 - 1).refusal is Refusal.OFFSET_OUT_OF_RANGE
    assert consumer.commit(tp(1), 2**63 - 1, is_reset=True).refusal is Refusal.OFFSET_OUT_OF_RANGE
    assert consumer.commit(tp(0), 2 * LEAP_RECORDS).refusal is None
    assert (world.committed(0), world.committed(1)) == (2 * LEAP_RECORDS, 0)


def test_the_commits_of_a_member_that_reads_on_ask_no_broker() -> None:
    world, consumer = alone()
    count = len(world.look_ups)
    for offset in (5, 1_000_000, 1_000_000 + LEAP_RECORDS):
        assert consumer.commit(tp(0), offset).refusal is None
    assert len(world.look_ups) == count


def test_who_is_no_member_and_steps_back_or_stays_asks_no_broker() -> None:
    world = World()
    world.commit(ev.OffsetCommit(tp(0), 0, 7))
    assert len(world.look_ups) == 1
    world.commit(ev.OffsetCommit(tp(0), 0, 7))
    world.commit(ev.OffsetCommit(tp(0), 0, 3, is_reset=True))
    assert len(world.look_ups) == 1


def test_while_an_end_cannot_be_found_a_step_is_taken_and_a_leap_is_not() -> None:
    world = World()
    world.look_ups_answer = False
    for request_id, offset in ((98, 5), (99, 2**63 - 1)):
        world.feed(ev.CommitRequested(request_id, "g", "", (ev.OffsetCommit(tp(0), 0, offset),)))
        away = {tp(0): "leader 7 is away"}
        world.feed(ev.OffsetsLookedUp(world.look_ups[-1].look_up_id, {}, away))
    step, leap = (answer.outcomes[0] for answer in world.all(ef.AnswerCommit))
    assert step.refusal is None
    assert leap.refusal is Refusal.OFFSET_NOT_AVAILABLE
    assert "leader 7 is away; try again" in leap.message


def test_commits_whose_ends_are_looked_up_do_not_pile_up() -> None:
    world = World(limits=GroupLimits(commits_checked_max=2))
    world.look_ups_answer = False
    for request_id in (90, 91, 92):
        world.feed(ev.CommitRequested(request_id, "g", "", (ev.OffsetCommit(tp(0), 0, 5),)))
    refused = world.the(ef.RefuseRequest)
    assert (refused.request_id, refused.refusal) == (92, Refusal.OVERLOADED)


def test_a_member_that_comes_while_a_stranger_s_commit_is_checked_stops_it() -> None:
    world = World()
    world.look_ups_answer = False
    world.feed(ev.CommitRequested(99, "g", "", (ev.OffsetCommit(tp(0), 0, 5),)))
    checked = world.look_ups[-1]
    world.join()
    world.feed(ev.OffsetsLookedUp(checked.look_up_id, {tp(0): StoredOffset(9, -1, b"i" * 16)}))
    world.run(100)
    assert world.the(ef.AnswerCommit).outcomes[0].refusal is Refusal.UNKNOWN_MEMBER


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_commit_whose_end_is_looked_up_does_not_overtake_a_later_seek_of_its_member(is_reset: bool) -> None:
    """The consumer gave it up, sought back, and its reset was acknowledged. The next one would have skipped
    what lies between."""
    world, consumer = alone()
    world.ends = {tp(0): 4 * LEAP_RECORDS}
    world.look_ups_answer = False
    generation = consumer.reading[tp(0)].generation
    leap = ev.OffsetCommit(tp(0), generation, 4 * LEAP_RECORDS, is_reset=is_reset)
    world._ids += 1
    came = world._ids
    world.feed(ev.CommitRequested(came, "g", consumer.member_id, (leap,)))
    assert consumer.commit(tp(0), 3, is_reset=True).refusal is None
    world.look_up()
    assert world.committed(0) == 3
    (outcome,) = world.the(ef.AnswerCommit, lambda answer: answer.request_id == came).outcomes
    assert outcome.refusal is Refusal.COMMIT_GOES_BACK
    world.look_ups_answer = True
    assert consumer.commit(tp(0), 4 * LEAP_RECORDS).refusal is None
    assert world.committed(0) == 4 * LEAP_RECORDS


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_commit_that_was_held_up_before_it_was_fed_does_not_overtake_a_later_seek(is_reset: bool) -> None:
    """It named a topic that was not known, of which the shell asked ZooKeeper first. The consumer sought
    back meanwhile, its reset was acknowledged, and the next one would have skipped what lies between."""
    world, consumer = alone()
    generation = consumer.reading[tp(0)].generation
    held_up = ev.OffsetCommit(tp(0), generation, 10, is_reset=is_reset)
    world._ids += 1
    came = world._ids
    assert consumer.commit(tp(0), 3, is_reset=True).refusal is None
    world.feed(ev.CommitRequested(came, "g", consumer.member_id, (held_up,)))
    assert world.committed(0) == 3
    (outcome,) = world.the(ef.AnswerCommit, lambda answer: answer.request_id == came).outcomes
    assert outcome.refusal is Refusal.COMMIT_GOES_BACK
    assert consumer.commit(tp(0), 10).refusal is None
    assert world.committed(0) == 10


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_commit_that_arrives_behind_a_later_seek_of_its_member_does_not_undo_it(is_reset: bool) -> None:
    """The consumer had given it up, and another connection brought the reset first. By their arrival the
    commit was the later one, and the group would have skipped what lies between."""
    world, consumer = alone()
    generation = consumer.reading[tp(0)].generation
    late = ev.OffsetCommit(tp(0), generation, 10, is_reset=is_reset)
    seek = ev.OffsetCommit(tp(0), generation, 3, is_reset=True)
    beside = ev.OffsetCommit(tp(1), generation, 7)
    world.feed(ev.CommitRequested(90, "g", consumer.member_id, (seek,), sequence=2))
    world.feed(ev.CommitRequested(91, "g", consumer.member_id, (late, beside), sequence=1))
    outcomes = world.the(ef.AnswerCommit, lambda answer: answer.request_id == 91).outcomes
    assert [each.refusal for each in outcomes] == [Refusal.COMMIT_GOES_BACK, None]
    assert (world.committed(0), world.committed(1)) == (3, 7)
    world.feed(ev.CommitRequested(92, "g", consumer.member_id, (late,), sequence=3))
    assert world.committed(0) == 10


@pytest.mark.parametrize("sequence", [-1, -(2**63)])
def test_a_commit_with_a_negative_number_is_refused(sequence: int) -> None:
    world, consumer = alone()
    commit = ev.OffsetCommit(tp(0), consumer.reading[tp(0)].generation, 10)
    world.feed(ev.CommitRequested(90, "g", consumer.member_id, (commit,), sequence=sequence))
    assert world.the(ef.RefuseRequest).refusal is Refusal.INVALID_REQUEST


def test_a_position_that_leapt_on_an_earlier_stream_does_not_overtake_a_later_seek() -> None:
    world, consumer = alone()
    world.ends = {tp(0): 4 * LEAP_RECORDS}
    pinged(world, consumer)
    world.look_ups_answer = False
    consumer.positions[tp(0)] = 4 * LEAP_RECORDS
    consumer.answer_ping(tp(0))
    world.lose(consumer)
    consumer = world.come_back(consumer)
    assert consumer.commit(tp(0), 3, is_reset=True).refusal is None
    consumer.positions[tp(0)] = 3
    world.look_up()
    world.run(6_000)
    assert world.committed(0) == 3
    world.look_ups_answer = True
    consumer.positions[tp(0)] = 4 * LEAP_RECORDS
    pinged(world, consumer)
    consumer.answer_ping(tp(0))
    world.run(6_000)
    assert world.committed(0) == 4 * LEAP_RECORDS


def test_a_reset_mends_a_group_that_was_taken_beyond_the_end() -> None:
    world = World()
    world.ends = {tp(0): 2**63 - 1}
    world.commit(ev.OffsetCommit(tp(0), 0, 2**63 - 1))
    world.ends = {tp(0): 10}
    assert world.commit(ev.OffsetCommit(tp(0), 0, 5))[0].refusal is Refusal.COMMIT_GOES_BACK
    world.feed(ev.ResetRequested(99, "g", (ev.OffsetCommit(tp(0), 0, 3),)))
    assert world.the(ef.AnswerReset).outcomes[0].refusal is None
    assert world.commit(ev.OffsetCommit(tp(0), 0, 5))[0].refusal is None


def test_a_position_that_leaps_beyond_the_end_is_not_written_down_and_is_told_once() -> None:
    world, consumer = alone()
    world.ends = {tp(0): 10}
    for _ in range(3):
        pinged(world, consumer)
        consumer.positions[tp(0)] = 2**63 - 1
        consumer.answer_ping(tp(0))
    world.run(6_000)
    assert world.committed(0) == 0
    assert len([each for each in world.all(ef.LogSentence) if "which ends at 10" in each.message]) == 1
    pinged(world, consumer)
    consumer.positions[tp(0)] = 9
    consumer.answer_ping(tp(0))
    world.run(6_000)
    assert world.committed(0) == 9


def test_a_position_that_leaps_to_where_records_are_is_written_down() -> None:
    world, consumer = alone()
    world.ends = {tp(0): 5 * LEAP_RECORDS}
    pinged(world, consumer)
    consumer.positions[tp(0)] = 4 * LEAP_RECORDS
    consumer.answer_ping(tp(0))
    world.run(6_000)
    assert world.committed(0) == 4 * LEAP_RECORDS
    assert world.state.groups["g"].leaps == {}
