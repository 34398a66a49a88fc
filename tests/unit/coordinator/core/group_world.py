"""A coordinator's core with a ZooKeeper, brokers and consumers that answer at once, or when told to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.invariants import check
from hightide_coordinator.core.machine import new_state, next_deadline_ms, step
from hightide_coordinator.core.state.descriptions import GroupDescription, describe_group
from hightide_coordinator.core.state.group import GroupState
from hightide_coordinator.core.state.shard_state import Role, ShardState
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.member_id import made_member_id
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import (
    ConsumerPosition,
    OffsetReset,
    OwnedPartition,
    PartitionOwner,
    Registration,
    StoredGroup,
    StoredOffset,
)
from hightide_coordinator.core.values.topic_partition import Topic, TopicPartition
from msgspec.structs import replace

EffectT = TypeVar("EffectT")
GROUP = "g"


def tp(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)


def topic(name: str = "t", partitions: int = 4, topic_id: bytes = b"i" * 16) -> Topic:
    return Topic(name, topic_id, partitions)


@dataclass
class Consumer:
    """What one stream of a consumer has been told; it answers at once unless it is `mute`."""

    world: World
    connection_id: int
    registration: Registration
    member_id: str = ""
    consumer_id: str = ""
    is_mute: bool = False
    reading: dict[TopicPartition, ef.StartPartition | OwnedPartition] = field(default_factory=dict)
    retained: tuple[OwnedPartition, ...] = ()
    closed: ef.CloseConnection | None = None
    orders: list[ef.SendStopFetcher | ef.SendStartFetcher] = field(default_factory=list)
    open_orders: list[ef.SendStopFetcher | ef.SendStartFetcher] = field(default_factory=list)
    pings: list[tuple[int, int]] = field(default_factory=list)
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    def refusal(self) -> Refusal | None:
        """Why its stream was ended; None: it stands, or was ended well."""
        return None if self.closed is None else self.closed.refusal

    @property
    def partitions(self) -> set[int]:
        return {name.partition for name in self.reading}

    def owned(self) -> tuple[OwnedPartition, ...]:
        return tuple(OwnedPartition(name, start.generation) for name, start in self.reading.items())

    def told(self, *names: TopicPartition) -> tuple[ConsumerPosition, ...]:
        return tuple(
            ConsumerPosition(name, self.reading[name].generation, self.positions[name])
            for name in names
            if name in self.positions
        )

    def answer_ping(self, *names: TopicPartition) -> None:
        sequence, _ = self.pings[-1]
        self.world.feed(ev.PingAnswered(self.connection_id, sequence, self.world.epoch, 0, self.told(*names)))

    def answer(self, order: ef.SendStopFetcher | ef.SendStartFetcher | None = None) -> None:
        order = order or self.open_orders[0]
        if order in self.open_orders:
            self.open_orders.remove(order)
        head = (self.connection_id, order.sequence, order.coordinator_epoch, order.generation)
        if isinstance(order, ef.SendStopFetcher):
            names = [each.name for each in order.partitions]
            positions = self.told(*(name for name in names if name in self.reading))
            for name in names:
                self.reading.pop(name, None)
            self.world.feed(ev.FetchersStopped(*head, positions))
        else:
            for start in order.partitions:
                self.reading[start.name] = start
                if start.offset >= 0:
                    self.positions[start.name] = start.offset
            self.world.feed(ev.FetchersStarted(*head))

    def leave(self) -> None:
        self.world.feed(ev.ConsumerLeft(self.connection_id, self.told(*self.reading)))

    def commit(self, name: TopicPartition, offset: int, *, is_reset: bool = False) -> ef.ItemOutcome:
        commit = ev.OffsetCommit(name, self.reading[name].generation, offset, is_reset=is_reset)
        return self.world.commit(commit, member_id=self.member_id)[0]


def traced_of(state: ShardState) -> dict[str, tuple[GroupState, int, int, int]]:
    """What the traces of rebalances follow, by group."""
    return {
        name: (
            group.state,
            group.open_stops,
            len(group.open_orders),
            -1 if group.store is None else group.store.store_id,
        )
        for name, group in state.groups.items()
    }


class World:
    """Feeds the core and performs what it wants. Nothing answers while its switch is off."""

    def __init__(
        self,
        *topics: Topic,
        limits: GroupLimits | None = None,
        groups: Mapping[str, StoredGroup] | None = None,
    ) -> None:
        self.state = new_state(limits or GroupLimits())
        self.now_ms = 1_000_000
        self.epoch = 1
        self.owners: dict[str, dict[TopicPartition, PartitionOwner]] = {}
        self.offsets: dict[str, dict[TopicPartition, StoredOffset]] = {}
        self.generations: dict[str, tuple[int, int]] = {}
        self.consumers: dict[int, Consumer] = {}
        self.log: list[ef.Effect] = []
        self.stores: list[ef.StoreGroup] = []
        self.look_ups: list[ef.LookUpOffsets] = []
        self.reads: list[ef.ReadGroup] = []
        self.stores_answer = True
        self.look_ups_answer = True
        self.ends: dict[TopicPartition, int] = {}
        self.topics = {each.name: each for each in topics or (topic(),)}
        self.unreadable: set[str] = set()
        """Topics whose znodes make no sense: nothing is told of them."""
        for name, stored in (groups or {}).items():
            self.owners[name] = dict(stored.owners)
            self.offsets[name] = dict(stored.offsets)
            self.generations[name] = (stored.generation, stored.session_timeout_ms)
        self._ids = 0
        self._inbox: deque[ev.Event] = deque()
        self.elect()

    # ---- what happens

    def elect(self) -> None:
        groups = {name: self.stored(name) for name in self.generations}
        topics = {name: each for name, each in self.topics.items() if name not in self.unreadable}
        self.feed(ev.Elected(self.epoch, groups, topics, (ev.Endpoint(1, "b", 9092),)))

    def fail_over(self) -> World:
        """Another coordinator takes over what is durable; nobody is connected to it yet."""
        next_world = World.__new__(World)
        next_world.__dict__.update(self.__dict__)
        next_world.state = new_state(self.state.limits)
        next_world.epoch = self.epoch + 1
        next_world.consumers = {}
        next_world._inbox = deque()
        next_world.log, next_world.stores, next_world.look_ups, next_world.reads = [], [], [], []
        next_world.stores_answer = next_world.look_ups_answer = True
        next_world.elect()
        return next_world

    def stored(self, group: str = GROUP) -> StoredGroup:
        generation, timeout_ms = self.generations.get(group, (0, 0))
        owners, offsets = self.owners.get(group, {}), self.offsets.get(group, {})
        return StoredGroup(
            generation,
            timeout_ms,
            {name: each for name, each in owners.items() if name.topic not in self.unreadable},
            {name: each for name, each in offsets.items() if name.topic not in self.unreadable},
            frozenset(name.topic for name in (*owners, *offsets) if name.topic in self.unreadable),
        )

    def change_topics(self, *topics: Topic, gone: tuple[str, ...] = ()) -> None:
        changes: dict[str, Topic | None] = {each.name: each for each in topics}
        changes.update(dict.fromkeys(gone))
        for name, changed in changes.items():
            if changed is None:
                self.topics.pop(name, None)
            else:
                self.topics[name] = changed
        self.feed(ev.TopicsChanged(changes))

    def join(
        self, consumer_id: str = "", *, topics: Mapping[str, int] | None = None, **fields: object
    ) -> Consumer:
        if "pattern" not in fields:
            fields["topics"] = topics or {"t": 1}
        registration = replace(Registration(GROUP, consumer_id), **fields)
        return self.register(registration)

    def register(self, registration: Registration, before: Consumer | None = None) -> Consumer:
        self._ids += 1
        consumer = Consumer(self, self._ids, registration)
        if before is not None:
            consumer.reading.update(before.reading)
            consumer.positions.update(before.positions)
        self.consumers[self._ids] = consumer
        member_id = made_member_id(self.epoch, self._ids, "secret")
        self.feed(ev.ConsumerRegistered(self._ids, registration, member_id, f"c{self._ids}"))
        return consumer

    def come_back(self, consumer: Consumer, **fields: object) -> Consumer:
        fields = {"member_id": consumer.member_id, "owned": consumer.owned(), **fields}
        registration = replace(consumer.registration, **fields)
        return self.register(registration, consumer)

    def lose(self, consumer: Consumer) -> None:
        self.feed(ev.ConnectionLost(consumer.connection_id))

    def commit(self, *commits: ev.OffsetCommit, member_id: str = "") -> tuple[ef.ItemOutcome, ...]:
        self._ids += 1
        self.feed(ev.CommitRequested(self._ids, GROUP, member_id, commits))
        return self.the(ef.AnswerCommit, lambda answer: answer.request_id == self._ids).outcomes

    def feed(self, event: ev.Event) -> None:
        self._inbox.append(event)
        if len(self._inbox) > 1:
            return  # What follows from an effect comes after all effects of the same event.
        while self._inbox:
            before = traced_of(self.state)
            effects = step(self.state, self._inbox[0], self.now_ms)
            check(self.state)
            after = traced_of(self.state)
            if self.state.role is Role.ACTIVE:
                changed = {name for name in before | after if before.get(name) != after.get(name)}
                assert changed <= self.state.looked_at
            for effect in effects:
                self.log.append(effect)
                self._perform(effect)
            self._inbox.popleft()

    def run(self, duration_ms: int) -> None:
        """Let so much time pass; consumers answer their Pings unless they are mute."""
        until_ms = self.now_ms + duration_ms
        while (due_ms := next_deadline_ms(self.state)) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.feed(ev.Ticked())
        self.now_ms = until_ms

    # ---- what is wanted

    def _perform(self, effect: ef.Effect) -> None:
        match effect:
            case ef.StoreGroup():
                self.stores.append(effect)
                if self.stores_answer:
                    self.store()
            case ef.LookUpOffsets():
                self.look_ups.append(effect)
                if self.look_ups_answer:
                    self.look_up()
            case ef.ReadGroup():
                self.reads.append(effect)
                if self.stores_answer:
                    self.read()
            case ef.SendPings():
                for connection_id, sequence, retry_count in effect.connections:
                    consumer = self.consumers[connection_id]
                    consumer.pings.append((sequence, retry_count))
                    if not consumer.is_mute:
                        consumer.answer_ping()
            case ef.SendRegistered():
                consumer = self.consumers[effect.connection_id]
                consumer.member_id, consumer.consumer_id = effect.member_id, effect.consumer_id
                consumer.retained = effect.retained
                kept = {each.name for each in effect.retained}
                consumer.reading = {name: start for name, start in consumer.reading.items() if name in kept}
            case ef.SendStopFetcher() | ef.SendStartFetcher():
                consumer = self.consumers[effect.connection_id]
                consumer.orders.append(effect)
                consumer.open_orders.append(effect)
                if not consumer.is_mute:
                    consumer.answer(effect)
            case ef.CloseConnection():
                if effect.connection_id in self.consumers:
                    self.consumers[effect.connection_id].closed = effect
            case _:
                pass  # It is in the log.

    def write(self, store: ef.StoreGroup) -> None:
        """ZooKeeper does what a StoreGroup says."""
        if store.delete_group:
            for kept in (self.owners, self.offsets, self.generations):
                kept.pop(store.group, None)
            return
        self.generations[store.group] = (store.generation, store.session_timeout_ms)
        owners = self.owners.setdefault(store.group, {})
        offsets = self.offsets.setdefault(store.group, {})
        for name, owner in store.owners.items():
            owners.pop(name, None)
            if owner is not None:
                owners[name] = owner
        for name, committed in store.offsets.items():
            offsets.pop(name, None)
            if committed is not None:
                offsets[name] = committed

    def store(self) -> None:
        store = self.stores[-1]
        self.write(store)
        self.feed(ev.StoreCommitted(store.store_id))

    def read(self) -> None:
        group = self.reads[-1].group
        self.feed(ev.GroupRead(group, self.stored(group) if group in self.generations else None))

    def look_up(self) -> None:
        look_up = self.look_ups[-1]
        found = {}
        for name, reset in look_up.wanted.items():
            if name.topic in self.topics:
                end = self.ends.get(name, 100)
                offset = 0 if reset is OffsetReset.SMALLEST else end
                found[name] = StoredOffset(offset, -1, self.topics[name.topic].topic_id)
        self.feed(ev.OffsetsLookedUp(look_up.look_up_id, found))

    # ---- what is seen

    def all(self, kind: type[EffectT]) -> list[EffectT]:
        return [effect for effect in self.log if isinstance(effect, kind)]

    def the(self, kind: type[EffectT], condition: Callable[[EffectT], bool] = lambda _: True) -> EffectT:
        found = [effect for effect in self.all(kind) if condition(effect)]
        assert len(found) == 1, (kind, found)
        return found[0]

    def describe(self, group: str = GROUP) -> GroupDescription:
        description = describe_group(self.state, group)
        assert isinstance(description, GroupDescription), description
        return description

    def group_state(self) -> GroupState:
        return self.describe().state

    def committed(self, partition: int = 0, group: str = GROUP) -> int | None:
        committed = self.offsets.get(group, {}).get(tp(partition))
        return None if committed is None else committed.offset

    def owner_of(self, partition: int, group: str = GROUP) -> str | None:
        owner = self.owners.get(group, {}).get(tp(partition))
        return None if owner is None else owner.consumer_id
