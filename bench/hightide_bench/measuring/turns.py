"""Measures clusters that differ in one thing, in turns.

All of them run all the time. Each round measures each of them, in an order that changes from round to round.
So other work of the machine affects all of them in the same way.
"""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from hightide_bench.measuring.throughput import Figures, OnRound, ignore_round

Environment = Mapping[str, str | None]


def in_turns(
    measures: Mapping[str, Callable[[], Figures]], rounds: int, on_round: OnRound = ignore_round
) -> dict[str, list[Figures]]:
    """Return the figures of each round, by the name of what was measured."""
    figures: dict[str, list[Figures]] = {name: [] for name in measures}
    for number in range(rounds):
        for name in measures if number % 2 == 0 else reversed(list(measures)):
            figures[name].append(measures[name]())
            on_round(name, figures[name][-1])
    return figures


def ratio(figures: Mapping[str, list[Figures]], of: str, to: str, key: str) -> float | None:
    """A figure of one divided by that of the other in the same round: the median over the rounds, or None if
    not both were measured."""
    pairs = zip(figures.get(of, ()), figures.get(to, ()), strict=False)
    values = [(one[key], other[key]) for one, other in pairs]
    ratios = [one / other for one, other in values if one and other]
    return statistics.median(ratios) if ratios else None


@contextmanager
def environment(values: Environment) -> Iterator[None]:
    """Set these environment variables within the block, for this process and those that it starts. None
    unsets one."""
    before = {name: os.environ.get(name) for name in values}
    _put(values)
    try:
        yield
    finally:
        _put(before)


def _put(values: Environment) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
