"""A clock that shows what a test says."""

from __future__ import annotations


class HandClock:
    """For whatever takes a `hightide_runtime.clock.Clock`: both of its times are the same one."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_us = now_ms * 1000

    @property
    def now_ms(self) -> int:
        """The same in ms."""
        return self.now_us // 1000

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self.now_us = now_ms * 1000

    def wall_us(self) -> int:
        return self.now_us

    def monotonic_ms(self) -> int:
        return self.now_ms
