"""Groups divided over coordinators that run side by side (C9), as processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
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
from hightide_local.histories.waiting import wait_until
from hightide_local.processes.ports import HOST, free_port
from hightide_local.pytest_plugin import ClusterFactory
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.znodes.group_znodes import CoordinatorZnode, shard_of
from integration.controller.controller_harness import until
from integration.controller.zookeeper_operator import ZooKeeperOperator
from integration.coordinator.raw_consumer import Ended, RawConsumer, ending_of

pytestmark = pytest.mark.cluster

SHARDS = 4
GROUPS = [f"g-{number}" for number in range(12)]
_NAMES = [f"group-{number}" for number in range(100)]
ONE_OF_EACH_SHARD = [
    next(name for name in _NAMES if shard_of(name, SHARDS) == each) for each in range(SHARDS)
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("shards"),
        brokers=1,
        controllers=1,
        coordinators=2,
        # The stories say themselves who has what.
        coordinator_arguments=("--shards", str(SHARDS), "--shard-balance-interval-ms", "0"),
    ) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("flights", partitions=1, replication_factor=1)
        divide(cluster)
        yield cluster


def divide(cluster: LocalCluster) -> None:
    """See to it that both have some shards. Those that start at the same time have by themselves
    (test_coordinator_watches); one that starts a second late finds nothing left. Then the other one stands
    still while two of its znodes are deleted."""
    operator = ZooKeeperOperator(cluster)
    try:
        while len(owners := set(named_by_the_broker(cluster))) == 1:
            (holder,) = owners
            cluster.pause(f"coordinator-{holder}")
            for shard in (0, 1):
                operator.take_away(CoordinatorZnode.path(shard, SHARDS))
            nobody_else = {0, holder}
            wait_until(
                "the other one has them",
                partial(lambda those: not those & set(named_by_the_broker(cluster)[:2]), nobody_else),
                60,
            )
            cluster.resume(f"coordinator-{holder}")
            wait_until("all have a coordinator", lambda: 0 not in named_by_the_broker(cluster), 60)
    finally:
        operator.close()


def named_by_the_broker(cluster: LocalCluster) -> list[int]:
    """The number of the coordinator of each shard; 0: nobody."""
    return [endpoint.id if endpoint.host else 0 for endpoint in asyncio.run(coordinators(cluster))]


async def coordinators(cluster: LocalCluster) -> list[Endpoint]:
    """The coordinator of each shard, as a broker names it."""
    async with open_channel(HostPort.parse(cluster.brokers[1])) as channel:
        stub: Any = BrokerServiceStub(channel)
        reply = await stub.GetMetadata(broker_service_pb2.GetMetadataRequest(), timeout=20)
    return list(reply.coordinators)


async def listed(channel: grpc.aio.Channel) -> set[str]:
    stub: Any = CoordinatorServiceStub(channel)
    return {each.group for each in (await stub.ListGroups(pb.ListGroupsRequest(), timeout=20)).groups}


async def joined(cluster: LocalCluster, group: str) -> tuple[grpc.aio.Channel, RawConsumer]:
    """A consumer of the group, at the coordinator of its shard."""

    async def named() -> Endpoint | None:
        endpoint = (await coordinators(cluster))[shard_of(group, SHARDS)]
        return endpoint if endpoint.host else None

    endpoint = await until(named, "the shard has a coordinator")
    channel = open_channel(HostPort(endpoint.host, endpoint.port))
    consumer = RawConsumer(channel, group, "flights")
    await registered(consumer, channel)
    await consumer.until_owns(("flights", 0))
    return channel, consumer


async def registered(consumer: RawConsumer, channel: grpc.aio.Channel) -> pb.ConsumerRegistered:
    """What the coordinator says to a consumer that comes, also again. It may have to load the shard first."""

    async def welcomed() -> pb.ConsumerRegistered | None:
        try:
            return await consumer.come_back(channel)
        except Ended:
            assert consumer.ending is not None
            assert consumer.ending.reason == "NOT_COORDINATOR"
            return None

    welcome: pb.ConsumerRegistered = await until(welcomed, "the coordinator takes it")
    return welcome


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
            other = next(group for group in GROUPS if group not in mine)
            shard = shard_of(other, SHARDS)
            async with open_channel(HostPort.parse(address)) as channel:
                assert await listed(channel) == mine
                stub: Any = CoordinatorServiceStub(channel)

                async def named(stub: Any = stub, other: str = other, shard: int = shard) -> str:
                    with pytest.raises(grpc.aio.AioRpcError) as raised:
                        await stub.DescribeGroup(pb.DescribeGroupRequest(group=other), timeout=20)
                    refusal = ending_of(raised.value)
                    assert (refusal.reason, refusal.metadata["shard"]) == ("NOT_COORDINATOR", str(shard))
                    return refusal.metadata.get("coordinator_address", "")

                assert await until(named, "it knows whose it is") == cluster.coordinators[owners[shard]]
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


def test_a_coordinator_gives_up_what_it_is_told_to_and_members_keep_their_partitions(
    cluster: LocalCluster,
) -> None:
    async def test() -> None:
        before = [endpoint.id for endpoint in await coordinators(cluster)]
        group = GROUPS[0]
        shard = shard_of(group, SHARDS)
        first, other = before[shard], 3 - before[shard]
        channel, consumer = await joined(cluster, group)
        start = consumer.owned["flights", 0]
        stub: Any = CoordinatorServiceStub(channel)

        for request in ([SHARDS], [shard, -1]):
            with pytest.raises(grpc.aio.AioRpcError) as wrong:
                await stub.ResignCoordinator(pb.ResignCoordinatorRequest(shards=request), timeout=20)
            assert ending_of(wrong.value).reason == "INVALID_REQUEST"
        resigned = await stub.ResignCoordinator(pb.ResignCoordinatorRequest(shards=[shard]), timeout=20)
        assert resigned.coordinator_id == first
        assert [each.shard for each in resigned.shards] == [shard]
        ended = resigned.shards[0].coordinator_epoch
        assert ended == consumer.seen_coordinator_epoch
        assert (await consumer.ended()).reason == "NOT_COORDINATOR"

        async def moved() -> bool:
            return (await coordinators(cluster))[shard].id == other

        await until(moved, "the other one is elected")
        with pytest.raises(grpc.aio.AioRpcError) as again:
            await stub.ResignCoordinator(pb.ResignCoordinatorRequest(shards=[shard]), timeout=20)
        assert ending_of(again.value).reason == "NOT_COORDINATOR"
        async with open_channel(HostPort.parse(cluster.coordinators[other])) as there:
            welcome = await registered(consumer, there)
            assert [(each.topic, each.generation) for each in welcome.retained] == [
                ("flights", start.generation)
            ]
            assert consumer.seen_coordinator_epoch == ended + 1
            await consumer.leave()
        await channel.close()
        after = [endpoint.id for endpoint in await coordinators(cluster)]
        assert after == [*before[:shard], other, *before[shard + 1 :]], "the others are where they were"

    asyncio.run(test())


def test_a_coordinator_that_is_alone_is_elected_again_after_it_has_given_all_up(
    cluster: LocalCluster,
) -> None:
    async def test() -> None:
        cluster.terminate("coordinator-1")

        async def all_are_second() -> bool:
            return {endpoint.id for endpoint in await coordinators(cluster)} == {2}

        await until(all_are_second, "coordinator 2 has every shard")
        async with open_channel(HostPort.parse(cluster.coordinators[2])) as channel:
            stub: Any = CoordinatorServiceStub(channel)
            ended: dict[int, set[int]] = {shard: set() for shard in range(SHARDS)}

            async def twice() -> bool:
                # What it was elected for and has not loaded yet, it has nothing to give up of.
                reply = await stub.ResignCoordinator(pb.ResignCoordinatorRequest(), timeout=20)
                for each in reply.shards:
                    ended[each.shard].add(each.coordinator_epoch)
                return all(len(epochs) >= 2 for epochs in ended.values())

            await until(twice, "it has given up each shard, was elected again, and has given it up again")
        await until(all_are_second, "coordinator 2 has every shard again")

    asyncio.run(test())
    cluster.restart("coordinator-1")


def test_a_coordinator_that_comes_late_gets_its_share_and_members_keep_their_partitions(
    hightide_cluster_factory: ClusterFactory,
) -> None:
    cluster = hightide_cluster_factory(
        brokers=1,
        controllers=1,
        coordinators=2,
        coordinator_arguments=("--shards", str(SHARDS), "--shard-balance-interval-ms", "300"),
    )
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("flights", partitions=1, replication_factor=1)
    cluster.terminate("coordinator-1")
    wait_until("coordinator 2 has all", lambda: named_by_the_broker(cluster) == [2] * SHARDS, 60)

    async def test() -> None:
        members = [await joined(cluster, group) for group in ONE_OF_EACH_SHARD]
        cluster.restart("coordinator-1")

        async def shared() -> list[Endpoint] | None:
            found = await coordinators(cluster)
            return found if sorted(each.id for each in found) == [1, 1, 2, 2] else None

        owners = await until(shared, "each has two")
        moved = 0
        for channel, consumer in members:
            owner = owners[shard_of(consumer.registration.group, SHARDS)]
            if owner.id == 1:
                moved += 1
                assert (await consumer.ended()).reason == "NOT_COORDINATOR"
                async with open_channel(HostPort(owner.host, owner.port)) as there:
                    assert len((await registered(consumer, there)).retained) == 1
                    await consumer.leave()
            else:
                assert consumer.ending is None, "nothing has disturbed it"
                await consumer.leave()
            await channel.close()
        assert moved == 2

    asyncio.run(test())


def test_a_coordinator_that_would_divide_the_groups_otherwise_does_not_start(cluster: LocalCluster) -> None:
    command = [sys.executable, "-m", "hightide_coordinator.main", "--coordinator-id", "9", "--shards", "3"]
    where = ["--listen", f"{HOST}:{free_port()}", "--zookeeper", cluster.zookeeper]
    ended = subprocess.run([*command, *where], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "divided into 4 shards" in ended.stderr
    assert "--shards 4" in ended.stderr
