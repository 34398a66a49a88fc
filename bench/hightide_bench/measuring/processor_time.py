"""Processor time of the brokers and of the process that measures."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Seconds used up to a moment, user and system together. `brokers_s` is None where they are elsewhere."""

    client_s: float
    brokers_s: float | None

    @classmethod
    def now(cls, broker_pids: Sequence[int]) -> "ProcessorTime":
        """Read the clocks of this process and of the brokers."""
        return cls(time.process_time(), sum(map(_used_s, broker_pids)) if broker_pids else None)

    def since(self, earlier: "ProcessorTime") -> "ProcessorTime":
        """Return what was used between two readings."""
        brokers_s = (
            None
            if self.brokers_s is None or earlier.brokers_s is None
            else self.brokers_s - earlier.brokers_s
        )
        return ProcessorTime(self.client_s - earlier.client_s, brokers_s)


def _used_s(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)
