"""Telling the controller which replicas are out of service because their data directory failed (DESIGN §5).

It elects other leaders then, as if this broker had died for those partitions only. Also every LeaderAndISR
about them is answered with STORAGE_FAILED, so that a controller that was not told hears it sooner or later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

import grpc
from hightide.v1.controller_service_pb2 import FailedReplica, ReportFailedReplicasRequest
from hightide.v1.controller_service_pb2_grpc import ControllerServiceStub
from hightide_runtime.addresses import HostPort
from hightide_runtime.channels import open_channel
from hightide_runtime.trace_context import traceparent_metadata
from hightide_runtime.znodes import ControllerZnode, ZnodeGarbage
from hightide_runtime.zookeeper import NoNode, ZooKeeperError, ZooKeeperSession

from hightide_broker.decisions import PartitionKey
from hightide_broker.ports import Connect

log = logging.getLogger(__name__)

PAUSE_MIN_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
GIVE_UP_S: Final = 120.0
"""Who is elected later than that sends LeaderAndISR to everybody, and hears it from the answers."""
CALL_TIMEOUT_S: Final = 5.0


class FailedReplicas:
    """Reports failed replicas to the active controller, until it knows. On the event loop's thread."""

    def __init__(
        self,
        session: ZooKeeperSession,
        broker_id: int,
        broker_epoch: Callable[[], int],
        connect: Connect = open_channel,
    ) -> None:
        """`broker_epoch` gives the present one; it is asked before each attempt."""
        self._session = session
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._open_channel = connect
        self._pending: dict[PartitionKey, None] = {}
        self._reporting: asyncio.Task[None] | None = None

    def report(self, replicas: Iterable[PartitionKey]) -> None:
        """Tell the controller of these as soon as it can be reached; returns at once."""
        self._pending.update(dict.fromkeys(replicas))
        if self._pending and (self._reporting is None or self._reporting.done()):
            self._reporting = asyncio.get_running_loop().create_task(self._run(), name="failed-replicas")

    async def close(self) -> None:
        """Stop reporting: the broker stops, and its leaderships move anyhow."""
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait([self._reporting])

    async def _run(self) -> None:
        pause_s = PAUSE_MIN_S
        try:
            async with asyncio.timeout(GIVE_UP_S):
                while self._pending:
                    reported = tuple(self._pending)
                    if await self._tell(reported):
                        for key in reported:
                            del self._pending[key]
                        pause_s = PAUSE_MIN_S
                        continue
                    await asyncio.sleep(pause_s)
                    pause_s = min(PAUSE_MAX_S, pause_s * 2)
        except TimeoutError:
            log.error(
                "no controller was told within %.0f s that %d replicas are in a failed data directory; it "
                "hears it with its next LeaderAndISR",
                GIVE_UP_S,
                len(self._pending),
            )
            self._pending.clear()
        except Exception:
            # The top of a task: what is pending is reported with the next failure, and by LeaderAndISR.
            log.exception("reporting %d failed replicas ended", len(self._pending))

    async def _tell(self, replicas: tuple[PartitionKey, ...]) -> bool:
        """Ask once; whether the controller knows."""
        broker_epoch = self._broker_epoch()
        if broker_epoch < 0:
            return False  # Not registered yet: no controller would know who speaks.
        try:
            active = ControllerZnode.decode((await self._session.get(ControllerZnode.path())).data)
        except (NoNode, ZooKeeperError, ZnodeGarbage) as error:
            log.warning("the active controller is not known, telling it of failed replicas later: %s", error)
            return False
        address = HostPort(active.host, active.port)
        channel = self._open_channel(address)
        try:
            stub = ControllerServiceStub(channel)  # type: ignore[no-untyped-call,unused-ignore]
            request = ReportFailedReplicasRequest(
                broker_id=self._broker_id,
                broker_epoch=broker_epoch,
                replicas=[FailedReplica(topic_id=topic_id, partition=each) for topic_id, each in replicas],
            )
            await stub.ReportFailedReplicas(request, timeout=CALL_TIMEOUT_S, metadata=traceparent_metadata())
        except grpc.aio.AioRpcError as error:
            log.warning(
                "controller at %s was not told of %d failed replicas: %s: %s",
                address, len(replicas), error.code().name, error.details(),
            )  # fmt: skip
            # One that does not know the call hears of it by LeaderAndISR.
            return error.code() is grpc.StatusCode.UNIMPLEMENTED
        finally:
            await channel.close()
        log.info("controller at %s knows that %d replicas failed", address, len(replicas))
        return True
