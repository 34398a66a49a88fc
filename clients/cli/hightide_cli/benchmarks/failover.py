"""`bench failover`: kill or stop the leader of most partitions under load, and see who waited how long."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from hightide import Admin, Consumer, TopicDescription
from hightide_local.cluster import LocalCluster
from hightide_local.traces import FailoverSummary, summarise_failover

from hightide_cli.benchmarks.failover_load import row_of
from hightide_cli.benchmarks.load_worker import LoadFailedError, LoadWorker
from hightide_cli.benchmarks.statistics import medians
from hightide_cli.benchmarks.target import Target
from hightide_cli.comparison import Comparer, Row
from hightide_cli.deliveries import DeliveryTimes
from hightide_cli.failover_traces import broker_failover

STEPS = ("detect_ms", "elect_ms", "zookeeper_ms", "fan_out_ms", "first_commit_ms")
_COUNTS = ("lost", "duplicated", "client_errors")
_STEP_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.02
_TRACE_WAIT_S = 3.0
_LOAD_GOES_ON_S = 1.0


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """What to do in each round."""

    partitions: int
    graceful: bool
    rounds: int


def measure_failover(target: Target, plan: FailoverPlan) -> dict[str, float | None]:
    """Run all rounds. Steps are medians over the rounds, the longest wait is that of all, counts are sums."""
    if target.cluster is None:
        raise LoadFailedError("failover kills a broker: it needs the cluster of `hightide dev up`, or none")
    rounds = [_one_round(target, target.cluster, plan) for _ in range(plan.rounds)]
    merged = medians(rounds)
    merged["unavailable_ms_max"] = max(each["unavailable_ms_max"] or 0.0 for each in rounds)
    for name in _COUNTS:
        merged[name] = sum(each[name] or 0 for each in rounds)
    return merged


def _one_round(target: Target, cluster: LocalCluster, plan: FailoverPlan) -> dict[str, float | None]:
    topic = target.create_topic("failover", plan.partitions, {"min.insync.replicas": "2"})
    configuration = {"bootstrap": target.bootstrap, "topic": topic, "partitions": plan.partitions}
    with (
        Admin(target.bootstrap) as admin,
        LoadWorker("hightide_cli.benchmarks.failover_load", configuration) as load,
    ):
        load.wait_until_ready()
        leaders = {
            part.partition: part.leader
            for part in _describe(admin, topic).partitions
            if part.leader is not None
        }
        ((victim, _),) = Counter(leaders.values()).most_common(1)
        name = f"broker-{victim}"
        ended_at_s = cluster.terminate(name) if plan.graceful else cluster.kill(name)
        ended_at_ms = (time.monotonic() - (time.time() - ended_at_s)) * 1000
        _until(
            lambda: all(part.leader not in (None, victim) for part in _describe(admin, topic).partitions),
            f"{topic} has new leaders after {name}",
        )
        summary = _trace_of(cluster, victim, ended_at_s)
        time.sleep(_LOAD_GOES_ON_S)
        load.stop()
        sent = load.result()
        cluster.restart(name)
        _until(
            lambda: all(set(part.isr) == set(part.replicas) for part in _describe(admin, topic).partitions),
            f"{name} is in every ISR of {topic} again",
        )
    times = DeliveryTimes.of(dict(enumerate(sent["acknowledged_ms"])))
    waits = times.longest_waits_ms(ended_at_ms, max(times.latest_ms(), ended_at_ms))
    lost_leader = [waits[partition] for partition, leader in leaders.items() if leader == victim]
    return {
        **{step: None if summary is None else getattr(summary, step) for step in STEPS},
        "unavailable_ms_max": max(waits.values()),
        "unavailable_ms_p50": median(lost_leader),
        **_read_back(target.bootstrap, topic, sent["sent_per_partition"], sent["failed"], plan.partitions),
    }


def _read_back(
    bootstrap: str, topic: str, sent: int, failed: Sequence[tuple[int, int, str]], partitions: int
) -> dict[str, float | None]:
    not_acknowledged = {(partition, number) for partition, number, _ in failed}
    written = [
        Row(*row_of(partition, number))
        for number in range(sent)
        for partition in range(partitions)
        if (partition, number) not in not_acknowledged
    ]
    comparer = Comparer(written, [Row(*row_of(*each)) for each in not_acknowledged])
    with Consumer(bootstrap, topics=[topic]) as consumer:
        for record in consumer.read_to_end():
            comparer.read_back(Row(record.key, record.value))
    found = comparer.result()
    # A reordered or foreign row is no figure of its own here, and must not go unseen.
    return {
        "lost": float(found.lost),
        "duplicated": float(found.duplicated + found.foreign + found.reordered),
        "client_errors": float(len(failed)),
    }


def _trace_of(cluster: LocalCluster, broker_id: int, since_s: float) -> FailoverSummary | None:
    """Return the summary of the failover that began now; brokers write their spans when these end."""
    found: FailoverSummary | None = None
    deadline_s = time.monotonic() + _TRACE_WAIT_S
    while time.monotonic() < deadline_s and (found is None or found.first_commit_ms is None):
        trace = broker_failover(cluster.trace_directory, broker_id, since_s)
        found = None if trace is None else summarise_failover(trace, since_s)
        time.sleep(_LOOK_AGAIN_S)
    return found


def _describe(admin: Admin, topic: str) -> TopicDescription:
    (described,) = admin.describe_topics([topic])
    return described


def _until(happened: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + _STEP_TIMEOUT_S
    while not happened():
        if time.monotonic() > deadline_s:
            raise LoadFailedError(f"it did not happen within {_STEP_TIMEOUT_S:.0f} s that {what}")
        time.sleep(_LOOK_AGAIN_S)
