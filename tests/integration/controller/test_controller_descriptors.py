"""Controllers that are elected and step down again and again keep no connection of an earlier term."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
from hightide.v1 import controller_service_pb2 as pb2
from integration.controller.controller_harness import CALL_S, Cluster, cluster, until

ELECTIONS = 10
SHORT_REST = ("--resignation-rest-ms", "50")


async def resign(running: Cluster) -> None:
    """The active controller steps down, and another one is elected and acts."""
    stub = await running.stub()
    resigned = await stub.ResignController(pb2.ResignControllerRequest(), timeout=CALL_S)
    await running.active(after_epoch=resigned.controller_epoch)
    await running.stub()


def connections_to(running: Cluster, controller_id: int) -> dict[int, int]:
    """How many connections a controller has to each broker, by broker id."""
    process = running.controllers[controller_id]
    assert process.pid is not None
    ports = {broker.port: broker.broker_id for broker in running.brokers.values()}
    found = dict.fromkeys(running.brokers, 0)
    for connection in psutil.Process(process.pid).net_connections("tcp"):
        if connection.raddr and connection.raddr.port in ports:
            found[ports[connection.raddr.port]] += 1
    return found


def descriptors(running: Cluster) -> dict[int, int]:
    """How many files and connections of any kind each controller has open, by its id."""
    pids = {controller_id: process.pid for controller_id, process in running.controllers.items()}
    return {controller_id: psutil.Process(pid).num_fds() for controller_id, pid in pids.items()}


def test_controllers_that_are_elected_ten_times_keep_no_connection_of_an_earlier_term(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(
            zookeeper_hosts, tmp_path, controllers=(1, 2), controller_arguments=SHORT_REST
        ) as running:
            for _ in running.controllers:
                await resign(running)
            before = descriptors(running)
            for _ in range(ELECTIONS):
                await resign(running)
            active = (await running.active()).controller_id
            standby = 3 - active

            async def standby_has_none() -> bool:
                return connections_to(running, standby) == dict.fromkeys(running.brokers, 0)

            async def active_has_two() -> bool:
                return connections_to(running, active) == dict.fromkeys(running.brokers, 2)

            await until(standby_has_none, "one that stands by is connected to no broker")
            await until(active_has_two, "an active one tells each broker, and watches its life")

            async def as_many_as_before() -> bool:
                # One connection kept for each broker and term would be fifteen more in each process.
                return all(count < before[each] + ELECTIONS for each, count in descriptors(running).items())

            await until(as_many_as_before, "nothing else is kept either")

    asyncio.run(scenario())
