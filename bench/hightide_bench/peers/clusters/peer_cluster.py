"""What a row may ask of a cluster, whichever system runs it."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

System = Literal["hightide", "kafka"]

BROKERS: Final = (1, 2, 3)
REPLICATION_FACTOR: Final = len(BROKERS)
#: What every topic of the comparison has in both systems.
TOPIC_CONFIGS: Final = {"min.insync.replicas": "2"}
PARTITIONS_A_TOPIC: Final = 1_000


@dataclass(frozen=True, slots=True)
class LedPartition:
    """One partition, as the metadata of its cluster show it. `leader` is None while there is none.
    `preferred` is the first of its replicas."""

    topic: str
    partition: int
    leader: int | None
    preferred: int
    in_sync: int

    @property
    def is_whole(self) -> bool:
        """Whether it has a leader, and all replicas are in sync."""
        return self.leader is not None and self.in_sync == REPLICATION_FACTOR


class PeerCluster(Protocol):
    """Three brokers and what they need, as processes of this machine on free ports of the loopback.

    All methods raise ClusterError if the cluster cannot do it in time. No process outlives this one.
    """

    @property
    def system(self) -> System:
        """Which system it is."""

    @property
    def bootstrap(self) -> str:
        """The address for clients."""

    @property
    def client_environment(self) -> Mapping[str, str]:
        """The environment of its client processes."""

    def start(self) -> float:
        """Start it with empty disks. Return how many seconds it took until a client could work with it."""

    def stop(self) -> None:
        """End all processes and delete all files."""

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Create a topic, and wait until every partition is whole. `assignment` has the replicas of each
        partition, the preferred leader first."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic that exists."""

    def partitions(self, topics: Sequence[str]) -> list[LedPartition]:
        """Return the present state of all partitions of these topics."""

    def elect_preferred_leaders(self, partitions: Sequence[LedPartition]) -> None:
        """Ask for the preferred leaders of these partitions. They may lead only after this has returned."""

    def broker_pids(self) -> list[int]:
        """The processes of the brokers that run."""

    def all_pids(self) -> list[int]:
        """The processes that run: brokers, controllers, and what else belongs to the system."""

    def strike(self, broker_id: int, number: signal.Signals) -> None:
        """Send a signal to a broker, and wait for nothing."""

    def revive(self, broker_id: int) -> None:
        """End what is left of a broker that was struck, and start it again with its files."""


def topic_sizes(partitions: int) -> list[int]:
    """Return the partitions of each topic if no topic has more than 1,000: full ones first."""
    begun = range(0, partitions, PARTITIONS_A_TOPIC)
    return [min(PARTITIONS_A_TOPIC, partitions - first) for first in begun]
