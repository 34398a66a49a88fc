"""Comparing the committed data at rest of followers with that of their leaders.

Theory of operation. The CRC of a batch says that its bytes are those that were once written. It does not say
that the leader has the same ones: a fault of software, or of an operator, could give two replicas two
histories that are both whole. So the check of data at rest (`scrub`) has each piece below the high watermark
compared by a digest. If they differ, nobody can say which of the two is right. The log and the controller say
where they differ, and nothing else is done. If a piece cannot be compared now, because the leader changes or
has deleted it, it is left for the next pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, Protocol

import grpc
from hightide.v1.replica_service_pb2_grpc import ReplicaServiceStub
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import OpenChannel

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract import convert
from hightide_broker.contract.replica_calls import DigestQuestion, Follower
from hightide_broker.core.replica import Role
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Divergence
from hightide_broker.replication.digests import digest_of
from hightide_broker.storage import StorageError

__all__ = ["LeaderComparison"]

log = logging.getLogger(__name__)

CALL_TIMEOUT_S: Final = 10.0


class DifferenceReportPort(Protocol):
    """Reports to the controller (`failed_replicas.FailedReplicas`)."""

    def report_difference(self, key: PartitionKey, where: Divergence | None) -> None:
        """Report that a replica differs from its leader there; None: it does not any more."""
        ...


class LeaderComparison:
    """Compares replicas with their leaders. One for each broker, on the event loop's thread; `scrub` calls it
    for each piece."""

    def __init__(
        self,
        replicas: HostedReplicas,
        follower: Callable[[], Follower],
        address_of: Callable[[int], HostPort | None],
        reports: DifferenceReportPort,
        disk: Executor,
        connect: OpenChannel,
    ) -> None:
        """`follower` identifies this broker; `disk` runs the reads."""
        self._replicas = replicas
        self._follower = follower
        self._address_of = address_of
        self._reports = reports
        self._disk = disk
        self._open_channel = connect
        self._channels: dict[HostPort, grpc.aio.Channel] = {}
        self._differing: dict[HostedReplica, Divergence] = {}
        self.compared_bytes = 0

    @property
    def differing_count(self) -> int:
        """How many replicas differ from their leaders; called on any thread."""
        return len(self._differing)

    async def compare(
        self, replica: HostedReplica, base_offset: int, end_offset: int, size_bytes: int
    ) -> None:
        """Compare the part of these batches that is committed and not deleted; they are whole here and have
        `size_bytes` bytes."""
        state = replica.state
        end_offset = min(end_offset, state.high_watermark)
        if state.role is not Role.FETCHING or replica.is_held:
            return
        base_offset = max(base_offset, state.log_start_offset, replica.leaders_log_start)
        if base_offset >= end_offset:
            return
        address = self._address_of(state.leader)
        if address is None:
            return
        epoch = state.leader_epoch
        question = DigestQuestion(self._follower(), replica.key, epoch, base_offset, end_offset)
        try:
            ours, is_exact = await asyncio.get_running_loop().run_in_executor(
                self._disk, digest_of, replica.log, base_offset, end_offset
            )
            if not is_exact:
                return
            theirs = await self._ask(address, question)
        except StorageError as error:
            log.debug("%s is not compared: %s", replica, error)
            return
        except grpc.aio.AioRpcError as error:
            log.debug("%s is not compared with broker %d: %s", replica, state.leader, error.details())
            return
        now = replica.state
        if now.role is not Role.FETCHING or now.leader_epoch != question.leader_epoch:
            return
        self.compared_bytes += size_bytes
        self._found(
            replica, Divergence(base_offset, end_offset, now.leader, now.leader_epoch), ours == theirs
        )

    def _found(self, replica: HostedReplica, where: Divergence, is_same: bool) -> None:
        known = self._differing.get(replica)
        if not is_same and known is None:
            log.error(
                "%s differs from its leader, broker %d, somewhere in the offsets %d to %d: both are whole, "
                "and one of them has other records than were acknowledged",
                replica, where.leader, where.offset, where.high_watermark - 1,
            )  # fmt: skip
            self._differing[replica] = where
            self._reports.report_difference(replica.key, where)
        elif (
            is_same
            and known is not None
            and where.offset <= max(known.offset, replica.state.log_start_offset) < where.high_watermark
        ):
            log.warning("%s does not differ from broker %d any more", replica, where.leader)
            del self._differing[replica]
            self._reports.report_difference(replica.key, None)

    async def _ask(self, address: HostPort, question: DigestQuestion) -> bytes:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._open_channel(address)
        stub = ReplicaServiceStub(channel)  # type: ignore[no-untyped-call,unused-ignore]
        answer = await stub.DigestBatches(convert.digest_question_out(question), timeout=CALL_TIMEOUT_S)
        return bytes(answer.digest)

    def tell_again(self) -> None:
        """Report all differences again: a new controller was elected, which knows of none."""
        self._forget_others()
        for replica, where in self._differing.items():
            self._reports.report_difference(replica.key, where)

    async def rest(self) -> None:
        """Close the connections: a pass is over."""
        self._forget_others()
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    def _forget_others(self) -> None:
        """Forget the differences of replicas that follow no leader any more, as they lead or are not here,
        and of records that were deleted since."""
        for replica, where in tuple(self._differing.items()):
            is_deleted = where.high_watermark <= replica.state.log_start_offset
            if self._replicas.get(replica.key) is not replica or replica.state.is_leader or is_deleted:
                del self._differing[replica]
                self._reports.report_difference(replica.key, None)
