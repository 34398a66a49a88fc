"""`bench tls`: measures the cost of TLS with certificates of both sides, by a cluster with it and one without
it, in turns."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from hightide_local.cluster import LocalCluster
from hightide_local.cluster_certificates import TLS_VARIABLES

from hightide_bench.measuring.bench_folder import bench_folder
from hightide_bench.measuring.statistics import medians, percentile
from hightide_bench.measuring.target import RETENTION, LoadTarget
from hightide_bench.measuring.throughput import (
    Figures,
    LatencyPlan,
    LatencyRounds,
    OnRound,
    ProducePlan,
    ProduceRounds,
    ignore_round,
)
from hightide_bench.measuring.turns import Environment, environment, in_turns, ratio

PLAINTEXT, TLS = "plaintext", "tls"
_CONNECTIONS = 30
_CONNECT_S = 30.0


@dataclass(frozen=True, slots=True)
class TlsPlan:
    """What is measured with each of the two clusters in each round."""

    produce: ProducePlan
    latency: LatencyPlan
    rounds: int


def measure_tls(
    plan: TlsPlan, on_round: OnRound = ignore_round
) -> tuple[dict[str, Figures], dict[str, float | None]]:
    """Measure both clusters. Return the medians by cluster, and of each figure the ratio of TLS to plaintext:
    the median over the rounds."""
    with ExitStack() as clusters:
        directory = clusters.enter_context(bench_folder())
        measures = {
            name: clusters.enter_context(_cluster(directory / name, name == TLS, plan)).measure
            for name in (PLAINTEXT, TLS)
        }
        figures = in_turns(measures, plan.rounds, on_round)
    ratios = {key: ratio(figures, TLS, PLAINTEXT, key) for key in figures[TLS][0]}
    return {name: medians(each) for name, each in figures.items()}, ratios


class _MeasuredCluster:
    """One of the two clusters, and its topics."""

    def __init__(
        self, target: LoadTarget, variables: Environment, topics: tuple[str, str], plan: TlsPlan
    ) -> None:
        self._variables = variables
        self._address = target.bootstrap.split(",")[0]
        self._produce = ProduceRounds(target, topics[0], plan.produce)
        self._latency = LatencyRounds(target, topics[1], plan.latency)

    def measure(self) -> Figures:
        """Run one round of everything."""
        with environment(self._variables):
            produced, latency = self._produce.measure(), self._latency.measure()
            connects_ms = [_connect_ms(self._address) for _ in range(_CONNECTIONS)]
        return {
            "produce_mb_per_s": produced["mb_per_s"],
            "produce_client_cpu_s_per_gb": produced["client_cpu_s_per_gb"],
            "produce_broker_cpu_s_per_gb": produced["broker_cpu_s_per_gb"],
            "e2e_p50_ms": latency["p50_ms"],
            "e2e_p99_ms": latency["p99_ms"],
            "connect_p50_ms": percentile(connects_ms, 50),
        }


@contextmanager
def _cluster(directory: Path, with_tls: bool, plan: TlsPlan) -> Iterator[_MeasuredCluster]:
    """A cluster that runs, with topics for the loads; it ends with the block."""
    with LocalCluster(directory, tls=with_tls) as cluster:
        variables: Environment = cluster.client_environment or dict.fromkeys(TLS_VARIABLES)
        target = LoadTarget(cluster.bootstrap, cluster)
        with environment(variables):
            topics = (
                target.create_topic("produce", plan.produce.partitions, RETENTION),
                target.create_topic("e2e", plan.latency.partitions),
            )
        yield _MeasuredCluster(target, variables, topics, plan)


def _connect_ms(address: str) -> float:
    """The time until a new connection can take calls: with TLS, after its handshake."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    paths = [os.environ.get(name) for name in TLS_VARIABLES]
    credentials = None
    if all(paths):
        ca, certificate, key = (Path(str(path)).read_bytes() for path in paths)
        credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    began_s = time.perf_counter()
    with (
        grpc.secure_channel(address, credentials, options)
        if credentials is not None
        else grpc.insecure_channel(address, options)
    ) as channel:
        grpc.channel_ready_future(channel).result(_CONNECT_S)
        return (time.perf_counter() - began_s) * 1000
