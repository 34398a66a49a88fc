"""The progress of moves, their pace, and the time left. Pure: looks and times come in."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide import Reassignment, ReplicaDescription, TopicPartition

# The pace is that of this many looks: long enough to be steady, short enough to follow a changed throttle.
LOOKS_REMEMBERED = 10
# After this long without progress, the sentence says so.
STALLED_AFTER_S = 15.0


@dataclass(frozen=True, slots=True)
class Copy:
    """One replica that is being made. It is done when it is in sync."""

    broker_id: int
    bytes_done: int
    bytes_total: int
    offset: int
    end_offset: int
    in_sync: bool


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """One partition that is being moved, and its copies."""

    move: "Reassignment"
    copies: tuple[Copy, ...]

    @property
    def bytes_done(self) -> int:
        """The bytes that are copied."""
        return sum(each.bytes_done for each in self.copies)

    @property
    def bytes_total(self) -> int:
        """The bytes to copy."""
        return sum(each.bytes_total for each in self.copies)


@dataclass(frozen=True, slots=True)
class Progress:
    """All moves at one look. `bytes_per_s` is None until there were two looks. `seconds_left` is None if it
    is not known. `stalled_s` is the time without progress, or 0."""

    moves: tuple[MoveProgress, ...]
    finished: tuple["TopicPartition", ...]
    bytes_done: int
    bytes_total: int
    bytes_per_s: float | None
    seconds_left: float | None
    stalled_s: float

    @property
    def move_count(self) -> int:
        """All moves that were ever seen."""
        return len(self.moves) + len(self.finished)


def progress_of(move: "Reassignment", replicas: Iterable["ReplicaDescription"]) -> MoveProgress:
    """One move; `replicas` are those of its partition."""
    known = {each.broker_id: each for each in replicas if each.topic_id == move.topic_id}
    source = known.get(move.leader) if move.leader is not None else None
    if source is None:
        source = max(known.values(), key=lambda each: each.log_end_offset, default=None)
    copies = []
    for broker_id in move.adding:
        held = known.get(broker_id)
        in_sync = broker_id in move.isr
        total = source.size_bytes if source is not None else 0
        end = source.log_end_offset if source is not None else 0
        done = total if in_sync else min(held.size_bytes if held is not None else 0, total)
        offset = held.log_end_offset if held is not None else 0
        copies.append(Copy(broker_id, done, total, offset, max(end, offset), in_sync))
    return MoveProgress(move, tuple(copies))


class Watched:
    """The state of some moves, look by look. `only` are the partitions of interest, with their targets; None:
    all that move."""

    def __init__(self, only: Mapping["TopicPartition", tuple[int, ...]] | None = None) -> None:
        self._only = None if only is None else frozenset(only)
        self._targets = dict(only or {})
        self._sizes: dict[TopicPartition, int] = {}
        self._looks: deque[tuple[float, int]] = deque(maxlen=LOOKS_REMEMBERED)
        self._moved_at_s: float | None = None

    def look(
        self, now_s: float, moves: Iterable["Reassignment"], replicas: Iterable["ReplicaDescription"]
    ) -> Progress:
        """Take in one look. A move that is no longer there is finished, whether done or cancelled."""
        by_partition: dict[TopicPartition, list[ReplicaDescription]] = {}
        for each in replicas:
            by_partition.setdefault(each.partition, []).append(each)
        current = {
            move.partition: progress_of(move, by_partition.get(move.partition, ()))
            for move in moves
            if self._only is None or move.partition in self._only
        }
        for partition, seen in current.items():
            self._targets[partition] = seen.move.target
            self._sizes[partition] = seen.bytes_total
        return self._progress(now_s, current)

    def target_of(self, partition: "TopicPartition") -> tuple[int, ...]:
        """The target of a partition, as last seen."""
        return self._targets[partition]

    def _progress(self, now_s: float, current: Mapping["TopicPartition", MoveProgress]) -> Progress:
        finished = tuple(sorted(self._targets.keys() - current.keys()))
        ended = sum(self._sizes.get(partition, 0) for partition in finished)
        done = ended + sum(each.bytes_done for each in current.values())
        total = ended + sum(each.bytes_total for each in current.values())
        if self._moved_at_s is None or done != self._looks[-1][1]:
            self._moved_at_s = now_s
        self._looks.append((now_s, done))
        first_s, first_done = self._looks[0]
        pace = max(0.0, (done - first_done) / (now_s - first_s)) if now_s > first_s else None
        idle_s = now_s - self._moved_at_s
        return Progress(
            moves=tuple(current[partition] for partition in sorted(current)),
            finished=finished,
            bytes_done=done,
            bytes_total=total,
            bytes_per_s=pace,
            seconds_left=(total - done) / pace if pace else None,
            stalled_s=idle_s if current and idle_s >= STALLED_AFTER_S else 0.0,
        )
