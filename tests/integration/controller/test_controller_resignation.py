"""A controller that steps down, over a real ZooKeeper: another one goes on with what it was at."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from hightide import Admin
from hightide.errors import StaleControllerEpochError
from hightide.v1 import controller_service_pb2 as pb2
from hightide_local.pytest_plugin import ClusterFactory
from integration.controller.controller_harness import CALL_S, SESSION_TIMEOUT_MS, cluster, until

#: The other controller is elected first, however late it hears that it can be.
LONG_REST = ("--resignation-rest-ms", "60000")


async def refusal_of(call: Any) -> error_details_pb2.ErrorInfo:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = rpc_status.from_call(caught.value)
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


def test_the_other_controller_finishes_what_the_one_that_resigns_was_at(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(
            zookeeper_hosts, tmp_path, controllers=(1, 2), controller_arguments=LONG_REST
        ) as running:
            first = await running.stub()
            for broker in running.brokers.values():
                broker.failures_to_come = 1_000_000
            creation = pb2.CreateTopicRequest(topic="flights", partition_count=3, replication_factor=3)
            under_way = asyncio.create_task(refusal_of(first.CreateTopic(creation, timeout=2 * CALL_S)))
            await running.led_by("flights", 2, 1, 2, 3)
            refused = await refusal_of(
                first.ResignController(pb2.ResignControllerRequest(controller_epoch=9))
            )
            assert refused.reason == "STALE_CONTROLLER_EPOCH"
            began = asyncio.get_running_loop().time()
            resigned = await first.ResignController(
                pb2.ResignControllerRequest(controller_epoch=1), timeout=CALL_S
            )
            assert (resigned.controller_id, resigned.controller_epoch) == (1, 1)
            second = await running.active(after_epoch=1)
            assert second.controller_id == 2
            assert asyncio.get_running_loop().time() - began < SESSION_TIMEOUT_MS / 1500, (
                "nobody waits for a session to end"
            )
            refused = await under_way
            assert (refused.reason, refused.metadata["may_have_begun"]) == ("NOT_CONTROLLER", "true")
            for broker in running.brokers.values():
                broker.failures_to_come = 0

            async def told() -> bool:
                return all(
                    b.newest_controller_epoch == 2 and len(b.told("flights")) == 3
                    for b in running.brokers.values()
                )

            await until(told, "the second controller tells what the first had decided")
            standby = await running.stub(1)
            refused = await refusal_of(
                standby.ResignController(pb2.ResignControllerRequest(), timeout=CALL_S)
            )
            assert refused.reason == "NOT_CONTROLLER"

    asyncio.run(scenario())


def test_a_lone_controller_is_elected_again_after_a_rest(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, brokers=(1,)) as running:
            stub = await running.stub()
            refused = await refusal_of(
                stub.ResignController(pb2.ResignControllerRequest(controller_epoch=-1))
            )
            assert refused.reason == "STALE_CONTROLLER_EPOCH"
            resigned = await stub.ResignController(pb2.ResignControllerRequest(), timeout=CALL_S)
            again = await running.active(after_epoch=resigned.controller_epoch)
            assert (again.controller_id, again.controller_epoch) == (1, 2)
            creation = pb2.CreateTopicRequest(topic="flights", partition_count=1, replication_factor=1)
            await (await running.stub()).CreateTopic(creation, timeout=CALL_S)

    asyncio.run(scenario())


@pytest.mark.cluster
def test_topics_are_created_while_controllers_resign(hightide_cluster_factory: ClusterFactory) -> None:
    cluster = hightide_cluster_factory(session_timeout_ms=30_000, controller_arguments=LONG_REST)
    with Admin(cluster.bootstrap, timeout_ms=60_000) as admin, ThreadPoolExecutor(4) as threads:
        before = admin.describe_cluster()
        names = [f"resigned-{at}" for at in range(8)]
        creations = [threads.submit(admin.create_topic, name, 4, 3) for name in names]
        resigned = admin.resign_controller(before.controller_epoch)
        assert (resigned.controller_id, resigned.controller_epoch) == (
            before.controller_id,
            before.controller_epoch,
        )
        for name, creation in zip(names, creations, strict=True):
            assert creation.result(60).name == name
        with pytest.raises(StaleControllerEpochError, match=f"not {before.controller_epoch}"):
            admin.resign_controller(before.controller_epoch)
        after = admin.describe_cluster()
        assert after.controller_epoch > before.controller_epoch
        assert after.controller_id != before.controller_id, "another one was there to be elected"
        described = admin.describe_topics(names)
        assert all(each.leader is not None for topic in described for each in topic.partitions)
