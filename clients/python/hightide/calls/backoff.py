"""The pause before a failed attempt is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Backoff"]

_GROWTHS_MAX: Final = 32
"""After this many failures the pause has reached its maximum, or is longer than any caller waits."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that grow with each failure in a row, up to a maximum. The caller counts the failures."""

    initial_ms: int
    maximum_ms: int
    multiplier: int = 2
    jitter: float = 0.0
    """The fraction by which chance may shorten a pause, so that those who wait for one thing do not all come
    at once."""

    def __post_init__(self) -> None:
        assert self.initial_ms > 0
        assert self.maximum_ms > 0
        assert self.multiplier >= 1
        assert 0.0 <= self.jitter <= 1.0

    def pause_ms(self, failures: int, chance: float = 1.0) -> int:
        """The pause after this many failures in a row, at least one. The caller draws `chance`, from 0 to 1:
        the greater it is, the longer the pause."""
        grown: int = self.multiplier ** max(0, min(failures - 1, _GROWTHS_MAX))
        longest_ms = min(self.initial_ms * grown, self.maximum_ms)
        if not self.jitter:
            return longest_ms
        return round(longest_ms * (1.0 - self.jitter + self.jitter * chance))

    def pause_s(self, failures: int, chance: float = 1.0) -> float:
        """The same in seconds."""
        return self.pause_ms(failures, chance) / 1000
