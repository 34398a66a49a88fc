"""Reporting replicas to the active controller that failed with their data directory (docs/protocol.md, "A
data directory fails alone"), that are damaged, contradicted by their leaders, or waiting for a disk that does
not answer; and reporting that such a replica is whole again.

The controller then elects other leaders, as if this broker had died for those partitions only. Every answer
to a LeaderAndISR about a failed replica also says STORAGE_FAILED, and damage is reported again while it lasts
(`directories/healing.py`). So a controller that missed a report learns of it sooner or later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import grpc
from hightide.calls.backoff import Backoff
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1.controller_service_pb2 import (
    REPLICA_CONDITION_DAMAGED,
    REPLICA_CONDITION_DIFFERS,
    REPLICA_CONDITION_DIVERGED,
    REPLICA_CONDITION_HANGS,
    REPLICA_CONDITION_UNSPECIFIED,
    REPLICA_CONDITION_WHOLE,
    FailedReplica,
    ReplicaCondition,
    ReportFailedReplicasRequest,
)
from hightide.v1.controller_service_pb2_grpc import ControllerServiceStub
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import OpenChannel
from hightide_runtime.telemetry.trace_context import traceparent_metadata
from hightide_runtime.znodes.cluster_znodes import ControllerZnode, ZnodeGarbage
from hightide_runtime.zookeeper.session import NoNode, ZooKeeperError, ZooKeeperSession

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.replica.shell import Divergence

log = logging.getLogger(__name__)

AGAIN: Final = Backoff(initial_ms=50, maximum_ms=5_000)
CALL_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Report:
    """The report about one replica. The last report counts, unless its data directory has failed."""

    condition: ReplicaCondition.ValueType
    damaged_offset: int = -1
    divergence: Divergence | None = None


class FailedReplicas:
    """Reports failed replicas to the active controller until it has acknowledged. On the event loop's
    thread."""

    def __init__(
        self,
        session: ZooKeeperSession,
        broker_id: int,
        broker_epoch: Callable[[], int],
        connect: OpenChannel,
    ) -> None:
        """`broker_epoch` returns the current broker epoch. It is called before each attempt."""
        self._session = session
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._open_channel = connect
        self._pending: dict[PartitionKey, _Report] = {}
        self._diverged: dict[PartitionKey, _Report] = {}
        self._hanging: set[PartitionKey] = set()
        self._differences: dict[PartitionKey, _Report] = {}
        self._reporting: asyncio.Task[None] | None = None

    def report(self, replicas: Iterable[PartitionKey]) -> None:
        """Report that these replicas failed, as soon as the controller can be reached. Returns at once."""
        self._pending.update(dict.fromkeys(replicas, _Report(REPLICA_CONDITION_UNSPECIFIED)))
        self._begin()

    def report_damage(self, key: PartitionKey, offset: int) -> None:
        """Report that a replica is damaged at an offset, which is -1 if it is not known. Returns at once."""
        self._note(key, _Report(REPLICA_CONDITION_DAMAGED, offset))

    def report_whole(self, key: PartitionKey) -> None:
        """Report that a replica is not damaged any more. Returns at once."""
        at_best = REPLICA_CONDITION_HANGS if key in self._hanging else REPLICA_CONDITION_WHOLE
        self._note(key, self._diverged.get(key, _Report(at_best)))

    def report_hang(self, key: PartitionKey) -> None:
        """Report that a replica waits for a disk that does not answer. Returns at once."""
        self._hanging.add(key)
        self._note(key, self._diverged.get(key, _Report(REPLICA_CONDITION_HANGS)))

    def hangs_no_more(self, key: PartitionKey) -> None:
        """Report that the disk of a replica answers again. Returns at once."""
        self._hanging.discard(key)
        self.report_whole(key)

    def report_divergence(self, key: PartitionKey, divergence: Divergence) -> None:
        """Report that a replica keeps committed records which its leader lacks. Returns at once."""
        report = self._diverged[key] = _Report(REPLICA_CONDITION_DIVERGED, divergence=divergence)
        self._note(key, report)

    def diverges_no_more(self, key: PartitionKey) -> None:
        """Report that a replica follows again, or leads, if a divergence was reported before. Returns at
        once."""
        if self._diverged.pop(key, None) is not None:
            self.report_whole(key)

    def report_difference(self, key: PartitionKey, where: Divergence | None) -> None:
        """Report that a replica has other batches than its leader, or with None that it has the same. Returns
        at once. This report does not replace other reports about the replica."""
        said = where if where is not None else Divergence(-1, -1, -1, -1)
        self._differences[key] = _Report(REPLICA_CONDITION_DIFFERS, divergence=said)
        self._begin()

    async def told(self, patience_s: float) -> None:
        """Wait until the controller has acknowledged all reports, for at most `patience_s`."""
        if self._reporting is not None:
            await asyncio.wait([self._reporting], timeout=patience_s)

    def _note(self, key: PartitionKey, report: _Report) -> None:
        before = self._pending.get(key)
        if before is None or before.condition != REPLICA_CONDITION_UNSPECIFIED:
            self._pending[key] = report
        self._begin()

    def _begin(self) -> None:
        if (self._pending or self._differences) and (self._reporting is None or self._reporting.done()):
            self._reporting = asyncio.get_running_loop().create_task(self._run(), name="failed-replicas")

    async def close(self) -> None:
        """Stop reporting: the broker stops, and its leaderships move in any case."""
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait([self._reporting])

    async def _run(self) -> None:
        failures = 0
        try:
            while self._pending or self._differences:
                pending, differences = dict(self._pending), dict(self._differences)
                if await self._tell([*pending.items(), *differences.items()]):
                    _forget(self._pending, pending)
                    _forget(self._differences, differences)
                    failures = 0
                    continue
                failures += 1
                await asyncio.sleep(AGAIN.pause_s(failures))
        except Exception:
            # The top of a task: what is pending is reported with the next failure.
            log.exception("reporting %d failed replicas ended", len(self._pending))

    async def _tell(self, reports: Sequence[tuple[PartitionKey, _Report]]) -> bool:
        """Send the reports once. Returns whether the controller has acknowledged them."""
        broker_epoch = self._broker_epoch()
        if broker_epoch < 0:
            return False  # Not registered yet: no controller would know the sender.
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
                replicas=[_told(key, report) for key, report in reports],
            )
            await stub.ReportFailedReplicas(request, timeout=CALL_TIMEOUT_S, metadata=traceparent_metadata())
        except grpc.aio.AioRpcError as error:
            log.warning(
                "controller at %s was not told of %d failed replicas: %s: %s",
                address, len(reports), error.code().name, error.details(),
            )  # fmt: skip
            # A controller that does not know the call learns of it from the answers to LeaderAndISR.
            return error.code() is grpc.StatusCode.UNIMPLEMENTED
        finally:
            await channel.close()
        log.info(
            "controller at %s knows of %d replicas that failed, are damaged or were mended",
            address,
            len(reports),
        )
        return True


def _forget(waiting: dict[PartitionKey, _Report], told: Mapping[PartitionKey, _Report]) -> None:
    """Remove what the controller has acknowledged, unless there is a newer report."""
    for key, report in told.items():
        if waiting.get(key) is report:
            del waiting[key]


def _told(key: PartitionKey, report: _Report) -> FailedReplica:
    topic_id, partition = key
    told = FailedReplica(
        topic_id=topic_id,
        partition=partition,
        condition=report.condition,
        damaged_offset=report.damaged_offset,
    )
    if (divergence := report.divergence) is not None:
        told.divergence.CopyFrom(
            controller_pb2.Divergence(
                offset=divergence.offset,
                high_watermark=divergence.high_watermark,
                leader=divergence.leader,
                leader_epoch=divergence.leader_epoch,
            )
        )
    return told
