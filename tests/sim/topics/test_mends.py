"""Each rule about topics, moves and namesakes, off (red) and on (green)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from hightide_controller.core.values.mends import Mends as ControllerMends
from sim.checkers import Violation
from sim.topics.schedules import DEPARTURES, HOST_MENDS, Schedule, begin
from sim.topics.weakened import WITHOUT
from sim.topics.world import Cluster, Settings

CASES = [("host", name, *case) for name, case in HOST_MENDS.items()]
CASES += [("controller", "departures_end_epochs", *case) for case in DEPARTURES]
by_name = pytest.mark.parametrize(
    ("where", "name", "schedule", "checker"), CASES, ids=[case[2].__name__ for case in CASES]
)


def settings_of(where: str, name: str, on: bool) -> Settings:
    if where == "host":
        return Settings()
    return Settings(controller_mends=ControllerMends(**{name: on}))


@pytest.fixture
def clusters() -> Iterator[list[Cluster]]:
    opened: list[Cluster] = []
    yield opened
    for cluster in opened:
        cluster.close()


def started(clusters: list[Cluster], settings: Settings) -> Cluster:
    cluster = Cluster(settings)
    clusters.append(cluster)
    begin(cluster)
    return cluster


def test_every_rule_of_the_shell_has_a_schedule_that_needs_it() -> None:
    assert set(HOST_MENDS) == set(WITHOUT)


@by_name
def test_without_the_mend_an_invariant_breaks(
    clusters: list[Cluster], where: str, name: str, schedule: Schedule, checker: str
) -> None:
    weakened = WITHOUT[name]() if where == "host" else nullcontext()
    with weakened:
        cluster = started(clusters, settings_of(where, name, on=False))
        with pytest.raises(Violation) as found:
            schedule(cluster)
    assert found.value.invariant == checker


@by_name
def test_with_the_mend_the_same_schedule_is_well(
    clusters: list[Cluster], where: str, name: str, schedule: Schedule, checker: str
) -> None:
    schedule(started(clusters, settings_of(where, name, on=True)))
