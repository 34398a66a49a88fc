"""A seeded random schedule of consumer groups: everybody does anything at any time, and things break.

Rules of this file: everything comes from one `Random(seed)`. Each seed leaves some orders out altogether and
gives others often (swarm testing). What cannot be done now is simply not done.
"""

from __future__ import annotations

from random import Random
from typing import Final

from hightide_coordinator.core import events as ev
from hightide_coordinator.core.values.registration import OffsetReset, Registration
from msgspec.structs import replace
from sim.groups.consumer import ConsumerState, SimConsumer
from sim.groups.coordinator import SimCoordinator
from sim.groups.healed import check_committed, check_owned
from sim.groups.logs import Log
from sim.groups.orders import HEALING_MS, GroupOrders
from sim.groups.world import COORDINATORS, LIMITS, SESSION_TIMEOUTS_MS

__all__ = ["RandomWalk"]

ORDERS_MAX: Final = (80, 150, 150, 300)
CONSUMERS_MAX: Final = (3, 5, 5, 8)
PARTITIONS_MAX: Final = (3, 5, 9)
TOPICS: Final = ("ebb", "flow")
GROUPS: Final = ("g", "g", "g", "h")
LEVELS: Final = (0.0, 0.0, 0.3, 1.0, 2.0)

OFTEN: Final = {
    "deliver": 20.0,
    "settle": 14.0,
    "advance": 8.0,
    "go_on": 3.0,
    "read": 12.0,
    "finish": 5.0,
    "produce": 6.0,
    "commit": 3.0,
    "resume": 4.0,
    "elect": 2.0,
    "restart": 3.0,
}
"""Always in it."""
FAULTS: Final = {
    "break_stream": 2.0,
    "silence": 1.0,
    "pause_consumer": 1.0,
    "kill": 1.0,
    "pause_coordinator": 0.6,
    "crash": 0.6,
    "expire": 0.6,
    "usurp": 0.5,
    "lose_outcomes": 1.5,
    "fail_look_ups": 0.6,
    "hand": 0.5,
    "babble": 0.5,
}
REQUESTS: Final = {
    "consume": 3.0,
    "leave": 1.0,
    "replace": 0.7,
    "seek": 1.0,
    "resubscribe": 0.5,
    "create": 1.0,
    "grow": 0.7,
    "shrink": 0.6,
    "delete": 0.5,
    "stranger": 0.6,
    "reset": 0.7,
    "delete_group": 0.4,
}


class RandomWalk:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        limits = replace(
            LIMITS,
            ping_retries_max=self.rng.choice((0, 0, 1)),
            commit_interval_ms=self.rng.choice((50, 300)),
            join_window_ms=self.rng.choice((10, 60, 200)),
        )
        self.world = GroupOrders(self.rng, limits)
        drawn = {name: odds * self.rng.choice(LEVELS) for name, odds in {**FAULTS, **REQUESTS}.items()}
        self.odds = {**OFTEN, **drawn}
        self.orders_max = self.rng.choice(ORDERS_MAX)
        self.consumers_max = self.rng.choice(CONSUMERS_MAX)
        self.partitions_max = self.rng.choice(PARTITIONS_MAX)
        self.is_static = self.rng.random() < 0.4
        self.assignor = self.rng.choice(("sticky", "sticky", "range", "roundrobin"))

    def run(self) -> GroupOrders:
        """The whole schedule: start, requests and faults, healing. Raises Violation."""
        world = self.world
        world.elect(self.rng.choice(COORDINATORS))
        world.create(TOPICS[0], self.rng.randint(1, 4))
        for _ in range(self.rng.randint(1, 4)):
            self._consume()
        if self.rng.random() < 0.7:
            world.run(300)
        for name in self.rng.choices(list(self.odds), list(self.odds.values()), k=self.orders_max):
            getattr(self, f"_{name}")()
        self._heal()
        return world

    def _generations(self) -> dict[str, int]:
        """As the coordinator counts them; ZooKeeper hears of a new one with the next write of the group."""
        active = self.world.active()
        return {} if active is None else {name: each.generation for name, each in active.state.groups.items()}

    def _heal(self) -> None:
        world = self.world
        world.heal()
        world.run(HEALING_MS)
        check_owned(world)
        generations = self._generations()
        for log in world.topics.logs():
            world.produce(log, 2)
        world.run(2_000)
        check_owned(world)
        check_committed(world)
        if self._generations() != generations:
            world.checkers.violated("EveryPartitionOwned", "rebalances never end")
        for consumer in world.consumers:
            if consumer.is_alive:
                world.leave(consumer)
        world.run(1_000)
        check_owned(world)

    # ---- the network and the time

    def _deliver(self) -> None:
        self.world.deliver(self.rng.randrange(1 << 16))

    def _settle(self) -> None:
        for _ in range(self.rng.randint(1, 30)):
            if not self.world.deliver(self.rng.randrange(1 << 16)):
                return

    def _advance(self) -> None:
        by_ms = self.rng.choice((10, 30, 60, 100, 200, 350, 700))
        self.world.tell(f"advance {by_ms}")
        self.world.advance(by_ms)

    def _go_on(self) -> None:
        self.world.run(self.rng.choice((100, 300, 1_000)), reads=self.rng.random() < 0.8)

    # ---- users

    def _someone(self) -> SimConsumer | None:
        awake = [each for each in self.world.consumers if each.is_alive and not each.is_paused]
        return self.rng.choice(awake) if awake else None

    def _read(self) -> None:
        consumer = self._someone()
        if consumer is not None and consumer.readings:
            consumer.hand_out(self.rng.choice(list(consumer.readings)), self.rng.randint(1, 3))

    def _finish(self) -> None:
        consumer = self._someone()
        if consumer is not None and consumer.readings:
            consumer.settle(self.rng.choice(list(consumer.readings)))

    def _produce(self) -> None:
        if log := self._log():
            self.world.produce(log, self.rng.randint(1, 3))

    def _commit(self) -> None:
        consumer = self._someone()
        if consumer is not None and consumer.state is ConsumerState.MEMBER and consumer.readings:
            some = self.rng.sample(list(consumer.readings), self.rng.randint(1, len(consumer.readings)))
            self.world.commit(consumer, some)

    def _seek(self) -> None:
        consumer = self._someone()
        if consumer is not None and consumer.state is ConsumerState.MEMBER and consumer.readings:
            self.world.commit(consumer, [self.rng.choice(list(consumer.readings))], self.rng.randint(1, 4))

    def _consume(self) -> None:
        if sum(each.is_alive for each in self.world.consumers) >= self.consumers_max:
            return
        instance_id = self.rng.choice(("i1", "i2", "i3")) if self.is_static else ""
        self.world.consume(self._registration(instance_id))

    def _registration(self, instance_id: str) -> Registration:
        rng = self.rng
        pattern = rng.choice(("", "", "", "e.*|f.*"))
        topics = {topic: rng.choice((1, 1, 2)) for topic in TOPICS[: rng.choice((1, 1, 2))]}
        return Registration(
            group=rng.choice(GROUPS),
            consumer_id="" if instance_id else rng.choice(("", "", "a", "b")),
            instance_id=instance_id,
            topics={} if pattern else topics,
            pattern=pattern,
            auto_commit=rng.random() < 0.7,
            offset_reset=rng.choice((OffsetReset.SMALLEST, OffsetReset.LARGEST, OffsetReset.ERROR)),
            session_timeout_ms=rng.choice(SESSION_TIMEOUTS_MS),
            assignor=self.assignor,
        )

    def _leave(self) -> None:
        if consumer := self._someone():
            self.world.leave(consumer)

    def _kill(self) -> None:
        if consumer := self._someone():
            self.world.kill(consumer)

    def _resubscribe(self) -> None:
        """The same member wants something else; it says so on a new stream."""
        if consumer := self._someone():
            requested = self._registration(consumer.requested.instance_id)
            consumer.requested = replace(
                consumer.requested, topics=requested.topics, pattern=requested.pattern
            )
            self.world.break_stream(consumer)

    def _replace(self) -> None:
        """A static member's next process, often before the last one is gone."""
        static = [each for each in self.world.consumers if each.is_alive and each.requested.instance_id]
        if static:
            before = self.rng.choice(static)
            if self.rng.random() < 0.6:
                self.world.kill(before)
            self.world.consume(before.requested)

    # ---- faults

    def _break_stream(self) -> None:
        if consumer := self._someone():
            self.world.break_stream(consumer)

    def _silence(self) -> None:
        if consumer := self._someone():
            self.world.silence(consumer)

    def _pause_consumer(self) -> None:
        if consumer := self._someone():
            self.world.pause(consumer)

    def _resume(self) -> None:
        nodes: list[SimConsumer | SimCoordinator] = [*self.world.consumers]
        nodes += self.world.coordinators.values()
        if paused := [node for node in nodes if node.is_paused]:
            self.world.resume(self.rng.choice(paused))

    def _pause_coordinator(self) -> None:
        self.world.pause(self.world.coordinators[self.rng.choice(COORDINATORS)])

    def _crash(self) -> None:
        coordinator_id = self.world.zookeeper.active or self.rng.choice(COORDINATORS)
        self.world.crash(coordinator_id)
        if self.rng.random() < 0.7:
            self.world.expire(coordinator_id)

    def _expire(self) -> None:
        self.world.expire(self.world.zookeeper.active or self.rng.choice(COORDINATORS))

    def _elect(self) -> None:
        if self.world.zookeeper.active is None:
            self.world.elect(self.rng.choice(COORDINATORS))

    def _usurp(self) -> None:
        """The znode is taken from a process that lives: it was held for dead."""
        self.world.elect(self.rng.choice(COORDINATORS))

    def _restart(self) -> None:
        coordinator_id = self.rng.choice(COORDINATORS)
        self.world.restart(coordinator_id)
        self.world.renew_session(coordinator_id)

    def _lose_outcomes(self) -> None:
        self.world.lose_outcomes(self.world.zookeeper.active or self.rng.choice(COORDINATORS))

    def _fail_look_ups(self) -> None:
        self.world.failing_look_ups = self.rng.choice((0.0, 0.0, 0.5, 1.0))

    def _hand(self) -> None:
        self.world.by_hand(self.rng.choice(GROUPS))

    def _babble(self) -> None:
        """A consumer answers what nobody asked. One that says that it stopped, and did not,
        harms itself only."""
        consumer = self._someone()
        if consumer is not None and consumer.connection is not None:
            number = consumer.connection.connection_id
            epoch = consumer.coordinator_epoch - self.rng.randint(0, 1)
            sequence = self.rng.choice((0, 999))
            event = self.rng.choice(
                (
                    ev.PingAnswered(number, sequence, epoch, 0),
                    ev.FetchersStopped(number, sequence, epoch, 0),
                    ev.FetchersStarted(number, sequence, epoch, 0),
                )
            )
            consumer.connection.up.append(event)

    # ---- topics and operators

    def _log(self) -> Log | None:
        logs = self.world.topics.logs()
        return self.rng.choice(logs) if logs else None

    def _create(self) -> None:
        self.world.create(self.rng.choice(TOPICS), self.rng.randint(1, 4))

    def _grow(self) -> None:
        if (log := self._log()) and len(self.world.topics.by_name[log.name.topic].logs) < self.partitions_max:
            self.world.grow(log.name.topic, self.rng.randint(1, 2))

    def _shrink(self) -> None:
        if log := self._log():
            self.world.shrink(log.name.topic, self.rng.randint(1, 2))
            if self.rng.random() < 0.5:
                self.world.grow(log.name.topic, 1)

    def _delete(self) -> None:
        if log := self._log():
            self.world.delete(log.name.topic)
            if self.rng.random() < 0.5:
                self.world.create(log.name.topic, self.rng.randint(1, 3))

    def _stranger(self) -> None:
        """A commit by nobody, by somebody else, or of a past generation."""
        log, consumer = self._log(), self._someone()
        if log is None:
            return
        offset = self.rng.randint(log.start, log.end)
        if consumer is None or self.rng.random() < 0.5:
            self.world.commit_by(self.rng.choice(GROUPS), log, offset)
        else:
            reading = consumer.readings.get(log.name)
            past = 0 if reading is None else reading.generation - 1
            self.world.commit_by(consumer.group, log, offset, consumer.member_id or "nobody", past)

    def _reset(self) -> None:
        if log := self._log():
            offset = self.rng.randint(0, log.end + 2)
            self.world.reset(self.rng.choice(GROUPS), log, offset, validate_only=self.rng.random() < 0.3)

    def _delete_group(self) -> None:
        self.world.delete_group(self.rng.choice(GROUPS))
