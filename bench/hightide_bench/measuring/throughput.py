"""`bench produce`, `consume` and `e2e`: runs several rounds of a load, and returns the medians of their
figures."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

from hightide_bench.loads.load_worker import LoadWorker, run_load
from hightide_bench.measuring.statistics import latency_figures, medians, rate_figures
from hightide_bench.measuring.target import RETENTION, LoadTarget

Figures = dict[str, float | None]
#: Called after each round, with its subject and its figures.
OnRound = Callable[[str, Figures], None]
_WARM_S = 2.0


@dataclass(frozen=True, slots=True)
class ProducePlan:
    """The load of `bench produce`. If `records_per_s` is None, it sends as fast as it can."""

    record_bytes: int
    api: Literal["send", "send_arrow"]
    acks: Literal["all", 1, 0]
    compression: Literal["lz4", "zstd"] | None
    linger_ms: float
    partitions: int
    measured_s: float
    rounds: int
    records_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ConsumePlan:
    """The load of `bench consume`. It reads `size_mb` MB of values, which are written just before."""

    record_bytes: int
    size_mb: int
    partitions: int
    rounds: int


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """The load of `bench e2e`: single records at an even rate, so low that no record waits for another."""

    record_bytes: int
    records_per_s: float
    measured_s: float
    partitions: int
    rounds: int


def ignore_round(of: str, figures: Figures) -> None:
    """Do nothing after a round."""


class ProduceRounds:
    """The rounds of `bench produce` on one cluster."""

    def __init__(self, target: LoadTarget, topic: str, plan: ProducePlan) -> None:
        where = _where(target, topic)
        self._configuration = {**asdict(plan), **where, "warm_s": _WARM_S, "records": None}

    def measure(self) -> Figures:
        """Run one round in a new process, and return its figures."""
        return run_load("hightide_bench.loads.produce_load", self._configuration)


def measure_produce(target: LoadTarget, plan: ProducePlan, on_round: OnRound = ignore_round) -> Figures:
    """Send as fast as one process can, or at the rate of the plan. All rounds write to the same topic, whose
    old segments are deleted meanwhile. `bench produce` calls it."""
    with produce_topic(target, plan) as topic:
        return _rounds("produce", plan.rounds, ProduceRounds(target, topic, plan).measure, on_round)


def produce_topic(target: LoadTarget, plan: ProducePlan) -> AbstractContextManager[str]:
    """Return the topic of all rounds, which exists within the block."""
    return target.topic("produce", plan.partitions, RETENTION)


def measure_consume(
    target: LoadTarget, plan: ConsumePlan, forms: list[str], on_round: OnRound = ignore_round
) -> dict[str, Figures]:
    """Fill a topic, then read all of it in each form: `arrow` by poll_arrow(), `records` by poll(). Return
    the figures by form. `bench consume` calls it."""
    with target.topic("consume", plan.partitions) as topic:
        return _consumed(target, topic, plan, forms, on_round)


def _consumed(
    target: LoadTarget, topic: str, plan: ConsumePlan, forms: list[str], on_round: OnRound
) -> dict[str, Figures]:
    records = plan.size_mb * 1_000_000 // plan.record_bytes
    fill = ProducePlan(
        record_bytes=plan.record_bytes,
        api="send_arrow",
        acks="all",
        compression=None,
        linger_ms=5,
        partitions=plan.partitions,
        measured_s=0,
        rounds=1,
    )
    configuration = {**asdict(fill), **_where(target, topic), "warm_s": 0.0, "records": records}
    run_load("hightide_bench.loads.produce_load", configuration)
    reading = {
        **_where(target, topic),
        "records": records,
        "record_bytes": plan.record_bytes,
        "warm_s": _WARM_S,
    }
    module = "hightide_bench.loads.consume_load"
    return {
        form: _rounds(form, plan.rounds, partial(run_load, module, {**reading, "as": form}), on_round)
        for form in forms
    }


def measure_latency(target: LoadTarget, plan: LatencyPlan, on_round: OnRound = ignore_round) -> Figures:
    """Send single records at an even rate. Measure the time of each from send() until another process has it.
    `bench e2e` calls it."""
    with target.topic("e2e", plan.partitions) as topic:
        return _rounds("e2e", plan.rounds, LatencyRounds(target, topic, plan).measure, on_round)


class LatencyRounds:
    """The rounds of `bench e2e` on one cluster."""

    def __init__(self, target: LoadTarget, topic: str, plan: LatencyPlan) -> None:
        self._plan = plan
        self._warm = int(plan.records_per_s * _WARM_S)
        self._records = self._warm + max(int(plan.records_per_s * plan.measured_s), 1)
        self._configuration = {
            **_where(target, topic),
            "records": self._records,
            "warm_records": self._warm,
            "record_bytes": plan.record_bytes,
            "records_per_s": plan.records_per_s,
        }

    def measure(self) -> Figures:
        """Run one round in two new processes, and return its figures."""
        module = "hightide_bench.loads.latency_load"
        with LoadWorker(module, {**self._configuration, "role": "consume"}) as consumer:
            consumer.wait_until_ready()
            sent = run_load(module, {**self._configuration, "role": "produce"})
            received = consumer.result()
        # The processor time includes the records that warm up, so the rates count them, too.
        rates = rate_figures(
            records=self._records,
            size_bytes=self._records * self._plan.record_bytes,
            elapsed_s=sent["elapsed_s"],
            client_cpu_s=sent["client_cpu_s"] + received["client_cpu_s"],
            broker_cpu_s=received["broker_cpu_s"],
        )
        return {**rates, **latency_figures(received["latencies_ms"])}


def _where(target: LoadTarget, topic: str) -> Mapping[str, object]:
    return {"bootstrap": target.bootstrap, "topic": topic, "broker_pids": target.broker_pids()}


def _rounds(of: str, count: int, measure: Callable[[], Figures], on_round: OnRound) -> Figures:
    measured = []
    for _ in range(count):
        measured.append(measure())
        on_round(of, measured[-1])
    return medians(measured)
