"""What long work waits for is told once nothing has moved for a while, and less and less often."""

import threading

from hightide_cli.copying.stalls import Stall, stalls_told
from hightide_cli.printing.progress import WorkDone
from hightide_local.histories.waiting import wait_until


def test_a_wait_is_told_when_it_has_lasted_and_then_each_time_it_lasts_twice_as_long() -> None:
    stall = Stall(10.0, now_s=100.0)
    stall.waits_for("more", 103.0)
    told = [(now_s, stall.told(now_s)) for now_s in range(103, 200)]
    assert [(now_s, each) for now_s, each in told if each is not None] == [
        (113, ("more", 10.0)),
        (123, ("more", 20.0)),
        (143, ("more", 40.0)),
        (183, ("more", 80.0)),
    ]


def test_what_moves_is_not_told_of() -> None:
    stall = Stall(10.0)
    for now_s in range(0, 100, 9):
        stall.waits_for("more", float(now_s))
        assert stall.told(now_s + 8.9) is None
    assert stall.due_in_s(99.0) == 10.0
    assert Stall(10.0).told(50.0) is None, "nobody said what is waited for"


def test_a_block_that_stands_still_is_told_of_while_it_does() -> None:
    told: list[tuple[str, float]] = []
    with stalls_told(0.02, lambda what, waited_s: told.append((what, waited_s))) as waits_for:
        waits_for("records")
        wait_until("it is told of", lambda: told, 30.0)
        waits_for("acknowledgements")
        # The records may have been told of once more meanwhile.
        wait_until("what came next is told of", lambda: told[-1][0] == "acknowledgements", 30.0)
    assert min(waited_s for _, waited_s in told) >= 0.02
    assert not [thread for thread in threading.enumerate() if thread.name == "stalls"]


def test_where_there_is_no_bar_nobody_sees_what_is_said() -> None:
    assert not WorkDone().say("waits")
