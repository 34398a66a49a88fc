"""A group forgets what it has committed of topics that nobody in it reads (KIP-496)."""

from __future__ import annotations

import pytest
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.refusals import Refusal
from unit.coordinator.core.group_world import GROUP, World, topic, tp


def committed() -> World:
    """Offsets of two partitions of t and of one of u; no members."""
    world = World(topic("t"), topic("u", topic_id=b"u" * 16))
    world.commit(
        ev.OffsetCommit(tp(0), 0, 50), ev.OffsetCommit(tp(1), 0, 60), ev.OffsetCommit(tp(0, "u"), 0, 70)
    )
    return world


def forget(world: World, *topics: str, request_id: int = 99, validate_only: bool = False) -> None:
    world.feed(ev.DeleteOffsetsRequested(request_id, GROUP, topics, validate_only))


def count(world: World) -> int:
    return world.the(ef.AnswerDeleteOffsets).deleted_count


def refusal(world: World) -> Refusal:
    return world.the(ef.RefuseRequest).refusal


def test_offsets_of_a_topic_are_deleted_before_it_is_answered() -> None:
    world = committed()
    world.stores_answer = False
    forget(world, "t")
    assert not world.all(ef.AnswerDeleteOffsets)
    world.stores_answer = True
    world.store()
    assert count(world) == 2
    assert list(world.offsets[GROUP]) == [tp(0, "u")]
    assert world.committed(0) is None


def test_what_was_never_committed_is_no_error() -> None:
    world = committed()
    stores = len(world.stores)
    forget(world, "elsewhere")
    assert count(world) == 0
    assert len(world.stores) == stores, "nothing had to be written"


def test_a_rehearsal_changes_nothing() -> None:
    world = committed()
    forget(world, "t", "u", validate_only=True)
    assert count(world) == 3
    assert len(world.offsets[GROUP]) == 3


def test_topics_that_members_name_or_match_are_refused_and_others_are_not() -> None:
    world = committed()
    world.join(topics={"t": 1})
    forget(world, "t", "u")
    assert refusal(world) is Refusal.GROUP_NOT_EMPTY
    assert "read t;" in world.the(ef.RefuseRequest).message
    forget(world, "u")
    assert count(world) == 1
    by_pattern = committed()
    by_pattern.join(pattern="u.*", pattern_streams=1)
    forget(by_pattern, "u")
    assert refusal(by_pattern) is Refusal.GROUP_NOT_EMPTY


def test_a_member_that_subscribes_while_it_waits_for_zookeeper_stops_it() -> None:
    world = committed()
    world.stores_answer = False
    world.feed(ev.CommitRequested(98, GROUP, "", (ev.OffsetCommit(tp(0), 0, 80),)))
    forget(world, "t")
    consumer = world.join()
    world.stores_answer = True
    world.store()
    world.run(200)
    assert refusal(world) is Refusal.GROUP_NOT_EMPTY
    assert consumer.positions[tp(0)] == 80


def test_a_coordinator_that_does_not_know_the_members_yet_asks_for_patience() -> None:
    world = committed()
    world.join(topics={"t": 1})
    world.run(200)
    taken_over = world.fail_over()
    forget(taken_over, "u")
    assert refusal(taken_over) is Refusal.COORDINATOR_LOADING


def test_one_that_was_cut_off_is_done_again_and_counts_what_the_first_try_did() -> None:
    world = committed()
    world.stores_answer = False
    forget(world, "t")
    world.write(world.stores[-1])
    world.feed(ev.StoreUnknown(world.stores[-1].store_id))
    world.stores_answer = True
    world.read()
    world.run(1_000)
    assert count(world) == 2
    assert list(world.offsets[GROUP]) == [tp(0, "u")]


def test_one_that_waits_while_its_group_is_deleted_is_done() -> None:
    world = committed()
    world.stores_answer = False
    world.feed(ev.DeleteGroupRequested(98, GROUP))
    forget(world, "t")
    world.stores_answer = True
    world.store()
    assert world.all(ef.AnswerDelete)
    assert world.all(ef.AnswerDeleteOffsets)
    assert world.state.groups == {}


def test_offsets_that_are_committed_afterwards_count() -> None:
    world = committed()
    forget(world, "t")
    world.commit(ev.OffsetCommit(tp(0), 0, 7))
    assert world.committed(0) == 7


@pytest.mark.parametrize(
    ("group", "topics", "expected"),
    [
        (GROUP, (), Refusal.INVALID_REQUEST),
        (GROUP, ("t", "t"), Refusal.INVALID_REQUEST),
        (GROUP, ("../x",), Refusal.INVALID_TOPIC_NAME),
        (GROUP, tuple(f"t{at}" for at in range(1_001)), Refusal.LIMIT_EXCEEDED),
        ("a/b", ("t",), Refusal.INVALID_GROUP_NAME),
        ("nobody", ("t",), Refusal.UNKNOWN_GROUP),
    ],
)
def test_nonsense_is_refused(group: str, topics: tuple[str, ...], expected: Refusal) -> None:
    world = committed()
    world.feed(ev.DeleteOffsetsRequested(99, group, topics))
    assert refusal(world) is expected
    assert len(world.offsets[GROUP]) == 3


def test_so_many_wait_and_no_more() -> None:
    world = World(limits=GroupLimits(deletes_waiting_max=2))
    world.commit(ev.OffsetCommit(tp(0), 0, 50))
    world.stores_answer = False
    world.feed(ev.CommitRequested(90, GROUP, "", (ev.OffsetCommit(tp(0), 0, 51),)))
    for request_id in (91, 92, 93):
        forget(world, "t", request_id=request_id)
    assert refusal(world) is Refusal.OVERLOADED
    world.stores_answer = True
    world.store()
    assert [each.request_id for each in world.all(ef.AnswerDeleteOffsets)] == [91, 92]


def test_a_standby_names_nobody_s_offsets() -> None:
    world = committed()
    world.feed(ev.Deposed())
    forget(world, "t")
    assert refusal(world) is Refusal.NOT_COORDINATOR
