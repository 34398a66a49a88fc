"""A rate that may be gone over once, and has to be paid back before the next time.

Source: KIP-13 and KIP-219, in which the call that goes over its quota is carried out and the next ones wait;
KIP-599, which counts with a token bucket instead of samples. Time comes in as `now_s`.
"""

from typing import Final

BURST_S: Final = 1.0
"""Who takes less than the rate for a while may then take what it left, of up to so long, at once."""
DEBT_S_MAX: Final = 30.0
"""One call is paid back after so long, however large it was: as long as a call may be parked."""


class RateLimit:
    """How much one principal may take in a second. It knows one number: until when what was taken is paid.

    As long as nothing more is taken before that is over, in no time span more is taken than the rate gives in
    it and in the burst, and the last piece. A piece counts as at most so much as the rate gives in
    `debt_s_max`, so no piece is too large ever to be taken.
    """

    __slots__ = ("_debt_s_max", "_paid_until_s", "_rate_per_s")

    def __init__(self, rate_per_s: float, debt_s_max: float = DEBT_S_MAX) -> None:
        assert rate_per_s > 0, rate_per_s
        self._rate_per_s = rate_per_s
        self._debt_s_max = debt_s_max
        self._paid_until_s = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """How long until the next piece may be taken; 0: it may be now."""
        return max(0.0, min(self._paid_until_s - now_s, self._debt_s_max))

    @property
    def piece_max(self) -> int:
        """How much one call should take where it can choose: it is paid back in a second."""
        return max(1, int(self._rate_per_s * BURST_S))

    def charge(self, amount: int, now_s: float) -> None:
        """Count a piece that is being taken, whether it may be or not."""
        assert amount >= 0, amount
        self._paid_until_s = max(self._paid_until_s, now_s - BURST_S) + self._price_s(amount)

    def correct(self, charged: int, amount: int) -> None:
        """Count a piece that was charged before its size was known as what it has become."""
        self._paid_until_s += self._price_s(amount) - self._price_s(charged)

    def set_rate(self, rate_per_s: float, now_s: float) -> None:
        """Use another rate from now on. What is owed is paid back at the new one."""
        assert rate_per_s > 0, rate_per_s
        owed = self.wait_s(now_s) * self._rate_per_s
        self._rate_per_s = rate_per_s
        if owed:
            self._paid_until_s = now_s + min(owed / rate_per_s, self._debt_s_max)

    def is_idle(self, now_s: float) -> bool:
        """Whether it may be forgotten: a new one would allow as much."""
        return self._paid_until_s <= now_s - BURST_S

    def _price_s(self, amount: int) -> float:
        return min(amount / self._rate_per_s, self._debt_s_max)
