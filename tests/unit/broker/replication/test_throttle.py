"""The speed limit of moves, as a bucket (KIP-73)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hand_clock import HandClock
from hightide_broker.replication.throttle import UNLIMITED_BYTES, MoveLimit, ReassignmentThrottle
from hypothesis import given
from hypothesis import strategies as st

MB = 1_000_000


def limited(bytes_per_s: int) -> ReassignmentThrottle:
    """A limit since the time 0."""
    throttle = ReassignmentThrottle()
    throttle.set_rate(bytes_per_s, 0)
    return throttle


def test_without_a_rate_everything_is_allowed() -> None:
    throttle = ReassignmentThrottle()
    throttle.spend(1000 * MB, 0)
    assert throttle.allowed_bytes(0) == UNLIMITED_BYTES
    assert throttle.wait_ms(0) == 0


def test_a_new_limit_allows_nothing_until_it_is_worth_it_and_a_second_s_worth_at_most() -> None:
    throttle = limited(10 * MB)
    assert throttle.allowed_bytes(0) == 0
    assert throttle.wait_ms(0) == 100
    assert throttle.allowed_bytes(99) == 0
    assert throttle.allowed_bytes(100) == MB
    assert throttle.allowed_bytes(60_000) == 10 * MB


def test_a_batch_larger_than_the_bucket_passes_and_is_paid_for_later() -> None:
    throttle = limited(1000)
    assert throttle.allowed_bytes(1000) == 1000
    throttle.spend(5000, 1000)
    assert throttle.wait_ms(1000) == 5000
    assert throttle.allowed_bytes(5999) == 0
    assert throttle.allowed_bytes(6000) == 1000


def test_a_limit_that_is_lifted_forgets_the_debt() -> None:
    throttle = limited(1000)
    throttle.spend(1000 * MB, 1000)
    throttle.set_rate(0, 1000)
    assert throttle.allowed_bytes(1000) == UNLIMITED_BYTES
    throttle.set_rate(1000, 2000)
    assert throttle.wait_ms(2000) == 1000


def test_a_clock_that_stands_still_or_a_lower_limit_give_nothing_away() -> None:
    throttle = limited(10 * MB)
    assert throttle.allowed_bytes(1000) == 10 * MB
    assert throttle.allowed_bytes(500) == 10 * MB
    throttle.set_rate(MB, 1000)
    assert throttle.allowed_bytes(1000) == MB


@given(st.integers(1, 10**9), st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 2 * MB)), max_size=50))
def test_on_average_the_rate_holds_whatever_is_sent(rate: int, sends: list[tuple[int, int]]) -> None:
    """Beyond the rate there is the burst of a second, and one batch of debt."""
    throttle = limited(rate)
    now_ms = sent = largest = 0
    for pause_ms, size in sends:
        now_ms += pause_ms
        wait_ms = throttle.wait_ms(now_ms)
        assert (wait_ms == 0) == (throttle.allowed_bytes(now_ms) > 0)
        now_ms += wait_ms
        assert throttle.allowed_bytes(now_ms) > 0, "waiting as long as told is enough"
        throttle.spend(size, now_ms)
        sent += size
        largest = max(largest, size)
    assert sent <= rate * (now_ms / 1000 + 1) + largest


def with_sessions(story: Callable[[MoveLimit[str], HandClock, list[str]], None]) -> None:
    """Sessions are names; those woken are noted, and are not there when their name says so."""

    async def scenario() -> None:
        woken: list[str] = []

        def wake(session: str) -> bool:
            woken.append(session)
            return "absent" not in session

        clock = HandClock(now_ms=0)
        limit: MoveLimit[str] = MoveLimit(clock, wake)
        story(limit, clock, woken)
        limit.close()

    asyncio.run(scenario())


def test_sessions_take_turns_although_one_always_asks_first() -> None:
    def story(limit: MoveLimit[str], clock: HandClock, woken: list[str]) -> None:
        limit.set_rate(MB)
        sent = []
        for clock.now_ms in range(100, 1000, 100):
            for session in ("eager", "shy"):
                if allowed := limit.allowed_bytes(session):
                    limit.spend(session, allowed)
                    sent.append(session)
        assert sent == ["eager", "shy"] * 4 + ["eager"]

    with_sessions(story)


def test_a_session_that_is_gone_keeps_no_other_waiting() -> None:
    def story(limit: MoveLimit[str], clock: HandClock, woken: list[str]) -> None:
        limit.set_rate(MB)
        assert limit.allowed_bytes("absent") == 0
        assert limit.allowed_bytes("present") == 0
        clock.now_ms = 100
        assert limit.allowed_bytes("present") == 0
        limit.set_rate(2 * MB)
        assert woken == ["absent", "present"]
        clock.now_ms = 200
        assert limit.allowed_bytes("present") > 0

    with_sessions(story)


def test_lifting_the_limit_wakes_whoever_waits() -> None:
    def story(limit: MoveLimit[str], clock: HandClock, woken: list[str]) -> None:
        limit.set_rate(1)
        assert limit.allowed_bytes("waiting") == 0
        limit.set_rate(0)
        assert woken == ["waiting"]
        assert limit.allowed_bytes("waiting") == UNLIMITED_BYTES

    with_sessions(story)
