"""A registered broker takes the controller's connections and orders, and never answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from hightide.v1 import controller_service_pb2 as pb2
from integration.controller.controller_harness import CALL_S, Cluster, cluster, until

if TYPE_CHECKING:
    from hightide.v1.controller_service_pb2_grpc import ControllerServiceAsyncStub

#: What counts as the session's time here, and how long one call to a broker may take. The brokers are this
#: process: while it stands still all of them are silent, and the controller's session is as long.
SILENCE_MS = 8_000
ARGUMENTS = ("--zookeeper-session-timeout-ms", str(SILENCE_MS), "--broker-rpc-timeout-ms", "2000")


async def create(stub: ControllerServiceAsyncStub, creation: pb2.CreateTopicRequest) -> None:
    await stub.CreateTopic(creation, timeout=CALL_S)


async def complaints(running: Cluster) -> list[str]:
    stub = await running.stub()
    described = await stub.DescribeCluster(pb2.DescribeClusterRequest(), timeout=CALL_S)
    return [each.subject for each in described.complaints]


def test_another_leads_what_a_broker_was_told_to_lead_and_never_acknowledged(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, controller_arguments=ARGUMENTS) as running:
            for broker in running.brokers.values():
                broker.swallows = broker.broker_id == 2
            stub = await running.stub()
            creation = pb2.CreateTopicRequest(
                topic="flights", assignment=[pb2.ReplicaAssignment(replicas=[2, 1, 3])]
            )
            under_way = asyncio.create_task(create(stub, creation))
            await running.led_by("flights", 0, 2)
            began = asyncio.get_running_loop().time()
            led = await running.led_by("flights", 0, 1)
            print(f"led by another after {asyncio.get_running_loop().time() - began:.1f} s")
            assert (led.leader_epoch, sorted(led.isr)) == (1, [1, 2, 3])

            async def told() -> bool:
                decision = running.brokers[1].told("flights").get(0)
                return decision is not None and decision.leader == 1

            await until(told, "the new leader knows")
            await under_way  # Nobody waits for one that does not answer.
            assert "broker 2, orders" in await complaints(running)
            running.brokers[2].swallows = False

            async def content() -> bool:
                return "broker 2, orders" not in await complaints(running)

            await until(content, "it answers, and nobody complains")
            assert running.brokers[2].told("flights")[0].leader == 1
            assert (await running.state("flights", 0))[0].leader == 1, "it takes nothing back by itself"

    asyncio.run(scenario())
