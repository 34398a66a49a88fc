"""Until when brokers have asked this client to make no more calls, since it has used up its quota (KIP-219).

Cores keep the time, as a broker only holds what comes too early, and then answers later than it need.
"""

from typing import Any

from hightide.calls.call import Call
from hightide.errors import QuotaExceededError


class Throttles:
    """The brokers to wait for, by address. One for each core, of one kind of call."""

    def __init__(self) -> None:
        self._until_ms: dict[str, float] = {}
        self.total_ms = 0.0
        """For how long all answers so far have made this client wait."""

    def answered(self, call: Call[Any], outcome: object, now_ms: float) -> None:
        """Note what the answer to a call asks for, or the error instead of it."""
        told_ms = call.throttle_time_ms
        if isinstance(outcome, QuotaExceededError):
            told_ms = outcome.throttle_time_ms
        if told_ms <= 0:
            return
        before_ms = max(self._until_ms.get(call.address, now_ms), now_ms)
        until_ms = max(before_ms, now_ms + told_ms)
        self.total_ms += until_ms - before_ms
        self._until_ms[call.address] = until_ms

    def until_ms(self, address: str, now_ms: float) -> float | None:
        """Until when no call may go to this address; None: it may go now."""
        until_ms = self._until_ms.get(address)
        if until_ms is None or until_ms > now_ms:
            return until_ms
        del self._until_ms[address]
        return None
