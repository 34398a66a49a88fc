"""A broker's control on real files: the controller's word goes in, what becomes of replicas is seen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from adversary.batches import good_batch
from effect_ports import perform_with
from faulty_files import FaultyFiles
from hightide.batch.header import iterate
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.metadata import (
    EndpointView,
    MetadataCache,
    MetadataUpdate,
    PartitionView,
    RemovedPartitions,
    TopicView,
)
from hightide_broker.cluster.partition_decisions import (
    Decisions,
    PartitionDecision,
    PartitionKey,
    Stamp,
    StopDecision,
    TopicDecisions,
)
from hightide_broker.contract.convert_control import ControlResults
from hightide_broker.core.events import ProduceArrived
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.replica import Decision
from hightide_broker.data.log_start_writer import LogStartWriter
from hightide_broker.directories.log_directories import LogDirectories
from hightide_broker.hosting.control import ControlHandler, ControlListeners
from hightide_broker.hosting.registration import Registration
from hightide_broker.replica.group_commit import GroupCommit, GroupCommits
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Payload, ReplicaShell
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry

CLUSTER = "the-cluster"
ME = 1
BROKER_EPOCH = 77
TOPIC_ID = bytes(range(16))
NO_CONFIGS: Mapping[str, str] = {}
OK = ErrorCode.ERROR_CODE_UNSPECIFIED


class Unmoved:
    """Stands for fetchers and ISR store: nothing here leaves the broker."""

    def start(self, replica: HostedReplica, effect: object) -> None:
        """Nothing."""

    def stop(self, replica: HostedReplica) -> None:
        """Nothing."""

    def ask(self, replica: HostedReplica, effect: object) -> None:
        """Nothing."""

    def resume(self, replica: HostedReplica) -> None:
        """Nothing."""

    def store(self, replica: HostedReplica, effect: object) -> None:
        """Nothing."""

    def read(self, replica: HostedReplica) -> None:
        """Nothing."""


class Registered(Registration):
    """A registration that was made: no ZooKeeper is behind it."""

    def __init__(self) -> None:
        """In one broker epoch for ever."""

    async def known(self, timeout_s: float) -> int:
        """The broker epoch."""
        return BROKER_EPOCH


class Rig:
    """One broker's control, its replicas and its disks."""

    def __init__(self, directories: LogDirectories, files: FaultyFiles) -> None:
        self.directories = directories
        self.files = files
        self.replicas = HostedReplicas()
        self.metadata = MetadataCache(CLUSTER)
        self.sessions: LeaderSessions[PartitionKey] = LeaderSessions(1)
        self.failures: list[Exception] = []
        clock = SystemClock()
        self.shell = ReplicaShell(clock, self.sessions, Telemetry.off(), self.failures.append)
        self.suspects: list[PartitionKey] = []
        self.limits: list[int] = []
        self.control = ControlHandler(
            ME, clock, self.replicas, self.metadata, self.shell, directories, Registered(), Telemetry.off(),
            ControlListeners(self.suspects.extend, lambda: None, self.limits.append), 10_000, 1,
        )  # fmt: skip
        group_commits = {
            each.path: GroupCommit(each.executor, self.shell.flushed, self.failures.append)
            for each in directories.all
        }
        perform_with(
            self.shell,
            fetching=Unmoved(),
            isr=Unmoved(),
            stopped=self.control,
            log_starts=LogStartWriter(self.directories, self.failures.append),
            group_commit=GroupCommits(group_commits, lambda replica: replica.log.data_directory),
        )

    async def decide(
        self, *decisions: PartitionDecision, configs: Mapping[str, str] = NO_CONFIGS
    ) -> list[ErrorCode.ValueType]:
        asked = request(*decisions, configs=configs)
        return codes(await self.control.leader_and_isr(stamp(), asked))

    async def stop(self, *stops: StopDecision) -> list[ErrorCode.ValueType]:
        return codes(await self.control.stop_replicas(stamp(), stops))

    def replica(self, partition: int = 0, topic_id: bytes = TOPIC_ID) -> HostedReplica:
        found = self.replicas.get((topic_id, partition))
        assert found is not None, f"no replica of partition {partition} runs"
        return found

    def runs(self, partition: int = 0, topic_id: bytes = TOPIC_ID) -> bool:
        return self.replicas.get((topic_id, partition)) is not None

    def produce(self, partition: int = 0, topic_id: bytes = TOPIC_ID) -> None:
        """A record that the leader appends."""
        batch = good_batch(topic_id, partition)
        headers = [header for _, header in iterate(batch)]
        arrived = ProduceArrived.dummy(acks_all=False)
        self.shell.feed(self.replica(partition, topic_id), arrived, Payload(batch, headers))

    def quarantined(self) -> list[str]:
        """The partitions in quarantine, without the time at which they went there."""
        folders = [Path(each.path) / "quarantine" for each in self.directories.all]
        names = (path.name for folder in folders if folder.exists() for path in folder.iterdir())
        return sorted(name.rpartition(".")[0] for name in names)

    @contextmanager
    def busy_disk(self) -> Iterator[None]:
        """The disk's thread is busy: whatever waits for it waits until the block is left."""
        free = threading.Event()
        for each in self.directories.all:
            each.executor.submit(free.wait, 60)
        try:
            yield
        finally:
            free.set()


def stamp(controller_epoch: int = 5) -> Stamp:
    return Stamp(CLUSTER, 9, controller_epoch, BROKER_EPOCH)


def decision(
    partition: int = 0,
    *,
    leader: int = ME,
    epoch: int = 0,
    isr: tuple[int, ...] = (1, 2),
    replicas: tuple[int, ...] = (1, 2),
    version: int = 0,
    first_epoch: int = 0,
    adding: tuple[int, ...] = (),
) -> PartitionDecision:
    decided = Decision(5, leader, epoch, isr, replicas, version)
    return PartitionDecision(partition, decided, first_epoch, adding)


def request(
    *decisions: PartitionDecision,
    topic: str = "flights",
    topic_id: bytes = TOPIC_ID,
    configs: Mapping[str, str] = NO_CONFIGS,
) -> Decisions:
    return Decisions((TopicDecisions(topic, topic_id, configs, decisions),), ())


def stop(
    partition: int = 0,
    *,
    epoch: int = 0,
    delete: bool = True,
    version: int | None = None,
    topic_id: bytes = TOPIC_ID,
) -> StopDecision:
    return StopDecision("flights", topic_id, partition, epoch, delete, version)


def codes(results: ControlResults) -> list[ErrorCode.ValueType]:
    return [code for _, _, code in results]


async def until_settled() -> None:
    """Let everything happen that needs no disk."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(path: Path, scenario: Callable[[Rig], Awaitable[None]]) -> None:
    """One life of a broker, over one data directory below the path; it is closed cleanly at the end."""

    async def main() -> None:
        files = FaultyFiles()
        directories = await LogDirectories.open([path / "a"], CLUSTER, ME, files)
        rig = Rig(directories, files)
        try:
            await scenario(rig)
        finally:
            rig.shell.close()
            await directories.close(clean=True)

    asyncio.run(main())


def leave_a_log(path: Path, epoch: int = 0) -> None:
    """An earlier life of the broker led partition 0, and appended a record to it."""

    async def scenario(rig: Rig) -> None:
        assert await rig.decide(decision(epoch=epoch, first_epoch=epoch)) == [OK]
        rig.produce()

    run(path, scenario)


def update(
    *topics: TopicView,
    full: bool = False,
    deleted: tuple[bytes, ...] = (),
    removed: tuple[RemovedPartitions, ...] = (),
    limit: int = 0,
) -> MetadataUpdate:
    """What the controller tells of the cluster."""
    return MetadataUpdate(
        5, EndpointView(9, "c", 1), (EndpointView(ME, "b", 2),), topics, deleted, full, removed, limit
    )


def described(*replicas: tuple[int, ...], topic_id: bytes = TOPIC_ID) -> TopicView:
    """A topic as metadata has it, with the replicas of each partition."""
    views = tuple(PartitionView(n, each[0], 0, each, each, 0) for n, each in enumerate(replicas))
    return TopicView("flights", topic_id, views, {})
