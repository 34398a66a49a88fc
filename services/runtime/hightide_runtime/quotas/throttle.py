"""Holds back the calls of one principal that come before earlier ones are paid for."""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from hightide_runtime.quotas.rate_limit import RateLimit

TOLD_MS_MAX: Final = 5_000


class Throttle:
    """What one principal takes of one kind, such as bytes produced. Belongs to the event loop's thread.

    A call asks `admit`, and then charges the limit before it awaits anything else. Calls are admitted in the
    order in which they came. What a call may be held for is bounded by its caller, and how many are held by
    the limits of unfinished calls.
    """

    __slots__ = ("_changed", "_clock", "_held", "_limit", "_turn", "counts")

    def __init__(self, rate_per_s: float, clock: Callable[[], float], counts: "ThrottleCounts") -> None:
        """`clock`: seconds of a monotonic clock."""
        self._limit: RateLimit | None = RateLimit(rate_per_s)
        self._clock = clock
        self._held = 0
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self.counts = counts

    @property
    def told_ms(self) -> int:
        """How long the principal should take nothing more: what an answer tells. At most 5 s, so that another
        quota soon holds for who waits; a call that comes then is held for the rest."""
        if self._limit is None:
            return 0
        return min(math.ceil(self._limit.wait_s(self._clock()) * 1000), TOLD_MS_MAX)

    def piece(self, wanted: int) -> int:
        """How much of this a call that is admitted should take at once."""
        return wanted if self._limit is None else min(wanted, self._limit.piece_max)

    @property
    def must_wait(self) -> bool:
        """Whether a call that comes now is held."""
        return self._limit is not None and (self._held > 0 or self._limit.wait_s(self._clock()) > 0)

    @property
    def is_idle(self) -> bool:
        """Whether it may be forgotten."""
        return not self._held and (self._limit is None or self._limit.is_idle(self._clock()))

    async def admit(self, patience_s: float) -> bool:
        """Wait until it is this call's turn, at most so long. Returns whether it is."""
        if not self.must_wait:
            return True
        began_s = self._clock()
        self._held += 1
        try:
            async with asyncio.timeout(patience_s), self._turn:
                await self._until_paid()
                return True
        except TimeoutError:
            return False
        finally:
            self._held -= 1
            self.counts.held(self._clock() - began_s)

    async def _until_paid(self) -> None:
        while self._limit is not None and (wait_s := self._limit.wait_s(self._clock())) > 0:
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def charge(self, amount: int) -> None:
        """Count what a call takes."""
        if self._limit is not None:
            self._limit.charge(amount, self._clock())
            self.counts.taken += amount

    def correct(self, charged: int, amount: int) -> None:
        """Count what a call has taken, of which `charged` was counted before."""
        if self._limit is not None:
            self._limit.correct(charged, amount)
            self.counts.taken += amount - charged

    def set_rate(self, rate_per_s: float | None) -> None:
        """Use another rate from now on, also for calls that are held; None: there is no limit any more."""
        if rate_per_s is None:
            self._limit = None
        elif self._limit is None:
            self._limit = RateLimit(rate_per_s)
        else:
            self._limit.set_rate(rate_per_s, self._clock())
        self._changed.set()
        self._changed = asyncio.Event()


class ThrottleCounts:
    """What the quotas of one kind did so far, for metrics, which read it on any thread."""

    __slots__ = ("calls_held", "held_s", "taken")

    def __init__(self) -> None:
        self.calls_held = 0
        """Calls that were held back, because their clients did not wait as they were told, or had sent
        them before."""
        self.held_s = 0.0
        """How long they were, together."""
        self.taken = 0
        """What was taken by those who have such a quota."""

    def held(self, duration_s: float) -> None:
        """Count a call that was held."""
        self.calls_held += 1
        self.held_s += duration_s
