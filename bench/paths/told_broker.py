"""A broker as far as being told goes: it obeys a LeaderAndISR that comes by RPC, or by a queue in ZooKeeper.

Started by `controller_paths.py`, one process for each. What a broker does with a decision is left out, since
that costs the same whichever way it came: here a command is parsed, and what it says is counted.

The queue is that of V2: /queues/[broker id], with a child for each command. The broker has a watch on the
children; when it fires it lists them, reads each, obeys, and removes each. That is how whoever wrote them
sees that they were obeyed.
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
"""Channels inside of a cluster ask every 10 s whether the other side is there (server.py)."""


async def answer(
    request: control_pb2.LeaderAndISRRequest, context: grpc.aio.ServicerContext[Any, Any]
) -> control_pb2.LeaderAndISRResponse:
    """Obey, and answer when that is done. A broker adds a result for each partition; a queue has none."""
    assert obey(request) > 0
    return control_pb2.LeaderAndISRResponse()


def obey(request: control_pb2.LeaderAndISRRequest) -> int:
    """Look at each decision of a command; how many there are."""
    return sum(1 for topic in request.topics for each in topic.partitions if each.partition >= 0)


def queue_of(broker_id: int) -> str:
    """The path of a broker's queue."""
    return f"{QUEUES}/{broker_id}"


async def drain(session: ZooKeeperSession, broker_id: int) -> None:
    """Obey what stands in the queue, for ever: list, read all, obey all, remove all, each pipelined."""
    queue = queue_of(broker_id)
    while True:
        names = await session.children(queue, watch=True)
        paths = [f"{queue}/{name}" for name in names]
        for found in await asyncio.gather(*(session.get(path) for path in paths)):
            assert obey(control_pb2.LeaderAndISRRequest.FromString(found.data)) > 0
        await asyncio.gather(*(session.delete(path) for path in paths))
        # Removing them has fired the watch that was set with the list, so this returns at once then.
        await fired(session, queue)


async def fired(session: ZooKeeperSession, path: str) -> None:
    """Wait for the watch on a path; session states are of no interest here."""
    while True:
        event = await session.events.get()
        if isinstance(event, WatchFired) and event.path == path:
            return


async def be_told(zookeeper: str, broker_id: int) -> None:
    """Serve until killed; print the port when ready."""
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
    """Be one broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--broker-id", type=int, required=True)
    chosen = parser.parse_args()
    import uvloop

    uvloop.run(be_told(chosen.zookeeper, chosen.broker_id))


if __name__ == "__main__":
    main()
