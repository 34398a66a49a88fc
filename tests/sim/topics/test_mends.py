"""Each rule about topics, moves and namesakes, off (red) and on (green)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from sim.checkers import Violation
from sim.known_wrong import without
from sim.topics.schedules import DEPARTURES, HOST_MENDS, Schedule, begin
from sim.topics.weakened import WITHOUT
from sim.topics.world import Cluster

CASES = [(name, *case) for name, case in HOST_MENDS.items()]
CASES += [("departures_end_epochs", *case) for case in DEPARTURES]
by_name = pytest.mark.parametrize(
    ("name", "schedule", "checker"), CASES, ids=[case[1].__name__ for case in CASES]
)


def weakened(name: str) -> AbstractContextManager[None]:
    return WITHOUT[name]() if name in WITHOUT else without(name)


@pytest.fixture
def clusters() -> Iterator[list[Cluster]]:
    opened: list[Cluster] = []
    yield opened
    for cluster in opened:
        cluster.close()


def started(clusters: list[Cluster]) -> Cluster:
    cluster = Cluster()
    clusters.append(cluster)
    begin(cluster)
    return cluster


def test_every_rule_of_the_shell_has_a_schedule_that_needs_it() -> None:
    assert set(HOST_MENDS) == set(WITHOUT)


@by_name
def test_without_the_mend_an_invariant_breaks(
    clusters: list[Cluster], name: str, schedule: Schedule, checker: str
) -> None:
    with weakened(name):
        cluster = started(clusters)
        with pytest.raises(Violation) as found:
            schedule(cluster)
    assert found.value.invariant == checker


@by_name
def test_with_the_mend_the_same_schedule_is_well(
    clusters: list[Cluster], name: str, schedule: Schedule, checker: str
) -> None:
    schedule(started(clusters))
