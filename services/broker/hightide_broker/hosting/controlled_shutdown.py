"""Handing over leadership before the broker stops (V3 discussion 1, step 1, without the failover)."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import grpc
from hightide.v1.controller_service_pb2 import ControlledShutdownRequest
from hightide.v1.controller_service_pb2_grpc import ControllerServiceStub
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import OpenChannel
from hightide_runtime.telemetry.trace_context import traceparent_metadata
from hightide_runtime.znodes.cluster_znodes import ControllerZnode, ZnodeGarbage
from hightide_runtime.zookeeper.session import InconsistentClusterId, NoNode, ZooKeeperError, ZooKeeperSession

log = logging.getLogger(__name__)

AGAIN_S: Final = 0.1


async def hand_over_leadership(
    session: ZooKeeperSession,
    broker_id: int,
    broker_epoch: int,
    timeout_ms: int,
    connect: OpenChannel,
) -> None:
    """Ask the active controller to move this broker's leaderships to other brokers; returns when it has.

    Called once on SIGTERM, while the broker still serves. If there is no controller, or it does not answer in
    time, the broker stops all the same. The controller then notices that it is gone: this is slower, and as
    safe.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while not await _ask(session, broker_id, broker_epoch, connect):  # noqa: ASYNC110 - asks a remote process
                await asyncio.sleep(AGAIN_S)
    except TimeoutError:
        log.warning("leadership was not handed over within %d ms; stopping without", timeout_ms)


async def _ask(session: ZooKeeperSession, broker_id: int, broker_epoch: int, connect: OpenChannel) -> bool:
    """Ask once. Returns whether the controller has done it."""
    try:
        found = await session.get(ControllerZnode.path())
        active = ControllerZnode.decode(found.data)
    except NoNode:
        log.warning(
            "no controller is known that could elect other leaders; the broker stops without handing over"
        )
        return True
    except InconsistentClusterId as error:
        log.warning("no controller could elect other leaders: %s", error)
        return True
    except (ZooKeeperError, ZnodeGarbage) as error:
        log.warning("the active controller is not known: %s", error)
        return False
    address = HostPort(active.host, active.port)
    channel = connect(address)
    try:
        stub = ControllerServiceStub(channel)  # type: ignore[no-untyped-call,unused-ignore]
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        answer = await stub.ControlledShutdown(request, timeout=5, metadata=traceparent_metadata())
    except grpc.aio.AioRpcError as error:
        log.warning("controller at %s did not take over: %s: %s", address, error.code().name, error.details())
        return error.code() is grpc.StatusCode.UNIMPLEMENTED
    finally:
        await channel.close()
    if answer.remaining_leader_count:
        log.warning(
            "%d partitions have no other replica in sync; they are offline until this broker is back",
            answer.remaining_leader_count,
        )
    return True
