"""A broker whose port refuses for a while, and who lives on: it is believed again when that life answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hightide.v1 import controller_service_pb2 as pb2
from hightide_local.histories.anomalies import READS_OF_A_DEPOSED_LEADER
from hightide_local.histories.drill import FaultDrill
from hightide_local.pytest_plugin import ClusterFactory
from integration.controller.controller_harness import CALL_S, Cluster, cluster, until


async def create(running: Cluster) -> None:
    stub = await running.stub()
    creation = pb2.CreateTopicRequest(topic="flights", partition_count=1, replication_factor=3)
    await stub.CreateTopic(creation, timeout=CALL_S)


async def lives(running: Cluster, broker_id: int) -> bool:
    stub = await running.stub()
    described = await stub.DescribeCluster(pb2.DescribeClusterRequest(), timeout=CALL_S)
    return any(each.endpoint.id == broker_id and each.alive for each in described.brokers)


def test_a_broker_whose_port_refused_for_a_while_is_alive_again_when_it_answers(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            await create(running)
            before, _ = await running.state("flights", 0)
            refusing = running.brokers[before.leader]
            await refusing.die()
            others = [each for each in running.brokers if each != before.leader]
            await running.led_by("flights", 0, *others, without=before.leader)
            assert not await lives(running, refusing.broker_id)
            refusing.decisions.clear()
            await refusing.listen()

            async def alive() -> bool:
                return await lives(running, refusing.broker_id)

            await until(alive, "it is believed")

            async def told() -> bool:
                decision = refusing.told("flights").get(0)
                return decision is not None and decision.leader_epoch == before.leader_epoch + 1

            await until(told, "it hears who leads what it led")
            assert any(update.full for update in refusing.updates), "and all that it missed"
            # And it is watched as before.
            await refusing.die()

            async def dead() -> bool:
                return not await lives(running, refusing.broker_id)

            await until(dead, "it is dead again")

    asyncio.run(scenario())


def test_another_process_at_the_port_of_a_dead_broker_revives_nobody(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            await create(running)
            before, _ = await running.state("flights", 0)
            dead = running.brokers[before.leader]
            await dead.die()
            others = [each for each in running.brokers if each != before.leader]
            await running.led_by("flights", 0, *others, without=before.leader)
            knocks = dead.refused
            epoch, dead.broker_epoch = dead.broker_epoch, dead.broker_epoch + 1_000_000
            await dead.listen()

            async def knocked() -> bool:
                return dead.refused > knocks + 2

            await until(knocked, "the controller asks for the life that it knows")
            assert not await lives(running, dead.broker_id)
            dead.broker_epoch = epoch

            async def alive() -> bool:
                return await lives(running, dead.broker_id)

            await until(alive, "that life itself is believed")

    asyncio.run(scenario())


@pytest.mark.cluster
def test_a_leader_whose_port_refused_follows_with_nothing_lost_when_it_answers(
    hightide_cluster_factory: ClusterFactory,
) -> None:
    """It never lost its session, and called itself the leader all along."""
    cluster = hightide_cluster_factory(session_timeout_ms=30_000, partitionable=True)
    with FaultDrill(cluster, "refused", request_timeout_ms=2_000, allowed=READS_OF_A_DEPOSED_LEADER) as drill:
        leader = drill.leader()
        pid = cluster.running()[f"broker-{leader}"]
        cluster.refuse_connections(f"broker-{leader}")
        drill.wait_for_other_leaders(leader)
        drill.wait_for_progress()
        cluster.heal()
        drill.wait_for_isr(3)
        assert cluster.running()[f"broker-{leader}"] == pid
