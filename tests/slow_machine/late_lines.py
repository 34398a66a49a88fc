"""A plugin for pytest: the lines of tests run late, at random, as they do on a slow machine.

What a test takes for granted between two of its lines, because they follow each other quickly, is found so in
a few runs: background work that has come first, a state that has passed, a wait that was over too early.
Whoever sleeps takes no CPU, so that many tests can run at once. `make slow` is the command.
"""

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

#: A loop that waits for something is not to use up all of the delay.
_TIMES_A_LINE = 2
_SHOWN_MAX = 40


class LateLines:
    """Which lines of one test are late, and by how much."""

    def __init__(
        self, tests: Path, chance: random.Random, probability: float, most_s: float, cap_s: float
    ) -> None:
        self.late: list[str] = []
        self._tests = f"{tests}/"
        self._chance = chance
        self._probability = probability
        self._most_s = most_s
        self._left_s = cap_s
        self._times: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()
        self._never = threading.Event()

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """For sys.settrace: only what stands in tests/ is traced by line."""
        return self._line if frame.f_code.co_filename.startswith(self._tests) else None

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            delay_s = self._delay_s((frame.f_code.co_filename, frame.f_lineno))
            if delay_s:
                self._never.wait(delay_s)
        return self._line

    def _delay_s(self, place: tuple[str, int]) -> float:
        with self._lock:
            if (
                self._left_s <= 0
                or self._times[place] == _TIMES_A_LINE
                or self._chance.random() >= self._probability
            ):
                return 0.0
            self._times[place] += 1
            delay_s = self._chance.random() * self._most_s
            self._left_s -= delay_s
            self.late.append(f"{Path(place[0]).name}:{place[1]} by {delay_s * 1_000:.0f} ms")
            return delay_s


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("slow machine")
    group.addoption(
        "--late-lines",
        default="0.4:600:15",
        metavar="PROBABILITY:MOST_MS:CAP_S",
        help="how many lines of a test are late, by how much at most, and by how much all of them together",
    )
    group.addoption("--late-seed", type=int, default=None, help="the chance; by the clock where left out")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Around the body of each test, in all threads that it starts."""
    probability, most_ms, cap_s = map(float, item.config.getoption("--late-lines").split(":"))
    seed = item.config.getoption("--late-seed")
    chance = random.Random(f"{time.time_ns() if seed is None else seed} {item.nodeid}")
    lines = LateLines(item.config.rootpath / "tests", chance, probability, most_ms / 1_000, cap_s)
    threading.settrace(lines.trace)
    sys.settrace(lines.trace)
    try:
        return (yield)
    except BaseException:
        item.add_report_section("call", "late lines", "\n".join(lines.late[-_SHOWN_MAX:]))
        raise
    finally:
        sys.settrace(None)
        threading.settrace(None)
