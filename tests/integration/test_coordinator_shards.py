"""Groups divided over coordinators that run side by side (C9), as processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hightide import Admin
from hightide.v1 import broker_service_pb2
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.broker_service_pb2_grpc import BrokerServiceStub
from hightide.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from hightide.v1.metadata_pb2 import Endpoint
from hightide_local.cluster import LocalCluster
from hightide_local.ports import HOST, free_port
from hightide_runtime.addresses import HostPort
from hightide_runtime.channels import open_channel
from hightide_runtime.group_znodes import shard_of
from integration.controller_harness import until
from integration.raw_consumer import RawConsumer, ending_of

pytestmark = pytest.mark.cluster

SHARDS = 4
GROUPS = [f"g-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("shards"),
        brokers=1,
        controllers=1,
        coordinators=2,
        coordinator_arguments=("--shards", str(SHARDS)),
    ) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("flights", partitions=1, replication_factor=1)
        yield cluster


async def coordinators(cluster: LocalCluster) -> list[Endpoint]:
    """The coordinator of each shard, as a broker names it."""
    async with open_channel(HostPort.parse(cluster.brokers[1])) as channel:
        stub: Any = BrokerServiceStub(channel)
        reply = await stub.GetMetadata(broker_service_pb2.GetMetadataRequest(), timeout=5)
    return list(reply.coordinators)


async def listed(channel: grpc.aio.Channel) -> set[str]:
    stub: Any = CoordinatorServiceStub(channel)
    return {each.group for each in (await stub.ListGroups(pb.ListGroupsRequest(), timeout=5)).groups}


async def joined(cluster: LocalCluster, group: str) -> tuple[grpc.aio.Channel, RawConsumer]:
    """A consumer of the group, at the coordinator of its shard."""

    async def named() -> Endpoint | None:
        endpoint = (await coordinators(cluster))[shard_of(group, SHARDS)]
        return endpoint if endpoint.host else None

    endpoint = await until(named, "the shard has a coordinator")
    channel = open_channel(HostPort(endpoint.host, endpoint.port))
    consumer = RawConsumer(channel, group, "flights")
    await consumer.register()
    await consumer.until_owns(("flights", 0))
    return channel, consumer


def test_the_shards_of_the_groups_lie_on_both_coordinators_and_each_knows_its_own(
    cluster: LocalCluster,
) -> None:
    async def test() -> None:
        owners = [endpoint.id for endpoint in await coordinators(cluster)]
        assert len(owners) == SHARDS
        assert set(owners) == {1, 2}
        members = [await joined(cluster, group) for group in GROUPS]
        for number, address in cluster.coordinators.items():
            mine = {group for group in GROUPS if owners[shard_of(group, SHARDS)] == number}
            async with open_channel(HostPort.parse(address)) as channel:
                assert await listed(channel) == mine
                other = next(group for group in GROUPS if group not in mine)
                stub: Any = CoordinatorServiceStub(channel)
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await stub.DescribeGroup(pb.DescribeGroupRequest(group=other), timeout=5)
            refusal = ending_of(raised.value)
            assert refusal.reason == "NOT_COORDINATOR"
            shard = shard_of(other, SHARDS)
            assert refusal.metadata["shard"] == str(shard)
            assert refusal.metadata["coordinator_address"] == cluster.coordinators[owners[shard]]
        for channel, consumer in members:
            await consumer.leave()
            await channel.close()

    asyncio.run(test())


def test_the_shards_of_a_coordinator_that_stops_go_to_the_other_one(cluster: LocalCluster) -> None:
    async def test() -> None:
        cluster.terminate("coordinator-1")

        async def all_are_second() -> bool:
            return {endpoint.id for endpoint in await coordinators(cluster)} == {2}

        await until(all_are_second, "coordinator 2 has every shard")
        for group in GROUPS[:4]:
            channel, consumer = await joined(cluster, group)
            await consumer.leave()
            await channel.close()

    asyncio.run(test())
    cluster.restart("coordinator-1")


def test_a_coordinator_that_would_divide_the_groups_otherwise_does_not_start(cluster: LocalCluster) -> None:
    command = [sys.executable, "-m", "hightide_coordinator.main", "--coordinator-id", "9", "--shards", "3"]
    where = ["--listen", f"{HOST}:{free_port()}", "--zookeeper", cluster.zookeeper]
    ended = subprocess.run([*command, *where], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "divided into 4 shards" in ended.stderr
    assert "--shards 4" in ended.stderr
