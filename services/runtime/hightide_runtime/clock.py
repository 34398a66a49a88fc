"""Time as the rest of Hightide sees it: handed in, so that tests and the simulator bring their own."""

from typing import Protocol


class Clock(Protocol):
    """What a shell reads the time from. `SystemClock` is the real one."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back. For timers and timeouts."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970 UTC; may jump. For record timestamps and retention."""
        ...
