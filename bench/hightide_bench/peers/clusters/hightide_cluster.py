"""Hightide as processes of this machine: the local cluster, with a coordinator."""

import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hightide import Admin, TopicPartition
from hightide_local.cluster import LocalCluster
from hightide_local.errors import ClusterError
from hightide_runtime.process.environment import service_environment

from hightide_bench.peers.clusters.peer_cluster import (
    BROKERS,
    REPLICATION_FACTOR,
    TOPIC_CONFIGS,
    LedPartition,
    System,
)

_CALL_TIMEOUT_MS: Final = 60_000
_TOPIC_S: Final = 300.0


class HightideCluster:
    """See PeerCluster. `directory` is its own."""

    system: System = "hightide"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        shutil.rmtree(directory, ignore_errors=True)
        self._cluster = LocalCluster(directory, brokers=len(BROKERS), controllers=2, coordinators=1)

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return self._cluster.bootstrap

    @property
    def client_environment(self) -> Mapping[str, str]:
        """The environment of its client processes: that of services, as for all benchmarks."""
        return service_environment(os.environ)

    def start(self) -> float:
        """Start it with empty disks."""
        began_s = time.monotonic()
        self._cluster.start()
        return time.monotonic() - began_s

    def stop(self) -> None:
        """End all processes and delete all files."""
        try:
            self._cluster.stop()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Create a topic, and wait until every partition is whole."""
        with Admin(self.bootstrap, timeout_ms=_CALL_TIMEOUT_MS) as admin:
            config = {**TOPIC_CONFIGS, **configs}
            if assignment is None:
                admin.create_topic(name, partitions, REPLICATION_FACTOR, configs=config)
            else:
                admin.create_topic(name, assignment=[list(each) for each in assignment], configs=config)
        self._cluster.wait_isr(name, timeout_s=_TOPIC_S)

    def delete_topic(self, name: str) -> None:
        """Delete a topic that exists. What is in quarantine of those before goes as well: it would stay for a
        day, and Kafka's goes after a second."""
        for broker_id in BROKERS:
            for put_aside in self._cluster.data_directory(broker_id).glob("quarantine/*"):
                shutil.rmtree(put_aside)
        with Admin(self.bootstrap, timeout_ms=_CALL_TIMEOUT_MS) as admin:
            admin.delete_topic(name)

    def partitions(self, topics: Sequence[str]) -> list[LedPartition]:
        """Return the present state of all partitions of these topics."""
        with Admin(self.bootstrap, timeout_ms=_CALL_TIMEOUT_MS) as admin:
            return [
                LedPartition(topic.name, each.partition, each.leader, each.replicas[0], len(each.isr))
                for topic in admin.describe_topics(list(topics))
                for each in topic.partitions
            ]

    def elect_preferred_leaders(self, partitions: Sequence[LedPartition]) -> None:
        """Ask for the preferred leaders of these partitions. They may lead only after this has returned."""
        named = [TopicPartition(each.topic, each.partition) for each in partitions]
        with Admin(self.bootstrap, timeout_ms=_CALL_TIMEOUT_MS) as admin:
            admin.elect_leaders("preferred", named)

    def broker_pids(self) -> list[int]:
        """The processes of the brokers that run."""
        return [pid for name, pid in self._cluster.running().items() if name.startswith("broker-")]

    def all_pids(self) -> list[int]:
        """The processes that run."""
        return list(self._cluster.running().values())

    def strike(self, broker_id: int, number: signal.Signals) -> None:
        """Send a signal to a broker, and wait for nothing."""
        os.kill(self._pid(broker_id), number)

    def revive(self, broker_id: int) -> None:
        """End what is left of a broker that was struck, and start it again with its files."""
        self._cluster.restart(f"broker-{broker_id}")

    def _pid(self, broker_id: int) -> int:
        pid = self._cluster.running().get(f"broker-{broker_id}")
        if pid is None:
            raise ClusterError(f"broker-{broker_id} does not run")
        return pid
