"""What a row of the table is: who takes part, what is measured, and how."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from hightide_bench.loads.load_worker import LoadWorker
from hightide_bench.peers.clusters.kafka_properties import KafkaSettings
from hightide_bench.peers.clusters.peer_cluster import PeerCluster, System

Figures = dict[str, float | None]
EntrantName = Literal["hightide", "kafka default", "kafka tuned"]

PARTITIONS: Final = 6
#: Old segments are deleted while a row writes gigabytes, in both systems alike.
RETENTION: Final = {"retention.bytes": str(256 << 20), "segment.bytes": str(64 << 20)}
WARM_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Entrant:
    """One column of the table: a system, and how its client is set up."""

    name: EntrantName
    system: System
    tuned: bool = False


HIGHTIDE: Final = Entrant("hightide", "hightide")
KAFKA_DEFAULT: Final = Entrant("kafka default", "kafka")
KAFKA_TUNED: Final = Entrant("kafka tuned", "kafka", tuned=True)
ALL_ENTRANTS: Final = (HIGHTIDE, KAFKA_DEFAULT, KAFKA_TUNED)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    key: str
    title: str
    better: Literal["higher", "lower"]


MB_PER_S: Final = Figure("mb_per_s", "MB/s", "higher")
RECORDS_PER_S: Final = Figure("records_per_s", "records/s", "higher")
CPU: Final = (
    Figure("cpu_s_per_gb", "CPU s/GB, client + brokers", "lower"),
    Figure("client_cpu_s_per_gb", "CPU s/GB, client", "lower"),
)
P50: Final = Figure("p50_ms", "p50 ms", "lower")
P99: Final = Figure("p99_ms", "p99 ms", "lower")


@dataclass(frozen=True, slots=True)
class PeersPlan:
    """How much is measured. Rows that send measure for `seconds`, rows that read do so with `size_mb` MB of
    values, and `partitions` are those of the rows with many partitions."""

    rounds: int
    seconds: float
    size_mb: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Stage:
    """What a row has to measure with: the clusters of both systems, which run, and the plan."""

    clusters: Mapping[System, PeerCluster]
    plan: PeersPlan
    new_cluster: Callable[[System], PeerCluster]
    """Makes a further cluster, which is not started yet."""
    cache: Path
    """Where jars from Maven are kept."""

    @contextmanager
    def topic(
        self,
        purpose: str,
        partitions: int = PARTITIONS,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[str]:
        """Create a topic in both clusters, and delete it after the block."""
        name = f"peers-{purpose}-{time.time_ns() // 1_000_000}-{os.getpid()}"
        created = []
        try:
            for cluster in self.clusters.values():
                cluster.create_topic(name, partitions, configs or {}, assignment)
                created.append(cluster)
            yield name
        finally:
            for cluster in created:
                cluster.delete_topic(name)

    def worker(self, entrant: Entrant, load: str, **configuration: object) -> LoadWorker:
        """Make the process of a load, for a with-block."""
        return worker_of(self.clusters[entrant.system], entrant, load, **configuration)

    def run(self, entrant: Entrant, load: str, **configuration: object) -> dict[str, Any]:
        """Run a load to its end, and return its result."""
        with self.worker(entrant, load, **configuration) as worker:
            return worker.result()


def worker_of(cluster: PeerCluster, entrant: Entrant, load: str, **configuration: object) -> LoadWorker:
    """Make the process of a load that works with a cluster."""
    return LoadWorker(
        f"hightide_bench.peers.loads.{load}",
        {
            "system": entrant.system,
            "tuned": entrant.tuned,
            "bootstrap": cluster.bootstrap,
            "broker_pids": cluster.broker_pids(),
            **configuration,
        },
        cluster.client_environment,
    )


class Row(ABC):
    """One row, which measures every entrant in the same way.

    `open` prepares both clusters, and gives the function that measures an entrant once. It is called for one
    entrant after the other, round by round.
    """

    name: str
    title: str
    figures: Sequence[Figure]
    entrants: Sequence[Entrant] = ALL_ENTRANTS
    kafka: KafkaSettings | None = KafkaSettings()
    """The settings of the Kafka cluster beside; None: the row needs no cluster but those that it makes."""
    warms_up: ClassVar[bool] = True
    """Whether a round is measured before the first one that counts."""
    is_bulk: ClassVar[bool] = False
    """Whether so much is written or read that the page cache is filled before each round."""

    @abstractmethod
    def open(self, stage: Stage) -> AbstractContextManager[Callable[[Entrant], Figures]]:
        """Prepare the row. Topics are deleted after the block."""


def with_whole_cpu(figures: Mapping[str, float | None]) -> Figures:
    """Add the processor seconds of client and brokers together."""
    client, brokers = figures["client_cpu_s_per_gb"], figures["broker_cpu_s_per_gb"]
    whole = None if client is None or brokers is None else client + brokers
    return {**figures, "cpu_s_per_gb": whole}
