"""Groups of simulated consumers, two real coordinator cores, ZooKeeper, brokers and the network, in memory.

Rules of this file: nothing happens by itself. Each public method is an order of a schedule; the same orders
with the same Random give the same world. What is under way stands in channels, and each is in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.member_id import made_member_id
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import OffsetReset, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from msgspec.structs import replace
from sim.groups.checkers import Checkers
from sim.groups.connection import Broken, Connection
from sim.groups.consumer import SimConsumer
from sim.groups.coordinator import LookUp, Read, SimCoordinator
from sim.groups.logs import EPOCHS_PER_LOG, Log, Topics, Word, WordKind
from sim.groups.zookeeper import SimZooKeeper

__all__ = ["COORDINATORS", "LIMITS", "SESSION_TIMEOUTS_MS", "Groups", "Request"]

COORDINATORS: Final = (1, 2)
SESSION_TIMEOUTS_MS: Final = (600, 900, 1_500)
LIMITS: Final = GroupLimits(
    session_timeout_min_ms=300,
    commit_interval_ms=300,
    join_window_ms=60,
    join_window_max_ms=300,
    rebalance_retries_max=2,
    rebalance_backoff_ms=100,
    rebalance_backoff_max_ms=1_000,
)
STEP_MS: Final = 50
STORY_MAX: Final = 4_000


@dataclass(slots=True, eq=False)
class Request:
    """A unary call on its way to a coordinator, or waiting there."""

    request_id: int
    coordinator_id: int
    life: int
    event: Any
    group: str
    consumer: SimConsumer | None = None
    said: list[tuple[Log, int, int]] = field(default_factory=list)
    """For commits: of which partition, which word, and how many words had been written down before."""
    answer: Any = None


class Groups:
    """The world."""

    def __init__(self, rng: Random | None = None, limits: GroupLimits = LIMITS) -> None:
        self.rng = rng or Random(0)
        self.now_ms = 1_000
        self.story: list[tuple[object, ...]] = []
        self.checkers = Checkers(self)
        self.topics = Topics()
        self.all_logs: dict[int, Log] = {}
        self.zookeeper = SimZooKeeper(self.checkers.written)
        self.coordinators = {n: SimCoordinator(self, n, limits) for n in COORDINATORS}
        self.consumers: list[SimConsumer] = []
        self.connections: list[Connection] = []
        self.requests: dict[int, Request] = {}
        """Under way."""
        self.asked: dict[int, Request] = {}
        """Waiting for an answer."""
        self.failing_look_ups = 0.0
        self.registration_count = 0
        self._last_number = 0
        for coordinator in self.coordinators.values():
            coordinator.start()

    # ---- the story

    def tell(self, *words: object) -> None:
        """Note what happens; put into words only when somebody reads it."""
        self.story.append((self.now_ms, *words))
        if len(self.story) > STORY_MAX:
            del self.story[: STORY_MAX // 2]

    def told_story(self) -> list[str]:
        """The story in words."""
        return [f"{now_ms} " + "".join(str(word) for word in words) for now_ms, *words in self.story]

    def number(self) -> int:
        """Never given twice."""
        self._last_number += 1
        return self._last_number

    # ---- what the parts ask

    def connect(self, consumer: SimConsumer, coordinator: SimCoordinator) -> Connection:
        """A consumer opens a stream."""
        connection = Connection(self.number(), consumer, coordinator.coordinator_id, coordinator.life)
        self.connections.append(connection)
        coordinator.connections[connection.connection_id] = connection
        self.tell("  ", consumer, f" opens stream {connection.connection_id} to {coordinator.coordinator_id}")
        return connection

    def coordinator_for(self, consumer: SimConsumer) -> SimCoordinator | None:
        """Whom a broker names; sometimes it is behind."""
        named = self.zookeeper.active
        if named is None or self.rng.random() < 0.05:
            named = self.rng.choice(COORDINATORS)
        coordinator = self.coordinators[named]
        return coordinator if coordinator.is_alive else None

    def active(self) -> SimCoordinator | None:
        """Whom ZooKeeper names."""
        return None if self.zookeeper.active is None else self.coordinators[self.zookeeper.active]

    def hang_up(self, connection: Connection) -> None:
        """The consumer's side ends: what it has sent arrives, then the coordinator hears of it."""
        if not connection.is_silent:
            connection.up.append(Broken())

    def break_off(self, connection: Connection) -> None:
        """The stream breaks, and some of what is under way is lost."""
        kept = (self.rng.randint(0, len(connection.up)), self.rng.randint(0, len(connection.down)))
        connection.break_off(*kept)

    def not_coordinator(self, connection_id: int) -> ef.CloseConnection:
        """How a resigned coordinator ends a stream."""
        return ef.CloseConnection(connection_id, Refusal.NOT_COORDINATOR, "resigned")

    def log_at(self, leader_epoch: int) -> Log:
        """The partition that a leader epoch belongs to."""
        return self.all_logs[leader_epoch // EPOCHS_PER_LOG]

    def log_numbered(self, leader_epoch: int) -> Log | None:
        """The same; None: there is none."""
        return self.all_logs.get(leader_epoch // EPOCHS_PER_LOG)

    def log_called(self, name: TopicPartition, topic_id: bytes, leader_epoch: int) -> Log:
        """What brokers take it for: by topic id and number, and by the leader epoch where that is known."""
        said_of = self.log_numbered(leader_epoch)
        logs = [log for log in self.all_logs.values() if (log.name, log.topic_id) == (name, topic_id)]
        return said_of if said_of is not None and said_of in logs else logs[-1]

    def own_choice(self, consumer: SimConsumer, log: Log) -> int:
        """Where a consumer begins that wants to be told that nothing is committed."""
        return log.start

    def looked_up(self, group: str, log: Log, reset: OffsetReset) -> StoredOffset:
        """What a leader answers."""
        offset = log.end if reset is OffsetReset.LARGEST else log.start
        epoch = log.say(Word(WordKind.LOOK_UP, group, offset))
        return StoredOffset(offset, epoch, log.topic_id)

    # ---- the network

    def channels(self) -> list[Callable[[], None]]:
        """What can be delivered now: the first message of each channel whose receiver is awake."""
        found: list[Callable[[], None]] = []
        for coordinator in self.coordinators.values():
            if coordinator.to_zookeeper and coordinator.has_session:
                found.append(partial(self._at_zookeeper, coordinator))
            if coordinator.is_alive and not coordinator.is_paused:
                if coordinator.from_zookeeper:
                    found.append(partial(self._from_zookeeper, coordinator))
                found += [
                    partial(self._hear_look_up, coordinator, look_up)
                    for look_up in coordinator.look_ups
                    if look_up.answer is not None
                ]
            found += [
                partial(coordinator.found, look_up, self.failing_look_ups)
                for look_up in coordinator.look_ups
                if look_up.answer is None
            ]
        for connection in self.connections:
            if not connection.is_silent:
                found += self._of_stream(connection)
        found += [
            partial(self._of_request, request)
            for request in self.requests.values()
            if not self.coordinators[request.coordinator_id].is_paused
        ]
        return found

    def _of_stream(self, connection: Connection) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        coordinator = self.coordinators[connection.coordinator_id]
        if connection.up and not connection.holds_up and not coordinator.is_paused:
            found.append(partial(self._up, connection))
        if connection.down and not connection.holds_down and not connection.consumer.is_paused:
            found.append(partial(self._down, connection))
        return found

    def _up(self, connection: Connection) -> None:
        event = connection.up.popleft()
        coordinator = self.coordinators[connection.coordinator_id]
        if coordinator.connections.get(connection.connection_id) is not connection:
            return
        self.tell(f"  {coordinator.coordinator_id} hears of {connection.connection_id}: ", event)
        if isinstance(event, Broken):
            del coordinator.connections[connection.connection_id]
            connection.is_closed_above = True
            event = ev.ConnectionLost(connection.connection_id)
        elif isinstance(event, ev.ConsumerRegistered):
            self.registration_count += 1
            epoch = coordinator.state.coordinator_epoch
            made = made_member_id(epoch, self.registration_count, f"member{connection.connection_id}")
            event = replace(event, new_member_id=made)
        coordinator.take(event)

    def _down(self, connection: Connection) -> None:
        self.tell("  ", connection.consumer, f" hears on {connection.connection_id}: ", connection.down[0])
        connection.consumer.hear(connection)

    def _at_zookeeper(self, coordinator: SimCoordinator) -> None:
        request = coordinator.to_zookeeper.popleft()
        self.tell(f"  ZooKeeper hears {coordinator.coordinator_id}: ", request)
        if isinstance(request, Read):
            node = self.zookeeper.groups.get(request.group)
            stored = None if node is None else node.stored()
            coordinator.from_zookeeper.append(ev.GroupRead(request.group, stored))
            return
        is_fenced = False
        is_refused = request.limit is None and request.effect.group in self.zookeeper.touched
        if is_refused and self.zookeeper.accepts(request.multis[0]):
            self.zookeeper.touched.remove(request.effect.group)
            request.limit = self.rng.randrange(len(request.multis))
            coordinator.from_zookeeper.append(ev.StoreRefused(request.effect.store_id))
        for multi in request.multis[: request.limit]:
            is_fenced = is_fenced or not self.zookeeper.apply(multi)
        if request.limit is None:
            store_id = request.effect.store_id
            outcome = ev.StoreFenced(store_id) if is_fenced else ev.StoreCommitted(store_id)
            coordinator.from_zookeeper.append(outcome)

    def _from_zookeeper(self, coordinator: SimCoordinator) -> None:
        self.tell(f"  {coordinator.coordinator_id} hears ZooKeeper: ", coordinator.from_zookeeper[0])
        coordinator.hear_zookeeper()

    def _hear_look_up(self, coordinator: SimCoordinator, look_up: LookUp) -> None:
        self.tell(f"  {coordinator.coordinator_id} hears brokers: ", look_up.answer)
        coordinator.hear_look_up(look_up)

    def _of_request(self, request: Request) -> None:
        coordinator = self.coordinators[request.coordinator_id]
        if not coordinator.is_alive or coordinator.life != request.life:
            del self.requests[request.request_id]
        else:
            del self.requests[request.request_id]
            self.asked[request.request_id] = request
            self.tell(f"  {coordinator.coordinator_id} is asked: ", request.event)
            coordinator.take(request.event)

    def answer(self, coordinator: SimCoordinator, effect: Any) -> None:
        """A coordinator answers a call; the caller is told at once, or never."""
        request = self.asked.pop(effect.request_id, None)
        assert request is not None, f"{effect} answers nothing that was asked"
        assert (request.coordinator_id, request.life) == (coordinator.coordinator_id, coordinator.life)
        request.answer = effect
        if isinstance(effect, ef.AnswerCommit):
            self.checkers.commit_answered(coordinator, request, effect)

    def deliver(self, at: int) -> bool:
        """One message arrives; False: there is none."""
        channels = self.channels()
        if channels:
            channels[at % len(channels)]()
            self._sweep()
        return bool(channels)

    def hear(self, consumer: SimConsumer) -> None:
        """All that is under way to a consumer arrives, though it is held."""
        connection = consumer.connection
        while connection is not None and connection.down and consumer.connection is connection:
            self._down(connection)

    def settle(self, most: int = 2_000) -> None:
        """Everything under way arrives, and what follows from it."""
        for _ in range(most):
            if not self.deliver(self.rng.randrange(1 << 16)):
                return
        raise AssertionError("messages never end")

    def _sweep(self) -> None:
        if len(self.connections) > 64:
            self.connections = [each for each in self.connections if each.up or each.down or each.is_open]

    def advance(self, by_ms: int) -> None:
        """Time passes."""
        self.now_ms += by_ms
        for coordinator in self.coordinators.values():
            if coordinator.is_alive and not coordinator.is_paused:
                coordinator.tick()
        for consumer in self.consumers:
            if not consumer.is_paused:
                consumer.tick()

    def run(self, for_ms: int, *, reads: bool = True) -> None:
        """All goes well for a while: messages arrive, users read."""
        self.tell(f"run {for_ms}")
        for _ in range(-(-for_ms // STEP_MS)):
            self.settle()
            if reads:
                for consumer in self.consumers:
                    if not consumer.is_paused:
                        for name in list(consumer.readings):
                            consumer.hand_out(name, 3)
                            consumer.settle(name)
            self.advance(STEP_MS)
        self.settle()
