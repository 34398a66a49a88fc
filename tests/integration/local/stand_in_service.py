"""A broker or a controller that does nothing but register in ZooKeeper and say so.

It lets the supervisor be tested on its own: `python stand_in_service.py broker --broker-id 1 --listen …`.
"""

import asyncio
import sys
import time

from hightide.v1 import (
    broker_service_pb2,
    broker_service_pb2_grpc,
    controller_service_pb2,
    controller_service_pb2_grpc,
    metadata_pb2,
)
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError
from hightide_runtime.process.logs import set_up_logging
from hightide_runtime.process.running import run_service
from hightide_runtime.process.settings import Address, ServiceSettings
from hightide_runtime.serving.server import Service, serve
from hightide_runtime.znodes.cluster_znodes import BROKER_IDS, BrokerZnode, ControllerZnode
from hightide_runtime.zookeeper.session import NodeExists, NoNode, ZooKeeperSession
from pydantic import Field


class Settings(ServiceSettings, cli_prog_name="stand-in"):
    listen: Address = Field(HostPort("127.0.0.1", 0))
    broker_id: int = 0
    controller_id: int = 0
    data_dir: str = ""
    replica_lag_time_max_ms: int = 0
    fail_with: str = ""


class Broker(broker_service_pb2_grpc.BrokerServiceServicer):
    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    async def GetMetadata(self, request: object, context: object) -> broker_service_pb2.GetMetadataResponse:  # noqa: N802
        response = broker_service_pb2.GetMetadataResponse()
        for name in await self._session.children(BROKER_IDS):
            response.brokers.append(metadata_pb2.Endpoint(id=int(name)))
        try:
            znode = ControllerZnode.decode((await self._session.get(ControllerZnode.path())).data)
        except NoNode:
            return response
        response.controller.CopyFrom(metadata_pb2.Endpoint(id=znode.controller_id))
        return response


class Controller(controller_service_pb2_grpc.ControllerServiceServicer):
    def __init__(self) -> None:
        self.active = False

    async def DescribeCluster(  # noqa: N802
        self, request: object, context: object
    ) -> controller_service_pb2.DescribeClusterResponse:
        if not self.active:
            raise ServiceError(ErrorCode.ERROR_CODE_NOT_CONTROLLER, "another controller is the active one")
        return controller_service_pb2.DescribeClusterResponse()


async def be_controller(session: ZooKeeperSession, settings: Settings, controller: Controller) -> None:
    listen = settings.listen
    znode = ControllerZnode(settings.controller_id, listen.host, listen.port, 1)
    while not controller.active:
        try:
            await session.create(ControllerZnode.path(), znode.encode(), ephemeral=True)
            controller.active = True
        except NodeExists:
            while await session.exists(ControllerZnode.path(), watch=True):
                await session.events.get()


async def service(stopping: asyncio.Event) -> None:
    settings = Settings.from_command_line(sys.argv[2:])
    set_up_logging(settings.log_level, f"{sys.argv[1]}")
    if settings.fail_with:
        sys.exit(settings.fail_with)
    session = await ZooKeeperSession.connect(settings.zookeeper, session_timeout_ms=3000)
    await session.ensure_cluster_id()
    controller = Controller()  # type: ignore[abstract]
    if sys.argv[1] == "broker":
        answering = Service(
            "hightide.v1.BrokerService",
            Broker(session),  # type: ignore[abstract]
            broker_service_pb2_grpc.add_BrokerServiceServicer_to_server,
        )
    else:
        answering = Service(
            "hightide.v1.ControllerService",
            controller,
            controller_service_pb2_grpc.add_ControllerServiceServicer_to_server,
        )
    server = await serve(settings.listen, [answering])
    election = None
    if sys.argv[1] == "broker":
        znode = BrokerZnode(settings.listen.host, settings.listen.port, int(time.time() * 1000))
        while await session.exists(BrokerZnode.path(settings.broker_id), watch=True):
            await session.events.get()
        await session.create(BrokerZnode.path(settings.broker_id), znode.encode(), ephemeral=True)
    else:
        election = asyncio.create_task(be_controller(session, settings, controller))
    await server.set_serving(True)
    await stopping.wait()
    if election is not None:
        election.cancel()
    await server.stop(0.1)
    await session.close()


if __name__ == "__main__":
    sys.exit(run_service("stand-in", service))
