"""A process that takes LeaderAndISR commands as a broker does, by RPC or by a queue in ZooKeeper.

`controller_paths.py` starts one for each broker. It only parses a command and counts its decisions. What a
broker does with a decision is left out, since it costs the same for each way.

The queue is that of V2: /queues/[broker id], with a child for each command. The broker has a watch on the
children. When it fires, the broker lists and reads them, carries them out, and removes them. The removal
shows the writer that they were carried out.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import grpc
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide_runtime.zookeeper.session import WatchFired, ZooKeeperSession

SERVICE = "hightide.v1.BrokerControlService"
QUEUES = "/queues"
READY = "ready"
PINGS_ALLOWED = (
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)
"""The server must allow the pings that channels of the runtime send every 10 s."""


async def answer(
    request: control_pb2.LeaderAndISRRequest, context: grpc.aio.ServicerContext[Any, Any]
) -> control_pb2.LeaderAndISRResponse:
    """Carry out a command, and answer then. A real broker also returns a result for each partition."""
    assert carry_out(request) > 0
    return control_pb2.LeaderAndISRResponse()


def carry_out(request: control_pb2.LeaderAndISRRequest) -> int:
    """Look at each decision of a command, and return their number."""
    return sum(1 for topic in request.topics for each in topic.partitions if each.partition >= 0)


def queue_of(broker_id: int) -> str:
    """The path of a broker's queue."""
    return f"{QUEUES}/{broker_id}"


async def drain(session: ZooKeeperSession, broker_id: int) -> None:
    """Carry out the commands of the queue without end: list, read all, carry out all, remove all. The reads
    and the removals are pipelined."""
    queue = queue_of(broker_id)
    while True:
        names = await session.children(queue, watch=True)
        paths = [f"{queue}/{name}" for name in names]
        for found in await asyncio.gather(*(session.get(path) for path in paths)):
            assert carry_out(control_pb2.LeaderAndISRRequest.FromString(found.data)) > 0
        await asyncio.gather(*(session.delete(path) for path in paths))
        # After removals this returns at once, since they have fired the watch.
        await watch_fired(session, queue)


async def watch_fired(session: ZooKeeperSession, path: str) -> None:
    """Wait until the watch on a path has fired. Other events of the session are ignored."""
    while True:
        event = await session.events.get()
        if isinstance(event, WatchFired) and event.path == path:
            return


async def serve(zookeeper: str, broker_id: int) -> None:
    """Serve until the process is killed. Prints READY and the port when it is ready."""
    session = await ZooKeeperSession.connect(zookeeper)
    server = grpc.aio.server(options=PINGS_ALLOWED)
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=control_pb2.LeaderAndISRRequest.FromString,
        response_serializer=control_pb2.LeaderAndISRResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"LeaderAndISR": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await session.ensure_path(queue_of(broker_id))
    print(READY, port, flush=True)
    await drain(session, broker_id)


def main() -> None:
    """Run one broker with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--broker-id", type=int, required=True)
    chosen = parser.parse_args()
    import uvloop

    uvloop.run(serve(chosen.zookeeper, chosen.broker_id))


if __name__ == "__main__":
    main()
