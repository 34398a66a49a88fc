"""The rows of a new cluster: how long it takes to start, what memory it takes, and what partitions cost."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

import psutil

from hightide_bench.measuring.cluster_resources import BYTES_PER_MIB
from hightide_bench.peers.clusters.peer_cluster import PeerCluster, topic_sizes
from hightide_bench.peers.rows.row import (
    HIGHTIDE,
    KAFKA_DEFAULT,
    Entrant,
    Figure,
    Figures,
    Row,
    Stage,
    worker_of,
)

_IDLE_S: Final = 3.0


class ColdStart(Row):
    """Starts a cluster with empty disks, until a client can work with it."""

    name: str = "start"
    title: str = "cold start"
    figures: tuple[Figure, ...] = (Figure("ready_s", "s until ready", "lower"),)
    entrants = (HIGHTIDE, KAFKA_DEFAULT)
    kafka = None
    warms_up: ClassVar[bool] = False

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Prepare nothing: each measurement makes a cluster."""

        def measure(entrant: Entrant) -> Figures:
            cluster = stage.new_cluster(entrant.system)
            try:
                return {"ready_s": cluster.start()}
            finally:
                cluster.stop()

        yield measure


class Memory(Row):
    """Looks at the largest broker of a new cluster: idle, and with partitions that have one record each."""

    name: str = "memory"
    title: str = "a new cluster, then many partitions"
    figures: tuple[Figure, ...] = (
        Figure("idle_rss_mb", "broker MiB, idle", "lower"),
        Figure("create_s", "s to create the partitions", "lower"),
        Figure("first_records_s", "s for a record in each", "lower"),
        Figure("rss_mb", "broker MiB, with partitions", "lower"),
    )
    entrants = (HIGHTIDE, KAFKA_DEFAULT)
    kafka = None
    warms_up: ClassVar[bool] = False

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Prepare nothing: each measurement makes a cluster."""

        def measure(entrant: Entrant) -> Figures:
            cluster = stage.new_cluster(entrant.system)
            try:
                cluster.start()
                return _filled(cluster, entrant, stage.plan.partitions)
            finally:
                cluster.stop()

        yield measure


def _filled(cluster: PeerCluster, entrant: Entrant, partitions: int) -> Figures:
    time.sleep(_IDLE_S)
    idle_mb = _largest_mb(cluster.broker_pids())
    began_s = time.monotonic()
    sizes = topic_sizes(partitions)
    for number, size in enumerate(sizes):
        cluster.create_topic(f"peers-memory-{number}", size, {})
    created_s = time.monotonic()
    for number, size in enumerate(sizes):
        topics = [f"peers-memory-{number}"]
        with worker_of(cluster, entrant, "fill_load", topics=topics, partitions=size) as worker:
            worker.result()
    filled_s = time.monotonic()
    time.sleep(_IDLE_S)
    return {
        "idle_rss_mb": idle_mb,
        "create_s": created_s - began_s,
        "first_records_s": filled_s - created_s,
        "rss_mb": _largest_mb(cluster.broker_pids()),
    }


def _largest_mb(pids: Sequence[int]) -> float:
    return max(float(psutil.Process(pid).memory_info().rss) for pid in pids) / BYTES_PER_MIB


ROWS: Final[tuple[Row, ...]] = (ColdStart(), Memory())
