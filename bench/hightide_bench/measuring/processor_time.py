"""The processor time of the brokers and of the process that measures."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """The processor seconds up to a moment, user and system together. `brokers_s` is None if the brokers run
    on other machines."""

    client_s: float
    brokers_s: float | None

    @classmethod
    def now(cls, broker_pids: Sequence[int]) -> "ProcessorTime":
        """Read the processor time of this process and of the brokers."""
        return cls(time.process_time(), sum(map(process_seconds, broker_pids)) if broker_pids else None)

    def since(self, earlier: "ProcessorTime") -> "ProcessorTime":
        """Return the processor time between two readings."""
        brokers_s = (
            None
            if self.brokers_s is None or earlier.brokers_s is None
            else self.brokers_s - earlier.brokers_s
        )
        return ProcessorTime(self.client_s - earlier.client_s, brokers_s)


def process_seconds(pid: int) -> float:
    """Return the processor seconds of a process so far, user and system together."""
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)
