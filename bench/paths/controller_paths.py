"""Compares the ways in which a controller can store and send ten thousand decisions, on one ZooKeeper.

    .venv/bin/python bench/paths/controller_paths.py [--partitions 10000] [--rounds 3] [--json]

Store: one conditional write for each leaderAndISR, awaited one by one (V3 A.3.3); the same pipelined; and
pipelined multis of 1,000 writes, each after a check of the controller epoch (Hightide's way). Read (V3 A.3.1,
D.3): one by one, pipelined, multiRead.

Send: one command to one broker, by RPC, and by a queue in ZooKeeper (V3 discussion 2; V2's way: write, watch,
list, read, remove). Then a failover of all partitions to two brokers: one RPC for each broker; one command
for each broker in its queue; and a command for each partition and broker in the queues, pipelined. The time
ends when the sender knows that the command was carried out.

Figures are medians of the rounds. Each round measures all ways in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import grpc
from commanded_broker import READY, queue_of, watch_fired
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_control_service_pb2_grpc as control_grpc
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.znodes.cluster_znodes import LeaderAndIsrZnode, PartitionZnode, TopicZnode
from hightide_runtime.zookeeper.session import Check, Create, SetData, ZooKeeperSession, multis_of

BROKERS = (2, 3)
"""The two brokers that are alive when broker 1, the leader of all partitions, is gone."""
EPOCH = "/fence"
TOPIC_ID = bytes(range(16))
COMMANDS = 200
"""The number of single commands in a round, one after the other."""

Ways = dict[str, list[float]]
"""The milliseconds of each round, by the name of the way."""


@dataclass(frozen=True, slots=True)
class CommandedBroker:
    """A broker process, and the stub of its service."""

    broker_id: int
    stub: control_grpc.BrokerControlServiceAsyncStub


class Storing:
    """Reads and writes the leaderAndISR znodes of one topic, in each of the ways."""

    def __init__(self, session: ZooKeeperSession, partitions: int) -> None:
        self._session = session
        self._paths = [LeaderAndIsrZnode.path("flights", number) for number in range(partitions)]
        self._version = 0

    async def create(self) -> None:
        """Create the znodes, and the one that multis check."""
        await self._session.ensure_path(TopicZnode.path("flights"))
        await self._session.create(EPOCH, b"")
        data = self._data()
        groups = [
            [Create(PartitionZnode.path("flights", number), b""), Create(path, data)]
            for number, path in enumerate(self._paths)
        ]
        for multi in multis_of(groups, None):
            await self._session.multi(multi)

    def _data(self) -> bytes:
        return LeaderAndIsrZnode(2, self._version, (2, 3), 1).encode()

    async def write_one_by_one(self) -> None:
        """Wait for each write (V3 A.3.3)."""
        for path in self._paths:
            await self._session.set(path, self._data(), self._version)
        self._version += 1

    async def write_pipelined(self) -> None:
        """Send a request for each znode without waiting for the others."""
        writes = (self._session.set(path, self._data(), self._version) for path in self._paths)
        await asyncio.gather(*writes)
        self._version += 1

    async def write_in_multis(self) -> None:
        """Send multis of the largest size without waiting for the others."""
        groups = [[SetData(path, self._data(), self._version)] for path in self._paths]
        multis = multis_of(groups, Check(EPOCH, 0))
        await asyncio.gather(*(self._session.submit_multi(multi) for multi in multis))
        self._version += 1

    async def read_one_by_one(self) -> None:
        """Wait for each read."""
        for path in self._paths:
            await self._session.get(path)

    async def read_pipelined(self) -> None:
        """Send a request for each znode without waiting for the others."""
        await asyncio.gather(*(self._session.get(path) for path in self._paths))

    async def multi_read(self) -> None:
        """Read by ZooKeeper's multiRead, 1,000 znodes in a request."""
        found = await self._session.multi_read(self._paths)
        assert len(found) == len(self._paths)


class Sending:
    """Sends the decisions to brokers, in each of the ways."""

    def __init__(
        self, session: ZooKeeperSession, brokers: Sequence[CommandedBroker], partitions: int
    ) -> None:
        self._session = session
        self._brokers = brokers
        self._everything = request_for(range(partitions))
        self._single = request_for([0]).SerializeToString()
        self._each = [request_for([number]).SerializeToString() for number in range(partitions)]
        self._number = 0

    async def one_by_rpc(self) -> None:
        """Send COMMANDS commands to one broker, one after the other."""
        request = control_pb2.LeaderAndISRRequest.FromString(self._single)
        for _ in range(COMMANDS):
            await self._brokers[0].stub.LeaderAndISR(request)

    async def one_by_queue(self) -> None:
        """Send the same through the broker's queue."""
        for _ in range(COMMANDS):
            await self._enqueue(self._brokers[0].broker_id, [self._single])
            await self._until_removed(self._brokers[0].broker_id)

    async def all_by_rpc(self) -> None:
        """Send one RPC to each broker, with all decisions."""
        await asyncio.gather(*(broker.stub.LeaderAndISR(self._everything) for broker in self._brokers))

    async def all_by_queue(self) -> None:
        """Send one command to each broker (V3 discussion 1, step 4)."""
        message = self._everything.SerializeToString()
        await self._all_through_queues([message])

    async def each_by_queue(self) -> None:
        """Send a command for each partition and broker (V2)."""
        await self._all_through_queues(self._each)

    async def _all_through_queues(self, messages: Sequence[bytes]) -> None:
        await asyncio.gather(*(self._enqueue(broker.broker_id, messages) for broker in self._brokers))
        for broker in self._brokers:
            await self._until_removed(broker.broker_id)

    async def _enqueue(self, broker_id: int, messages: Sequence[bytes]) -> None:
        queue = queue_of(broker_id)
        paths = [f"{queue}/{self._number + place:010d}" for place in range(len(messages))]
        self._number += len(messages)
        writes = (self._session.create(path, data) for path, data in zip(paths, messages, strict=True))
        await asyncio.gather(*writes)

    async def _until_removed(self, broker_id: int) -> None:
        """Wait until the queue is empty: the broker removes a command when it has carried it out."""
        queue = queue_of(broker_id)
        while await self._session.children(queue, watch=True):
            await watch_fired(self._session, queue)


def request_for(partitions: Sequence[int]) -> control_pb2.LeaderAndISRRequest:
    """A LeaderAndISR request with these partitions of one topic."""
    return control_pb2.LeaderAndISRRequest(
        stamp=control_pb2.ControllerStamp(
            cluster_id="bench", controller_id=1, controller_epoch=1, broker_epoch=1
        ),
        topics=[
            control_pb2.LeaderAndISRTopic(
                topic="flights",
                topic_id=TOPIC_ID,
                partitions=[
                    control_pb2.LeaderAndISRPartition(
                        partition=number,
                        leader=BROKERS[number % 2],
                        leader_epoch=1,
                        isr=BROKERS,
                        replicas=(1, *BROKERS),
                        partition_epoch=1,
                        controller_epoch=1,
                    )
                    for number in partitions
                ],
            )
        ],
    )


async def timed_ms(work: Callable[[], Awaitable[None]]) -> float:
    """Return the milliseconds that this work takes."""
    began_s = time.perf_counter()
    await work()
    return (time.perf_counter() - began_s) * 1000


async def measure(zookeeper: str, partitions: int, rounds: int) -> tuple[Ways, Ways, Ways, Ways]:
    """Measure all ways. Return the milliseconds of writing, reading, one command and all commands, by way."""
    async with AsyncExitStack() as stack:
        session = await ZooKeeperSession.connect(zookeeper)
        stack.push_async_callback(session.close)
        brokers = [await started(stack, zookeeper, broker_id) for broker_id in BROKERS]
        storing, sending = Storing(session, partitions), Sending(session, brokers, partitions)
        await storing.create()
        groups: tuple[Mapping[str, Callable[[], Awaitable[None]]], ...] = (
            {
                "one by one": storing.write_one_by_one,
                "pipelined": storing.write_pipelined,
                "multi of 1,000, pipelined": storing.write_in_multis,
            },
            {
                "one by one": storing.read_one_by_one,
                "pipelined": storing.read_pipelined,
                "multiRead of 1,000, pipelined": storing.multi_read,
            },
            {"ZooKeeper queue": sending.one_by_queue, "RPC": sending.one_by_rpc},
            {
                "ZooKeeper queue, a command a partition": sending.each_by_queue,
                "ZooKeeper queue, one command a broker": sending.all_by_queue,
                "RPC, one a broker": sending.all_by_rpc,
            },
        )
        # Once without a measurement, to warm up connections, code and caches.
        await sending.one_by_rpc()
        await sending.all_by_rpc()
        await storing.multi_read()
        found: tuple[Ways, ...] = tuple({way: [] for way in group} for group in groups)
        for _ in range(rounds):
            for group, ways in zip(groups, found, strict=True):
                for way, work in group.items():
                    ways[way].append(await timed_ms(work))
        writing, reading, one, everything = found
        return (
            writing,
            reading,
            {way: [ms / COMMANDS for ms in each] for way, each in one.items()},
            everything,
        )


async def started(stack: AsyncExitStack, zookeeper: str, broker_id: int) -> CommandedBroker:
    """Start a broker in a new process, which ends with the stack."""
    program = Path(__file__).with_name("commanded_broker.py")
    arguments = [str(program), "--zookeeper", zookeeper, "--broker-id", str(broker_id)]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    stack.push_async_callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    word, _, port = (await process.stdout.readline()).decode().partition(" ")
    assert word == READY, f"broker {broker_id} did not start"
    channel: grpc.aio.Channel = open_channel(HostPort("127.0.0.1", int(port)))
    stack.push_async_callback(channel.close)
    return CommandedBroker(broker_id, control_grpc.BrokerControlServiceStub(channel))


def summary(ways: Ways) -> dict[str, tuple[float, float]]:
    """The median of each way, and its ratio to that of the fastest way."""
    medians = {way: median(each) for way, each in ways.items()}
    best = min(medians.values())
    return {way: (each, each / best) for way, each in medians.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Ways to store and to tell a failover's decisions.")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="One line of JSON.")
    chosen = parser.parse_args()
    import uvloop

    with tempfile.TemporaryDirectory() as directory, EmbeddedZooKeeper(Path(directory)) as server:
        found = uvloop.run(measure(server.address, chosen.partitions, chosen.rounds))
    names = ("write_ms", "read_ms", "tell_one_ms", "tell_all_ms")
    summaries = {name: summary(ways) for name, ways in zip(names, found, strict=True)}
    if chosen.json:
        document = {
            "benchmark": "controller_paths",
            "partitions": chosen.partitions,
            "rounds": chosen.rounds,
            "load_average": round(os.getloadavg()[0], 2),
            **{
                name: {way: round(ms, 3) for way, (ms, _) in each.items()} for name, each in summaries.items()
            },
        }
        print(json.dumps(document))
        return
    headings = (
        f"{chosen.partitions:,} conditional writes of leaderAndISR",
        f"{chosen.partitions:,} reads of it",
        "one command to one broker, until it has obeyed",
        f"a failover of {chosen.partitions:,} told to {len(BROKERS)} brokers, until they have obeyed",
    )
    for heading, each in zip(headings, summaries.values(), strict=True):
        print(heading)
        for way, (ms, ratio) in each.items():
            print(f"    {way:<42} {ms:>10.2f} ms {ratio:>8.1f} x")


if __name__ == "__main__":
    main()
