"""A broker tells whoever is the active controller of its failed replicas, until one knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import controller_service_pb2_grpc as controller_grpc
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.hosting.failed_replicas import FailedReplicas
from hightide_broker.replica.shell import Divergence
from hightide_local.processes.ports import free_port
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.server import Service, serve
from hightide_runtime.znodes.cluster_znodes import ControllerZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession

SERVICE = "hightide.v1.ControllerService"
TOPIC_ID = bytes(range(16))
Report = tuple[int, int, list[tuple[bytes, int]]]


class NotingController(controller_grpc.ControllerServiceServicer):
    """Notes down what it is told; the first calls are refused."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.reports: asyncio.Queue[Report] = asyncio.Queue()
        self.conditions: list[tuple[int, int, int]] = []
        """Partition, condition and offset of all that was reported."""

    async def ReportFailedReplicas(  # noqa: N802
        self, request: controller_pb2.ReportFailedReplicasRequest, context: Any
    ) -> controller_pb2.ReportFailedReplicasResponse:
        if self.refusals:
            self.refusals -= 1
            raise ServiceError(ErrorCode.ERROR_CODE_NOT_CONTROLLER, "another one is active")
        self.conditions += [
            (each.partition, each.condition, each.damaged_offset) for each in request.replicas
        ]
        replicas = [(each.topic_id, each.partition) for each in request.replicas]
        await self.reports.put((request.broker_id, request.broker_epoch, replicas))
        return controller_pb2.ReportFailedReplicasResponse()


@asynccontextmanager
async def active_controller(session: ZooKeeperSession, refusals: int) -> AsyncIterator[NotingController]:
    port = free_port()
    controller = NotingController(refusals)  # type: ignore[abstract]  # nobody calls the rest
    server = await serve(
        HostPort("127.0.0.1", port),
        [Service(SERVICE, controller, controller_grpc.add_ControllerServiceServicer_to_server)],
    )
    znode = ControllerZnode(1, "127.0.0.1", port, controller_epoch=1)
    await session.create(ControllerZnode.path(), znode.encode(), ephemeral=True)
    try:
        yield controller
    finally:
        await session.delete(ControllerZnode.path())
        await server.stop(0)


def with_session(hosts: str, test: Callable[[ZooKeeperSession], Awaitable[None]]) -> None:
    async def run() -> None:
        session = await ZooKeeperSession.connect(hosts, session_timeout_ms=20_000, connect_timeout_ms=30_000)
        try:
            await session.ensure_cluster_id()
            await test(session)
        finally:
            await session.close()

    asyncio.run(run())


async def next_report(controller: NotingController) -> Report:
    return await asyncio.wait_for(controller.reports.get(), 60)


def test_the_report_waits_for_a_controller_that_takes_it_and_for_a_broker_epoch(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        epoch = -1
        failed = FailedReplicas(session, 7, lambda: epoch, open_channel)
        failed.report([(TOPIC_ID, 0)])
        failed.report([(TOPIC_ID, 3), (TOPIC_ID, 0)])
        await asyncio.sleep(0)
        epoch = 41
        async with active_controller(session, refusals=2) as controller:
            assert await next_report(controller) == (7, 41, [(TOPIC_ID, 0), (TOPIC_ID, 3)])
            failed.report([(TOPIC_ID, 5)])
            assert await next_report(controller) == (7, 41, [(TOPIC_ID, 5)])
            assert controller.reports.empty()
        await failed.close()

    with_session(zookeeper_hosts, test)


def test_a_broker_that_stops_reports_no_more(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        failed = FailedReplicas(session, 7, lambda: 41, open_channel)
        failed.report([(TOPIC_ID, 0)])
        await failed.close()
        async with active_controller(session, refusals=0) as controller:
            assert controller.reports.empty()
        await failed.close()

    with_session(zookeeper_hosts, test)


def test_the_last_word_about_damage_counts_and_a_failed_directory_outweighs_it(zookeeper_hosts: str) -> None:
    damaged, whole, failed_with_its_disk = 1, 2, 0

    async def test(session: ZooKeeperSession) -> None:
        failed = FailedReplicas(session, 7, lambda: 41, open_channel)
        for number in range(4):
            failed.report_damage((TOPIC_ID, number), 9)
        failed.report_damage((TOPIC_ID, 0), 5)
        failed.report_whole((TOPIC_ID, 1))
        failed.report([(TOPIC_ID, 2)])
        failed.report_whole((TOPIC_ID, 2))
        async with active_controller(session, refusals=0) as controller:
            await failed.told(60)
            assert sorted(controller.conditions) == [
                (0, damaged, 5), (1, whole, -1), (2, failed_with_its_disk, -1), (3, damaged, 9),
            ]  # fmt: skip
        await failed.close()

    with_session(zookeeper_hosts, test)


def test_a_replica_that_diverged_is_whole_only_when_it_follows_again(zookeeper_hosts: str) -> None:
    whole, diverged = 2, 3

    async def test(session: ZooKeeperSession) -> None:
        failed = FailedReplicas(session, 7, lambda: 41, open_channel)
        async with active_controller(session, refusals=0) as controller:
            failed.report_divergence((TOPIC_ID, 0), Divergence(5, 8, 2, 6))
            await failed.told(60)
            failed.report_damage((TOPIC_ID, 0), 3)
            failed.report_whole((TOPIC_ID, 0))
            await failed.told(60)
            assert controller.conditions == [(0, diverged, -1), (0, diverged, -1)]
            failed.diverges_no_more((TOPIC_ID, 0))
            failed.diverges_no_more((TOPIC_ID, 1))
            await failed.told(60)
            assert controller.conditions[2:] == [(0, whole, -1)]
        await failed.close()

    with_session(zookeeper_hosts, test)
