"""Damaged replicas, whose batches at rest are not what was written: reporting them to the controller, and
repairing them from other replicas.

Theory of operation. Every reader of a log may find damage: a consumer's fetch, a follower's, the check of
data at rest. From then on the replica fetches nothing, so that its leader does not count it as in sync. The
broker reports it to the controller. The replica leaves the ISR, and stops leading, if another one is whole.
Meanwhile each damaged segment is written anew beside the old one, from its own whole parts and from what
other replicas have (`storage.SegmentMend`).

The replica keeps its role while this goes on. Nothing is truncated or deleted, so it may be the last copy,
lead, and take writes. Two replicas that are damaged at different places repair each other. What no other
replica has stays damaged. The controller complains about it, and the repair is tried again.

Only a log whose oldest segments are gone is not repaired. It stays damaged until others are to have all its
records. The decision that says so has it fetched anew (`hosting.replica_lifecycle`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar, TypeVarTuple

import grpc
from hightide.batch.errors import MalformedMessage
from hightide.batch.wire import parse_fetch_response
from hightide.calls.backoff import Backoff
from hightide.v1.broker_service_pb2 import FetchPartition, FetchRequest
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import reason_of
from hightide_runtime.serving.channels import OpenChannel

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.core.replica import NO_LEADER, Role
from hightide_broker.directories.fetch_pauses import FetchPausePort
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.storage import BatchPlace, DamagedLog, LogClosed, SegmentMend, StorageError

log = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

AGAIN: Final = Backoff(initial_ms=200, maximum_ms=10_000)
TOLD_S: Final = 5.0
"""How long the repair waits until the controller knows; then it goes on without."""
CALL_TIMEOUT_S: Final = 10.0
PIECE_BYTES: Final = 1024 * 1024
"""Bytes that are fetched from a peer at a time, or checked."""
AT_ONCE: Final = 4
"""Replicas that are repaired at the same time."""
ANYWHERE: Final = -1
"""Means that the damaged segment is not known."""

_FETCH: Final = "/hightide.v1.BrokerService/Fetch"


class DamageReportPort(Protocol):
    """Reports to the controller (`failed_replicas.FailedReplicas`)."""

    def report_damage(self, key: PartitionKey, offset: int) -> None:
        """Report that a replica is damaged."""
        ...

    def report_whole(self, key: PartitionKey) -> None:
        """Report that a replica is not damaged any more."""
        ...

    async def told(self, patience_s: float) -> None:
        """Wait until the controller has acknowledged all reports, for at most `patience_s`."""
        ...


@dataclass(slots=True, eq=False)
class _Patient:
    """One damaged replica."""

    replica: HostedReplica
    offset: int
    segments: set[int] = field(default_factory=set)
    """The base offsets of the damaged segments."""
    reason: str = ""
    """Why it is not whole yet, as last logged."""


class ReplicaHealing:
    """All damaged replicas of a broker. Belongs to the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        replicas: HostedReplicas,
        copying: FetchPausePort,
        reports: DamageReportPort,
        address_of: Callable[[int], HostPort | None],
        disk: Executor,
        connect: OpenChannel,
    ) -> None:
        """`disk` is one thread, for what is read and written of damaged logs."""
        self._broker_id = broker_id
        self._replicas = replicas
        self._copying = copying
        self._reports = reports
        self._address_of = address_of
        self._disk = disk
        self._open_channel = connect
        self._patients: dict[PartitionKey, _Patient] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(AT_ONCE)
        self.found = 0
        """How often a replica was found damaged."""
        self.healed = 0
        """How often one was repaired."""

    @property
    def damaged_count(self) -> int:
        """How many replicas are damaged; called on any thread."""
        return len(self._patients)

    def met(self, damage: DamagedLog) -> None:
        """Take note of damage that a reader has found. Called each time; acts once for a replica."""
        key = damage.topic_id, damage.partition
        replica = self._replicas.get(key)
        if replica is None or not _can_be_mended(replica):
            log.error("%s", damage)
            return
        patient = self._patients.get(key)
        if patient is None or patient.replica is not replica:
            log.error("%s", damage)
            self.found += 1
            patient = self._patients[key] = _Patient(replica, damage.offset)
            replica.is_damaged = True
            replica.log.at_rest.note_damage(is_damaged=True)
            self._copying.hold(replica)
            task = asyncio.get_running_loop().create_task(self._heal(key, patient), name=f"heal-{replica}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        patient.segments.add(damage.segment)

    def tell_again(self) -> None:
        """Report all damage again: a new controller was elected, which knows of none."""
        for key, patient in self._patients.items():
            self._reports.report_damage(key, patient.offset)

    async def close(self) -> None:
        """Stop repairing. Readers find the damage again after the next start."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- one replica -----------------------------------------------------------------------------

    async def _heal(self, key: PartitionKey, patient: _Patient) -> None:
        replica = patient.replica
        try:
            if await self._is_mended(key, patient):
                self.healed += 1
                replica.log.at_rest.note_damage(is_damaged=False)
                log.warning("%s is whole again", replica)
        finally:
            replica.is_damaged = False
            is_last = self._patients.get(key) is patient
            if is_last:
                del self._patients[key]
        if not is_last:
            return  # It was opened again meanwhile, as damaged as before.
        self._reports.report_whole(key)
        # It would join the ISR, and a controller that does not know yet would remove it.
        await self._reports.told(TOLD_S)
        if self._replicas.get(key) is replica and not replica.is_damaged:
            self._copying.resume(replica)

    async def _is_mended(self, key: PartitionKey, patient: _Patient) -> bool:
        """Repair the replica, however long that takes. False if it is not here any more."""
        failures = 0
        self._reports.report_damage(key, patient.offset)
        await self._reports.told(TOLD_S)
        while self._replicas.get(key) is patient.replica and _can_be_mended(patient.replica):
            try:
                async with self._room:
                    await self._mend(patient)
            except LogClosed:
                return False
            except (StorageError, _NotYet) as error:
                if str(error) != patient.reason:
                    patient.reason = str(error)
                    log.error("%s is not whole yet, tried again: %s", patient.replica, error)
            except Exception as error:
                # A bug. A replica that fetched on would be in sync with its damage.
                if repr(error) != patient.reason:
                    patient.reason = repr(error)
                    log.exception("%s is not whole yet, tried again", patient.replica)
            else:
                if not patient.segments:
                    return True
                # More was found while connections were closed.
            failures += 1
            await asyncio.sleep(AGAIN.pause_s(failures))
            # The controller may have forgotten the report: this broker may have registered anew.
            self._reports.report_damage(key, patient.offset)
        return False

    async def _mend(self, patient: _Patient) -> None:
        """Repair all segments that are known to be damaged, and restore a file of epochs that is gone. Raises
        StorageError, _NotYet."""
        at_rest = patient.replica.log.at_rest
        await self._run(at_rest.restore_epochs)
        patient.segments.update(await self._run(at_rest.lacking))
        peers = _Peers(self._open_channel)
        try:
            while patient.segments:
                base_offset = max(patient.segments)
                if base_offset == ANYWHERE:
                    found = await self._first_damage(patient.replica)
                    if found is None:
                        patient.segments.discard(ANYWHERE)
                        continue
                    base_offset = found
                await self._mend_segment(patient, base_offset, peers)
                patient.segments.discard(base_offset)
        finally:
            await peers.close()
        if front := await self._run(at_rest.missing_front):
            start, base = front
            raise _NotYet(
                f"its records from offset {start} to {base - 1} are gone. It is fetched anew once others are "
                f"in sync. If nobody has them, run hightide topic trim with offset {base}"
            )

    async def _first_damage(self, replica: HostedReplica) -> int | None:
        place: BatchPlace | None = None
        while True:
            try:
                place, _ = await self._run(replica.log.at_rest.check, place, PIECE_BYTES)
            except DamagedLog as damage:
                return damage.segment
            if place is None:
                return None

    async def _is_needless(self, replica: HostedReplica) -> bool:
        """Whether everything that may be read is whole: an operator has deleted the damaged records, which no
        peer has."""
        return await self._first_damage(replica) is None

    async def _mend_segment(self, patient: _Patient, base_offset: int, peers: _Peers) -> None:
        mend = await self._run(patient.replica.log.at_rest.mend, base_offset)
        if mend is None:
            return  # Retention or a truncation has deleted it.
        try:
            while (offset := await self._run(mend.go_on)) is not None:
                if offset < patient.replica.log.log_start_offset and await self._is_needless(patient.replica):
                    return
                patient.offset = offset
                await self._fetch_into(mend, patient.replica, offset, peers)
            if not await self._run(mend.finish):
                raise _NotYet(f"segment {base_offset} has changed meanwhile")
            log.info(
                "%s: segment %d is written anew; %d batches came from peers%s",
                patient.replica,
                base_offset,
                mend.taken,
                "" if mend.kept_at is None else f"; the damaged file is kept at {mend.kept_at}",
            )
        finally:
            # Also when cancelled: it waits for the thread to finish its current work. What fails then is not
            # to hide that it was cancelled.
            closing = asyncio.ensure_future(self._run(mend.close))
            await asyncio.wait([closing])
            failure = closing.exception()
        if failure is not None:
            raise failure

    async def _fetch_into(
        self, mend: SegmentMend, replica: HostedReplica, offset: int, peers: _Peers
    ) -> None:
        """Take what any other replica has of an offset. Raises _NotYet."""
        reasons = []
        for peer in self._sources(replica):
            address = self._address_of(peer)
            if address is None:
                reasons.append(f"broker {peer} is not known")
                continue
            try:
                batches = await peers.fetch(address, replica.key, offset)
            except _NotYet as error:
                reasons.append(f"broker {peer}: {error}")
                continue
            if await self._run(mend.take, batches):
                return
            reasons.append(f"broker {peer} has no batch that fits")
        raise _NotYet(f"no replica has offset {offset}: {'; '.join(reasons) or 'there is no other replica'}")

    def _sources(self, replica: HostedReplica) -> Iterator[int]:
        """The other replicas, in order of how certainly they have the records."""
        decision = replica.state.decision
        for peer in dict.fromkeys((decision.leader, *decision.isr, *decision.replicas)):
            if peer not in (self._broker_id, NO_LEADER):
                yield peer

    async def _run(self, call: Callable[[*Ts], T], *arguments: *Ts) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, call, *arguments)


def _can_be_mended(replica: HostedReplica) -> bool:
    """False if its data directory failed, or it was stopped."""
    return replica.state.role not in (Role.FAILED, Role.STOPPED) and not replica.log.is_closed


class _NotYet(Exception):
    """No other replica could be reached that has the missing records."""


class _Peers:
    """The connections to other replicas in one attempt."""

    def __init__(self, connect: OpenChannel) -> None:
        self._open_channel = connect
        self._channels: dict[HostPort, grpc.aio.Channel] = {}

    async def fetch(self, address: HostPort, key: PartitionKey, offset: int) -> memoryview:
        """What a peer's own replica has from an offset on, below its high watermark. Raises _NotYet."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._open_channel(address)
        partition = FetchPartition(
            topic_id=key[0], partition=key[1], leader_epoch=-1, fetch_offset=offset, max_bytes=PIECE_BYTES
        )
        request = FetchRequest(max_bytes=PIECE_BYTES, partitions=[partition], from_follower=True)
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_FETCH)
        try:
            answer = await call(request.SerializeToString(), timeout=CALL_TIMEOUT_S)
            (result,) = parse_fetch_response(answer).partitions
        except grpc.aio.AioRpcError as error:
            raise _NotYet(f"{error.code().name}: {error.details()}") from error
        except (MalformedMessage, ValueError) as error:
            raise _NotYet(str(error)) from error
        if result.error_code:
            raise _NotYet(f"{reason_of(result.error_code)}: {result.error_message}")
        return result.batches

    async def close(self) -> None:
        """Close the connections."""
        for channel in self._channels.values():
            await channel.close()
