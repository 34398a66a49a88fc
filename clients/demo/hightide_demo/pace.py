"""The pace of the demo's load: even, and slower while an event must come first."""

# While a mark is held, rows are sent at this part of the distance to it per second. So a few rows go on for
# long.
_SLOWING_PER_S = 2.0


class LoadPace:
    """Spreads rows evenly over a time. The load calls `advance`, the script sets and releases the marks."""

    def __init__(self, rows_total: int, duration_s: float) -> None:
        assert rows_total > 0
        assert duration_s > 0
        self._rows_total = rows_total
        self._rows_per_s = rows_total / duration_s
        self._due = 0.0
        self._mark: float | None = None

    def hold_before(self, share: float) -> None:
        """Slow down towards this share of the rows, and do not pass it until `release` or a later mark.

        So the next kill comes under load, on a slow machine as on a fast one.
        """
        assert 0 < share < 1
        self._mark = self._rows_total * share

    def release(self) -> None:
        """Go on at the full pace."""
        self._mark = None

    def advance(self, elapsed_s: float) -> int:
        """Add this time, and return the number of rows that should be sent by now."""
        assert elapsed_s >= 0
        step = elapsed_s * self._rows_per_s
        limit = float(self._rows_total)
        if self._mark is not None:
            limit = max(self._mark, self._due)
            step = min(step, (limit - self._due) * min(elapsed_s * _SLOWING_PER_S, 1.0))
        # Because of rounding, the sum could be a little more than the limit.
        self._due = min(self._due + step, limit)
        return int(self._due)
