"""The partitions that a consumer owns in its group, the user's progress in each, and the changes that the
user has been told of.

Rules of this file: no clock, no I/O, no threads; time comes in as `now_ms`. `Membership` passes on the
coordinator's orders, the shell passes on the user's calls; both hold the client's lock.

Theory of operation. A record is *settled* when, after it had been returned, the user asked for more, went on
iterating, or committed. Only settled positions are committed automatically, so that records lost in a crash
are read again. A partition is *in hand* from the moment that a batch of it leaves the queue until the user
comes back. An order to stop holds its partitions at once. It is answered when none of them is in hand and the
user's callback has run. If the user does not come back in time, it is answered with the settled positions,
and the user is told afterwards that the partitions are lost. The user still has to be told of the difference
between `_known` and the owned partitions, so changes that cancel each other are never reported.

A consumer that is divided has a `Hand` for each of its streams. Each partition has one hand, which takes its
batches and is told of its changes. A partition that goes to another stream of the same consumer is passed on
when no record of it is in hand any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from hightide.consumer_group.hand import Hand
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
    """A partition of this consumer. `settled` is the offset up to which the user is done, or None if the
    start is not known yet. `told` is the part of it that the coordinator knows, and writes at a time of its
    choice. `durable` is the offset that is known to be committed: where the partition began, or a later
    commit, even one that succeeded after the partition had been given back in the same generation. `is_reset`
    is set while the user has sought elsewhere and that is not committed. `seek` is the number of the last
    seek; 0: none."""

    generation: int
    stream: int
    topic_id: bytes
    settled: int | None
    told: int
    durable: int
    is_reset: bool = False
    seek: int = 0


@dataclass(slots=True)
class StopOrder:
    """A StopFetcher that is not answered yet. At `deadline_ms` it is answered without the user."""

    coordinator_epoch: int
    generation: int
    sequence: int
    deadline_ms: float
    partitions: set[TopicPartition] = field(default_factory=set)
    began_ms: float = 0.0
    traceparent: str = ""


class Ownership:
    """The partitions of one consumer in a group."""

    def __init__(
        self, core: ConsumerCore, in_delivery: RecordsInDelivery, *, tells_revoked: bool = False
    ) -> None:
        core.is_in_group = True
        self.owned: dict[TopicPartition, ConsumerPartition] = {}
        self.stops: list[StopOrder] = []
        self._core = core
        self.hands = [Hand(0, in_delivery)]
        self._is_divided = False
        self.tells_revoked = tells_revoked
        self.seek_count = 0
        """How often the user has sought an offset in a partition."""
        self._known: dict[TopicPartition, int] = {}
        self._told_by: dict[TopicPartition, int] = {}
        self._telling: set[TopicPartition] = set()
        self._topics: frozenset[str] | None = None

    # -- users -----------------------------------------------------------------------------------------------

    @property
    def is_divided(self) -> bool:
        """Whether each stream has a user of its own."""
        return self._is_divided

    def divide(self, count: int) -> None:
        """Give each of so many streams a user of its own. Stream n belongs to user n modulo `count`, so that
        a later subscription with more streams leaves nothing unread. The user so far has come back."""
        undivided = self.hands[0].in_delivery
        undivided.give_up()
        self.hands = [Hand(number, undivided.beside()) for number in range(count)]
        self._core.hand_count, self._is_divided = count, True
        for partition in self.owned:
            self._pass_on(partition)
        self._changed()

    def _user_of(self, stream: int) -> Hand:
        return self.hands[stream % len(self.hands)]

    def _pass_on(self, partition: TopicPartition) -> None:
        """Let the user of the partition's stream take its batches, as soon as no other user has some."""
        position, user = self._core.positions[partition], self._user_of(self.owned[partition].stream)
        if position.hand == user.number:
            return
        holder = self.hands[position.hand]
        if partition in holder.partitions:
            holder.in_delivery.interrupt()
        else:
            self._core.give_to(partition, user.number)

    def _changed(self) -> None:
        for hand in self.hands:
            hand.is_changed = True

    # -- what the coordinator orders -------------------------------------------------------------------------

    def start(self, order: StartFetcher) -> None:
        """Read partitions in addition to those that are read already. Partitions owned in the same generation
        go on where they are."""
        for stream in order.streams:
            for start in stream.partitions:
                partition = TopicPartition(start.topic, start.partition)
                known = self.owned.get(partition)
                if known is not None and known.generation == start.generation:
                    known.stream = stream.stream
                    self._keep(partition)
                    self._pass_on(partition)
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
                self._core.positions[partition].hand = self._user_of(stream.stream).number

    def _keep(self, partition: TopicPartition) -> None:
        """Drop the order to stop this partition."""
        for order in self.stops:
            order.partitions.discard(partition)
        position = self._core.positions.get(partition)
        if position is not None and position.is_stopping and self._is_wanted(partition):
            position.is_stopping = False
            self._core.released(partition)
        self._changed()

    def stop(self, order: StopOrder, partitions: Iterable[OwnedPartition]) -> None:
        """Hold partitions at once, and give them back when the user is done with them."""
        for each in partitions:
            partition = TopicPartition(each.topic, each.partition)
            owned = self.owned.get(partition)
            if owned is not None and owned.generation <= each.generation:
                order.partitions.add(partition)
                self._core.positions[partition].is_stopping = True
                if not self.tells_revoked:
                    self._known.pop(partition, None)
        self.stops.append(order)
        self._changed()
        self.interrupt()

    def stopped(self, now_ms: float) -> list[tuple[StopOrder, list[ConsumedPosition]]]:
        """The orders to stop that can be answered now, with the final positions. Partitions for which the
        user had no time are lost."""
        answered = [
            order
            for order in self.stops
            if now_ms >= order.deadline_ms or not any(self._is_busy(each) for each in order.partitions)
        ]
        self.stops = [order for order in self.stops if order not in answered]
        return [(order, self._give_up(order.partitions)) for order in answered]

    def _is_busy(self, partition: TopicPartition) -> bool:
        return partition in self._known or any(partition in hand.partitions for hand in self.hands)

    def _give_up(self, partitions: Iterable[TopicPartition]) -> list[ConsumedPosition]:
        positions = self.positions(partitions)
        for partition in partitions:
            self._let_go(partition)
        return positions

    def _let_go(self, partition: TopicPartition) -> None:
        for order in self.stops:
            order.partitions.discard(partition)
        self.owned.pop(partition, None)
        for hand in self.hands:
            hand.partitions.discard(partition)
        self._core.stop(partition)
        self.interrupt()
        self._changed()

    def connection_lost(self) -> None:
        """Drop the orders of a stream that broke: their partitions go on until the coordinator repeats its
        orders."""
        for order in self.stops:
            for partition in list(order.partitions):
                self._keep(partition)
        self.stops.clear()
        for owned in self.owned.values():
            # The last positions may not have arrived: all are sent again.
            owned.told = -1

    def retain(self, retained: Iterable[OwnedPartition]) -> None:
        """Keep these partitions, which an accepted registration has confirmed; all others no longer belong to
        this consumer."""
        confirmed = {(each.topic, each.partition): each.generation for each in retained}
        for partition, owned in list(self.owned.items()):
            if confirmed.get((partition.topic, partition.partition)) != owned.generation:
                self._let_go(partition)

    def lose_all(self) -> None:
        """Lose all partitions, because the consumer is no longer a member: others read on from the committed
        offsets."""
        for partition in list(self.owned):
            self._let_go(partition)
        self.stops.clear()

    def claimed(self) -> list[OwnedPartition]:
        """The owned partitions to name in a registration."""
        return [
            OwnedPartition(topic=each.topic, partition=each.partition, generation=owned.generation)
            for each, owned in self.owned.items()
        ]

    def interrupt(self) -> None:
        """Return no more records before the users have come back. Called when the membership is in doubt, and
        when the consumer is to be closed."""
        for hand in self.hands:
            hand.in_delivery.interrupt()

    # -- what the user does ----------------------------------------------------------------------------------

    def took(self, partition: TopicPartition, hand: Hand | None = None) -> None:
        """Note that a batch of this partition leaves the queue for a user: the only one unless it is
        named."""
        (hand or self.hands[0]).partitions.add(partition)

    def came_back(self, hand: Hand | None = None, *, is_settled: bool = True) -> None:
        """Note that a user is in one of the consumer's methods: the records that it got before are
        settled, unless the user says that they are not."""
        hand = hand or self.hands[0]
        in_delivery, returned = hand.in_delivery, tuple(hand.partitions)
        in_delivery.settle()
        for partition in returned:
            owned, position = self.owned.get(partition), self._core.positions.get(partition)
            if owned is None or position is None or position.position is None:
                continue
            owned.settled = position.position if is_settled else self.settled_offset(partition)
        hand.partitions.clear()
        if in_delivery.is_interrupted:
            in_delivery.give_up()
        elif in_delivery.has_records and in_delivery.partition is not None:
            hand.partitions.add(in_delivery.partition)
        for partition in returned:
            if partition in self.owned:
                self._pass_on(partition)

    def narrow(self, topics: Iterable[str] | None) -> None:
        """Hold the partitions of topics that the user no longer subscribes to, until the coordinator takes
        them away; None: every topic may be wanted."""
        self._topics = None if topics is None else frozenset(topics)
        stopping = {each for order in self.stops for each in order.partitions}
        for partition in self.owned:
            position = self._core.positions[partition]
            position.is_stopping = partition in stopping or not self._is_wanted(partition)
            self._core.released(partition)
        self.interrupt()
        self._changed()

    def _is_wanted(self, partition: TopicPartition) -> bool:
        return self._topics is None or partition.topic in self._topics

    def sought(self, partition: TopicPartition, offset: int | None) -> None:
        """Note that the user has sought an offset, at which the group will go on too; None: it is not known
        yet."""
        owned = self.owned.get(partition)
        if owned is not None:
            self.seek_count += 1
            owned.seek = self.seek_count
            owned.is_reset = True
            owned.settled = offset

    def uncommitted(self, hand: Hand | None = None) -> dict[TopicPartition, int]:
        """A user's position in each partition, if it is not known to be committed: positions that were only
        told to the coordinator may be lost."""
        number = (hand or self.hands[0]).number
        found = {}
        for partition, owned in self.owned.items():
            position = self._core.positions[partition].position
            if self._core.positions[partition].hand != number:
                continue
            if position is not None and (owned.is_reset or position > owned.durable):
                found[partition] = position
        return found

    def commit_of(self, partition: TopicPartition, offset: int, metadata: str) -> OffsetCommit:
        """The commit of an offset by the user. Raises NotAssignedError."""
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

    def committed(self, commits: Iterable[OffsetCommit], seek_count: int) -> None:
        """Note that these offsets are durable; a commit of the user for them is done. `seek_count` is of the
        moment at which they were made: where the user has sought since, they say nothing."""
        for commit in commits:
            owned = self.owned.get(TopicPartition(commit.topic, commit.partition))
            if owned is None or owned.generation != commit.generation or owned.seek > seek_count:
                continue
            owned.told = commit.offset if commit.reset else max(owned.told, commit.offset)
            owned.durable = commit.offset if commit.reset else max(owned.durable, commit.offset)
            if owned.settled is None or owned.settled < commit.offset:
                owned.settled = commit.offset
            owned.is_reset = owned.is_reset and not commit.reset

    def farewell(self) -> list[AssignmentEvent]:
        """The events for a user who closes the consumer: first earlier losses, then that all other partitions
        are given back."""
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
        """Whether there is an event for the only user."""
        return self.has_event_for(self.hands[0])

    def has_event_for(self, hand: Hand) -> bool:
        """Whether there is an event for this user."""
        if hand.is_changed and self._event(hand) is None:
            hand.is_changed = False
        return hand.is_changed

    def next_event(self, hand: Hand | None = None) -> AssignmentEvent | None:
        """The next event for a user. It counts as reported, whatever the callback raises; partitions that
        are taken away are given back only after `told`."""
        hand = hand or self.hands[0]
        event = self._event(hand) if self.has_event_for(hand) else None
        if event is None:
            return None
        self._telling.update(event.partitions)
        for partition in event.partitions:
            if event.change is OwnershipChange.ASSIGNED:
                self._known[partition] = self.owned[partition].generation
                self._told_by[partition] = hand.number
            elif event.change is OwnershipChange.LOST:
                del self._known[partition]
        return event

    def _event(self, hand: Hand) -> AssignmentEvent | None:
        """The next event of a user: losses first, then partitions that are taken away, then new ones."""
        lost = [each for each, since in self._known.items() if self._generation_of(each) != since]
        lost = [each for each in lost if each not in self._telling and self._learns(hand, each)]
        if lost:
            return AssignmentEvent(OwnershipChange.LOST, tuple(sorted(lost)))
        stopping = {each for order in self.stops for each in order.partitions}
        revoked = stopping.intersection(self._known).difference(self._telling)
        revoked = {each for each in revoked if self._learns(hand, each)}
        if revoked:
            return AssignmentEvent(OwnershipChange.REVOKED, tuple(sorted(revoked)))
        new = [
            each
            for each in self.owned
            if each not in self._known and each not in stopping and self._is_wanted(each)
        ]
        new = [each for each in new if self._learns(hand, each)]
        return AssignmentEvent(OwnershipChange.ASSIGNED, tuple(sorted(new))) if new else None

    def _learns(self, hand: Hand, partition: TopicPartition) -> bool:
        """Whether it is this user who is told of the partition: who may take its batches or, where it is not
        owned any more, who was told that it came."""
        position = self._core.positions.get(partition)
        number = position.hand if position is not None else self._told_by.get(partition, 0)
        return hand is self.hands[number % len(self.hands)]

    def told(self, event: AssignmentEvent) -> None:
        """Note that the callback has run. Only now may the revoked partitions be given back."""
        if event.change is OwnershipChange.REVOKED:
            for partition in event.partitions:
                self._known.pop(partition, None)
        self._telling.difference_update(event.partitions)
        self._changed()

    def _generation_of(self, partition: TopicPartition) -> int:
        owned = self.owned.get(partition)
        return -1 if owned is None else owned.generation

    # -- state -----------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the user may use: owned, subscribed to, and not being taken away."""
        stopping = {each for order in self.stops for each in order.partitions}
        return tuple(sorted(each for each in self.owned if each not in stopping and self._is_wanted(each)))

    def assignment_of(self, hand: Hand) -> tuple[TopicPartition, ...]:
        """Those of the partitions whose batches this user may take."""
        return tuple(each for each in self.assignment if self._core.positions[each].hand == hand.number)

    def streams(self) -> dict[int, tuple[TopicPartition, ...]]:
        """The partitions that each stream of the consumer was assigned."""
        found: dict[int, list[TopicPartition]] = {}
        for partition in self.assignment:
            found.setdefault(self.owned[partition].stream, []).append(partition)
        return {stream: tuple(partitions) for stream, partitions in sorted(found.items())}

    @property
    def generations(self) -> dict[TopicPartition, int]:
        """The generation since which each partition is owned."""
        return {partition: self.owned[partition].generation for partition in self.assignment}

    def settled_offset(self, partition: TopicPartition) -> int | None:
        """The offset up to which the user is done with a partition."""
        owned = self.owned[partition]
        hand = next((each for each in self.hands if partition in each.partitions), None)
        reached = None if hand is None else hand.in_delivery.settled_offset(partition)
        return owned.settled if reached is None else max(reached, owned.settled or 0)

    def positions(
        self, partitions: Iterable[TopicPartition], *, are_told: bool = True
    ) -> list[ConsumedPosition]:
        """The positions in these partitions that the coordinator does not know yet. They are recorded as told
        if `are_told`: by a message on the stream, which no later message on it overtakes."""
        moved = []
        for partition in partitions:
            owned, offset = self.owned.get(partition), None
            if owned is not None and not owned.is_reset:
                offset = self.settled_offset(partition)
            if owned is None or offset is None or offset <= owned.told:
                continue
            if are_told:
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
