"""A coordinator process: the real core, and a shell of a few lines.

Its ZooKeeper session is one channel each way, in order. What it hears of consumers comes on their streams.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core import invariants
from hightide_coordinator.core.machine import new_state, next_deadline_ms, step
from hightide_coordinator.core.state.shard_state import Role, ShardState
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.registration import StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from sim.groups.connection import Connection
from sim.groups.zookeeper import Multi, multis_of

if TYPE_CHECKING:
    from sim.groups.world import Groups

__all__ = ["LookUp", "Read", "SimCoordinator", "Store", "TopicsFired"]

TICKS_MAX = 200
"""More in a row at one moment: the core asks for the same one again and again."""


@dataclass(slots=True, eq=False)
class Store:
    """A StoreGroup on its way to ZooKeeper. `limit` is set where its outcome is lost: so many of its multis
    are done, and nobody is told."""

    effect: ef.StoreGroup
    multis: list[Multi]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A ReadGroup on its way to ZooKeeper."""

    group: str


@dataclass(frozen=True, slots=True)
class TopicsFired:
    """Watches fired: read these topics again; None: all."""

    names: tuple[str, ...] | None


@dataclass(slots=True, eq=False)
class LookUp:
    """A LookUpOffsets, on its way to the brokers or (answer set) back."""

    effect: ef.LookUpOffsets
    group: str
    answer: ev.OffsetsLookedUp | None = None


@dataclass(slots=True, eq=False)
class SimCoordinator:
    """One process at a time; `life` counts them."""

    world: Groups
    coordinator_id: int
    limits: GroupLimits
    state: ShardState = field(init=False)
    life: int = 0
    is_alive: bool = False
    is_paused: bool = False
    has_session: bool = False
    to_zookeeper: deque[Store | Read] = field(default_factory=deque)
    from_zookeeper: deque[ev.Event | TopicsFired] = field(default_factory=deque)
    look_ups: list[LookUp] = field(default_factory=list)
    connections: dict[int, Connection] = field(default_factory=dict)
    watched: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.state = new_state(self.limits)

    @property
    def endpoint(self) -> ev.Endpoint:
        """Where it listens."""
        return ev.Endpoint(self.coordinator_id, "coordinator", 9000 + self.coordinator_id)

    @property
    def is_active(self) -> bool:
        """Whether it takes itself for the active one."""
        return self.is_alive and self.state.role is Role.ACTIVE

    # ---- life

    def start(self) -> None:
        """A new process, with a new session."""
        self.life += 1
        self.is_alive, self.is_paused, self.has_session = True, False, True
        self.state = new_state(self.limits)
        self._forget()

    def die(self) -> None:
        """The process ends; what it has sent is under way."""
        self.is_alive = self.is_paused = False
        self.from_zookeeper.clear()
        self.look_ups.clear()
        for connection in list(self.connections.values()):
            self.world.break_off(connection)
            connection.is_closed_above = True
        self.connections.clear()

    def _forget(self) -> None:
        self.to_zookeeper.clear()
        self.from_zookeeper.clear()
        self.look_ups.clear()
        self.connections.clear()
        self.watched = frozenset()

    # ---- events

    def take(self, event: ev.Event) -> None:
        """One event, and everything that follows from it."""
        self._perform(step(self.state, event, self.world.now_ms))
        invariants.check(self.state)

    def tick(self) -> None:
        """Time has passed."""
        for _ in range(TICKS_MAX):
            due_ms = next_deadline_ms(self.state)
            if due_ms is None or due_ms > self.world.now_ms:
                return
            self.take(ev.Ticked())
        raise AssertionError(f"coordinator {self.coordinator_id} wants to be ticked for ever")

    def hear_zookeeper(self) -> None:
        """The next answer or notice of its session."""
        event = self.from_zookeeper.popleft()
        if isinstance(event, TopicsFired):
            names = event.names
            if names is None:
                self.take(ev.TopicsChanged(self.world.topics.znodes(), is_full=True))
            else:
                self.take(ev.TopicsChanged({name: self.world.topics.znode(name) for name in names}))
        else:
            self.take(event)

    def hear_look_up(self, look_up: LookUp) -> None:
        """Brokers have answered."""
        self.look_ups.remove(look_up)
        assert look_up.answer is not None
        self.take(look_up.answer)

    # ---- effects

    def _perform(self, effects: tuple[ef.Effect, ...]) -> None:
        for effect in effects:
            self.world.tell(f"    {self.coordinator_id}: ", effect)
            self._perform_one(effect)

    def _perform_one(self, effect: ef.Effect) -> None:
        match effect:
            case ef.SendPings():
                for connection_id, sequence, retry_count in effect.connections:
                    one = ef.SendPings(
                        effect.coordinator_epoch,
                        effect.generation,
                        ((connection_id, sequence, retry_count),),
                    )
                    self._send(connection_id, one)
            case ef.SendRegistered() | ef.SendStopFetcher() | ef.SendStartFetcher():
                self.world.checkers.order_sent(self, effect)
                self._send(effect.connection_id, effect)
            case ef.CloseConnection():
                self._close(effect)
            case ef.StoreGroup():
                self._store(effect)
            case ef.ReadGroup():
                self.to_zookeeper.append(Read(effect.group))
            case ef.LookUpOffsets():
                asking = self.state.look_ups.get(effect.look_up_id)
                self.look_ups.append(LookUp(effect, "" if asking is None else asking.name))
            case ef.WatchTopics():
                self._watch(effect)
            case (
                ef.AnswerCommit()
                | ef.AnswerReset()
                | ef.AnswerDelete()
                | ef.AnswerDeleteOffsets()
                | ef.RefuseRequest()
            ):
                self.world.answer(self, effect)
            case ef.Resign():
                self.resign()
            case ef.LogSentence():
                pass

    def _send(self, connection_id: int, message: Any) -> None:
        connection = self.connections.get(connection_id)
        if connection is not None:
            connection.down.append(message)

    def _close(self, effect: ef.CloseConnection) -> None:
        connection = self.connections.pop(effect.connection_id, None)
        if connection is not None:
            self.world.checkers.closed(self, connection, effect)
            connection.down.append(effect)
            connection.is_closed_above = True

    def _store(self, effect: ef.StoreGroup) -> None:
        size = self.world.rng.choice((1, 2, 1000))
        self.to_zookeeper.append(Store(effect, multis_of(self.coordinator_id, effect, size)))

    def _watch(self, effect: ef.WatchTopics) -> None:
        fresh = tuple(sorted(effect.more - self.watched))
        self.watched = (self.watched | effect.more) - effect.fewer
        if fresh:
            self.from_zookeeper.append(TopicsFired(fresh))

    def resign(self) -> None:
        """Every stream ends, and nobody is answered any more."""
        for connection in self.connections.values():
            refusal = self.world.not_coordinator(connection.connection_id)
            connection.down.append(refusal)
            connection.is_closed_above = True
        self.connections.clear()
        self.look_ups.clear()

    # ---- what the world does with its session

    def lose_outcomes(self) -> None:
        """The connection to ZooKeeper breaks and is made again: what is under way has an unknown outcome."""
        waiting, self.to_zookeeper = self.to_zookeeper, deque()
        for request in waiting:
            if isinstance(request, Read):
                self.to_zookeeper.append(request)
            elif request.limit is None:
                request.limit = self.world.rng.randint(0, len(request.multis))
                self.to_zookeeper.append(request)
                self.from_zookeeper.append(ev.StoreUnknown(request.effect.store_id))
            else:
                self.to_zookeeper.append(request)

    def found(self, look_up: LookUp, failing: float) -> None:
        """Brokers answer a look-up from what they have now; some partitions fail."""
        world, effect = self.world, look_up.effect
        found: dict[TopicPartition, StoredOffset] = {}
        failed: dict[TopicPartition, str] = {}
        for name, reset in effect.wanted.items():
            log = world.topics.log(name)
            if log is None or world.rng.random() < failing:
                failed[name] = "nobody leads it"
            else:
                found[name] = world.looked_up(look_up.group, log, reset)
        look_up.answer = ev.OffsetsLookedUp(effect.look_up_id, found, failed)
