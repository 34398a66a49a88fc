"""A fix that no test needs is not there: each mend C1 to C7, off (red) and on (green)."""

from __future__ import annotations

import pytest
from sim.checkers import Violation
from sim.groups.schedules import MENDS, Schedule, begin
from sim.known_wrong import COORDINATOR_RULES, without

by_name = pytest.mark.parametrize(
    ("name", "schedule", "invariant"), MENDS, ids=[schedule.__name__ for _, schedule, _ in MENDS]
)


def test_every_mend_has_a_schedule_that_needs_it() -> None:
    assert {name for name, _, _ in MENDS} == set(COORDINATOR_RULES)


@by_name
def test_without_the_mend_an_invariant_breaks(name: str, schedule: Schedule, invariant: str) -> None:
    with without(name):
        world = begin()
        with pytest.raises(Violation) as found:
            schedule(world)
    assert found.value.invariant == invariant


@by_name
def test_with_the_mend_the_same_schedule_is_well(name: str, schedule: Schedule, invariant: str) -> None:
    schedule(begin())
