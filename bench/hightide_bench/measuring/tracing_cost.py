"""`bench produce --tracing on,off`: measures the cost of tracing, by two clusters in turns.

Two clusters run all the time, one with tracing and one without. Each round measures both, in an order that
changes from round to round. So other work of the machine affects both in the same way.
"""

import os
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from hightide_cli.dev.cluster import bench_directory
from hightide_local.cluster import LocalCluster
from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE

from hightide_bench.measuring.statistics import medians
from hightide_bench.measuring.target import LoadTarget
from hightide_bench.measuring.throughput import Figures, ProducePlan, ProduceRounds, produce_topic

ON, OFF = "on", "off"
_NO_TRACES: Mapping[str, str | None] = {"OTEL_TRACES_EXPORTER": "none", TRACE_DIRECTORY_VARIABLE: None}


def measure_tracing(plan: ProducePlan, modes: Sequence[str]) -> tuple[dict[str, Figures], float | None]:
    """Measure in each of the modes, ON and OFF. Return the figures by mode, and the rate with tracing divided
    by the rate without: the median over the rounds, or None if only one mode was measured."""
    directory = bench_directory()
    shutil.rmtree(directory, ignore_errors=True)
    with ExitStack() as clusters:
        measures = {}
        for mode in modes:
            environment = _NO_TRACES if mode == OFF else _traces_of(directory / mode)
            with _environment(environment):
                cluster = clusters.enter_context(LocalCluster(directory / mode))
                target = LoadTarget(cluster.bootstrap, cluster)
                topic = clusters.enter_context(produce_topic(target, plan))
                rounds = ProduceRounds(target, topic, plan)
            measures[mode] = partial(_measured_in, environment, rounds)
        figures: dict[str, list[Figures]] = {mode: [] for mode in modes}
        for number in range(plan.rounds):
            for mode in modes if number % 2 == 0 else reversed(modes):
                figures[mode].append(measures[mode]())
    return {mode: medians(each) for mode, each in figures.items()}, _ratio(figures)


def _ratio(figures: Mapping[str, Sequence[Figures]]) -> float | None:
    pairs = zip(figures.get(ON, ()), figures.get(OFF, ()), strict=False)
    rates = [(on["records_per_s"], off["records_per_s"]) for on, off in pairs]
    ratios = [on / off for on, off in rates if on and off]
    return statistics.median(ratios) if ratios else None


def _measured_in(environment: Mapping[str, str | None], rounds: ProduceRounds) -> Figures:
    with _environment(environment):
        return rounds.measure()


def _traces_of(directory: Path) -> Mapping[str, str | None]:
    """The environment with which a cluster starts its services, so that the load writes its traces beside
    theirs."""
    return {"OTEL_TRACES_EXPORTER": None, TRACE_DIRECTORY_VARIABLE: str(directory / "traces")}


@contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set these environment variables within the block, for this process and those that it starts. None
    unsets one."""
    before = {name: os.environ.get(name) for name in values}
    _put(values)
    try:
        yield
    finally:
        _put(before)


def _put(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
