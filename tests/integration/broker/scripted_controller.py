"""One real broker process over a real ZooKeeper, and a controller that says what a test wants said."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from adversary.batches import good_batch
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_control_service_pb2_grpc as control_grpc
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import broker_service_pb2_grpc as broker_grpc
from hightide.v1 import metadata_pb2, replica_service_pb2
from hightide.v1 import replica_service_pb2_grpc as replica_grpc
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.ports import free_port
from hightide_runtime.process.environment import service_environment
from hightide_runtime.znodes.cluster_znodes import (
    BrokerZnode,
    ControllerEpochZnode,
    LeaderAndIsrZnode,
    PartitionZnode,
    TopicIdZnode,
    TopicZnode,
)
from hightide_runtime.zookeeper.session import Create, Delete, NoNode, SetData, ZooKeeperSession
from integration.controller.controller_harness import until

ME = 1
CONTROLLER_ID = 9
CONTROLLER_EPOCH = 5
CALL_S = 60.0
NO_CONFIGS: Mapping[str, str] = {}
NO_EPOCHS: Mapping[int, int] = {}


@dataclass(frozen=True)
class Topic:
    """A topic of one partition or more, as the scripted controller thinks of it."""

    name: str
    topic_id: bytes


class Scripted:
    """The broker with id 1, and what its controller writes and says."""

    def __init__(
        self,
        session: ZooKeeperSession,
        zookeeper: str,
        directory: Path,
        cluster_id: str,
        arguments: Sequence[str] = (),
    ) -> None:
        self.session = session
        self.cluster_id = cluster_id
        self.data = directory / "data"
        self.port = free_port()
        self.broker_epoch = 0
        command = [
            *(sys.executable, "-m", "hightide_broker.main", "--broker-id", str(ME)),
            *("--listen", f"127.0.0.1:{self.port}", "--data-dir", str(self.data), "--zookeeper", zookeeper),
            *("--zookeeper-session-timeout-ms", "30000", "--controlled-shutdown-timeout-ms", "0"),
            *arguments,
        ]
        log_path = directory / "broker.log"
        self.process = ManagedProcess("broker", command, service_environment(os.environ), log_path)
        self._guard = ProcessGuard()
        self._channel: grpc.aio.Channel | None = None
        self.control: control_grpc.BrokerControlServiceAsyncStub
        self.clients: broker_grpc.BrokerServiceAsyncStub
        self.followers: replica_grpc.ReplicaServiceAsyncStub

    # --- the broker's life -----------------------------------------------------------------------

    async def start(self) -> None:
        """Start the broker, and wait until it is registered in a life of its own."""
        before = self.broker_epoch
        self.process.start(self._guard)

        async def registered() -> int:
            assert self.process.is_running(), self.process.log_tail(30)
            found = await self.session.exists(BrokerZnode.path(ME))
            return 0 if found is None or found.czxid == before else found.czxid

        self.broker_epoch = await until(registered, "the broker is registered")
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.port}")
        self.control = control_grpc.BrokerControlServiceStub(self._channel)
        self.clients = broker_grpc.BrokerServiceStub(self._channel)
        self.followers = replica_grpc.ReplicaServiceStub(self._channel)

    async def kill(self) -> None:
        """SIGKILL: nothing is closed, nothing marked as clean."""
        self.process.kill()
        await self._hang_up()

    async def terminate(self) -> None:
        """SIGTERM."""
        assert await asyncio.to_thread(self.process.terminate, 20.0), self.process.log_tail(30)
        await self._hang_up()

    async def close(self) -> None:
        """End all that was started."""
        await self._hang_up()
        self.process.kill()
        self._guard.close()
        await self.session.close()

    async def _hang_up(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    # --- what the controller writes --------------------------------------------------------------

    async def create(
        self, name: str, *replicas: tuple[int, ...], first_epochs: Mapping[int, int] = NO_EPOCHS
    ) -> Topic:
        """A topic whose partitions are led by their first replica."""
        topic = Topic(name, uuid.uuid4().bytes)
        znode = TopicZnode(topic.topic_id, replicas, first_epochs)
        await self.session.multi(
            [
                Create(TopicZnode.path(name), znode.encode()),
                Create(TopicIdZnode.path(topic.topic_id), TopicIdZnode(name).encode()),
            ]
        )
        for number, assigned in enumerate(replicas):
            await self.add_state(topic, number, assigned[0], assigned)
        return topic

    async def add_state(
        self, topic: Topic, partition: int, leader: int, isr: tuple[int, ...], epoch: int = 0
    ) -> None:
        """leaderAndISR of a partition that has none."""
        state = LeaderAndIsrZnode(leader, epoch, isr, CONTROLLER_EPOCH)
        await self.session.multi(
            [
                Create(PartitionZnode.path(topic.name, partition), b""),
                Create(LeaderAndIsrZnode.path(topic.name, partition), state.encode()),
            ]
        )

    async def set_state(
        self, topic: Topic, partition: int, leader: int, epoch: int, isr: tuple[int, ...]
    ) -> int:
        """Another leaderAndISR; the partition epoch that it has."""
        state = LeaderAndIsrZnode(leader, epoch, isr, CONTROLLER_EPOCH)
        return await self.session.set(LeaderAndIsrZnode.path(topic.name, partition), state.encode(), -1)

    async def assign(
        self, topic: Topic, *replicas: tuple[int, ...], first_epochs: Mapping[int, int] = NO_EPOCHS
    ) -> None:
        """Another AR; whoever calls this changes leaderAndISR first."""
        znode = TopicZnode(topic.topic_id, replicas, first_epochs)
        await self.session.multi([SetData(TopicZnode.path(topic.name), znode.encode(), -1)])

    async def remove_states(self, topic: Topic, *partitions: int) -> None:
        """Take partitions' znodes away."""
        for number in partitions:
            await self.session.multi(
                [
                    Delete(LeaderAndIsrZnode.path(topic.name, number), -1),
                    Delete(PartitionZnode.path(topic.name, number), -1),
                ]
            )

    async def delete(self, topic: Topic) -> None:
        """Take a topic out of ZooKeeper, and say nothing."""
        found = TopicZnode.decode((await self.session.get(TopicZnode.path(topic.name))).data)
        await self.remove_states(topic, *range(len(found.partitions)))
        await self.session.multi(
            [Delete(TopicZnode.path(topic.name), -1), Delete(TopicIdZnode.path(topic.topic_id), -1)]
        )

    # --- what the controller says ----------------------------------------------------------------

    def stamp(self) -> control_pb2.ControllerStamp:
        """The stamp of the one true controller."""
        return control_pb2.ControllerStamp(
            cluster_id=self.cluster_id,
            controller_id=CONTROLLER_ID,
            controller_epoch=CONTROLLER_EPOCH,
            broker_epoch=self.broker_epoch,
        )

    async def decisions(
        self,
        topic: Topic,
        *partitions: int,
        first_epoch: int = 0,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> control_pb2.LeaderAndISRRequest:
        """LeaderAndISR as ZooKeeper has it."""
        assigned = TopicZnode.decode((await self.session.get(TopicZnode.path(topic.name))).data)
        decisions = []
        for number in partitions:
            found = await self.session.get(LeaderAndIsrZnode.path(topic.name, number))
            state = LeaderAndIsrZnode.decode(found.data)
            decisions.append(
                control_pb2.LeaderAndISRPartition(
                    partition=number, leader=state.leader, leader_epoch=state.leader_epoch, isr=state.isr,
                    replicas=assigned.partitions[number], partition_epoch=found.version,
                    controller_epoch=CONTROLLER_EPOCH, first_leader_epoch=first_epoch,
                )
            )  # fmt: skip
        told = control_pb2.LeaderAndISRTopic(
            topic=topic.name, topic_id=topic.topic_id, configs=dict(configs), partitions=decisions
        )
        return control_pb2.LeaderAndISRRequest(stamp=self.stamp(), topics=[told])

    async def send(self, request: control_pb2.LeaderAndISRRequest) -> list[int]:
        """LeaderAndISR; the error codes."""
        response = await self.control.LeaderAndISR(request, timeout=CALL_S)
        return [each.error_code for each in response.partitions]

    async def decide(
        self,
        topic: Topic,
        *partitions: int,
        first_epoch: int = 0,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> list[int]:
        """LeaderAndISR as ZooKeeper has it; the error codes."""
        return await self.send(
            await self.decisions(topic, *partitions, first_epoch=first_epoch, configs=configs)
        )

    async def stop(self, topic: Topic, *partitions: int, epoch: int = 0) -> list[int]:
        """StopReplica with delete; the error codes."""
        request = control_pb2.StopReplicaRequest(
            stamp=self.stamp(),
            partitions=[
                control_pb2.StopReplicaPartition(
                    topic=topic.name, topic_id=topic.topic_id, partition=number, leader_epoch=epoch,
                    delete=True,
                )
                for number in partitions
            ],
        )  # fmt: skip
        response = await self.control.StopReplica(request, timeout=CALL_S)
        return [each.error_code for each in response.partitions]

    async def update(
        self, *topics: metadata_pb2.TopicMetadata, deleted: tuple[Topic, ...] = (), full: bool = False
    ) -> None:
        """UpdateMetadata."""
        request = control_pb2.UpdateMetadataRequest(
            stamp=self.stamp(),
            brokers=[metadata_pb2.Endpoint(id=ME, host="127.0.0.1", port=self.port)],
            topics=topics,
            deleted_topic_ids=[topic.topic_id for topic in deleted],
            full=full,
        )
        await self.control.UpdateMetadata(request, timeout=CALL_S)

    # --- what clients see ------------------------------------------------------------------------

    async def produce(
        self,
        topic: Topic,
        partition: int = 0,
        *values: bytes,
        timeout_ms: int = 15_000,
        acks: broker_pb2.Acks.ValueType = broker_pb2.ACKS_ALL,
    ) -> broker_pb2.ProducePartitionResult:
        """One batch: these records, or a good one."""
        request = broker_pb2.ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            partitions=[
                broker_pb2.ProducePartition(
                    topic_id=topic.topic_id,
                    partition=partition,
                    leader_epoch=-1,
                    batches=good_batch(topic.topic_id, partition, values or (b"good",)),
                )
            ],
        )
        (result,) = (await self.clients.Produce(request, timeout=CALL_S)).partitions
        return result

    async def fetch(
        self, topic: Topic, partition: int = 0, offset: int = 0, max_wait_ms: int = 0
    ) -> broker_pb2.FetchPartitionResult:
        """What is there from an offset on."""
        request = broker_pb2.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            partitions=[
                broker_pb2.FetchPartition(
                    topic_id=topic.topic_id, partition=partition, leader_epoch=-1, fetch_offset=offset,
                    max_bytes=1 << 20,
                )
            ],
        )  # fmt: skip
        (result,) = (await self.clients.Fetch(request, timeout=CALL_S)).partitions
        return result

    async def follow(self, replica_id: int, topic: Topic, offset: int, incarnation: int) -> None:
        """A ReplicaFetch of a follower that has everything below an offset, in leader epoch 0."""
        request = replica_service_pb2.ReplicaFetchRequest(
            cluster_id=self.cluster_id, replica_id=replica_id, broker_epoch=7, incarnation=incarnation,
            max_bytes=1 << 20,
        )  # fmt: skip
        request.moved.add(topic_id=topic.topic_id, partition=0, leader_epoch=0, fetch_offset=offset)
        await self.followers.ReplicaFetch(request, timeout=CALL_S)

    async def held(self) -> dict[tuple[bytes, int], broker_pb2.ReplicaDescription]:
        """What the broker says that it holds."""
        response = await self.clients.DescribeReplicas(broker_pb2.DescribeReplicasRequest(), timeout=CALL_S)
        return {(each.topic_id, each.partition): each for each in response.replicas}

    # --- what is on disk -------------------------------------------------------------------------

    def on_disk(self, topic: Topic, partition: int = 0) -> Path:
        """The directory of a partition."""
        return self.data / f"{topic.topic_id.hex()}-{partition}"

    def quarantined(self) -> set[str]:
        """The directories in quarantine, by the names that they had."""
        folder = self.data / "quarantine"
        return {path.name.rpartition(".")[0] for path in folder.iterdir()} if folder.exists() else set()

    async def until_quarantined(self, topic: Topic, partition: int = 0) -> None:
        """Wait until the broker has put a partition aside."""
        name = self.on_disk(topic, partition).name

        async def aside() -> bool:
            return name in self.quarantined()

        await until(aside, f"{name} is in quarantine")
        assert not self.on_disk(topic, partition).exists() or (topic.topic_id, partition) in await self.held()


@asynccontextmanager
async def scripted(zookeeper: str, directory: Path, arguments: Sequence[str] = ()) -> AsyncIterator[Scripted]:
    """A broker that runs, with these arguments more, and is registered."""
    session = await ZooKeeperSession.connect(zookeeper, session_timeout_ms=30_000)
    built = None
    try:
        cluster_id = await session.ensure_cluster_id()
        epoch = ControllerEpochZnode(CONTROLLER_EPOCH)
        try:
            await session.get(ControllerEpochZnode.path())
        except NoNode:
            await session.create(ControllerEpochZnode.path(), epoch.encode())
        built = Scripted(session, zookeeper, directory, cluster_id, arguments)
        await built.start()
        yield built
    finally:
        if built is not None:
            await built.close()
        else:
            await session.close()


def described(topic: Topic, *replicas: tuple[int, ...], error_code: int = 0) -> metadata_pb2.TopicMetadata:
    """A topic as UpdateMetadata tells of it."""
    return metadata_pb2.TopicMetadata(
        topic=topic.name,
        topic_id=topic.topic_id,
        error_code=error_code,  # type: ignore[arg-type]
        partitions=[
            metadata_pb2.PartitionMetadata(
                partition=number, leader=each[0], leader_epoch=0, replicas=each, isr=each
            )
            for number, each in enumerate(replicas)
        ],
    )
