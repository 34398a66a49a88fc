"""A process finds out that it did not run, whoever looks first when it runs again."""

from hand_clock import HandClock
from hightide_runtime.process.pause_detector import PauseDetector


def test_a_pause_is_noticed_by_whoever_asks_first() -> None:
    clock = HandClock()
    detector = PauseDetector(clock, lambda: 2_000)
    clock.now_ms += 2_001
    assert detector.noticed_ms() == 2_001
    assert detector.noticed_ms() == 0, "it is reported once"


def test_a_pause_that_the_thread_noted_is_reported_afterwards() -> None:
    clock = HandClock()
    detector = PauseDetector(clock, lambda: 2_000)
    for gone_ms in (5_000, 3_000, 100):
        clock.now_ms += gone_ms
        detector.note()
    assert detector.noticed_ms() == 5_000


def test_a_process_that_is_a_little_late_each_time_has_not_paused() -> None:
    clock = HandClock()
    detector = PauseDetector(clock, lambda: 2_000)
    for _ in range(100):
        clock.now_ms += 2_000
        detector.note()
    assert detector.noticed_ms() == 0


def test_the_limit_is_that_of_the_session_as_it_is_now() -> None:
    clock, limits_ms = HandClock(), [2_000]
    detector = PauseDetector(clock, lambda: limits_ms[0])
    limits_ms[0] = 10_000
    clock.now_ms += 9_000
    assert detector.noticed_ms() == 0
