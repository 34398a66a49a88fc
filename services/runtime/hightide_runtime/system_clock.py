"""The clock of the machine."""

import time


class SystemClock:
    """A `Clock` that reads the machine's clocks. Every main builds one and passes it on."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary moment; never goes back."""
        return time.monotonic_ns() // 1_000_000

    def wall_us(self) -> int:
        """Microseconds since 1970 UTC, as the machine believes it."""
        return time.time_ns() // 1000
