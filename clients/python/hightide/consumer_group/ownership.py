"""What a consumer owns of its group's partitions, how far its user is done with each, and what the user has
been told of it.

Rules of this file: no clock, no I/O, no threads; time comes in as `now_ms`. `Membership` says what the
coordinator orders, the shell what the user does; both under the client's lock.

Theory of operation. A record is *settled* when the user came back for more after it had been handed out,
went on iterating, or committed: only settled positions are committed automatically, so that what a crash
takes away is read again. A partition is *in hand* from the moment that a batch of it leaves the queue until
the user comes back. An order to stop holds its partitions at once, and is answered when none of them is in
hand and the user's callback has run; if the user does not come back in time, it is answered with what is
settled, and the user is told afterwards that the partitions are lost. What the user has yet to be told is the
difference between `_known` and what is owned, so that changes that cancel each other are never told.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from hightide.consuming.consumer_core import ConsumerCore
from hightide.consuming.fetched_records import RecordsInDelivery
from hightide.records import TopicPartition
from hightide.v1.coordinator_service_pb2 import (
    ConsumedPosition,
    OffsetCommit,
    OwnedPartition,
    StartFetcher,
)


class OwnershipChange(Enum):
    """Changes of partitions, as the callbacks report them to the user."""

    ASSIGNED = auto()
    REVOKED = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True)
class AssignmentEvent:
    """One callback to make on the user's side."""

    change: OwnershipChange
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class ConsumerPartition:
    """A partition of this consumer. `settled` is the offset up to which the user is done, None where nobody
    said yet where to begin; `told` is what the coordinator knows of that, and writes down when it pleases.
    `durable` is what is known to be committed: where the partition began, or what was committed since, also
    where that came through when the partition had been given back in the same generation. `is_reset` is set
    while the user has sought elsewhere and that is not committed."""

    generation: int
    stream: int
    topic_id: bytes
    settled: int | None
    told: int
    durable: int
    is_reset: bool = False


@dataclass(slots=True)
class StopOrder:
    """A StopFetcher that is not answered yet; `deadline_ms` is when it is answered without the user."""

    coordinator_epoch: int
    generation: int
    sequence: int
    deadline_ms: float
    partitions: set[TopicPartition] = field(default_factory=set)
    began_ms: float = 0.0
    traceparent: str = ""


class Ownership:
    """One a consumer in a group."""

    def __init__(
        self, core: ConsumerCore, in_delivery: RecordsInDelivery, *, tells_revoked: bool = False
    ) -> None:
        core.is_in_group = True
        self.owned: dict[TopicPartition, ConsumerPartition] = {}
        self.stops: list[StopOrder] = []
        self._core = core
        self._in_delivery = in_delivery
        self._tells_revoked = tells_revoked
        self._in_hand: set[TopicPartition] = set()
        self._known: dict[TopicPartition, int] = {}
        self._telling: tuple[TopicPartition, ...] = ()
        self._is_changed = False

    # -- what the coordinator orders -------------------------------------------------------------------------

    def start(self, order: StartFetcher) -> None:
        """Read partitions beside those that are read already. What is owned in the same generation goes on
        where it is."""
        for stream in order.streams:
            for start in stream.partitions:
                partition = TopicPartition(start.topic, start.partition)
                known = self.owned.get(partition)
                if known is not None and known.generation == start.generation:
                    known.stream = stream.stream
                    self._keep(partition)
                    continue
                self._let_go(partition)
                offset = None if start.offset < 0 else start.offset
                self.owned[partition] = ConsumerPartition(
                    start.generation,
                    stream.stream,
                    start.topic_id,
                    offset,
                    start.offset,
                    durable=start.offset,
                )
                self._core.start(partition, start.topic_id, offset, start.leader_epoch)

    def _keep(self, partition: TopicPartition) -> None:
        """An order to stop the partition is void."""
        for order in self.stops:
            order.partitions.discard(partition)
        position = self._core.positions.get(partition)
        if position is not None and position.is_stopping:
            position.is_stopping = False
            self._core.released(partition)
        self._is_changed = True

    def stop(self, order: StopOrder, partitions: Iterable[OwnedPartition]) -> None:
        """Hold partitions at once, and let them go when the user is done with them."""
        for each in partitions:
            partition = TopicPartition(each.topic, each.partition)
            owned = self.owned.get(partition)
            if owned is not None and owned.generation <= each.generation:
                order.partitions.add(partition)
                self._core.positions[partition].is_stopping = True
                if not self._tells_revoked:
                    self._known.pop(partition, None)
        self.stops.append(order)
        self._is_changed = True
        self._in_delivery.interrupt()

    def stopped(self, now_ms: float) -> list[tuple[StopOrder, list[ConsumedPosition]]]:
        """The orders to stop that can be answered now, with the final positions. What the user had no time
        for is lost."""
        answered = [
            order
            for order in self.stops
            if now_ms >= order.deadline_ms or not any(self._is_busy(each) for each in order.partitions)
        ]
        self.stops = [order for order in self.stops if order not in answered]
        return [(order, self._give_up(order.partitions)) for order in answered]

    def _is_busy(self, partition: TopicPartition) -> bool:
        return partition in self._in_hand or partition in self._known

    def _give_up(self, partitions: Iterable[TopicPartition]) -> list[ConsumedPosition]:
        positions = self.positions(partitions)
        for partition in partitions:
            self._let_go(partition)
        return positions

    def _let_go(self, partition: TopicPartition) -> None:
        for order in self.stops:
            order.partitions.discard(partition)
        self.owned.pop(partition, None)
        self._in_hand.discard(partition)
        self._core.stop(partition)
        self._in_delivery.interrupt()
        self._is_changed = True

    def connection_lost(self) -> None:
        """Orders of a stream that broke are void: what they held goes on, until the coordinator says again
        what it wants."""
        for order in self.stops:
            for partition in list(order.partitions):
                self._keep(partition)
        self.stops.clear()
        for owned in self.owned.values():
            # What was said last may not have arrived: all is said again.
            owned.told = -1

    def retain(self, retained: Iterable[OwnedPartition]) -> None:
        """A registration was accepted: all that is not among these is not this consumer's any more."""
        confirmed = {(each.topic, each.partition): each.generation for each in retained}
        for partition, owned in list(self.owned.items()):
            if confirmed.get((partition.topic, partition.partition)) != owned.generation:
                self._let_go(partition)

    def lose_all(self) -> None:
        """The consumer is no member any more: others read on from what was committed."""
        for partition in list(self.owned):
            self._let_go(partition)
        self.stops.clear()

    def claimed(self) -> list[OwnedPartition]:
        """What to say at a registration."""
        return [
            OwnedPartition(topic=each.topic, partition=each.partition, generation=owned.generation)
            for each, owned in self.owned.items()
        ]

    def interrupt(self) -> None:
        """Nothing more may be handed out before the user has come back. Called when the membership is in
        doubt."""
        self._in_delivery.interrupt()

    # -- what the user does ----------------------------------------------------------------------------------

    def took(self, partition: TopicPartition) -> None:
        """A batch of this partition leaves the queue for the user."""
        self._in_hand.add(partition)

    def came_back(self, *, is_settled: bool = True) -> None:
        """The user is in one of the consumer's methods: what was handed out before is settled, unless the
        user says that it is not."""
        self._in_delivery.settle()
        for partition in self._in_hand:
            owned, position = self.owned.get(partition), self._core.positions.get(partition)
            if owned is None or position is None or position.position is None:
                continue
            owned.settled = position.position if is_settled else self.settled_offset(partition)
        self._in_hand.clear()
        if self._in_delivery.is_interrupted:
            self._in_delivery.give_up()
        elif self._in_delivery.has_records and self._in_delivery.partition is not None:
            self._in_hand.add(self._in_delivery.partition)

    def sought(self, partition: TopicPartition, offset: int) -> None:
        """The user has gone elsewhere: that is where the group goes on too."""
        owned = self.owned.get(partition)
        if owned is not None:
            owned.is_reset = True
            owned.settled = offset

    def uncommitted(self) -> dict[TopicPartition, int]:
        """How far the user has come in each partition, where that is not known to be committed: what was only
        told may be lost."""
        found = {}
        for partition, owned in self.owned.items():
            position = self._core.positions[partition].position
            if position is not None and (owned.is_reset or position > owned.durable):
                found[partition] = position
        return found

    def commit_of(self, partition: TopicPartition, offset: int, metadata: str) -> OffsetCommit:
        """The user commits an offset. Raises NotAssignedError."""
        self._core.position_of(partition)
        owned = self.owned[partition]
        return OffsetCommit(
            topic=partition.topic,
            partition=partition.partition,
            generation=owned.generation,
            offset=offset,
            leader_epoch=self._core.leader_epoch_before(partition, offset),
            metadata=metadata,
            reset=owned.is_reset,
        )

    def committed(self, commits: Iterable[OffsetCommit]) -> None:
        """These are durable; what the user committed is done."""
        for commit in commits:
            owned = self.owned.get(TopicPartition(commit.topic, commit.partition))
            if owned is None or owned.generation != commit.generation:
                continue
            owned.told = commit.offset if commit.reset else max(owned.told, commit.offset)
            owned.durable = commit.offset if commit.reset else max(owned.durable, commit.offset)
            if owned.settled is None or owned.settled < commit.offset:
                owned.settled = commit.offset
            owned.is_reset = owned.is_reset and not commit.reset

    def farewell(self) -> list[AssignmentEvent]:
        """What to tell a user who closes the consumer: what was lost before, then that all else is given
        back."""
        lost = [each for each, since in self._known.items() if self._generation_of(each) != since]
        kept = [each for each in self._known if each not in lost]
        self._known.clear()
        events = [
            AssignmentEvent(change, tuple(sorted(partitions)))
            for change, partitions in ((OwnershipChange.LOST, lost), (OwnershipChange.REVOKED, kept))
            if partitions
        ]
        for position in self._core.positions.values():
            position.is_stopping = True
        return events

    @property
    def has_event(self) -> bool:
        """Whether the user has to be told something."""
        if self._is_changed and self._event() is None:
            self._is_changed = False
        return self._is_changed

    def next_event(self) -> AssignmentEvent | None:
        """What to tell the user next. It counts as said, whatever the callback raises; what is taken away is
        let go only when it `told`."""
        event = self._event() if self.has_event else None
        if event is None:
            return None
        self._telling = event.partitions
        for partition in event.partitions:
            if event.change is OwnershipChange.ASSIGNED:
                self._known[partition] = self.owned[partition].generation
            elif event.change is OwnershipChange.LOST:
                del self._known[partition]
        return event

    def _event(self) -> AssignmentEvent | None:
        """Losses, then what is taken away, then what is new."""
        lost = [each for each, since in self._known.items() if self._generation_of(each) != since]
        lost = [each for each in lost if each not in self._telling]
        if lost:
            return AssignmentEvent(OwnershipChange.LOST, tuple(sorted(lost)))
        stopping = {each for order in self.stops for each in order.partitions}
        revoked = stopping.intersection(self._known).difference(self._telling)
        if revoked:
            return AssignmentEvent(OwnershipChange.REVOKED, tuple(sorted(revoked)))
        new = [each for each in self.owned if each not in self._known and each not in stopping]
        return AssignmentEvent(OwnershipChange.ASSIGNED, tuple(sorted(new))) if new else None

    def told(self, event: AssignmentEvent) -> None:
        """The callback has run. Only now may what was revoked be let go."""
        if event.change is OwnershipChange.REVOKED:
            for partition in event.partitions:
                self._known.pop(partition, None)
        self._telling = ()
        self._is_changed = True

    def _generation_of(self, partition: TopicPartition) -> int:
        owned = self.owned.get(partition)
        return -1 if owned is None else owned.generation

    # -- what is known ---------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """What the user may use: owned, and not being taken away."""
        stopping = {each for order in self.stops for each in order.partitions}
        return tuple(sorted(each for each in self.owned if each not in stopping))

    def streams(self) -> dict[int, tuple[TopicPartition, ...]]:
        """What each stream of the consumer was given."""
        found: dict[int, list[TopicPartition]] = {}
        for partition in self.assignment:
            found.setdefault(self.owned[partition].stream, []).append(partition)
        return {stream: tuple(partitions) for stream, partitions in sorted(found.items())}

    @property
    def generations(self) -> dict[TopicPartition, int]:
        """Since which generation each partition is owned."""
        return {partition: self.owned[partition].generation for partition in self.assignment}

    def settled_offset(self, partition: TopicPartition) -> int | None:
        """How far the user is done with a partition."""
        owned = self.owned[partition]
        reached = self._in_delivery.settled_offset(partition) if partition in self._in_hand else None
        return owned.settled if reached is None else max(reached, owned.settled or 0)

    def positions(self, partitions: Iterable[TopicPartition]) -> list[ConsumedPosition]:
        """How far the user is done with these, where the coordinator does not know it; remembered as told."""
        moved = []
        for partition in partitions:
            owned, offset = self.owned.get(partition), None
            if owned is not None and not owned.is_reset:
                offset = self.settled_offset(partition)
            if owned is None or offset is None or offset <= owned.told:
                continue
            owned.told = offset
            moved.append(
                ConsumedPosition(
                    topic=partition.topic,
                    partition=partition.partition,
                    generation=owned.generation,
                    offset=offset,
                    leader_epoch=self._core.leader_epoch_before(partition, offset),
                )
            )
        return moved
