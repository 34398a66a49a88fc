"""A fetch session costs what moved: both sides joined, and what happens when a round is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hightide_broker.core.fetch_session import (
    FollowerPosition,
    FollowerSession,
    LeaderSession,
    LeaderSessions,
    PartitionAnswer,
    SessionFault,
)
from hypothesis import given
from hypothesis import strategies as st

Key = str


def opened(follower: FollowerSession[Key], sessions: LeaderSessions[Key]) -> LeaderSession[Key]:
    """The first round of a session."""
    request = follower.next_request()
    session = sessions.open(2, 7)
    session.receive(request.moved, request.forgotten)
    follower.answered(session.session_id)
    return session


def round_trip(follower: FollowerSession[Key], sessions: LeaderSessions[Key]) -> LeaderSession[Key]:
    request = follower.next_request()
    session = sessions.find(request.session_id, 2, 7, request.round)
    assert isinstance(session, LeaderSession)
    session.receive(request.moved, request.forgotten)
    follower.answered(session.session_id)
    return session


def answers(
    session: LeaderSession[Key], end: int, high_watermark: int, epoch: int = 1
) -> list[PartitionAnswer[Key]]:
    found = []
    for key in session.touched():
        answer = session.examine(
            key, leader_epoch=epoch, log_end_offset=end, high_watermark=high_watermark, log_start_offset=0
        )
        if answer is not None:
            session.told(answer, high_watermark, 0)
            found.append(answer)
    return found


def test_the_first_round_names_everything_and_later_ones_what_moved() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 0))
    follower.place("p1", FollowerPosition(1, 5))
    opened(follower, sessions)
    follower.place("p1", FollowerPosition(1, 6))
    request = follower.next_request()
    assert (request.round, request.moved, request.forgotten) == (1, (("p1", FollowerPosition(1, 6)),), ())
    assert not follower.has_news


def test_answered_batches_are_not_sent_again_until_the_partition_is_named() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 0))
    session = opened(follower, sessions)
    assert answers(session, end=3, high_watermark=0) == [PartitionAnswer("p0", 0, 1, True)]
    assert sessions.touch("p0") == [], "more was appended, but the follower is still busy with the first part"
    follower.place("p0", FollowerPosition(1, 3))
    assert answers(round_trip(follower, sessions), end=4, high_watermark=3) == [
        PartitionAnswer("p0", 3, 1, True)
    ]


def test_a_new_high_watermark_alone_is_an_answer_once() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 3))
    session = opened(follower, sessions)
    assert answers(session, 3, 2) == [PartitionAnswer("p0", 3, 1, False)]
    assert answers(session, 3, 2) == []
    assert sessions.touch("p0") == [session]
    assert answers(session, 3, 3) == [PartitionAnswer("p0", 3, 1, False)]


def test_nothing_new_costs_nothing() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    for number in range(1000):
        follower.place(f"p{number}", FollowerPosition(1, 0))
    session = opened(follower, sessions)
    answers(session, 0, 0)
    assert list(session.touched()) == []
    assert follower.next_request().moved == ()
    sessions.touch("p500")
    assert list(session.touched()) == ["p500"]


def test_an_answer_that_found_no_room_is_the_first_of_the_next_round() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 0))
    follower.place("p1", FollowerPosition(1, 0))
    session = opened(follower, sessions)
    first = session.examine("p0", leader_epoch=1, log_end_offset=9, high_watermark=0, log_start_offset=0)
    assert first is not None
    session.told(first, 0, 0)
    assert (
        session.examine("p1", leader_epoch=1, log_end_offset=9, high_watermark=0, log_start_offset=0)
        is not None
    )
    assert list(session.touched()) == ["p1"]


def test_a_partition_whose_leader_moved_on_is_answered_so_that_it_can_be_refused() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 0))
    session = opened(follower, sessions)
    answers(session, 0, 0)
    sessions.touch("p0")
    assert answers(session, 0, 0, epoch=2) == [PartitionAnswer("p0", 0, 1, False)]


def test_a_forgotten_partition_is_not_answered() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 0))
    session = opened(follower, sessions)
    follower.forget("p0")
    round_trip(follower, sessions)
    assert len(session) == 0
    assert sessions.touch("p0") == []


def test_a_partition_that_left_and_came_back_between_two_rounds_is_told_everything_again() -> None:
    # While the follower asked where an epoch ended, it took no answer; its leader counted one as taken.
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 6))
    session = opened(follower, sessions)
    assert answers(session, end=6, high_watermark=6)
    follower.forget("p0")
    follower.place("p0", FollowerPosition(1, 6))
    session = round_trip(follower, sessions)
    assert [answer.key for answer in answers(session, end=6, high_watermark=6)] == ["p0"]


def test_also_one_that_left_and_came_back_while_the_session_was_opened() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 6))
    request = follower.next_request()
    session = sessions.open(2, 7)
    session.receive(request.moved, request.forgotten)
    assert answers(session, end=6, high_watermark=6)
    follower.forget("p0")
    follower.answered(session.session_id)
    follower.place("p0", FollowerPosition(1, 6))
    session = round_trip(follower, sessions)
    assert [answer.key for answer in answers(session, end=6, high_watermark=6)] == ["p0"]


def test_a_lost_round_ends_the_session_and_the_next_one_names_everything() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 0))
    opened(follower, sessions)
    follower.place("p0", FollowerPosition(1, 3))
    follower.next_request()  # Never arrives.
    follower.restart()
    request = follower.next_request()
    assert (request.session_id, request.round, request.moved) == (0, 0, (("p0", FollowerPosition(1, 3)),))


def test_a_session_fault_is_named() -> None:
    sessions: LeaderSessions[Key] = LeaderSessions(10)
    session = sessions.open(2, 7)
    session.receive((), ())
    assert sessions.find(9, 2, 7, 1) is SessionFault.UNKNOWN
    assert sessions.find(10, 3, 7, 1) is SessionFault.UNKNOWN
    assert sessions.find(10, 2, 8, 1) is SessionFault.UNKNOWN, "another life of the follower"
    assert sessions.find(10, 2, 7, 1) is session
    assert sessions.find(10, 2, 7, 5) is SessionFault.OUT_OF_TURN
    assert sessions.find(10, 2, 7, 1) is SessionFault.UNKNOWN, "it ended with the fault"


def test_a_position_that_is_wanted_is_told_once_with_the_next_round() -> None:
    follower: FollowerSession[Key] = FollowerSession()
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    follower.place("p0", FollowerPosition(1, 3))
    session = opened(follower, sessions)
    sessions.want(2, "p0")
    sessions.want(2, "unknown")
    sessions.want(9, "p0")
    assert session.receive((), ()) == (("p0", FollowerPosition(1, 3)),)
    assert session.receive((), ()) == ()


def test_a_follower_has_one_session_at_a_time() -> None:
    sessions: LeaderSessions[Key] = LeaderSessions(1)
    first = sessions.open(2, 7)
    second = sessions.open(2, 7)
    assert list(sessions) == [second]
    assert first.session_id != second.session_id
    sessions.close(2)
    assert list(sessions) == []


def held_session(*keys: str) -> LeaderSession[str]:
    """A session in which these partitions have something new."""
    session: LeaderSession[str] = LeaderSession(1, 2, 3)
    session.receive([(key, FollowerPosition(1, 0)) for key in keys], ())
    return session


def test_what_is_held_is_not_touched_until_it_is_released_in_turn() -> None:
    session = held_session("a", "b", "c")
    session.hold("a")
    session.hold("b")
    assert not session.touch("a"), "an append wakes nobody for it"
    assert list(session.touched()) == ["c"]
    assert session.release() == "a"
    assert list(session.touched()) == ["c", "a"]
    session.hold("a")
    session.hold("c", is_next=True)
    assert [session.release() for _ in range(3)] == ["c", "b", "a"]
    assert not session.is_holding


def test_what_is_set_aside_comes_back_once() -> None:
    session = held_session("a")
    session.set_aside("a")
    assert not session.touch("a")
    assert list(session.touched()) == []
    assert session.bring_back("a")
    assert list(session.touched()) == ["a"]
    assert not session.bring_back("a")


@pytest.mark.parametrize("wait", [LeaderSession.hold, LeaderSession.set_aside])
def test_a_partition_that_waits_and_is_named_again_or_dropped_waits_no_more(
    wait: Callable[[LeaderSession[str], str], None],
) -> None:
    session = held_session("a", "b")
    wait(session, "a")
    wait(session, "b")
    session.receive([("a", FollowerPosition(1, 5))], ("b",))
    assert list(session.touched()) == ["a"]
    assert not session.is_waiting("b")
    assert not session.bring_back("b")


@given(st.lists(st.tuples(st.sampled_from("ahrsbtmd"), st.integers(0, 2)), max_size=60))
def test_nothing_new_is_ever_forgotten_however_it_waits(steps: list[tuple[str, int]]) -> None:
    """Whatever a follower lacks is touched, held or set aside, unless it was sent and not named since."""
    session = held_session("0", "1", "2")
    ends = dict.fromkeys("012", 1)
    positions: dict[str, int] = dict.fromkeys("012", 0)
    sent: set[str] = set()
    for step, number in steps:
        key = str(number)
        match step:
            case "a":
                ends[key] += 1
                session.touch(key)
            case "h":
                session.hold(key)
            case "r" if session.is_holding:
                session.release()
            case "s":
                session.set_aside(key)
            case "b":
                session.bring_back(key)
            case "t" if key in list(session.touched()):
                answer = session.examine(
                    key, leader_epoch=1, log_end_offset=ends[key], high_watermark=0, log_start_offset=0
                )
                if answer is not None:
                    session.told(answer, 0, 0)
                    sent |= {key} if answer.has_batches else set()
            case "m" if key in positions:
                positions[key] = ends[key]
                session.receive([(key, FollowerPosition(1, positions[key]))], ())
                sent.discard(key)
            case "d":
                session.drop(key)
                positions.pop(key, None)
            case _:
                pass
        lacking = {each for each, offset in positions.items() if offset < ends[each]} - sent
        assert {each for each in lacking if not session.is_waiting(each)} == set()
