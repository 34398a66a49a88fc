"""The times at which each partition acknowledged records, which show how long clients waited during a
failover."""

from array import array
from collections.abc import Iterable, Mapping
from itertools import pairwise


class DeliveryTimes:
    """The times of acknowledgement, by partition, in milliseconds of one monotonic clock.

    Filled by the producer's callbacks, which may come from several threads, but for one partition
    always in order. Read when the load has ended.
    """

    def __init__(self, partitions: Iterable[int]) -> None:
        self._times: dict[int, array[float]] = {partition: array("d") for partition in partitions}

    @classmethod
    def of(cls, times: Mapping[int, Iterable[float]]) -> "DeliveryTimes":
        """Build from times measured elsewhere, as a load worker sends them."""
        built = cls(times)
        for partition, measured in times.items():
            built._times[partition].extend(sorted(measured))
        return built

    def acknowledged(self, partition: int, at_ms: float) -> None:
        """Note that the partition acknowledged a record just now."""
        self._times[partition].append(at_ms)

    def total(self) -> int:
        """Return how many acknowledgements there were."""
        return sum(map(len, self._times.values()))

    def latest_ms(self) -> float:
        """Return the time of the last acknowledgement of all, or 0 if there was none."""
        return max((times[-1] for times in self._times.values() if times), default=0.0)

    def acknowledged_since(self, at_ms: float) -> set[int]:
        """Return the partitions that have acknowledged a record after this moment."""
        return {partition for partition, times in self._times.items() if times and times[-1] > at_ms}

    def longest_waits_ms(self, since_ms: float, until_ms: float) -> dict[int, float]:
        """Return, by partition, the longest time within the window that passed without an acknowledgement.

        The time counts from the start of the window at the earliest, so that a window which starts with a
        kill measures from the kill. A partition that acknowledges nothing any more waits until the end.
        """
        assert since_ms <= until_ms
        return {partition: _longest_ms(times, since_ms, until_ms) for partition, times in self._times.items()}


def _longest_ms(times: "array[float]", since_ms: float, until_ms: float) -> float:
    within = [at for at in times if since_ms < at < until_ms]
    return max(later - earlier for earlier, later in pairwise([since_ms, *within, until_ms]))
