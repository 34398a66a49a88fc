"""Reads for followers of what is not in memory: in threads, beside the rounds of their sessions.

Theory of operation. A new replica, or one that was down, begins with records that are only on disk. Reading
them on the event loop would delay all requests for as long as the disk takes. So the partition is set aside
in its session, and the round goes on without it. When the batches are there, the partition comes back, and
the follower's parked round is woken. The number of reads of a session that are under way, or done and not
sent yet, is small, so their memory is bounded. Partitions that wait for such a read come back in one of the
next rounds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from hightide.batch.header import Buffer

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.core.fetch_session import LeaderSession
from hightide_broker.replica.held_replicas import HostedReplica

Session = LeaderSession[PartitionKey]

READS_MAX: Final = 8
"""Reads of one session that are under way, or done and not sent."""
READ_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of one read, beyond its first batch."""


@dataclass(frozen=True, slots=True)
class _Read:
    """One read; `batches` may fail as `Log.read` does."""

    offset: int
    leader_epoch: int
    batches: asyncio.Future[list[Buffer]]


@dataclass(slots=True)
class _OfSession:
    reads: dict[PartitionKey, _Read] = field(default_factory=dict)
    queue: deque[PartitionKey] = field(default_factory=deque)
    """Partitions that are set aside until there is room for their read."""


class ColdReads:
    """The reads of all sessions of a broker. Belongs to the event loop's thread."""

    def __init__(self, executor: Executor, wake: Callable[[Session], bool]) -> None:
        """`wake` is called when a session has something to send."""
        self._executor = executor
        self._wake = wake
        self._of: WeakKeyDictionary[Session, _OfSession] = WeakKeyDictionary()

    def read(
        self, session: Session, replica: HostedReplica, offset: int, max_bytes: int
    ) -> Sequence[Buffer] | None:
        """The batches that the follower lacks, from `offset` on; or None: the partition is then set aside,
        and comes back.

        Call `sent` when it is part of an answer. Raises StorageError, BatchError.
        """
        of_session = self._of.setdefault(session, _OfSession())
        key, leader_epoch = replica.key, replica.state.leader_epoch
        read = of_session.reads.get(key)
        if read is not None and read.batches.done():
            is_it = (read.offset, read.leader_epoch) == (offset, leader_epoch)
            error = read.batches.exception()
            if is_it and error is None and (batches := read.batches.result()):
                return batches
            self.sent(session, key)
            if is_it and error is not None:
                raise error
            # It has another position, or the log was truncated meanwhile.
            read = None
        session.set_aside(key)
        if read is None and len(of_session.reads) >= READS_MAX:
            of_session.queue.append(key)
        elif read is None:
            batches_read = asyncio.get_running_loop().run_in_executor(
                self._executor, replica.log.read_file, offset, min(max_bytes, READ_BYTES_MAX),
                replica.state.log_end_offset,
            )  # fmt: skip
            of_session.reads[key] = _Read(offset, leader_epoch, batches_read)
            batches_read.add_done_callback(partial(self._arrived, session, key))
        return None

    def is_read(self, session: Session, key: PartitionKey) -> bool:
        """Whether batches of the partition were read and are not sent yet."""
        of_session = self._of.get(session)
        return of_session is not None and key in of_session.reads

    def sent(self, session: Session, key: PartitionKey) -> None:
        """Take note that the read batches of a partition are sent, or not needed: there is room for another
        read."""
        of_session = self._of.get(session)
        if of_session is not None:
            of_session.reads.pop(key, None)

    def next_round(self, session: Session) -> None:
        """Begin the session's next round: partitions that waited for room come back as long as there is
        some."""
        of_session = self._of.get(session)
        if of_session is None or not of_session.queue:
            return
        # Batches of partitions that have left the session, or got them from memory since, are dropped.
        for key in [key for key in of_session.reads if not session.is_waiting(key)]:
            del of_session.reads[key]
        for _ in range(READS_MAX - len(of_session.reads)):
            if of_session.queue:
                session.bring_back(of_session.queue.popleft())

    def _arrived(self, session: Session, key: PartitionKey, batches: asyncio.Future[list[Buffer]]) -> None:
        if not batches.cancelled():
            batches.exception()  # Retrieved here, because the partition may have left the session.
        if session.bring_back(key):
            self._wake(session)
