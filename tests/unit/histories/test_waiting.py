"""The bound on waiting holds, and says what was waited for."""

import pytest
from hightide_local.histories.violation import NotInTimeError
from hightide_local.histories.waiting import wait_until


def test_the_answer_comes_back_once_it_is_true() -> None:
    answers = iter([0, 0, 7])
    assert wait_until("a number", lambda: next(answers), 5) == 7


def test_what_never_becomes_true_is_named() -> None:
    with pytest.raises(NotInTimeError, match=r"not within 0 s: the moon; the last answer was False"):
        wait_until("the moon", lambda: False, 0)
