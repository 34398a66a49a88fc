"""What is watched of the moves under way: a bounded number, in name order, each until its move ends."""

from __future__ import annotations

from hightide_controller.core import events as ev
from hightide_controller.core.state.move_watches import WATCHED_MAX, MoveWatches
from hightide_controller.core.values.partition import TopicPartition

UNDER_WAY = ev.StoredReassignment((3, 4), (1, 2), 0)


def name(number: int) -> TopicPartition:
    return TopicPartition("flights", number)


def watched(moves: MoveWatches) -> set[TopicPartition]:
    (effect,) = moves.effects()
    return set(effect.names)


def test_a_move_is_watched_when_it_has_begun_and_not_before() -> None:
    moves = MoveWatches()
    moves.note(name(0), ev.StoredReassignment((3, 4), (), 0))
    assert moves.effects() == []
    moves.note(name(0), UNDER_WAY)
    assert watched(moves) == {name(0)}


def test_nothing_is_said_where_nothing_has_changed() -> None:
    moves = MoveWatches()
    moves.note(name(0), UNDER_WAY)
    assert watched(moves) == {name(0)}
    moves.note(name(0), ev.StoredReassignment((5,), (1, 2), 1))
    assert moves.effects() == []


def test_no_more_are_watched_than_there_is_room_for_and_the_first_by_name() -> None:
    moves = MoveWatches()
    for number in reversed(range(WATCHED_MAX + 50)):
        moves.note(name(number), UNDER_WAY)
    assert watched(moves) == {name(number) for number in range(WATCHED_MAX)}


def test_a_move_that_ends_makes_room_for_the_next_one() -> None:
    moves = MoveWatches()
    for number in range(WATCHED_MAX + 2):
        moves.note(name(number), UNDER_WAY)
    moves.effects()
    moves.note(name(7), None)
    moves.note(name(WATCHED_MAX), None)
    assert watched(moves) == {name(n) for n in range(WATCHED_MAX + 2)} - {name(7), name(WATCHED_MAX)}


def test_a_move_that_ends_unwatched_changes_nothing() -> None:
    moves = MoveWatches()
    for number in range(WATCHED_MAX + 1):
        moves.note(name(number), UNDER_WAY)
    moves.effects()
    moves.note(name(WATCHED_MAX), None)
    assert moves.effects() == []


def test_moves_that_come_and_go_unwatched_leave_nothing_behind() -> None:
    moves = MoveWatches()
    for number in range(WATCHED_MAX):
        moves.note(name(number), UNDER_WAY)
    for number in range(5 * WATCHED_MAX):
        moves.note(name(WATCHED_MAX + number), UNDER_WAY)
        moves.note(name(WATCHED_MAX + number), None)
        moves.effects()
    assert len(moves.under_way) == WATCHED_MAX
    assert len(moves._waiting) <= 3 * WATCHED_MAX + 1
