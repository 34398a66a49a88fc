"""What a broker needs of whoever decides about its replicas, and what it gives to it.

Two kinds obey this: `by_controller` and `by_leaders`. `broker` chooses one; no other part knows which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hightide_runtime.serving.server import Service
from hightide_runtime.telemetry.metric_declarations import Measure, MetricDeclaration
from hightide_runtime.telemetry.tracing import Telemetry

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.directories.healing import DamageReportPort
from hightide_broker.directories.hung_disks import HangReportPort
from hightide_broker.directories.log_directories import LogDirectories
from hightide_broker.hosting.registration import Registration
from hightide_broker.hosting.startup import ClusterAsStored, StoredCluster
from hightide_broker.ports import BrokerPorts
from hightide_broker.replica.held_replicas import HostedReplicas
from hightide_broker.replica.shell import DivergencePort, ReplicaShell, StoppedReplicaPort
from hightide_broker.replication.comparison import DifferenceReportPort
from hightide_broker.replication.isr_store import IsrStore
from hightide_broker.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class Host:
    """The parts of a broker that its decider works with."""

    settings: BrokerSettings
    ports: BrokerPorts
    telemetry: Telemetry
    cluster_id: str
    directories: LogDirectories
    metadata: MetadataCache
    replicas: HostedReplicas
    shell: ReplicaShell
    registration: Registration
    limit_moves: Callable[[int], None]
    """The speed limit of moves is this many bytes a second; 0: there is none."""
    tell_again: Callable[[], None]
    """Whoever is told of failed replicas has forgotten them: report them again."""
    fail: Callable[[Exception], None]
    """The broker cannot go on: it stops, for this reason."""


class ReplicaReportPort(DamageReportPort, HangReportPort, DifferenceReportPort, DivergencePort, Protocol):
    """Who acts on replicas of this broker that cannot lead, or should not."""

    def report(self, replicas: Iterable[PartitionKey]) -> None:
        """These replicas failed with their data directory."""
        ...


class Decider(StoppedReplicaPort, Protocol):
    """Who decides about the replicas of this broker. Belongs to the event loop's thread."""

    @property
    def cluster(self) -> StoredCluster:
        """The cluster in ZooKeeper."""
        ...

    @property
    def isr(self) -> IsrStore:
        """The ISRs of the partitions that this broker leads. Closed after the fetchers, not by `close`."""
        ...

    @property
    def reports(self) -> ReplicaReportPort:
        """Who hears of replicas that failed."""
        ...

    @property
    def metrics(self) -> tuple[Sequence[MetricDeclaration], Measure]:
        """What this decider measures beside the broker's metrics."""
        ...

    def services(self) -> list[Service]:
        """What this decider adds to the broker's server."""
        ...

    async def begin(self, stored: ClusterAsStored) -> None:
        """Begin to carry out decisions: the broker has left the ISRs that expect more of its logs than they
        have. Raises ZooKeeperError, StorageError."""
        ...

    async def join(self, patience_s: float) -> None:
        """Register: the broker listens. `patience_s`: how long another registration of its id may last.
        Raises ZooKeeperError, StartupError."""
        ...

    async def hand_over(self) -> None:
        """Let other brokers lead what this one leads. Called once on SIGTERM, while the broker still serves
        and has stopped following. Bounded by the settings; never raises if nobody takes over."""
        ...

    async def close(self) -> None:
        """Stop deciding and reporting."""
        ...


MakeDecider = Callable[[Host], Decider]
"""Makes the decider of a broker."""
