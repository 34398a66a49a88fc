"""Apache Kafka as processes of this machine: a KRaft controller and three brokers."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.cimpl import NewTopic
from hightide_local.errors import ClusterError
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.java import SHORT_LIVED_JVM, java_of_environment
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.ports import HOST, free_port

from hightide_bench.peers.clusters.kafka_properties import (
    KafkaSettings,
    broker_properties,
    controller_properties,
)
from hightide_bench.peers.clusters.peer_cluster import (
    BROKERS,
    REPLICATION_FACTOR,
    TOPIC_CONFIGS,
    LedPartition,
    System,
)

#: The default of 1 MB refuses the larger batches of the tuned producer.
_MESSAGE_BYTES_MAX: Final = 4_000_000
#: As bin/kafka-server-start.sh starts it.
JVM_FLAGS: Final = (
    *("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
)
_CLUSTER_ID: Final = "Wdg5J93ZTzKGKg9SfBxIog"
_CONTROLLER: Final = "controller"
_LOG4J: Final = """\
status=ERROR
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=WARN
rootLogger.appenderRefs=console
rootLogger.appenderRef.console.ref=console
"""
_READY_S: Final = 120.0
_CALL_S: Final = 20.0
_TOPIC_S: Final = 300.0
_LOOK_S: Final = 0.05
_STOP_S: Final = 60.0

Answer = TypeVar("Answer")


class KafkaCluster:
    """See PeerCluster. `jars` are Kafka's, `directory` is its own."""

    system: System = "kafka"

    def __init__(self, directory: Path, jars: Sequence[Path], settings: KafkaSettings) -> None:
        """Raises ClusterError if there is no Java, or if Kafka could not name the directory."""
        java = java_of_environment(os.environ)
        if java is None:
            raise ClusterError("no Java found, and Apache Kafka needs one: install a JDK 17 or later")
        if "," in str(directory) or not str(directory).isprintable():
            raise ClusterError(f"Kafka takes {str(directory)!r} for several directories; choose another")
        self._directory, self._settings = directory, settings
        self._guard: ProcessGuard | None = None
        self._ports = dict(zip((_CONTROLLER, *map(str, BROKERS)), _free_ports(len(BROKERS) + 1), strict=True))
        self._java = [
            *(str(java), f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}"),
            *("-cp", os.pathsep.join(map(str, jars))),
        ]
        self._processes: dict[str, ManagedProcess] = {}
        # One for all calls: a client that is thrown away ends the calls that it began.
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return ",".join(f"{HOST}:{self._ports[str(number)]}" for number in BROKERS)

    @property
    def client_environment(self) -> Mapping[str, str]:
        """The environment of its client processes: that of this one."""
        return dict(os.environ)

    def start(self) -> float:
        """Start it with empty disks. The time is that of the processes, without the formatting of disks."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        (self._directory / "log4j2.properties").write_text(_LOG4J)
        for name in self._ports:
            self._configuration(name).write_text(self._properties(name))
        self._format()
        self._guard = ProcessGuard()
        self._processes = {name: self._process(name) for name in self._ports}
        began_s = time.monotonic()
        try:
            for process in self._processes.values():
                process.start(self._guard)
            self._until(lambda: len(self._listed().brokers) == len(BROKERS), "knows three brokers", _READY_S)
        except BaseException:
            self.stop()
            raise
        return time.monotonic() - began_s

    def stop(self) -> None:
        """End all processes and delete all files."""
        for process in self._processes.values():
            process.kill()
        if self._guard is not None:
            self._guard.close()
            self._guard = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Create a topic, and wait until every partition is whole."""
        config = {**TOPIC_CONFIGS, "max.message.bytes": str(_MESSAGE_BYTES_MAX), **configs}
        if assignment is None:
            topic = NewTopic(name, partitions, REPLICATION_FACTOR, config=config)
        else:
            replicas = [list(each) for each in assignment]
            topic = NewTopic(name, partitions, replica_assignment=replicas, config=config)
        created = self._admin.create_topics([topic], operation_timeout=_TOPIC_S, request_timeout=_TOPIC_S)
        _answer(f"topic {name} was not created", created[name].result)

        def is_whole() -> bool:
            states = self.partitions([name])
            return len(states) == partitions and all(each.is_whole for each in states)

        self._until(is_whole, f"has topic {name} whole", _TOPIC_S)

    def delete_topic(self, name: str) -> None:
        """Delete a topic that exists."""
        deleted = self._admin.delete_topics([name], operation_timeout=_TOPIC_S)
        _answer(f"topic {name} was not deleted", deleted[name].result)

    def partitions(self, topics: Sequence[str]) -> list[LedPartition]:
        """Return the present state of all partitions of these topics."""
        return [
            LedPartition(
                name, number, None if each.leader < 0 else each.leader, each.replicas[0], len(each.isrs)
            )
            for name in topics
            for number, each in self._listed(name).topics[name].partitions.items()
        ]

    def elect_preferred_leaders(self, partitions: Sequence[LedPartition]) -> None:
        """Ask for the preferred leaders of these partitions. They may lead only after this has returned."""
        named = [TopicPartition(each.topic, each.partition) for each in partitions]
        # Without a timeout: confluent-kafka 2.16.1 raises SystemError for a named one.
        elected = self._admin.elect_leaders(ElectionType.PREFERRED, named)
        _answer("Kafka elected no preferred leaders", elected.result)

    def broker_pids(self) -> list[int]:
        """The processes of the brokers that run."""
        return [pid for name, pid in self._running().items() if name != _CONTROLLER]

    def all_pids(self) -> list[int]:
        """The processes that run."""
        return list(self._running().values())

    def strike(self, broker_id: int, number: signal.Signals) -> None:
        """Send a signal to a broker, and wait for nothing."""
        self._processes[str(broker_id)].send(number)

    def revive(self, broker_id: int) -> None:
        """End what is left of a broker that was struck, and start it again with its files."""
        process = self._processes[str(broker_id)]
        if not process.terminate(_STOP_S):
            process.kill()
        process.start(self._guard)
        self._until(lambda: broker_id in self._listed().brokers, f"knows broker {broker_id}", _READY_S)

    def _running(self) -> dict[str, int]:
        return {name: each.pid for name, each in self._processes.items() if each.pid}

    def _configuration(self, name: str) -> Path:
        return self._directory / f"{name}.properties"

    def _properties(self, name: str) -> str:
        data, port = self._directory / "data" / name, self._ports[name]
        if name == _CONTROLLER:
            return controller_properties(port, data, self._settings)
        return broker_properties(int(name), port, self._ports[_CONTROLLER], data, self._settings)

    def _process(self, name: str) -> ManagedProcess:
        command = [
            *self._java[:1],
            *JVM_FLAGS,
            *self._java[1:],
            "kafka.Kafka",
            str(self._configuration(name)),
        ]
        return ManagedProcess(f"kafka-{name}", command, os.environ, self._directory / f"{name}.log")

    def _format(self) -> None:
        """Format the disks of all processes. All at the same time, since each takes a JVM."""
        runs = [
            subprocess.Popen(
                [
                    *(*self._java[:1], *SHORT_LIVED_JVM, "-Xmx256m", *self._java[1:]),
                    *("kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID),
                    *("--config", str(self._configuration(name))),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for name in self._ports
        ]
        try:
            for run in runs:
                said, _ = run.communicate(timeout=_READY_S)
                if run.returncode:
                    raise ClusterError(f"Kafka did not format its disks: {said.strip().splitlines()[-1:]}")
        except subprocess.TimeoutExpired:
            raise ClusterError(f"Kafka did not format its disks within {_READY_S:.0f} s") from None
        finally:
            for run in runs:
                run.kill()
                run.wait()

    def _listed(self, topic: str | None = None) -> ClusterMetadata:
        if topic is None:
            return self._admin.list_topics(timeout=_CALL_S)
        return self._admin.list_topics(topic, _CALL_S)

    def _until(self, holds: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until a question to the cluster is answered by yes."""
        ends_s = time.monotonic() + timeout_s
        while True:
            with suppress(KafkaException):
                if holds():
                    return
            ended = [name for name, each in self._processes.items() if not each.is_running()]
            if time.monotonic() > ends_s or len(ended) == len(self._processes):
                tails = "\n".join(self._processes[name].log_tail(5) for name in ended)
                raise ClusterError(f"Kafka never {what} within {timeout_s:.0f} s; ended: {ended}\n{tails}")
            time.sleep(_LOOK_S)


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    while len(ports) < count:
        ports.append(free_port(ports))
    return ports


def _answer(otherwise: str, result: Callable[[], Answer]) -> Answer:
    try:
        return result()
    except KafkaException as error:
        raise ClusterError(f"{otherwise}: {error}") from error
