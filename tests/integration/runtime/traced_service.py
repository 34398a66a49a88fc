"""A server process that opens one span a call, below the span of the caller: for the telemetry test."""

import asyncio
import sys
from typing import Any

from hightide.v1 import replica_service_pb2 as pb
from hightide.v1.replica_service_pb2_grpc import ReplicaServiceServicer, add_ReplicaServiceServicer_to_server
from hightide_runtime.addresses import HostPort
from hightide_runtime.process.running import run_service
from hightide_runtime.serving.server import Service, serve
from hightide_runtime.telemetry.span_kinds import BECOME_LEADER
from hightide_runtime.telemetry.tracing import Telemetry


class Traced(ReplicaServiceServicer):
    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    async def ReplicaFetch(self, request: Any, context: Any) -> pb.ReplicaFetchResponse:  # noqa: N802
        with self._telemetry.span(BECOME_LEADER):
            return pb.ReplicaFetchResponse()

    async def EndOffsetForLeaderEpoch(  # noqa: N802
        self, request: Any, context: Any
    ) -> pb.EndOffsetForLeaderEpochResponse:
        raise AssertionError("not called")

    async def DigestBatches(self, request: Any, context: Any) -> pb.DigestBatchesResponse:  # noqa: N802
        raise AssertionError("not called")


async def service(stopping: asyncio.Event) -> None:
    traced = Traced(Telemetry.set_up("broker", "2"))
    name = "hightide.v1.ReplicaService"
    server = await serve(
        HostPort("127.0.0.1", 0), [Service(name, traced, add_ReplicaServiceServicer_to_server)]
    )
    print(server.address, flush=True)
    await stopping.wait()
    await server.stop(0)


if __name__ == "__main__":
    sys.exit(run_service("traced", service))
