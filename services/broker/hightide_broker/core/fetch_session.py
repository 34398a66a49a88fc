"""ReplicaFetch sessions: one for each (follower, leader) pair of brokers, over all partitions that they
share.

Rules of this file: no bytes, no clock, no I/O; the objects are owned by one event loop and changed in
place, because they span thousands of partitions and a round must cost what moved, not what exists.

Theory of operation. The follower names a partition when its position is new (it started to follow, or
appended what it got, or could not append it). The leader remembers the position and keeps the partition
*ready* as soon as its log end is beyond it, or its high watermark or log start is not the one last told. A
partition to which batches were answered is quiet until the follower names it again, so nothing is sent twice
while the follower writes (or syncs). Rounds are numbered; an unexpected number ends the session and the
follower opens a new one, naming everything. Deltas lost with a connection are therefore never missed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from enum import Enum, auto
from typing import Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)


class FollowerPosition(Struct, frozen=True):
    """A follower's position in one partition, and the leader epoch in which it follows."""

    leader_epoch: int
    fetch_offset: int
    log_start_offset: int = 0
    partition_epoch: int = 0
    """The partition epoch of the newest decision that the follower knows."""


class SessionRequest(Struct, Generic[K], frozen=True):
    """The follower's request of one round. `session_id` 0 opens a session, and `moved` is then everything."""

    session_id: int
    round: int
    moved: tuple[tuple[K, FollowerPosition], ...]
    forgotten: tuple[K, ...]


class SessionFault(Enum):
    """The reason why a leader cannot continue a session; the follower opens a new one."""

    UNKNOWN = auto()
    OUT_OF_TURN = auto()


class FollowerSession(Generic[K]):
    """The follower's side of the session with one leader. At most one request is under way at a time.

    The fetcher task of the shell does: `request = session.next_request()`, sends it, then
    `session.answered(id)`, or `session.restart()` after any failure of the call or a SessionFault.
    """

    def __init__(self) -> None:
        self.session_id = 0
        self.round = 0
        self.positions: dict[K, FollowerPosition] = {}
        self._is_opening = False
        self._moved: dict[K, None] = {}
        self._forgotten: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self.positions)

    def place(self, key: K, position: FollowerPosition) -> None:
        """Fetch the partition from here next: after StartFetching and after each append.

        Also, with the same position, if answered batches could not be appended, so that they are sent again.
        A partition that left since the last request is named as forgotten too. An answer that arrived in
        between was not taken, and its leader counts it as told until it begins the partition anew.
        """
        self.positions[key] = position
        self._moved[key] = None

    def forget(self, key: K) -> None:
        """Stop fetching the partition from this leader: after StopFetching. Unknown keys are ignored."""
        if self.positions.pop(key, None) is None:
            return
        self._moved.pop(key, None)
        if self.session_id != 0 or self._is_opening:
            self._forgotten[key] = None

    @property
    def has_news(self) -> bool:
        """Whether the next request would name any partition."""
        return bool(self._moved or self._forgotten)

    def next_request(self) -> SessionRequest[K]:
        """The request of this round. The positions in it count as sent."""
        moved = tuple((key, self.positions[key]) for key in self._moved)
        request = SessionRequest(self.session_id, self.round, moved, tuple(self._forgotten))
        self._is_opening = self.session_id == 0
        self._moved.clear()
        self._forgotten.clear()
        return request

    def answered(self, session_id: int) -> None:
        """The leader answered the last request, in this session."""
        assert session_id != 0, "a session's id is never 0"
        self.session_id = session_id
        self._is_opening = False
        self.round += 1

    def restart(self) -> None:
        """Open a new session, which names everything: the last request failed."""
        self.session_id = 0
        self._is_opening = False
        self.round = 0
        self._forgotten.clear()
        self._moved = dict.fromkeys(self.positions)


class _Watched:
    """What a leader remembers of one partition in a session."""

    __slots__ = ("position", "quiet", "told_high_watermark", "told_log_start")

    def __init__(self, position: FollowerPosition) -> None:
        self.position = position
        self.told_high_watermark = -1
        self.told_log_start = -1
        self.quiet = False


class PartitionAnswer(Struct, Generic[K], frozen=True):
    """One partition of a leader's answer.

    If `has_batches`, the shell reads the log from `fetch_offset`. It answers FENCED_LEADER_EPOCH instead if
    the leader epoch is not `leader_epoch` any more.
    """

    key: K
    fetch_offset: int
    leader_epoch: int
    has_batches: bool


class LeaderSession(Generic[K]):
    """The leader's side of the session with one follower.

    The servicer calls `sessions.find(...)` or `.open(...)`, then `session.receive(...)`, and feeds a
    FollowerFetched for each moved partition (`touch` if that succeeded, `drop` if it was refused). Then it
    collects `ready(...)`. If that is empty, it waits until `touch` makes something ready or the wait is over.
    """

    def __init__(self, session_id: int, replica_id: int, broker_epoch: int) -> None:
        self.session_id = session_id
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.next_round = 0
        self._watched: dict[K, _Watched] = {}
        self._touched: dict[K, None] = {}
        self._held: OrderedDict[K, None] = OrderedDict()
        self._aside: set[K] = set()
        self._wanted: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def __contains__(self, key: K) -> bool:
        return key in self._watched

    def receive(
        self, moved: Iterable[tuple[K, FollowerPosition]], forgotten: Iterable[K]
    ) -> tuple[tuple[K, FollowerPosition], ...]:
        """Take over the positions in the follower's request of this round; each moved partition becomes
        touched.

        Returns the positions to feed as FollowerFetched: those that moved, and those that `want` asked for,
        which still hold because a position that changes is named.
        """
        self.next_round += 1
        moved = tuple(moved)
        for key in forgotten:
            self.drop(key)
        for key, position in moved:
            watched = self._watched.get(key)
            if watched is None:
                self._watched[key] = _Watched(position)
            else:
                if watched.position.leader_epoch != position.leader_epoch:
                    watched.told_high_watermark = -1
                watched.position = position
                watched.quiet = False
            self._held.pop(key, None)
            self._aside.discard(key)
            self._touched[key] = None
            self._wanted.pop(key, None)
        wanted = tuple((key, self._watched[key].position) for key in self._wanted if key in self._watched)
        self._wanted.clear()
        return (*moved, *wanted)

    def want(self, key: K) -> None:
        """Ask for the position of this partition in the next round, although it has not moved."""
        if key in self._watched:
            self._wanted[key] = None

    def drop(self, key: K) -> None:
        """Remove the partition from the session: forgotten, or refused (the follower will name it again)."""
        self._watched.pop(key, None)
        self._touched.pop(key, None)
        self._held.pop(key, None)
        self._aside.discard(key)

    def set_aside(self, key: K) -> None:
        """Leave the partition out until `bring_back`: its new batches are being read."""
        if key in self._touched:
            del self._touched[key]
            self._aside.add(key)

    def bring_back(self, key: K) -> bool:
        """Let the partition be answered again; returns whether it was set aside at all."""
        if key not in self._aside:
            return False
        self._aside.discard(key)
        self._touched[key] = None
        return True

    def hold(self, key: K, *, is_next: bool = False) -> None:
        """Leave a touched partition out until it is released: it must not be answered yet, and costs nothing
        while it waits. It waits behind the others, unless it `is_next`."""
        if key in self._touched:
            del self._touched[key]
            self._held[key] = None
            self._held.move_to_end(key, last=not is_next)

    def release(self) -> K:
        """Let the first held partition be answered; it is touched again."""
        key, _ = self._held.popitem(last=False)
        self._touched[key] = None
        return key

    def is_aside(self, key: K) -> bool:
        """Whether the partition is set aside."""
        return key in self._aside

    def is_waiting(self, key: K) -> bool:
        """Whether there may be something to answer about the partition, now or later."""
        return key in self._touched or key in self._held or key in self._aside

    @property
    def is_holding(self) -> bool:
        """Whether any partition is held."""
        return bool(self._held)

    def touch(self, key: K) -> bool:
        """Take note that the partition's log end or start, high watermark or leader epoch may have moved.
        True if it may be answered now.

        Called by the shell for every session after each append and each AdvanceHighWatermark; O(1).
        """
        watched = self._watched.get(key)
        if watched is None or watched.quiet or key in self._held or key in self._aside:
            return False
        self._touched[key] = None
        return True

    def touched(self) -> Iterator[K]:
        """The partitions that may have something new, longest waiting first; they may be answered during the
        iteration."""
        yield from tuple(self._touched)

    def examine(
        self,
        key: K,
        *,
        leader_epoch: int,
        log_end_offset: int,
        high_watermark: int,
        log_start_offset: int,
    ) -> PartitionAnswer[K] | None:
        """What to answer about a touched partition, given its leader's current state; None: nothing new.

        The caller either includes the answer and calls `told`, or leaves it (no room) and it stays touched.
        """
        watched = self._watched[key]
        position = watched.position
        has_batches = log_end_offset > position.fetch_offset
        if (
            not has_batches
            and watched.told_high_watermark == high_watermark
            and watched.told_log_start == log_start_offset
            and position.leader_epoch == leader_epoch
        ):
            self._touched.pop(key, None)
            return None
        return PartitionAnswer(key, position.fetch_offset, position.leader_epoch, has_batches)

    def told(self, answer: PartitionAnswer[K], high_watermark: int, log_start_offset: int) -> None:
        """Take note that the answer is part of the response. With batches, the partition is quiet until it is
        named again."""
        watched = self._watched[answer.key]
        watched.told_high_watermark = high_watermark
        watched.told_log_start = log_start_offset
        watched.quiet = answer.has_batches
        self._touched.pop(answer.key, None)


class LeaderSessions(Generic[K]):
    """All sessions in which this broker is the leader: at most one for each follower, so their number is
    bounded by the brokers."""

    def __init__(self, first_session_id: int) -> None:
        """`first_session_id` > 0 should differ between lives of the broker, so that ids are not mistaken."""
        assert first_session_id > 0
        self._next_id = first_session_id
        self._by_replica: dict[int, LeaderSession[K]] = {}

    def __len__(self) -> int:
        return len(self._by_replica)

    def open(self, replica_id: int, broker_epoch: int) -> LeaderSession[K]:
        """Open a new session; an older one of the same follower ends."""
        session: LeaderSession[K] = LeaderSession(self._next_id, replica_id, broker_epoch)
        self._next_id += 1
        self._by_replica[replica_id] = session
        return session

    def find(
        self, session_id: int, replica_id: int, broker_epoch: int, round_number: int
    ) -> LeaderSession[K] | SessionFault:
        """The session that a request belongs to, or the reason why it cannot continue."""
        session = self._by_replica.get(replica_id)
        if session is None or session.session_id != session_id or session.broker_epoch != broker_epoch:
            return SessionFault.UNKNOWN
        if session.next_round != round_number:
            del self._by_replica[replica_id]
            return SessionFault.OUT_OF_TURN
        return session

    def close(self, replica_id: int) -> None:
        """End the session of a follower whose broker is gone."""
        self._by_replica.pop(replica_id, None)

    def want(self, replica_id: int, key: K) -> None:
        """Ask for this follower's position in its next round (effect AwaitFetch).

        If it has no session it will open one, and name everything.
        """
        session = self._by_replica.get(replica_id)
        if session is not None:
            session.want(key)

    def __iter__(self) -> Iterator[LeaderSession[K]]:
        return iter(tuple(self._by_replica.values()))

    def touch(self, key: K) -> list[LeaderSession[K]]:
        """Touch the partition in every session; returns those in which it may be answered, to be woken."""
        return [session for session in self._by_replica.values() if session.touch(key)]
