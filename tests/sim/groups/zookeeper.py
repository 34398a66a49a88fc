"""ZooKeeper as far as coordinators use it: who is active, the groups, and multis whose outcome gets lost.

A StoreGroup is several multis, the group's znode first, then offsets, then owners: whatever becomes of them,
the first so many are done. A multi is conditional on the coordinator epoch (C5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hightide_coordinator.core.effects import StoreGroup
from hightide_coordinator.core.values.registration import PartitionOwner, StoredGroup, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["GroupNode", "Multi", "SimZooKeeper", "multis_of"]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class GroupNode:
    """A group's znodes."""

    generation: int = 0
    session_timeout_ms: int = 0
    owners: dict[TopicPartition, PartitionOwner] = field(default_factory=dict)
    offsets: dict[TopicPartition, StoredOffset] = field(default_factory=dict)

    def stored(self) -> StoredGroup:
        """As a coordinator reads it."""
        return StoredGroup(self.generation, self.session_timeout_ms, dict(self.owners), dict(self.offsets))


@dataclass(frozen=True, slots=True)
class Multi:
    """What is written at once or not at all."""

    coordinator_id: int
    group: str
    coordinator_epoch: int
    header: tuple[int, int] | None = None
    """Generation and session timeout."""
    owners: Mapping[TopicPartition, PartitionOwner | None] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, StoredOffset | None] = field(default_factory=dict)
    delete_group: bool = False


def multis_of(coordinator_id: int, store: StoreGroup, size: int) -> list[Multi]:
    """The store as multis of at most `size` operations beside the group's znode."""
    base = (coordinator_id, store.group, store.coordinator_epoch)
    if store.delete_group:
        return [Multi(*base, delete_group=True)]
    writes: list[tuple[bool, TopicPartition]] = [(False, name) for name in store.offsets]
    writes += [(True, name) for name in store.owners]
    multis: list[Multi] = []
    for first in range(0, max(len(writes), 1), size):
        some = writes[first : first + size]
        multis.append(
            Multi(
                *base,
                header=(store.generation, store.session_timeout_ms) if first == 0 else None,
                offsets={name: store.offsets[name] for is_owner, name in some if not is_owner},
                owners={name: store.owners[name] for is_owner, name in some if is_owner},
            )
        )
    return multis


def is_current(multi: Multi, coordinator_epoch: int) -> bool:
    """Whether a multi was sent in the coordinator epoch that holds (C5)."""
    return multi.coordinator_epoch == coordinator_epoch


class SimZooKeeper:
    """What is durable. `on_write` is asked before each multi is applied: checkers look there."""

    def __init__(self, on_write: Callable[[Multi, GroupNode | None], None]) -> None:
        self.coordinator_epoch = 0
        self.active: int | None = None
        """The coordinator in /consumers/coordinator."""
        self.groups: dict[str, GroupNode] = {}
        self.touched: set[str] = set()
        """Groups of which an operator has touched a znode: the next store finds another version than it
        knows."""
        self._on_write = on_write

    def elect(self, coordinator_id: int) -> int:
        """One multi: the znode is this coordinator's, and the epoch one more."""
        self.active = coordinator_id
        self.coordinator_epoch += 1
        return self.coordinator_epoch

    def accepts(self, multi: Multi) -> bool:
        """Whether the multi's Check of the epoch holds."""
        return is_current(multi, self.coordinator_epoch)

    def apply(self, multi: Multi) -> bool:
        """Write; False: fenced."""
        if not self.accepts(multi):
            return False
        self._on_write(multi, self.groups.get(multi.group))
        if multi.delete_group:
            self.groups.pop(multi.group, None)
            return True
        node = self.groups.setdefault(multi.group, GroupNode())
        if multi.header is not None:
            node.generation, node.session_timeout_ms = multi.header
        _merge(node.offsets, multi.offsets)
        _merge(node.owners, multi.owners)
        return True


def _merge(into: dict[TopicPartition, T], changes: Mapping[TopicPartition, T | None]) -> None:
    for name, value in changes.items():
        if value is None:
            into.pop(name, None)
        else:
            into[name] = value
