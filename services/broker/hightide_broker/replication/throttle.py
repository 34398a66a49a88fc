"""The speed limit of moves: how many bytes a second a leader sends to replicas that a reassignment adds
(KIP-73, V3 section F).

The limit applies only to data for such a replica, while it is not in the ISR. In-sync replicas, and others
that catch up, are never slowed: the limit could keep a replica out of the ISR that must be in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from hightide_runtime.clock import Clock

S = TypeVar("S", bound=Hashable)

UNLIMITED_BYTES: Final = 2**62
WORTH_SENDING_BYTES: Final = 64 * 1024
"""Less than this is not sent, unless a second's worth is less: many small answers cost more than few large
ones."""
WORTH_WAITING_MS: Final = 100
"""The amount that gathers in this time is always sent."""


class ReassignmentThrottle:
    """A token bucket that holds at most one second's worth. Pure: each call gets the time.

    A send may exceed what is in the bucket, because a batch cannot be cut. The bucket then goes into debt, so
    that the rate holds on average, and a batch larger than the bucket passes as well.
    """

    def __init__(self) -> None:
        self.bytes_per_s = 0
        """0: no limit."""
        self._millibytes = 0
        self._filled_ms = 0

    def set_rate(self, bytes_per_s: int, now_ms: int) -> None:
        """Change the rate; 0: no limit. The content or debt of the bucket stays, but a new limit begins
        empty."""
        assert bytes_per_s >= 0, bytes_per_s
        self._fill(now_ms)
        self._millibytes = min(self._millibytes, bytes_per_s * 1000) if bytes_per_s else 0
        self.bytes_per_s = bytes_per_s

    def allowed_bytes(self, now_ms: int) -> int:
        """How many bytes may be sent now; 0: none until there are enough."""
        if self.bytes_per_s == 0:
            return UNLIMITED_BYTES
        self._fill(now_ms)
        return self._millibytes // 1000 if self._millibytes >= self._worth_sending() else 0

    def spend(self, size_bytes: int, now_ms: int) -> None:
        """Take note that these bytes were sent, whether allowed or not."""
        if self.bytes_per_s:
            self._fill(now_ms)
            self._millibytes -= size_bytes * 1000

    def wait_ms(self, now_ms: int) -> int:
        """The time until a send is allowed; 0: it is allowed now."""
        if self.allowed_bytes(now_ms):
            return 0
        return -((self._millibytes - self._worth_sending()) // self.bytes_per_s)

    def _fill(self, now_ms: int) -> None:
        elapsed_ms = max(0, now_ms - self._filled_ms)
        self._filled_ms = max(now_ms, self._filled_ms)
        self._millibytes = min(self.bytes_per_s * 1000, self._millibytes + elapsed_ms * self.bytes_per_s)

    def _worth_sending(self) -> int:
        worth = max(WORTH_SENDING_BYTES * 1000, WORTH_WAITING_MS * self.bytes_per_s)
        return min(worth, self.bytes_per_s * 1000)


class MoveLimit(Generic[S]):
    """Lets sessions send within the throttle, in turn, and wakes those that wait for it.

    The session that has waited longest is first, so that two new replicas of one leader share its limit.
    Belongs to the event loop's thread. There is one timer, and none while no session waits.
    """

    def __init__(self, clock: Clock, wake: Callable[[S], bool]) -> None:
        """`wake` is called with a session that may try again; it returns whether the session was waiting."""
        self._clock = clock
        self._wake = wake
        self._throttle = ReassignmentThrottle()
        self._waiting: dict[S, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def set_rate(self, bytes_per_s: int) -> None:
        """Change the limit at once; 0: none."""
        if bytes_per_s != self._throttle.bytes_per_s:
            self._throttle.set_rate(bytes_per_s, self._clock.monotonic_ms())
            self._ring()

    def allowed_bytes(self, session: S) -> int:
        """How many bytes may be sent in this session now; 0: the session waits, and is woken when it may
        send."""
        if next(iter(self._waiting), session) is session:
            allowed = self._throttle.allowed_bytes(self._clock.monotonic_ms())
            if allowed:
                return allowed
        self._waiting.setdefault(session)
        self._arm()
        return 0

    def spend(self, session: S, size_bytes: int) -> None:
        """Take note that these bytes were sent in this session: the next session has its turn."""
        self._throttle.spend(size_bytes, self._clock.monotonic_ms())
        self._waiting.pop(session, None)
        if self._waiting:
            self._arm()

    def close(self) -> None:
        """Stop waking sessions."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._timer is None:
            wait_ms = max(1, self._throttle.wait_ms(self._clock.monotonic_ms()))
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._ring)

    def _ring(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in tuple(self._waiting):
            # A session that is gone, or busy with its next round, must not keep the others waiting.
            if not self._wake(session):
                del self._waiting[session]
