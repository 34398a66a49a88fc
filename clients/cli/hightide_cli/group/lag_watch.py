"""The lag of a group, its pace, and when it will have caught up. Pure: looks come in."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide import PartitionLag, TopicPartition

# Offsets are committed in jumps, every few seconds: the pace is that of this many looks.
LOOKS_REMEMBERED = 15
# After this long without a commit, the sentence says so.
STALLED_AFTER_S = 15.0


@dataclass(frozen=True, slots=True)
class LagPace:
    """The lag of all partitions at one look. The paces are None until there were two looks. `seconds_left` is
    None if the lag does not shrink. `stalled_s` is the time without a commit although there are records to
    read."""

    lag: int
    partition_count: int
    uncommitted_count: int
    unowned_count: int
    gone_count: int
    read_per_s: float | None
    written_per_s: float | None
    seconds_left: float | None
    stalled_s: float


@dataclass(frozen=True, slots=True)
class _Look:
    at_s: float
    partitions: frozenset["TopicPartition"]
    committed: int
    end: int


class LagHistory:
    """Takes looks at one group, in the order of time, and computes the pace of the last ones."""

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque(maxlen=LOOKS_REMEMBERED)
        self._moved_at_s: float | None = None

    def look(self, at_s: float, lines: Sequence["PartitionLag"]) -> LagPace:
        """Take one look at all partitions; `at_s` is a monotonic clock's."""
        known = {
            line.partition: (line.committed, line.end)
            for line in lines
            if line.committed is not None and line.end is not None
        }
        look = _Look(
            at_s,
            frozenset(known),
            sum(committed for committed, _ in known.values()),
            sum(end for _, end in known.values()),
        )
        lag = sum(line.lag or 0 for line in lines)
        last = self._looks[-1] if self._looks else None
        # A reset, or a partition that comes or goes, is not progress.
        if last is not None and (look.partitions != last.partitions or look.committed < last.committed):
            self._looks.clear()
        if last is None or look.committed != last.committed or lag == 0 or self._moved_at_s is None:
            self._moved_at_s = at_s
        self._looks.append(look)
        first = self._looks[0]
        read = written = left = None
        if at_s > first.at_s:
            read = (look.committed - first.committed) / (at_s - first.at_s)
            written = (look.end - first.end) / (at_s - first.at_s)
            left = lag / (read - written) if read > written else None
        stalled_s = at_s - self._moved_at_s
        return LagPace(
            lag=lag,
            partition_count=len(lines),
            uncommitted_count=sum(line.committed is None for line in lines),
            gone_count=sum(line.end is None for line in lines),
            unowned_count=sum(line.owner is None for line in lines),
            read_per_s=read,
            written_per_s=written,
            seconds_left=left,
            stalled_s=stalled_s if stalled_s >= STALLED_AFTER_S else 0.0,
        )
