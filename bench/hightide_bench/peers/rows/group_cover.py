"""Whether the members of a group read every partition once, from what they said of their assignments."""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

#: A process and a member within it.
MemberId = tuple[int, int]


@dataclass(slots=True)
class GroupCover:
    """The assignments of a group over time."""

    partitions: int
    members: int
    _events: list[tuple[float, MemberId, frozenset[int]]] = field(default_factory=list)

    def take(self, process: int, events: Iterable[tuple[float, int, Iterable[int]]]) -> None:
        """Note what the members of one process said: when, who, and the partitions from then on."""
        self._events += [
            (at_s, (process, number), frozenset(partitions)) for at_s, number, partitions in events
        ]

    def whole_since_s(self, gone: Set[MemberId]) -> float | None:
        """Return since when every partition has one reader and every member has a partition, without those
        who are gone; None while that is not so."""
        present: dict[MemberId, frozenset[int]] = {}
        since_s: float | None = None
        for at_s, member, partitions in sorted(self._events, key=lambda event: event[0]):
            if member in gone:
                continue
            present[member] = partitions
            read = [partition for each in present.values() for partition in each]
            is_whole = (
                len(present) == self.members - len(gone)
                and all(present.values())
                and len(read) == len(set(read)) == self.partitions
            )
            since_s = (at_s if since_s is None else since_s) if is_whole else None
        return since_s
