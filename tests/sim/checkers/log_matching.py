"""Log matching: the same epoch at the same offset means the same log up to there."""

from __future__ import annotations

from itertools import combinations

from sim.checkers.checker import Checker
from sim.messages import Record


class LogMatching(Checker):
    """Compares every two logs; a prefix that was found equal needs no second look while logs are
    unchanged."""

    def check(self) -> None:
        if not self.world.logs_changed:
            return
        for one, other in combinations(self.world.brokers.values(), 2):
            offset = last_common_epoch(one.disk.log, other.disk.log)
            start = max(one.disk.log_start, other.disk.log_start)
            if one.disk.log[start : offset + 1] != other.disk.log[start : offset + 1]:
                self.violated(
                    f"epoch {one.disk.log[offset][0]} at {offset} is in the logs of {one.broker_id} and "
                    f"{other.broker_id}, which differ before it: {one.disk.log} and {other.disk.log}"
                )


def last_common_epoch(one: list[Record], other: list[Record]) -> int:
    """The last offset at which both logs have a record of the same epoch; -1 where there is none."""
    for offset in range(min(len(one), len(other)) - 1, -1, -1):
        if one[offset][0] == other[offset][0]:
            return offset
    return -1
