"""The controller's memory: the content of ZooKeeper as last read, indexed by broker.

The cache is a hint, and the conditional write decides. Leaders write their own ISR straight to ZooKeeper, so
the versions here become stale, and a refused write shows it. The indexes make the cost of a failure depend on
what it touches, not on what exists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hightide_controller.core.events import Broker, ControllerSeen, StoredThrottle, Topic
from hightide_controller.core.partition_election import waited_for
from hightide_controller.core.state.move_watches import MoveWatches
from hightide_controller.core.state.request_purposes import Purpose
from hightide_controller.core.state.topic_work import TopicWork
from hightide_controller.core.values.partition import (
    NO_LEADER,
    VALID_PREDECESSORS,
    LeaderAndIsr,
    Partition,
    PartitionState,
    TopicPartition,
)
from hightide_controller.core.values.requests import ElectionKind
from hightide_controller.core.writes import LeaderAndIsrWrite, ThrottleWrite, Write

__all__ = [
    "VALID_ROLE_PREDECESSORS",
    "AlteredTopic",
    "ClusterState",
    "RequestedElection",
    "Role",
    "StoreInFlight",
    "ThrottleStoreInFlight",
    "ThrottleWork",
    "TopicStoreInFlight",
    "WaitingRequest",
]


class Role(Enum):
    """The role of this controller process."""

    STANDBY = auto()
    """Another one is active; this one waits for /controller to vanish."""
    CAMPAIGNING = auto()
    """The election multi is under way, or was won, and everything is being read."""
    ACTIVE = auto()
    """It decides."""


VALID_ROLE_PREDECESSORS: Final[dict[Role, frozenset[Role]]] = {
    Role.STANDBY: frozenset({Role.STANDBY, Role.CAMPAIGNING, Role.ACTIVE}),
    Role.CAMPAIGNING: frozenset({Role.STANDBY}),
    Role.ACTIVE: frozenset({Role.CAMPAIGNING}),
}


class StoreInFlight(Struct, frozen=True):
    """A multi that was sent to ZooKeeper and is not answered yet."""

    changes: tuple[LeaderAndIsrWrite, ...]
    cause: str
    bounced: frozenset[int]
    """The brokers that had bounced according to the decisions in it."""
    topic_ids: dict[str, str]
    """The ids of the topics: another topic may have the name when the multi is answered."""


class TopicStoreInFlight(Struct, frozen=True):
    """A multi about one topic (topic_writes.py) that was sent to ZooKeeper and is not answered yet."""

    topic_name: str
    writes: tuple[Write, ...]
    partitions: tuple[TopicPartition, ...]
    """Partitions whose znodes it writes; no other write about them is made meanwhile."""
    cause: str
    request_ids: tuple[int, ...]
    """The requests that it carries out: they wait until brokers have acknowledged it."""


class ThrottleStoreInFlight(Struct, frozen=True):
    """The write of the speed limit of moves that was sent to ZooKeeper and is not answered yet."""

    write: ThrottleWrite


@dataclass(slots=True)
class ThrottleWork:
    """The speed limits of moves that requests ask for (throttle.py)."""

    requested_changes: dict[int, int] = field(default_factory=dict)
    """By request id, in the order of arrival: the last one counts."""
    is_waiting: bool = False
    """Whether a write failed: it is repeated when ZooKeeper's content was read, or with the next tick."""


@dataclass(slots=True)
class RequestedElection:
    """An election that was requested and is not done yet (elections/requested_election.py)."""

    kind: ElectionKind
    request_ids: list[int] = field(default_factory=list)
    """The request; None if leadership is balanced automatically."""
    before: LeaderAndIsr | None = None
    """The partition when a write with the election was sent to ZooKeeper."""


@dataclass(slots=True)
class WaitingRequest:
    """A request that is answered when what it asks for is decided, stored and acknowledged."""

    request_id: int
    cause: str
    """The cause of its effects."""
    purpose: Purpose
    undecided: set[TopicPartition] = field(default_factory=set)
    """Partitions that are not settled: not known yet, being written, or being read again."""
    is_unwritten: bool = False
    """Whether ZooKeeper does not hold yet what it asks for."""
    unacknowledged: dict[int, int] = field(default_factory=dict)
    """Broker id to the sequence that it must acknowledge."""


@dataclass(slots=True)
class AlteredTopic:
    """How a topic's partitions changed when its znode was written or read."""

    added: list[TopicPartition] = field(default_factory=list)
    removed: list[Partition] = field(default_factory=list)
    """The removed partitions, in their last state."""
    moved: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """Partitions with another AR, and the replicas that were removed from it."""


@dataclass(slots=True)
class ClusterState:
    """All that a controller knows. `machine.step` consumes it: it changes and returns it."""

    controller_id: int
    seed: int = 0
    """Where the next topic's assignment starts; moves on with each topic."""
    role: Role = Role.STANDBY
    is_resting: bool = False
    """Whether it has stepped down at an operator's request, and lets others be elected first."""
    vacancy: ControllerSeen | None = None
    """While it rests: the cause of its next campaign; None if another one is active."""
    controller_epoch: int = 0
    controller_epoch_version: int = -1
    """The zkVersion of /controller_epoch that every write checks."""
    brokers: dict[int, Broker] = field(default_factory=dict)
    """The registrations."""
    dead: dict[int, int] = field(default_factory=dict)
    """Registered, but the process of this broker epoch is known to be dead."""
    silent: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)
    """Live brokers that acknowledge nothing, with the partitions and epochs that they should lead
    (silence.py)."""
    shutting_down: dict[int, int] = field(default_factory=dict)
    """Brokers that asked for a controlled shutdown, with their epoch."""
    topics: dict[str, Topic] = field(default_factory=dict)
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    replicas_on: dict[int, set[TopicPartition]] = field(default_factory=dict)
    led_by: dict[int, set[TopicPartition]] = field(default_factory=dict)
    in_sync_on: dict[int, set[TopicPartition]] = field(default_factory=dict)
    unled: set[TopicPartition] = field(default_factory=set)
    """NEW and OFFLINE partitions."""
    under_replicated: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose ISR is smaller than AR, in the order in which they are read again."""
    work: dict[str, TopicWork] = field(default_factory=dict)
    """The work about topics by name, also about topics that do not exist."""
    due_topics: dict[str, str] = field(default_factory=dict)
    """Topics whose work may continue, and the cause: decided at the end of the step."""
    throttle: StoredThrottle | None = None
    """The speed limit of moves."""
    throttle_work: ThrottleWork = field(default_factory=ThrottleWork)
    moving: MoveWatches = field(default_factory=MoveWatches)
    """The moves that have begun."""
    failed_replicas: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    """Brokers that cannot use their replica of a partition in this life: they count as not alive for it."""
    failed_on: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """The partitions with a failed replica, by broker."""
    damaged_replicas: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    """Brokers whose replica of a partition is damaged, and being repaired; each has a complaint."""
    awaited: dict[tuple[int, ...], dict[TopicPartition, None]] = field(default_factory=dict)
    """Brokers → the partitions that cannot have a leader before one of these is back (awaited_brokers.py)."""
    awaited_complaints: set[int] = field(default_factory=set)
    """The brokers with such a complaint."""
    elections: dict[TopicPartition, RequestedElection] = field(default_factory=dict)
    """Requested elections that are not done yet."""
    leader_imbalance_percent: int = 10
    """The share of a broker's preferred partitions that others may lead; beyond it, leadership is moved
    back."""
    complaints: dict[str, str] = field(default_factory=dict)
    """Complaints for operators: subject (mostly a path) to sentence."""
    stores: dict[int, StoreInFlight | TopicStoreInFlight | ThrottleStoreInFlight] = field(
        default_factory=dict
    )
    """The writes under way, by store id."""
    storing: set[TopicPartition] = field(default_factory=set)
    """Partitions with a write under way."""
    rereading: set[TopicPartition] = field(default_factory=set)
    """Partitions that are read again because their write failed."""
    doubtful: dict[TopicPartition, int] = field(default_factory=dict)
    """Partition → the partition epoch on which a write with an unknown outcome builds; it may still
    happen."""
    last_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """NEW partitions that had a leader before an operator deleted their leaderAndISR: the leader epoch that
    they had."""
    again: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    """Partitions to decide again when they are neither written nor read, with the brokers that bounced
    meanwhile."""
    waiters: dict[int, WaitingRequest] = field(default_factory=dict)
    """By request id, in the order of arrival."""
    next_store_id: int = 1
    next_sequence: int = 1

    def is_live(self, broker_id: int) -> bool:
        """Whether the broker is registered, and its process is not known to be dead."""
        broker = self.brokers.get(broker_id)
        return broker is not None and self.dead.get(broker_id) != broker.broker_epoch

    def is_waited_for(self, broker_id: int) -> bool:
        """Whether requests wait until this broker has acknowledged: it is live, and it answers."""
        return self.is_live(broker_id) and broker_id not in self.silent

    def live_brokers(self) -> tuple[Broker, ...]:
        """The live brokers by id."""
        return tuple(self.brokers[broker_id] for broker_id in sorted(self.brokers) if self.is_live(broker_id))

    def dead_brokers(self) -> tuple[Broker, ...]:
        """The brokers that are registered, and whose process is known to be dead, by id."""
        return tuple(
            self.brokers[broker_id] for broker_id in sorted(self.dead) if not self.is_live(broker_id)
        )

    def take_sequence(self) -> int:
        """The sequence of the next send effect."""
        sequence = self.next_sequence
        self.next_sequence += 1
        return sequence

    def become(self, role: Role) -> None:
        """Change the role; an illegal change is a bug of the caller."""
        assert self.role in VALID_ROLE_PREDECESSORS[role], (self.role, role)
        self.role = role

    def work_of(self, topic_name: str) -> TopicWork:
        """The work about a topic; created if there is none."""
        return self.work.setdefault(topic_name, TopicWork())

    def mark_due(self, topic_name: str, cause: str) -> None:
        """Mark a topic that changed: the end of this step decides how its work continues."""
        if topic_name in self.work:
            self.due_topics[topic_name] = cause or self.due_topics.get(topic_name, "")

    def want_read(self, topic_name: str, cause: str) -> None:
        """Have everything about a topic read, after what is under way: what is known may be wrong."""
        self.work_of(topic_name).read_cause = cause
        self.mark_due(topic_name, cause)

    def mark_all_due(self, cause: str) -> None:
        """Mark all topics with work: brokers came or went, so work that was blocked may be possible now."""
        for topic_name in self.work:
            self.mark_due(topic_name, cause)

    def is_being_deleted(self, topic_name: str) -> bool:
        """Whether a topic is being deleted: there are no elections for it any more."""
        work = self.work.get(topic_name)
        return work is not None and work.deletion is not None

    def add_topic(self, topic: Topic) -> tuple[TopicPartition, ...]:
        """Add a topic with all its partitions NEW; its name must not be known."""
        assert topic.name not in self.topics, topic.name
        assert topic.topic_id, topic.name
        assert topic.has_marker, topic.name
        assert not topic.is_bare, topic.name
        self.topics[topic.name] = topic
        return tuple(
            self._add_partition(TopicPartition(topic.name, number), replicas)
            for number, replicas in enumerate(topic.assignment)
        )

    def alter_topic(self, topic: Topic) -> AlteredTopic:
        """Take over the znode of a known topic: partitions are added, removed, or get other replicas."""
        before = self.topics[topic.name]
        assert before.topic_id == topic.topic_id, topic.name
        self.topics[topic.name] = topic
        altered = AlteredTopic()
        if before.assignment == topic.assignment:
            return altered
        for number, replicas in enumerate(topic.assignment):
            name = TopicPartition(topic.name, number)
            if number >= len(before.assignment):
                altered.added.append(self._add_partition(name, replicas))
            elif replicas != before.assignment[number]:
                altered.moved[name] = tuple(r for r in before.assignment[number] if r not in replicas)
                self._replace_replicas(name, replicas)
        for number in range(len(topic.assignment), len(before.assignment)):
            altered.removed.append(self._drop_partition(TopicPartition(topic.name, number)))
        return altered

    def forget_topic(self, topic_name: str) -> tuple[Topic, list[Partition]]:
        """Remove a topic and everything known of its partitions; returns both as they were."""
        topic = self.topics.pop(topic_name)
        return topic, [
            self._drop_partition(TopicPartition(topic_name, number))
            for number in range(len(topic.assignment))
        ]

    def _add_partition(self, name: TopicPartition, replicas: tuple[int, ...]) -> TopicPartition:
        self.partitions[name] = Partition(name, replicas, PartitionState.NEW, None)
        self.unled.add(name)
        for broker_id in replicas:
            self.replicas_on.setdefault(broker_id, set()).add(name)
        return name

    def _drop_partition(self, name: TopicPartition) -> Partition:
        partition = self.partitions.pop(name)
        assert partition.state in VALID_PREDECESSORS[PartitionState.NON_EXISTENT]
        self._unindex(partition)
        for broker_id in partition.replicas:
            self.replicas_on[broker_id].discard(name)
        self.unled.discard(name)
        self.again.pop(name, None)
        self.rereading.discard(name)
        self.doubtful.pop(name, None)
        self.last_epochs.pop(name, None)
        self.elections.pop(name, None)
        for broker_id in self.failed_replicas.pop(name, ()):
            self.failed_on[broker_id].discard(name)
        for broker_id in self.damaged_replicas.get(name, ()):
            self.forget_damage(name, broker_id)
        for broker_id in partition.replicas:
            self.complaints.pop(difference_subject(name, broker_id), None)
        return partition

    def forget_damage(self, name: TopicPartition, broker_id: int) -> None:
        """Take note that a replica is whole again, or does not exist any more."""
        left = self.damaged_replicas[name] - {broker_id}
        if left:
            self.damaged_replicas[name] = left
        else:
            del self.damaged_replicas[name]
        self.complaints.pop(damage_subject(name, broker_id), None)

    def _replace_replicas(self, name: TopicPartition, replicas: tuple[int, ...]) -> None:
        partition = self.partitions[name]
        for broker_id in partition.replicas:
            self.replicas_on[broker_id].discard(name)
        for broker_id in replicas:
            self.replicas_on.setdefault(broker_id, set()).add(name)
        for broker_id in self.damaged_replicas.get(name, frozenset()) - set(replicas):
            self.forget_damage(name, broker_id)
        for broker_id in set(partition.replicas) - set(replicas):
            self.complaints.pop(difference_subject(name, broker_id), None)
        known = partition.leader_and_isr
        self._stop_awaiting(partition)
        self.partitions[name] = replace(partition, replicas=replicas)
        self._await(self.partitions[name])
        if known is not None and len(known.isr) < len(replicas):
            self.under_replicated.setdefault(name, None)
        else:
            self.under_replicated.pop(name, None)

    def record(self, name: TopicPartition, leader_and_isr: LeaderAndIsr | None) -> Partition:
        """Take over what ZooKeeper holds for a partition, and update the indexes."""
        before = self.partitions[name]
        if leader_and_isr is None:
            state = PartitionState.NEW
        elif leader_and_isr.leader == NO_LEADER:
            state = PartitionState.OFFLINE
        else:
            state = PartitionState.ONLINE
        if not (state is PartitionState.NEW and before.state is PartitionState.NEW):
            assert before.state in VALID_PREDECESSORS[state], (name, before.state, state)
        if leader_and_isr is not None:
            self.last_epochs.pop(name, None)
        elif before.leader_and_isr is not None:
            self.last_epochs[name] = before.leader_and_isr.leader_epoch
        self._unindex(before)
        after = Partition(name, before.replicas, state, leader_and_isr)
        self.partitions[name] = after
        self._await(after)
        self.note_progress(name)
        if leader_and_isr is None:
            self.unled.add(name)
            return after
        if leader_and_isr.leader == NO_LEADER:
            self.unled.add(name)
        else:
            self.unled.discard(name)
            self.led_by.setdefault(leader_and_isr.leader, set()).add(name)
        for broker_id in leader_and_isr.isr:
            self.in_sync_on.setdefault(broker_id, set()).add(name)
        if len(leader_and_isr.isr) < len(before.replicas):
            self.under_replicated[name] = None
        return after

    def first_leader_epoch_of(self, name: TopicPartition) -> int:
        """The leader epoch with which a NEW partition begins: no broker has seen it of this partition."""
        of_topic = self.topics[name.topic].first_leader_epochs.get(name.partition, 0)
        return max(of_topic, self.last_epochs.get(name, -1) + 1)

    def note_progress(self, name: TopicPartition) -> None:
        """Take note that a partition changed, or can be written again, so that waiting work may continue."""
        work = self.work.get(name.topic)
        if work is not None:
            if name.partition in work.moves:
                work.due_moves[name.partition] = None
            self.due_topics.setdefault(name.topic, "")

    def _await(self, partition: Partition) -> None:
        if broker_ids := waited_for(partition):
            self.awaited.setdefault(broker_ids, {})[partition.name] = None

    def _stop_awaiting(self, partition: Partition) -> None:
        if broker_ids := waited_for(partition):
            names = self.awaited[broker_ids]
            del names[partition.name]
            if not names:
                del self.awaited[broker_ids]

    def _unindex(self, partition: Partition) -> None:
        self._stop_awaiting(partition)
        known = partition.leader_and_isr
        if known is None:
            return
        if known.leader != NO_LEADER:
            self.led_by[known.leader].discard(partition.name)
        for broker_id in known.isr:
            self.in_sync_on[broker_id].discard(partition.name)
        self.under_replicated.pop(partition.name, None)


def difference_subject(name: TopicPartition, broker_id: int) -> str:
    """The subject of a complaint about a replica that differs from its leader."""
    return f"{damage_subject(name, broker_id)}, beside its leader"


def damage_subject(name: TopicPartition, broker_id: int) -> str:
    """The subject of a complaint about a damaged replica."""
    return f"replica of {name.topic}-{name.partition} on broker {broker_id}"
