"""The changes of leaders and ISRs from look to look. Pure: descriptions in, changes out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide import PartitionDescription, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One partition as it is now, and its differences from the look before. `is_new` means that it did not
    exist then, or that this is the first look."""

    partition: "TopicPartition"
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    previous_leader: int | None = None
    joined: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    is_new: bool = False

    def sentence(self) -> str:
        """`flights-3  isr 1,2 of 1,2,3  leader 2 (was 1)  left 3`."""
        lacking = [broker for broker in self.replicas if broker not in self.isr]
        parts = [
            str(self.partition),
            f"isr {_listed(self.isr)}" + (f" of {_listed(self.replicas)}" if lacking else ""),
        ]
        leader = "no leader" if self.leader is None else f"leader {self.leader}"
        if not self.is_new and self.leader != self.previous_leader:
            leader += f" (was {'none' if self.previous_leader is None else self.previous_leader})"
        parts.append(f"{leader} epoch {self.leader_epoch}")
        if self.joined:
            parts.append(f"joined {_listed(self.joined)}")
        if self.left:
            parts.append(f"left {_listed(self.left)}")
        return "  ".join(parts)


def _listed(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"


class IsrWatch:
    """Takes looks at some partitions and reports the changes. The first look reports those that lack a leader
    or a replica in sync."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, PartitionDescription] | None = None
        self.lacking_count = 0

    @property
    def partition_count(self) -> int:
        """The number of partitions at the last look."""
        return len(self._seen or ())

    def look(self, now: "Mapping[TopicPartition, PartitionDescription]") -> list[PartitionChange]:
        """The changes since the last look, in the order of partitions."""
        changes = []
        for partition, each in sorted(now.items()):
            before = None if self._seen is None else self._seen.get(partition)
            if before is None and (self._seen is not None or not _is_full(each)):
                changes.append(_change(partition, each))
            elif before is not None and _state(before) != _state(each):
                changes.append(_change(partition, each, before))
        self._seen = dict(now)
        self.lacking_count = sum(not _is_full(each) for each in now.values())
        return changes


def _is_full(each: "PartitionDescription") -> bool:
    return each.leader is not None and set(each.replicas) <= set(each.isr)


def _state(each: "PartitionDescription") -> tuple[object, ...]:
    return each.leader, each.leader_epoch, each.replicas, frozenset(each.isr)


def _change(
    partition: "TopicPartition",
    each: "PartitionDescription",
    before: "PartitionDescription | None" = None,
) -> PartitionChange:
    was = each.isr if before is None else before.isr
    return PartitionChange(
        partition,
        each.leader,
        each.leader_epoch,
        each.replicas,
        each.isr,
        None if before is None else before.leader,
        tuple(broker for broker in each.isr if broker not in was),
        tuple(broker for broker in was if broker not in each.isr),
        is_new=before is None,
    )
