"""The demo's load is even, waits under load for what must happen first, and ends."""

from hightide_demo.pace import LoadPace
from hypothesis import example, given
from hypothesis import strategies as st


def test_rows_are_spread_evenly() -> None:
    pace = LoadPace(1000, duration_s=10)
    assert [pace.advance(1) for _ in range(10)] == [100 * second for second in range(1, 11)]
    assert pace.advance(1) == 1000


def test_before_a_mark_it_slows_down_and_never_stops_at_once() -> None:
    pace = LoadPace(100_000, duration_s=10)
    pace.hold_before(0.5)
    due = [pace.advance(0.01) for _ in range(1000)]
    assert due[-1] <= 50_000
    assert due[200] - due[199] == 100
    assert 0 < due[600] - due[550] < 5 * 100


def test_after_the_release_it_goes_on_at_the_full_pace() -> None:
    pace = LoadPace(1000, duration_s=10)
    pace.hold_before(0.1)
    held = [pace.advance(1) for _ in range(5)][-1]
    pace.release()
    assert pace.advance(1) == held + 100


@example([0.8586366602916452, 3.0], 0.9899999999999999)  # the sum of due and the distance, rounded up
@given(st.lists(st.floats(0, 5), max_size=50), st.floats(0.01, 0.99))
def test_it_never_passes_the_mark_nor_goes_back(elapsed: list[float], share: float) -> None:
    pace = LoadPace(1000, duration_s=3)
    pace.hold_before(share)
    due = [0, *(pace.advance(each) for each in elapsed)]
    assert due == sorted(due)
    assert due[-1] <= 1000 * share
