"""Fetch: reading below the high watermark, and waiting if there is nothing (V3 discussion 7).

Records in memory are read on the event loop, in a microsecond. Records in a file are read in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Final

from hightide.batch.errors import BatchError
from hightide.batch.header import Buffer
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.throttle import Throttle
from hightide_runtime.serving.answer_budget import AnswerBudget
from hightide_runtime.serving.fair_limit import PART, FairLimit, Holder

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.contract.data_calls import FetchCall, FetchFrom, PartitionRead, PartitionRefused
from hightide_broker.core.lineage import NO_EPOCH
from hightide_broker.core.reads import (
    LineageDiverges,
    NothingCommittedYet,
    ReadUpTo,
    consumer_fetch,
    replica_read,
)
from hightide_broker.core.refusals import Refusal
from hightide_broker.data import partition_errors
from hightide_broker.limits import (
    FETCH_BYTES_MAX,
    REQUEST_PARTITIONS_MAX,
    bounded_wait_ms,
)
from hightide_broker.replica.counters import OTHER_TOPICS, Counters
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.parking import ParkedFetch
from hightide_broker.storage import StorageError

NOT_READ: Final[Sequence[Buffer]] = ()


@dataclass(slots=True)
class _Answer:
    """What was read for one fetch. `lacks_room`: there is more to read, and no room for it beside the answers
    that the connection has not read yet."""

    partitions: list[PartitionRead]
    size_bytes: int
    lacks_room: bool

    def is_due(self, min_bytes: int) -> bool:
        """Whether the client need not wait for more: there is enough, an error, or all that there is room
        for."""
        enough = 1 if self.lacks_room else max(1, min_bytes)
        return self.size_bytes >= enough or any(each.refused for each in self.partitions)

    def without_batches(self) -> _Answer:
        """The same without what was read."""
        if not self.size_bytes:
            return self
        read = [replace(each, batches=NOT_READ, size_bytes=0) for each in self.partitions]
        return _Answer(read, 0, self.lacks_room)


class FetchHandler:
    """Answers Fetch. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        replicas: HostedReplicas,
        metadata: MetadataCache,
        parked_max: int,
        reads: Executor,
        answers: AnswerBudget,
        counters: Counters | None = None,
    ) -> None:
        """`answers`: the unread answers of clients, which bound what is read for the next ones."""
        self._broker_id = broker_id
        self._replicas = replicas
        self._metadata = metadata
        self._parked = FairLimit(parked_max)
        self._reads = reads
        self._answers = answers
        self._counters = counters or Counters()
        self._waiting: set[ParkedFetch] = set()
        self._closed = False
        self._releases = 0

    @property
    def waiting_count(self) -> int:
        """How many fetches wait; called on any thread."""
        return self._parked.taken

    async def fetch(
        self, call: FetchCall, peer: Holder, throttle: Throttle | None = None
    ) -> list[PartitionRead]:
        """Read, and wait up to max_wait_ms until there are min_bytes, and room for them beside the unread
        answers of this connection (`peer`), and what its principal fetched before is paid for (`throttle`).
        If that is not paid for by then, no partition gives records. Raises ServiceError (whole request)."""
        _check(call)
        answer = await self._read_or_wait(call, peer, throttle)
        if answer.lacks_room and not answer.size_bytes:
            raise self._answers.refusal(peer)
        for each in answer.partitions:
            replica = self._replicas.get(each.key)
            self._counters.fetched(OTHER_TOPICS if replica is None else replica.topic, each)
        return answer.partitions

    async def _read_or_wait(self, call: FetchCall, peer: Holder, throttle: Throttle | None) -> _Answer:
        answer = await self._read(call, peer, throttle)
        wait_ms = bounded_wait_ms(call.max_wait_ms)
        if wait_ms == 0 or answer.is_due(call.min_bytes):
            return answer
        return await self._wait_and_read(call, peer, throttle, answer, wait_ms)

    async def _wait_and_read(
        self, call: FetchCall, peer: Holder, throttle: Throttle | None, answer: _Answer, wait_ms: int
    ) -> _Answer:
        replicas = [found for each in call.partitions if (found := self._replicas.get(each.key)) is not None]
        if not replicas or self._closed:
            return answer
        if not self._parked.take(peer):
            raise ServiceError(
                ErrorCode.ERROR_CODE_OVERLOADED,
                f"broker {self._broker_id} holds {self._parked.taken} waiting fetches, "
                f"{self._parked.held(peer)} of them of this connection; it holds {self._parked.limit}, of "
                f"each connection one in {PART} of those that are free, and of each principal as many as "
                "are free. Try again after a pause",
            )
        give_up_at = _now_s() + wait_ms / 1000
        releases = self._releases
        try:
            while True:
                # What was read is in nobody's budget, and would be kept for as long as the fetch waits.
                is_less, answer = answer.size_bytes > 0, answer.without_batches()
                left_ms = int((give_up_at - _now_s()) * 1000)
                if left_ms <= 0 or self._closed or self._releases != releases:
                    return await self._read(call, peer, throttle) if is_less else answer
                is_admitted = False
                if throttle is not None and throttle.must_wait:
                    is_admitted = await throttle.admit(left_ms / 1000)
                elif answer.lacks_room:
                    await self._wait_for_room(peer, left_ms)
                elif not self._has_moved(call, answer.partitions):
                    await self._wait(replicas, left_ms)
                answer = await self._read(call, peer, throttle, is_admitted=is_admitted)
                if answer.is_due(call.min_bytes):
                    return answer
        finally:
            self._parked.give_back(peer)

    def _has_moved(self, call: FetchCall, read: list[PartitionRead]) -> bool:
        """Whether there may be more since the read: while a file is read, producers append."""
        for each in read:
            replica = self._replicas.get(each.key)
            if replica is None:
                continue
            state = replica.state
            if state.high_watermark != each.high_watermark:
                return True
            if not (state.is_leader or call.from_follower):
                return True
        return False

    async def _wait(self, replicas: list[HostedReplica], wait_ms: int) -> None:
        parked = ParkedFetch()
        self._waiting.add(parked)
        for replica in replicas:
            replica.fetches[parked] = None
        try:
            await parked.wait(wait_ms)
        finally:
            self._waiting.discard(parked)
            for replica in replicas:
                replica.fetches.pop(parked, None)

    async def _wait_for_room(self, peer: Holder, wait_ms: int) -> None:
        parked = ParkedFetch()
        self._waiting.add(parked)
        self._answers.wait(peer, parked)
        try:
            await parked.wait(wait_ms)
        finally:
            self._waiting.discard(parked)
            self._answers.leave(peer, parked)

    def check_room(self, peer: Holder, size_bytes: int) -> None:
        """Check that there is room for what a fetch has become: FetchRecords, after records were unpacked.
        Raises ServiceError."""
        if not self._answers.fits(peer, size_bytes):
            raise self._answers.refusal(peer)

    def close(self) -> None:
        """Answer all parked fetches now: the broker stops."""
        self._closed = True
        self.release()

    def release(self) -> None:
        """Answer all fetches that are parked now: what their callers may read has changed."""
        self._releases += 1
        for parked in tuple(self._waiting):
            parked.wake()

    async def _read(
        self, call: FetchCall, peer: Holder, throttle: Throttle | None, *, is_admitted: bool = False
    ) -> _Answer:
        """Read the partitions in turn while there is room. The first one that has records gives at least one
        batch, if the connection has room for it among the unread answers, and the principal owes nothing.
        `is_admitted`: it does not, and others of its calls wait for this one."""
        wanted = max(1, min(call.max_bytes, FETCH_BYTES_MAX))
        if throttle is None:
            return await self._read_at_most(call, peer, wanted)
        wanted = 0 if throttle.must_wait and not is_admitted else throttle.piece(wanted)
        # Before the disk is asked, so that calls that come meanwhile know of it.
        throttle.charge(wanted)
        size_bytes = 0
        try:
            answer = await self._read_at_most(call, peer, wanted)
            size_bytes = answer.size_bytes
            return answer
        finally:
            throttle.correct(wanted, size_bytes)

    async def _read_at_most(self, call: FetchCall, peer: Holder, wanted: int) -> _Answer:
        room = min(wanted, self._answers.room(peer))
        total = 0
        read = []
        for asked in call.partitions:
            one = await self._read_one(call, asked, room - total, must_fit=total > 0)
            total += one.size_bytes
            read.append(one)
        answer = _Answer(read, total, lacks_room=False)
        if total and not self._answers.fits(peer, total):
            answer = answer.without_batches()
        answer.lacks_room = answer.size_bytes < total or (room < wanted and self._leaves_out(call, read))
        return answer

    def _leaves_out(self, call: FetchCall, read: Sequence[PartitionRead]) -> bool:
        """Whether any partition has records that were asked for, and gave none."""
        for asked, one in zip(call.partitions, read, strict=True):
            replica = self._replicas.get(asked.key)
            if replica is not None and not one.size_bytes:
                allowed = _allowed(call, replica, asked)
                if isinstance(allowed, ReadUpTo) and asked.offset < allowed.end_offset:
                    return True
        return False

    async def _read_one(self, call: FetchCall, asked: FetchFrom, room: int, must_fit: bool) -> PartitionRead:
        replica = self._replicas.get(asked.key)
        if replica is None:
            explain = partition_errors.no_replica if call.from_follower else partition_errors.not_hosted
            why = explain(self._broker_id, self._metadata, asked.key)
            return PartitionRead(asked.key, -1, -1, NOT_READ, 0, why)
        state = replica.state
        allowed = _allowed(call, replica, asked)
        if isinstance(allowed, PartitionRefused):
            return PartitionRead(
                asked.key, state.high_watermark, state.log_start_offset, NOT_READ, 0, allowed
            )
        batches: Sequence[Buffer] = NOT_READ
        size_bytes = 0
        if isinstance(allowed, ReadUpTo) and room > 0:
            max_bytes = max(1, min(asked.max_bytes, room))
            try:
                found = replica.log.read_memory(asked.offset, max_bytes, allowed.end_offset)
                if found is None:
                    # What would be left out below is not read.
                    first_bytes_max = room if must_fit else None
                    found = await asyncio.get_running_loop().run_in_executor(
                        self._reads, replica.log.read_file,
                        asked.offset, max_bytes, allowed.end_offset, first_bytes_max,
                    )  # fmt: skip
                    state = replica.state
                    if isinstance(again := _allowed(call, replica, asked), PartitionRefused):
                        return PartitionRead(
                            asked.key, state.high_watermark, state.log_start_offset, NOT_READ, 0, again
                        )
            except (StorageError, BatchError) as error:
                why = partition_errors.by_storage(replica, error)
                return PartitionRead(
                    asked.key, state.high_watermark, state.log_start_offset, NOT_READ, 0, why
                )
            batches = found
            size_bytes = sum(map(len, batches))
            if must_fit and size_bytes > room:
                # One batch is larger than the room that is left. It is read when its partition is the first.
                batches, size_bytes = NOT_READ, 0
        return PartitionRead(asked.key, state.high_watermark, state.log_start_offset, batches, size_bytes)


def _allowed(
    call: FetchCall, replica: HostedReplica, asked: FetchFrom
) -> ReadUpTo | NothingCommittedYet | PartitionRefused:
    found: ReadUpTo | NothingCommittedYet | LineageDiverges | Refusal
    if call.from_follower:
        found = replica_read(replica.state, asked.offset)
    else:
        found = consumer_fetch(replica.state, asked.offset, asked.leader_epoch, asked.last_fetched_epoch)
    if isinstance(found, LineageDiverges):
        return partition_errors.diverging(replica, asked, found.agreed)
    if isinstance(found, Refusal):
        return partition_errors.by_core(replica, found, asked.offset)
    return found


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _check(call: FetchCall) -> None:
    if len(call.partitions) > REQUEST_PARTITIONS_MAX:
        raise ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"the request names {len(call.partitions)} partitions; send at most {REQUEST_PARTITIONS_MAX}",
        )
    if call.from_follower:
        # An epoch of 0 may also mean that none is given.
        for each in call.partitions:
            if each.leader_epoch > 0 or each.last_fetched_epoch != NO_EPOCH:
                raise ServiceError(
                    ErrorCode.ERROR_CODE_INVALID_REQUEST,
                    f"partition {each.key[1]} of topic {each.key[0].hex()}: with from_follower, "
                    "leader_epoch and last_fetched_epoch are not allowed, because a follower cannot check "
                    "them for its leader; leave them out",
                )
