"""Measures rows: all entrants in turns, round by round, on clusters that run side by side."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from hightide import HightideError
from hightide_local.errors import ClusterError

from hightide_bench.loads.load_worker import LoadFailedError
from hightide_bench.peers.clusters.kafka_properties import KafkaSettings
from hightide_bench.peers.clusters.peer_cluster import PeerCluster, System
from hightide_bench.peers.comparison import RowResult, readable
from hightide_bench.peers.rows.row import (
    HIGHTIDE,
    KAFKA_TUNED,
    PARTITIONS,
    RETENTION,
    Entrant,
    EntrantName,
    Figures,
    PeersPlan,
    Row,
    Stage,
)

SYSTEMS: Final[tuple[System, ...]] = ("hightide", "kafka")
NewCluster = Callable[[System, KafkaSettings], PeerCluster]
#: What a measurement may fail with. The row says so, and the next one is measured.
FAILURES: Final = (ClusterError, LoadFailedError, HightideError)


def run_rows(
    rows: Sequence[Row],
    plan: PeersPlan,
    new_cluster: NewCluster,
    cache: Path,
    fill_page_cache: Callable[[], object],
    say: Callable[[str], None],
) -> Iterator[RowResult]:
    """Measure these rows, and give the result of each when it is there. Rows that need the same clusters are
    measured on the same ones, so the order may be another. `cache` keeps jars. `say` gets a line for each
    measurement."""
    for settings in dict.fromkeys(row.kafka for row in rows):
        with _clusters(settings, new_cluster, say) as clusters:
            stage = Stage(clusters, plan, lambda system: new_cluster(system, KafkaSettings()), cache)
            if clusters:
                warm_up(stage, say)
            for row in rows:
                if row.kafka == settings:
                    yield run_row(row, stage, fill_page_cache, say)


def run_row(
    row: Row, stage: Stage, fill_page_cache: Callable[[], object], say: Callable[[str], None]
) -> RowResult:
    """Measure one row. A failure is part of the result; only what is no failure of a system is raised."""
    result = RowResult(row)
    began_s = time.monotonic()
    try:
        with row.open(stage) as measure:
            first = 0 if row.warms_up else 1
            for number in range(first, stage.plan.rounds + 1):
                measured, failures = _round(row, number, measure, fill_page_cache, say)
                result.failures += failures
                if number > 0:
                    result.rounds.append(measured)
    except FAILURES as error:
        result.failures.append(f"{row.name}: {error}")
        say(result.failures[-1])
    say(f"{row.name} took {time.monotonic() - began_s:.0f} s")
    return result


def warm_up(stage: Stage, say: Callable[[str], None]) -> None:
    """Let both systems take many records, and single ones, before anything is measured. Kafka's JVMs compile
    what they run often, and answer ten times as slowly before."""
    with stage.topic("warm-up", configs=RETENTION) as topic:
        for entrant in (HIGHTIDE, KAFKA_TUNED):
            where = {"topic": topic, "record_bytes": 1_000, "warm_s": 0.0}
            rate = {"records": None, "records_per_s": None, "content": "random"}
            stage.run(entrant, "produce_load", **where, **rate, measured_s=stage.plan.seconds)
            where["record_bytes"] = 100
            stage.run(entrant, "produce_load", **where, **rate, measured_s=stage.plan.seconds)
            single = {"partitions": PARTITIONS, "records_per_s": 500}
            stage.run(entrant, "latency_load", **where, **single, measured_s=stage.plan.seconds)
            say(f"{entrant.system} is warm")


def order(entrants: Sequence[Entrant], number: int) -> list[Entrant]:
    """Return who is measured when in a round: every second one goes backwards, so that none is always the
    first after a pause."""
    return list(entrants) if number % 2 else list(reversed(entrants))


def _round(
    row: Row,
    number: int,
    measure: Callable[[Entrant], Figures],
    fill_page_cache: Callable[[], object],
    say: Callable[[str], None],
) -> tuple[dict[EntrantName, Figures], list[str]]:
    measured: dict[EntrantName, Figures] = {}
    failures = []
    for entrant in order(row.entrants, number):
        about = f"{row.name}, {f'round {number}' if number else 'warming up'}, {entrant.name}"
        if row.is_bulk:
            fill_page_cache()
        try:
            measured[entrant.name] = measure(entrant)
        except FAILURES as error:
            failures.append(f"{about}: {error}")
            say(failures[-1])
            continue
        say(f"{about}: {_told(row, measured[entrant.name])}")
    return measured, failures


def _told(row: Row, figures: Mapping[str, float | None]) -> str:
    found = [(each.title, figures.get(each.key)) for each in row.figures]
    return ", ".join(f"{title} {readable(value)}" for title, value in found if value is not None)


@contextmanager
def _clusters(
    settings: KafkaSettings | None, new_cluster: NewCluster, say: Callable[[str], None]
) -> Iterator[dict[System, PeerCluster]]:
    """The clusters of some rows, which run within the block; none if the rows make their own."""
    clusters: dict[System, PeerCluster] = {}
    with ExitStack() as stack:
        for system in SYSTEMS if settings is not None else ():
            assert settings is not None
            cluster = new_cluster(system, settings)
            stack.callback(cluster.stop)
            say(f"{system} was ready after {cluster.start():.1f} s")
            clusters[system] = cluster
        yield clusters
