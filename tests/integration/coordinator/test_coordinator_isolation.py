"""A coordinator that is cut off from ZooKeeper: whether it goes on is for brokers to say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide.v1 import broker_service_pb2 as pb
from hightide.v1 import broker_service_pb2_grpc as broker_grpc
from hightide.v1 import metadata_pb2
from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.core.state.descriptions import not_active
from hightide_coordinator.core.state.shard_state import Role
from hightide_coordinator.settings import CoordinatorSettings
from hightide_coordinator.shell import CoordinatorShell
from hightide_coordinator.zookeeper.isolation import successor_of
from hightide_coordinator.zookeeper.shard_count import fix_shard_count
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.listeners import Listener
from hightide_runtime.serving.server import Service, serve
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.znodes.cluster_znodes import BrokerZnode
from integration.controller.controller_harness import until
from integration.coordinator.coordinator_rig import connected

ME = Endpoint(1, "127.0.0.1", 1)
OTHER = Endpoint(2, "127.0.0.1", 2)
NOBODY = Endpoint(0, "", 0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path, tick_time_ms=200) as server:
        yield server


class Broker(broker_grpc.BrokerServiceServicer):
    """Names whom it is told to name."""

    def __init__(self) -> None:
        self.named = ME
        self.asked = 0

    async def GetMetadata(self, request: pb.GetMetadataRequest, context: object) -> pb.GetMetadataResponse:  # noqa: N802
        self.asked += 1
        named = metadata_pb2.Endpoint(id=self.named.id, host=self.named.host, port=self.named.port)
        return pb.GetMetadataResponse(coordinators=[named])


def test_a_coordinator_that_is_cut_off_goes_on_until_brokers_name_another(server: EmbeddedZooKeeper) -> None:
    async def run() -> None:
        broker = Broker()  # type: ignore[abstract]
        service = Service(
            "hightide.v1.BrokerService", broker, broker_grpc.add_BrokerServiceServicer_to_server
        )
        listening = await serve(HostPort("127.0.0.1", 0), [service])
        settings = CoordinatorSettings.from_command_line(
            ["--coordinator-id", "1", "--zookeeper", server.address]
        )
        async with connected(server.address) as session:
            znode = BrokerZnode(listening.address.host, listening.address.port, 0)
            await session.create(BrokerZnode.path(1), znode.encode(), ephemeral=True)
            shard_count = await fix_shard_count(session, 1)
            shell = CoordinatorShell(
                settings,
                shard_count,
                "cluster",
                ME,
                session,
                Telemetry.set_up("coordinator", "1"),
                SystemClock(),
                open_channel,
            )
            (shard,) = shell.shards
            shell.start()

            async def is_active() -> bool:
                return shard.state.role is Role.ACTIVE

            async def is_asked() -> bool:
                return broker.asked >= 2

            async def is_deposed() -> bool:
                return shard.state.role is Role.STANDBY

            try:
                await until(is_active, "it is elected")
                await asyncio.to_thread(server.kill)
                await until(is_asked, "it asks brokers")
                assert await is_active(), "nobody else was elected"
                broker.named = OTHER
                await until(is_deposed, "it resigns")
                assert shard.state.active_elsewhere == OTHER, "its consumers are told where to go"
                refused = not_active(shard.state)
                assert refused is not None
                told = shard.error_of(refused, Listener.INTERNAL)
                assert told.metadata["coordinator_address"] == "127.0.0.1:2"
                # Brokers told the address for those inside: it may mean nothing to who is outside.
                told = shard.error_of(refused, Listener.EXTERNAL)
                assert "coordinator_address" not in told.metadata
                assert "127.0.0.1:2" not in told.message
                await asyncio.to_thread(server.start)
                # Brokers were wrong here: ZooKeeper, whose word counts, still has this session.
                await until(is_active, "it resumes")
            finally:
                await shell.close()
                await listening.stop(0)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("told", "other"),
    [
        ([], None),
        ([(ME,)], None),
        ([(NOBODY,)], None),
        ([()], None),
        ([(OTHER,)], OTHER),
        ([(OTHER,), (OTHER,), (ME,)], OTHER),
        ([(OTHER,), (ME,), (ME,)], None),
        ([(OTHER,), (ME,)], None),
    ],
)
def test_one_broker_that_has_lost_touch_deposes_nobody(
    told: list[tuple[Endpoint, ...]], other: Endpoint | None
) -> None:
    assert successor_of(ME, 0, told) == other
