"""A consumer by C1 to C7 and by the text's §8.5, §10 and §11, as the SDK follows them.

It obeys no lower coordinator epoch than it has seen. Without a stream it reads on for a third of its session
timeout, then hands out nothing until it is registered again; nothing heard for a session timeout on a stream
that stands: it suspends, closes and starts over. What it claims when it registers again and is not retained,
it drops. A record is `handed` out first and `settled` when the user comes back for more; only settled
positions are told. A StopFetcher is answered when nothing of its partitions is unsettled, or at half of its
time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import ConsumerPosition, OwnedPartition, Registration
from hightide_coordinator.core.values.topic_partition import TopicPartition
from sim.groups.connection import Broken, Connection
from sim.groups.logs import Log, Word, WordKind

if TYPE_CHECKING:
    from sim.groups.world import Groups

__all__ = ["ConsumerState", "Reading", "SimConsumer"]

PAUSE_MS: Final = 60
"""Between attempts to register."""


class ConsumerState(Enum):
    """Where its membership stands."""

    SEEKING = auto()
    REGISTERING = auto()
    MEMBER = auto()
    LEAVING = auto()
    GONE = auto()


ENDED = (ConsumerState.LEAVING, ConsumerState.GONE)


@dataclass(slots=True, eq=False)
class Reading:
    """A partition that the consumer owns, as far as it knows."""

    log: Log
    generation: int
    start: int
    handed: int
    settled: int
    told: int = -1
    """What a coordinator has heard of it."""


@dataclass(slots=True, eq=False)
class _Stop:
    """A StopFetcher that is not answered yet."""

    order: ef.SendStopFetcher
    deadline_ms: int
    void: set[TopicPartition] = field(default_factory=set)
    """What it was told to start again since."""


def is_deposed(coordinator_epoch: int, seen_epoch: int) -> bool:
    """Whether an order comes from a coordinator that is older than one that the consumer has seen (C5)."""
    return coordinator_epoch < seen_epoch


@dataclass(slots=True, eq=False)
class SimConsumer:
    """One process; `number` tells it from others with the same name."""

    world: Groups
    number: int
    requested: Registration
    """What it registers with, but for what the coordinator told it since."""
    state: ConsumerState = ConsumerState.SEEKING
    is_paused: bool = False
    member_id: str = ""
    consumer_id: str = ""
    coordinator_epoch: int = 0
    readings: dict[TopicPartition, Reading] = field(default_factory=dict)
    connection: Connection | None = None
    stops: list[_Stop] = field(default_factory=list)
    heard_ms: int = 0
    away_since_ms: int | None = None
    was_silent: bool = False
    next_attempt_ms: int = 0
    taken_until_ms: int | None = None
    farewell: list[tuple[Log, int]] = field(default_factory=list)
    """What its goodbye said of partitions that were its own."""
    ended_with: Refusal | None = None
    """Why it gave up."""

    @property
    def group(self) -> str:
        """Its group."""
        return self.requested.group

    @property
    def is_alive(self) -> bool:
        """Whether the process runs and has not said goodbye."""
        return self.state not in ENDED

    @property
    def is_suspended(self) -> bool:
        """Whether it hands out nothing, as far as it has looked at its clock."""
        if self.state is ConsumerState.MEMBER:
            return False
        if self.was_silent or self.state in ENDED or self.away_since_ms is None:
            return True
        return self.world.now_ms - self.away_since_ms > self.requested.session_timeout_ms // 3

    def __str__(self) -> str:
        return (
            f"consumer {self.number} ({self.group}/{self.consumer_id or self.requested.instance_id or 'new'})"
        )

    # ---- time

    def tick(self) -> None:
        """Time has passed: look at silence, at stops that waited long enough, and for a coordinator."""
        now_ms = self.world.now_ms
        if self.state is ConsumerState.GONE:
            return
        if self.connection is not None and now_ms - self.heard_ms > self.requested.session_timeout_ms:
            self.was_silent = True
            self._disconnect()
        for stop in [stop for stop in self.stops if now_ms >= stop.deadline_ms]:
            self._answer_stop(stop)
        if self.state is ConsumerState.SEEKING and now_ms >= self.next_attempt_ms:
            self._register()

    def _register(self) -> None:
        coordinator = self.world.coordinator_for(self)
        self.next_attempt_ms = self.world.now_ms + PAUSE_MS
        if coordinator is None:
            return
        self.connection = self.world.connect(self, coordinator)
        self.state = ConsumerState.REGISTERING
        self.heard_ms = self.world.now_ms
        requested = self.requested
        owned = tuple(OwnedPartition(name, reading.generation) for name, reading in self.readings.items())
        registration = Registration(
            group=requested.group,
            consumer_id=self.consumer_id or requested.consumer_id,
            member_id=self.member_id,
            instance_id=requested.instance_id,
            topics=requested.topics,
            pattern=requested.pattern,
            auto_commit=requested.auto_commit,
            offset_reset=requested.offset_reset,
            session_timeout_ms=requested.session_timeout_ms,
            assignor=requested.assignor,
            owned=owned,
            seen_coordinator_epoch=self.coordinator_epoch,
        )
        self._say(
            ev.ConsumerRegistered(
                self.connection.connection_id,
                registration,
                "",  # The coordinator makes it when it hears of this.
                f"made-{self.connection.connection_id}",
            )
        )

    def _say(self, event: ev.Event) -> None:
        assert self.connection is not None
        self.connection.up.append(event)

    def _disconnect(self) -> None:
        """The stream is over, from this side or from the other."""
        connection, self.connection = self.connection, None
        assert connection is not None
        connection.is_closed_below = True
        self.world.hang_up(connection)
        if self.state is ConsumerState.LEAVING:
            self.state = ConsumerState.GONE
            return
        if self.away_since_ms is None:
            self.away_since_ms = self.world.now_ms
        self.state = ConsumerState.SEEKING
        self.stops.clear()
        self.next_attempt_ms = self.world.now_ms + self.world.rng.randint(0, PAUSE_MS)
        for reading in self.readings.values():
            reading.told = -1

    # ---- what the coordinator says

    def hear(self, connection: Connection) -> None:
        """The next message of the stream."""
        message = connection.down.popleft()
        if connection is not self.connection:
            return
        match message:
            case Broken():
                self._disconnect()
            case ef.CloseConnection():
                self._closed(message.refusal)
            case _:
                self._ordered(message)

    def _closed(self, refusal: Refusal | None) -> None:
        if self.state is ConsumerState.LEAVING:
            self._disconnect()
            return
        self._disconnect()
        if refusal is Refusal.UNKNOWN_MEMBER:
            self.readings.clear()
            self.member_id = ""
        elif refusal is Refusal.CONSUMER_ID_TAKEN:
            # A predecessor that died is found dead by then; who is there longer, lives.
            if self.taken_until_ms is None:
                self.taken_until_ms = self.world.now_ms + self.requested.session_timeout_ms
            if self.world.now_ms >= self.taken_until_ms:
                self._end(refusal)
        elif refusal in (Refusal.FENCED_INSTANCE, Refusal.INVALID_REQUEST):
            self._end(refusal)

    def _end(self, refusal: Refusal) -> None:
        self.readings.clear()
        self.state = ConsumerState.GONE
        self.ended_with = refusal

    def _ordered(
        self, order: ef.SendRegistered | ef.SendPings | ef.SendStopFetcher | ef.SendStartFetcher
    ) -> None:
        if is_deposed(order.coordinator_epoch, self.coordinator_epoch):
            self._disconnect()
            return
        self.coordinator_epoch = max(self.coordinator_epoch, order.coordinator_epoch)
        self.heard_ms = self.world.now_ms
        match order:
            case ef.SendRegistered():
                self._registered(order)
            case ef.SendPings():
                self._pinged(order)
            case ef.SendStopFetcher():
                self._stop(order)
            case ef.SendStartFetcher():
                self._start(order)

    def _registered(self, answer: ef.SendRegistered) -> None:
        self.state = ConsumerState.MEMBER
        self.member_id, self.consumer_id = answer.member_id, answer.consumer_id
        self.away_since_ms = self.taken_until_ms = None
        self.was_silent = False
        kept = {each.name: each.generation for each in answer.retained}
        for name, reading in list(self.readings.items()):
            if kept.get(name) != reading.generation:
                del self.readings[name]

    def _pinged(self, ping: ef.SendPings) -> None:
        ((connection_id, sequence, _),) = ping.connections
        moved = [name for name, reading in self.readings.items() if reading.told != reading.settled]
        if self.state is not ConsumerState.LEAVING:
            positions = self._positions(moved)
            answer = ev.PingAnswered(
                connection_id, sequence, ping.coordinator_epoch, ping.generation, positions
            )
            self._say(answer)

    def _positions(self, names: list[TopicPartition]) -> tuple[ConsumerPosition, ...]:
        if not self.requested.auto_commit:
            return ()
        told = []
        for name in names:
            reading = self.readings[name]
            reading.told = reading.settled
            epoch = self._word(WordKind.POSITION, reading)
            told.append(ConsumerPosition(name, reading.generation, reading.settled, epoch))
        return tuple(told)

    def _word(self, kind: WordKind, reading: Reading) -> int:
        word = Word(kind, self.group, reading.settled, self.member_id, reading.generation)
        return reading.log.say(word)

    def _stop(self, order: ef.SendStopFetcher) -> None:
        if self.state is ConsumerState.LEAVING:
            return
        stop = _Stop(order, self.world.now_ms + self.requested.session_timeout_ms // 3)
        self.stops.append(stop)
        if not self._unsettled(stop):
            self._answer_stop(stop)

    def _unsettled(self, stop: _Stop) -> bool:
        readings = [self.readings[name] for name in self._stopping(stop)]
        return any(reading.handed > reading.settled for reading in readings)

    def _stopping(self, stop: _Stop) -> list[TopicPartition]:
        return [
            each.name
            for each in stop.order.partitions
            if each.name in self.readings
            and self.readings[each.name].generation <= each.generation
            and each.name not in stop.void
        ]

    def is_stopping(self, name: TopicPartition) -> bool:
        """Whether it was told to stop this one, so that nothing more of it is handed out."""
        return any(name in self._stopping(stop) for stop in self.stops)

    def _answer_stop(self, stop: _Stop) -> None:
        self.stops.remove(stop)
        names = self._stopping(stop)
        order = stop.order
        positions = self._positions(names)
        for name in names:
            del self.readings[name]
        self._say(
            ev.FetchersStopped(
                order.connection_id, order.sequence, order.coordinator_epoch, order.generation, positions
            )
        )

    def _start(self, order: ef.SendStartFetcher) -> None:
        if self.state is ConsumerState.LEAVING:
            return
        for start in order.partitions:
            known = self.readings.get(start.name)
            if known is not None and known.generation == start.generation:
                for stop in self.stops:
                    stop.void.add(start.name)
                continue  # It goes on where it is.
            log = self.world.log_called(start.name, start.topic_id, start.leader_epoch)
            offset = start.offset if start.offset >= 0 else self.world.own_choice(self, log)
            self.readings[start.name] = Reading(log, start.generation, offset, offset, offset)
            self.world.checkers.reading(self, start, log)
        self._say(
            ev.FetchersStarted(order.connection_id, order.sequence, order.coordinator_epoch, order.generation)
        )

    # ---- what the user does

    def hand_out(self, name: TopicPartition, count: int) -> None:
        """The user gets records, and so is done with those of before."""
        self.settle(name)
        reading = self.readings.get(name)
        if reading is None:
            return  # It was to be stopped, and this was all that it waited for.
        if not self.is_suspended and not self.is_stopping(name) and reading.log.is_alive:
            reading.handed = min(reading.handed + count, reading.log.end)

    def settle(self, name: TopicPartition) -> None:
        """The user is done with what it was handed of a partition."""
        reading = self.readings.get(name)
        if reading is None:
            return
        if reading.handed > reading.settled:
            self.world.checkers.processed(self.group, reading.log, reading.settled, reading.handed)
            reading.settled = reading.handed
        for stop in [stop for stop in self.stops if not self._unsettled(stop)]:
            self._answer_stop(stop)

    def commit(self, name: TopicPartition, *, back_to: int | None = None) -> ev.OffsetCommit:
        """What CommitOffsets says of a partition; `back_to`: the user has sought there."""
        reading = self.readings[name]
        if back_to is not None:
            reading.handed = reading.settled = back_to
        kind = WordKind.COMMIT if back_to is None else WordKind.SEEK
        epoch = self._word(kind, reading)
        return ev.OffsetCommit(name, reading.generation, reading.settled, epoch, is_reset=back_to is not None)

    def leave(self) -> None:
        """The user closes it: it says goodbye with its final positions."""
        if self.connection is None or self.state is not ConsumerState.MEMBER:
            self.die()
            return
        for name in list(self.readings):
            self.settle(name)
        positions = self._positions(list(self.readings))
        self._say(ev.ConsumerLeft(self.connection.connection_id, positions))
        self.world.checkers.leaving(self, positions)
        self.readings.clear()
        self.stops.clear()
        self.state = ConsumerState.LEAVING

    def die(self) -> None:
        """The process ends without a word."""
        if self.connection is not None:
            self.connection.is_closed_below = True
            self.world.hang_up(self.connection)
            self.connection = None
        self.readings.clear()
        self.stops.clear()
        self.state = ConsumerState.GONE
