"""`bench produce --tracing on,off`: measures the cost of tracing, in turns with and without it."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from hightide_local.cluster import LocalCluster
from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE

from hightide_bench.measuring.bench_folder import bench_folder
from hightide_bench.measuring.statistics import medians
from hightide_bench.measuring.target import LoadTarget
from hightide_bench.measuring.throughput import Figures, ProducePlan, ProduceRounds, produce_topic
from hightide_bench.measuring.turns import Environment, environment, in_turns, ratio

ON, OFF = "on", "off"
_NO_TRACES: Environment = {"OTEL_TRACES_EXPORTER": "none", TRACE_DIRECTORY_VARIABLE: None}


def measure_tracing(plan: ProducePlan, modes: Sequence[str]) -> tuple[dict[str, Figures], float | None]:
    """Measure in each of the modes, ON and OFF. Return the figures by mode, and the rate with tracing divided
    by the rate without: the median over the rounds, or None if only one mode was measured."""
    with ExitStack() as clusters:
        directory = clusters.enter_context(bench_folder())
        measures = {}
        for mode in modes:
            variables = _NO_TRACES if mode == OFF else _traces_of(directory / mode)
            with environment(variables):
                cluster = clusters.enter_context(LocalCluster(directory / mode))
                target = LoadTarget(cluster.bootstrap, cluster)
                topic = clusters.enter_context(produce_topic(target, plan))
                rounds = ProduceRounds(target, topic, plan)
            measures[mode] = partial(_measured_in, variables, rounds)
        figures = in_turns(measures, plan.rounds)
    return {mode: medians(each) for mode, each in figures.items()}, ratio(figures, ON, OFF, "records_per_s")


def _measured_in(variables: Environment, rounds: ProduceRounds) -> Figures:
    with environment(variables):
        return rounds.measure()


def _traces_of(directory: Path) -> Environment:
    """The environment with which a cluster starts its services, so that the load writes its traces beside
    theirs."""
    return {"OTEL_TRACES_EXPORTER": None, TRACE_DIRECTORY_VARIABLE: str(directory / "traces")}
