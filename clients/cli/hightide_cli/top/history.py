"""The traffic in a cluster, from two looks at it. Pure: looks come in, figures come out.

The records that came in are computed from the change of high watermarks, those that groups read from the
change of their offsets. A replica or offset that is seen for the first time counts as no traffic: it may be
as old as the cluster.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide import (
        ClusterDescription,
        Reassignment,
        ReplicaDescription,
        ReplicaListing,
        TopicPartition,
    )


@dataclass(frozen=True, slots=True)
class GroupLook:
    """One group: its number of members, its state, and its committed offsets."""

    name: str
    state: str
    member_count: int
    committed: "Mapping[TopicPartition, int]"


@dataclass(frozen=True, slots=True)
class Look:
    """The answers of one moment. `at_s` is a monotonic clock's. `groups` are those that were asked this time;
    of the others the last answer counts."""

    at_s: float
    cluster: "ClusterDescription"
    replicas: "ReplicaListing"
    groups: Sequence[GroupLook] = ()
    group_count: int = 0
    moves: "Sequence[Reassignment]" = ()


@dataclass(slots=True)
class Traffic:
    """The traffic of one topic or broker. The rates are None until there were two looks."""

    records_per_s: float | None = None
    bytes_per_s: float | None = None
    size_bytes: int = 0
    partitions: int = 0
    leads: int = 0


@dataclass(frozen=True, slots=True)
class GroupPace:
    """One group. `lag` counts the partitions with a committed offset."""

    name: str
    state: str
    member_count: int
    lag: int
    records_per_s: float | None


@dataclass(frozen=True, slots=True)
class TopView:
    """The whole view. Topics with the most traffic come first, groups with the most lag first."""

    cluster: "ClusterDescription"
    total: Traffic
    topics: tuple[tuple[str, Traffic], ...]
    brokers: tuple[tuple[int, Traffic], ...]
    groups: tuple[GroupPace, ...]
    group_count: int
    moves: "Sequence[Reassignment]"
    silent_brokers: Mapping[int, str]


@dataclass(slots=True)
class _Seen:
    """The state at the last look: high watermark and size of each leader's log."""

    at_s: float = 0.0
    logs: "dict[tuple[bytes, TopicPartition], tuple[int, int]]" = field(default_factory=dict)


class TopHistory:
    """Takes looks in the order of time. It remembers one look, and of each group the last two answers."""

    def __init__(self) -> None:
        self._seen: _Seen | None = None
        self._groups: dict[str, tuple[float, GroupLook]] = {}
        self._paces: dict[str, float | None] = {}

    def look(self, look: Look, group_names: Sequence[str] = ()) -> TopView:
        """Take one look. `group_names` lists all existing groups, so that deleted ones are dropped."""
        before, seen = self._seen, _Seen(look.at_s)
        seconds = look.at_s - before.at_s if before is not None else 0.0
        topics: dict[str, Traffic] = defaultdict(Traffic)
        brokers: dict[int, Traffic] = defaultdict(Traffic)
        total = Traffic()
        for replica in look.replicas.replicas:
            broker = brokers[replica.broker_id]
            broker.size_bytes += replica.size_bytes
            broker.partitions += 1
        for key, replica in _leaders(look.replicas.replicas).items():
            seen.logs[key] = (replica.high_watermark, replica.size_bytes)
            known = before.logs.get(key) if before is not None else None
            topic, broker = topics[replica.partition.topic], brokers[replica.broker_id]
            for each in (topic, total):
                each.partitions += 1
                each.size_bytes += replica.size_bytes
            for each in (topic, broker, total):
                each.leads += 1
                if seconds > 0:
                    # Retention makes a log smaller, an unclean election shorter: nothing came in then.
                    records = max(0, replica.high_watermark - known[0]) if known is not None else 0
                    size = max(0, replica.size_bytes - known[1]) if known is not None else 0
                    each.records_per_s = (each.records_per_s or 0.0) + records / seconds
                    each.bytes_per_s = (each.bytes_per_s or 0.0) + size / seconds
        self._seen = seen
        ends = {partition: high_watermark for (_, partition), (high_watermark, _) in seen.logs.items()}
        return TopView(
            look.cluster,
            total,
            tuple(sorted(topics.items(), key=_busiest_first)),
            tuple(sorted(brokers.items())),
            self._paced(look, group_names, ends),
            max(look.group_count, len(self._groups)),
            look.moves,
            look.replicas.silent_brokers,
        )

    def _paced(
        self, look: Look, names: Sequence[str], ends: "Mapping[TopicPartition, int]"
    ) -> tuple[GroupPace, ...]:
        for each in look.groups:
            known = self._groups.get(each.name)
            self._groups[each.name] = (look.at_s, each)
            self._paces[each.name] = None if known is None else _pace(known, look.at_s, each)
        for name in [name for name in self._groups if name not in set(names)]:
            del self._groups[name], self._paces[name]
        paces = [
            GroupPace(name, group.state, group.member_count, _lag(group, ends), self._paces[name])
            for name, (_, group) in self._groups.items()
        ]
        return tuple(sorted(paces, key=lambda each: (-each.lag, each.name)))


def _leaders(
    replicas: "Iterable[ReplicaDescription]",
) -> "dict[tuple[bytes, TopicPartition], ReplicaDescription]":
    """The leader of each partition. One that was deposed and does not know it yet has an older epoch."""
    leaders: dict[tuple[bytes, TopicPartition], ReplicaDescription] = {}
    for each in replicas:
        if each.is_leader:
            key = (each.topic_id, each.partition)
            known = leaders.get(key)
            if known is None or known.leader_epoch < each.leader_epoch:
                leaders[key] = each
    return leaders


def _busiest_first(item: tuple[str, Traffic]) -> tuple[float, int, str]:
    name, traffic = item
    return -(traffic.records_per_s or 0.0), -traffic.size_bytes, name


def _lag(group: GroupLook, ends: "Mapping[TopicPartition, int]") -> int:
    return sum(max(0, ends[each] - at) for each, at in group.committed.items() if each in ends)


def _pace(known: tuple[float, GroupLook], at_s: float, now: GroupLook) -> float | None:
    """Records a second that a group has read since it was asked last."""
    then_s, then = known
    if at_s <= then_s:
        return None
    read = sum(
        max(0, at - then.committed[partition])
        for partition, at in now.committed.items()
        if partition in then.committed
    )
    return read / (at_s - then_s)
