"""A loop that hangs is told from one that is busy, and from a process that stood still as a whole."""

from __future__ import annotations

from hightide_runtime.process.loop_watchdog import BUSY_TIMES, LOOK_S, Heartbeat

LIMIT_S = 4.0


def looks_until_told(heartbeat: Heartbeat, used_share: float, most: int = 1_000) -> int:
    """How many looks it takes at a loop that does not beat; 0: it is not told."""
    for count in range(1, most + 1):
        if heartbeat.look(0, LOOK_S, LOOK_S * used_share, LIMIT_S):
            return count
    return 0


def begun() -> Heartbeat:
    heartbeat = Heartbeat()
    assert not heartbeat.look(0, LOOK_S, 0.0, LIMIT_S)
    return heartbeat


def test_a_loop_that_hangs_is_told_once_when_the_limit_has_passed() -> None:
    heartbeat = begun()
    assert abs(looks_until_told(heartbeat, 0.0) * LOOK_S - LIMIT_S) <= 2 * LOOK_S
    assert looks_until_told(heartbeat, 0.0) == 0


def test_a_loop_that_beats_is_never_told_however_seldom_anybody_looks() -> None:
    heartbeat = begun()
    assert not any(heartbeat.look(beats, 3 * LIMIT_S, 0.0, LIMIT_S) for beats in range(1, 100))


def test_a_loop_that_went_on_is_told_again_when_it_hangs_again() -> None:
    heartbeat = begun()
    first = looks_until_told(heartbeat, 0.0)
    assert not heartbeat.look(1, LOOK_S, 0.0, LIMIT_S)
    assert not heartbeat.look(0, LOOK_S, 0.0, LIMIT_S)
    assert looks_until_told(heartbeat, 0.0) == first


def test_a_process_that_stood_still_as_a_whole_gives_its_loop_time_to_run_first() -> None:
    heartbeat = begun()
    assert not heartbeat.look(0, 100 * LIMIT_S, 0.0, LIMIT_S)
    assert not heartbeat.look(1, LOOK_S, 0.0, LIMIT_S)


def test_a_loop_that_works_on_something_long_is_busy_and_may_take_longer_but_not_for_ever() -> None:
    heartbeat = begun()
    took_s = looks_until_told(heartbeat, 0.9) * LOOK_S
    assert abs(took_s - BUSY_TIMES * LIMIT_S) <= 2 * LOOK_S


def test_nothing_is_told_while_there_is_no_session() -> None:
    heartbeat = begun()
    assert not any(heartbeat.look(0, LOOK_S, 0.0, float("inf")) for _ in range(10_000))
