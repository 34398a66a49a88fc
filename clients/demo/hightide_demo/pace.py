"""How many rows the demo shall have sent by now: evenly, and slowly where something must happen first."""

# While a mark is held, the distance to it shrinks by this factor a second: a trickle goes on for long.
_SLOWING_PER_S = 2.0


class Pace:
    """Spreads rows over a time. `advance` is called by the load, the marks are set by the script."""

    def __init__(self, rows_total: int, duration_s: float) -> None:
        assert rows_total > 0
        assert duration_s > 0
        self._rows_total = rows_total
        self._rows_per_s = rows_total / duration_s
        self._due = 0.0
        self._mark: float | None = None

    def hold_before(self, share: float) -> None:
        """Slow down towards this share of the rows, and never pass it, until `release`.

        So what is waited for, and what is killed next, comes under load, on a slow machine as on a fast one.
        """
        assert 0 < share < 1
        self._mark = self._rows_total * share

    def release(self) -> None:
        """Go on at the full pace."""
        self._mark = None

    def advance(self, elapsed_s: float) -> int:
        """Let some time pass; return how many rows shall have been sent."""
        assert elapsed_s >= 0
        step = elapsed_s * self._rows_per_s
        limit = float(self._rows_total)
        if self._mark is not None:
            limit = max(self._mark, self._due)
            step = min(step, (limit - self._due) * min(elapsed_s * _SLOWING_PER_S, 1.0))
        # Rounded, due and the distance to the limit can be a little more than the limit.
        self._due = min(self._due + step, limit)
        return int(self._due)
