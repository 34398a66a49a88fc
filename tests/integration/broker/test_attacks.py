"""Clients that take all they can get from a broker: they are refused, and the cluster and a normal client go
on beside them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from adversary.batches import good_batch
from adversary.control import ControlPlane
from adversary.raw_client import RawClient
from adversary.target import BROKER, Target, fetch_result, produce_result
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import server_service_pb2 as server_pb2
from hightide_local.cluster import LocalCluster
from integration.controller.controller_harness import until

pytestmark = pytest.mark.cluster

DESCRIBE_SERVER = "/hightide.v1.ServerService/DescribeServer"
CONNECTION_OF_ITS_OWN = [("grpc.use_local_subchannel_pool", 1)]
PROGRAM = (sys.executable, str(Path(__file__).with_name("broker_of_few_calls.py")))
CONNECTIONS = 4
AT_A_TIME = 50
PARKED_MS = 30_000
CALL_S = 60.0
DEAF_CONNECTIONS, DEAF_FETCHES = 3, 50
ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""The default of --in-flight-answer-bytes-max: each byte takes two of memory."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("attacked"), broker_program=PROGRAM) as cluster:
        yield cluster


@pytest.fixture
def control(cluster: LocalCluster) -> Iterator[ControlPlane]:
    control = ControlPlane(cluster.bootstrap)
    yield control
    control.close()


@pytest.fixture
def target(cluster: LocalCluster, control: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Target]:
    """A partition on three brokers, of which two must have each record before it is acknowledged."""
    topic = f"attacked-{abs(hash(request.node.nodeid))}"
    control.create_topic(topic, min_insync_replicas="2")
    target = Target(cluster.bootstrap, topic)
    yield target
    target.close()


class ParkingClients:
    """Clients that park fetches at a broker, each until it is refused."""

    def __init__(self, target: Target) -> None:
        self._address = target.leader.address
        asked = broker_pb2.FetchPartition(
            topic_id=target.topic_id, leader_epoch=-1, fetch_offset=target.next_offset, max_bytes=1
        )
        request = broker_pb2.FetchRequest(min_bytes=1, max_bytes=1, partitions=[asked])
        self._at_once = request.SerializeToString()
        request.max_wait_ms = PARKED_MS
        self._request = request.SerializeToString()
        self._open = AsyncExitStack()
        self._calls: set[asyncio.Task[None]] = set()
        self.refusals: list[str] = []

    async def __aenter__(self) -> ParkingClients:
        for _ in range(CONNECTIONS):
            channel = grpc.aio.insecure_channel(self._address, options=CONNECTION_OF_ITS_OWN)
            await self._open.enter_async_context(channel)
            await self._park_until_refused(channel.unary_unary(f"{BROKER}/Fetch"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._open.aclose()

    async def _park_until_refused(self, fetch: Any) -> None:
        before = len(self.refusals)
        while len(self.refusals) == before:
            self._calls |= {asyncio.create_task(self._park(fetch)) for _ in range(AT_A_TIME)}
            # The server takes the calls of a connection in turn: its answer shows that it keeps up.
            await self._fetch(fetch, self._at_once)

    async def _park(self, fetch: Any) -> None:
        await self._fetch(fetch, self._request)

    async def _fetch(self, fetch: Any, request: bytes) -> None:
        try:
            await fetch(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            for detail in getattr(rpc_status.from_call(error), "details", ()):
                info = error_details_pb2.ErrorInfo()
                detail.Unpack(info)
                self.refusals.append(info.reason)


def test_parked_fetches_take_no_place_of_replication_of_decisions_and_of_other_clients(
    target: Target, control: ControlPlane
) -> None:
    def a_normal_day() -> None:
        beside = Target(target.leader.address, f"beside-{target.topic}")
        beside.assert_unharmed()
        beside.close()
        described = target.leader.send(DESCRIBE_SERVER, server_pb2.DescribeServerRequest())
        assert described.ok, described

    async def story() -> None:
        async with ParkingClients(target) as attack:
            assert set(attack.refusals) == {"OVERLOADED"}
            # LeaderAndISR and UpdateMetadata come to the broker, and with acks=all its followers fetch.
            await asyncio.to_thread(control.create_topic, f"beside-{target.topic}", min_insync_replicas="2")
            await asyncio.to_thread(a_normal_day)

    asyncio.run(story())
    target.assert_unharmed()


def test_fetches_that_name_one_partition_10_000_times_are_refused_before_any_of_them_is_read(
    target: Target,
) -> None:
    asked = broker_pb2.FetchPartition(
        topic_id=target.topic_id, leader_epoch=-1, fetch_offset=0, max_bytes=1 << 20
    )
    request = broker_pb2.FetchRequest(max_bytes=12 << 20, partitions=[asked] * 10_000)
    with RawClient(target.leader.address) as attacker:
        for _ in range(20):
            answer = attacker.send(f"{BROKER}/Fetch", request)
            assert (answer.is_typed_error, answer.reason) == (True, "INVALID_REQUEST"), answer
            assert f"topic_id {target.topic_id.hex()}, partition 0" in answer.message
            target.produce_good()


class DeafReaders:
    """Clients that fetch large answers and read none of them, a number on each connection."""

    def __init__(self, target: Target) -> None:
        self._address = target.leader.address
        asked = broker_pb2.FetchPartition(
            topic_id=target.topic_id, leader_epoch=-1, fetch_offset=0, max_bytes=12 << 20
        )
        self._request = broker_pb2.FetchRequest(max_bytes=12 << 20, partitions=[asked]).SerializeToString()
        self._open = AsyncExitStack()
        self._answers: list[Any] = []

    async def __aenter__(self) -> DeafReaders:
        for _ in range(DEAF_CONNECTIONS):
            options = [*CONNECTION_OF_ITS_OWN, ("grpc.max_receive_message_length", -1)]
            channel = await self._open.enter_async_context(
                grpc.aio.insecure_channel(self._address, options=options)
            )
            fetch: Any = channel.unary_stream(f"{BROKER}/Fetch")
            self._answers += [fetch(self._request, timeout=CALL_S) for _ in range(DEAF_FETCHES)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for answer in self._answers:
            answer.cancel()
        await self._open.aclose()

    async def refusals(self) -> list[str]:
        """How those fetches ended that have: a refusal comes without being read."""
        ended = [answer for answer in self._answers if answer.done()]
        return [await answer.details() for answer in ended]


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_answers_that_nobody_reads_take_a_bounded_amount_of_memory_and_others_are_served(
    target: Target, cluster: LocalCluster
) -> None:
    """150 fetches of 12 MiB took 3 GB, and there was no end to it."""
    pid = cluster.running()[f"broker-{target.leader_id}"]
    for _ in range(13):
        batch = good_batch(target.topic_id, 0, [os.urandom(1_000_000)])
        assert produce_result(target.send_produce(batch)).error_code == 0
        target.next_offset += 1
    before = resident_bytes(pid)

    async def story() -> None:
        async with DeafReaders(target) as deaf:
            refusals = await until(deaf.refusals, "a fetch beyond the share of its connection is refused")
            assert "bytes of answers of the data plane that were not read yet" in refusals[0]
            await asyncio.to_thread(target.produce_good)
            read = await asyncio.to_thread(target.send_fetch, 0)
            assert fetch_result(read).batches
            grown = resident_bytes(pid) - before
            assert grown < 2 * ANSWER_BYTES_MAX + 64 * 2**20, f"{grown / 2**20:.0f} MiB more"

    asyncio.run(story())
    target.assert_unharmed()
