"""What a schedule can order of a world: processes, faults, topics, users and operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from hightide_coordinator.core import events as ev
from hightide_coordinator.core.values.registration import Registration
from hightide_coordinator.core.values.topic_partition import TopicPartition
from sim.groups.consumer import ConsumerState, SimConsumer
from sim.groups.coordinator import SimCoordinator, TopicsFired
from sim.groups.logs import Log, Word, WordKind
from sim.groups.world import Groups, Request

__all__ = ["HEALING_MS", "GroupOrders"]

HEALING_MS: Final = 9_000
"""Within so long everything is well after the last fault: several session timeouts, and the longest pauses
between attempts."""


class GroupOrders(Groups):
    """The world, with everything that may happen to it."""

    # ---- coordinators

    def elect(self, coordinator_id: int) -> None:
        """This coordinator takes over; who was active, if it has a session, is told later."""
        coordinator, before = self.coordinators[coordinator_id], self.zookeeper.active
        if not (coordinator.is_alive and coordinator.has_session) or before == coordinator_id:
            return
        epoch = self.zookeeper.elect(coordinator_id)
        self.tell(f"elect {coordinator_id} with epoch {epoch}")
        if before is not None and self.coordinators[before].has_session:
            self.coordinators[before].from_zookeeper.append(ev.Deposed())
        groups = {name: node.stored() for name, node in self.zookeeper.groups.items()}
        coordinator.watched = frozenset()
        coordinator.from_zookeeper.append(ev.Elected(epoch, groups, self.topics.znodes(), ()))
        for other in self.coordinators.values():
            if other is not coordinator and other.is_alive and other.has_session:
                other.from_zookeeper.append(ev.CoordinatorSeen(coordinator.endpoint))

    def _gone_from_zookeeper(self, coordinator: SimCoordinator) -> None:
        coordinator.has_session = False
        coordinator.to_zookeeper.clear()
        if self.zookeeper.active == coordinator.coordinator_id:
            self.zookeeper.active = None

    def crash(self, coordinator_id: int) -> None:
        """The process dies; its session lives on until `expire`."""
        coordinator = self.coordinators[coordinator_id]
        if coordinator.is_alive:
            self.tell(f"crash coordinator {coordinator_id}")
            for number in [
                n for n, request in self.asked.items() if request.coordinator_id == coordinator_id
            ]:
                del self.asked[number]
            coordinator.die()

    def expire(self, coordinator_id: int) -> None:
        """Its session ends; if it lives, it hears of it later, and has a new one then."""
        coordinator = self.coordinators[coordinator_id]
        if coordinator.has_session:
            self.tell(f"expire coordinator {coordinator_id}")
            self._gone_from_zookeeper(coordinator)
            if coordinator.is_alive:
                coordinator.from_zookeeper.append(ev.Deposed())

    def renew_session(self, coordinator_id: int) -> None:
        """A process without a session, that has heard of it, gets a new one."""
        coordinator = self.coordinators[coordinator_id]
        if coordinator.is_alive and not coordinator.has_session and not coordinator.from_zookeeper:
            self.tell(f"new session of coordinator {coordinator_id}")
            coordinator.has_session = True

    def restart(self, coordinator_id: int) -> None:
        """The process is started again; its old session is over."""
        coordinator = self.coordinators[coordinator_id]
        if not coordinator.is_alive:
            self.tell(f"restart coordinator {coordinator_id}")
            self._gone_from_zookeeper(coordinator)
            coordinator.start()

    def pause(self, node: SimCoordinator | SimConsumer) -> None:
        """It stands still."""
        if node.is_alive:
            self.tell("pause ", _name(node))
            node.is_paused = True

    def resume(self, node: SimCoordinator | SimConsumer) -> None:
        """It goes on as if nothing had been."""
        if node.is_paused:
            self.tell("resume ", _name(node))
            node.is_paused = False

    def lose_outcomes(self, coordinator_id: int) -> None:
        """Its connection to ZooKeeper breaks for a moment."""
        coordinator = self.coordinators[coordinator_id]
        if coordinator.is_alive and coordinator.has_session:
            self.tell(f"lose outcomes of coordinator {coordinator_id}")
            coordinator.lose_outcomes()

    def by_hand(self, group: str) -> None:
        """Somebody sets one of a group's znodes to what it is, in a ZooKeeper shell."""
        self.tell(f"an operator touches {group}")
        self.zookeeper.touched.add(group)

    # ---- topics

    def _fire(self, name: str, *, is_new: bool = False) -> None:
        for coordinator in self.coordinators.values():
            if coordinator.is_alive and (is_new or name in coordinator.watched):
                coordinator.from_zookeeper.append(TopicsFired(None if is_new else (name,)))

    def _note_logs(self) -> None:
        for log in self.topics.logs():
            self.all_logs[log.number] = log

    def create(self, topic: str, partition_count: int) -> None:
        """A topic comes."""
        if topic not in self.topics.by_name:
            self.tell(f"create {topic} with {partition_count}")
            self.topics.create(topic, partition_count, *self._extent())
            self._note_logs()
            self._fire(topic, is_new=True)

    def _extent(self) -> tuple[int, int]:
        start = self.rng.choice((0, 0, 5))
        return start, start + self.rng.choice((0, 4))

    def grow(self, topic: str, by: int) -> None:
        """It gets more partitions."""
        if topic in self.topics.by_name:
            self.tell(f"grow {topic} by {by}")
            self.topics.grow(topic, by, *self._extent())
            self._note_logs()
            self._fire(topic)

    def shrink(self, topic: str, by: int) -> None:
        """It loses its last partitions."""
        if topic in self.topics.by_name:
            self.tell(f"shrink {topic} by {by}")
            self.topics.shrink(topic, by)
            self._fire(topic)

    def delete(self, topic: str) -> None:
        """It goes."""
        if topic in self.topics.by_name:
            self.tell(f"delete {topic}")
            self.topics.delete(topic)
            self._fire(topic, is_new=True)

    def produce(self, log: Log, count: int) -> None:
        """Records come."""
        log.end += count

    # ---- consumers

    def consume(self, requested: Registration) -> SimConsumer:
        """A consumer is started."""
        consumer = SimConsumer(self, self.number(), requested)
        self.tell("start ", consumer, f" {requested}")
        self.consumers = [each for each in self.consumers if each.state is not ConsumerState.GONE]
        self.consumers.append(consumer)
        consumer.tick()
        return consumer

    def kill(self, consumer: SimConsumer) -> None:
        """It ends without a word."""
        self.tell("kill ", consumer)
        consumer.die()

    def leave(self, consumer: SimConsumer) -> None:
        """Its user closes it."""
        self.tell("leave ", consumer)
        consumer.leave()

    def break_stream(self, consumer: SimConsumer) -> None:
        """Its stream breaks."""
        if consumer.connection is not None:
            self.tell("break the stream of ", consumer)
            self.break_off(consumer.connection)

    def silence(self, consumer: SimConsumer) -> None:
        """Nothing comes through its stream any more, and nobody is told."""
        if consumer.connection is not None:
            self.tell("silence the stream of ", consumer)
            consumer.connection.is_silent = True

    def commit(self, consumer: SimConsumer, names: list[TopicPartition], back_by: int = 0) -> Request | None:
        """It commits with CommitOffsets, perhaps after it has sought back; one such call after the other."""
        connection = consumer.connection
        is_committing = any(request.consumer is consumer for request in self.requests.values())
        if connection is None or not names or is_committing:
            return None
        commits = []
        for name in names:
            reading = consumer.readings[name]
            back_to = max(reading.settled - back_by, reading.start, reading.log.start)
            commits.append(consumer.commit(name, back_to=back_to if back_by else None))
        coordinator = self.coordinators[connection.coordinator_id]
        request = self._ask(
            coordinator,
            lambda number: ev.CommitRequested(number, consumer.group, consumer.member_id, tuple(commits)),
            consumer.group,
            commits,
        )
        request.consumer = consumer
        return request

    # ---- others who ask

    def _ask(
        self,
        coordinator: SimCoordinator,
        make: Callable[[int], Any],
        group: str,
        commits: Sequence[ev.OffsetCommit] = (),
    ) -> Request:
        number = self.number()
        history = self.checkers.group(group)
        said = [
            (log, each.leader_epoch, len(history.log(log).applied))
            for each in commits
            for log in (self.log_at(each.leader_epoch),)
        ]
        request = Request(
            number, coordinator.coordinator_id, coordinator.life, make(number), group, said=said
        )
        self.requests[number] = request
        self.tell(f"ask {coordinator.coordinator_id}: ", request.event)
        return request

    def commit_by(
        self, group: str, log: Log, offset: int, member_id: str = "", generation: int = 0
    ) -> Request | None:
        """Somebody commits an offset who may not: a stranger, or a member of the past."""
        coordinator = self.active()
        if coordinator is None:
            return None
        kind = WordKind.COMMIT if member_id else WordKind.STRANGER
        epoch = log.say(Word(kind, group, offset, member_id, generation))
        commits = (ev.OffsetCommit(log.name, generation, offset, epoch),)
        return self._ask(
            coordinator, lambda number: ev.CommitRequested(number, group, member_id, commits), group, commits
        )

    def reset(self, group: str, log: Log, offset: int, *, validate_only: bool = False) -> Request | None:
        """An operator resets an offset."""
        coordinator = self.active()
        if coordinator is None:
            return None
        epoch = log.say(Word(WordKind.OPERATOR, group, offset))
        commits = (ev.OffsetCommit(log.name, 0, offset, epoch, is_reset=True),)
        return self._ask(
            coordinator, lambda number: ev.ResetRequested(number, group, commits, validate_only), group
        )

    def delete_group(self, group: str) -> Request | None:
        """An operator deletes a group."""
        coordinator = self.active()
        if coordinator is None:
            return None
        return self._ask(coordinator, lambda number: ev.DeleteGroupRequested(number, group), group)

    # ---- the end of faults

    def heal(self) -> None:
        """Faults end: everyone is awake, streams that went silent break, a coordinator is elected."""
        self.tell("heal")
        self.failing_look_ups = 0.0
        for consumer in self.consumers:
            self.resume(consumer)
        for connection in self.connections:
            connection.holds_up = connection.holds_down = False
            if connection.is_silent:
                self.break_off(connection)
        for coordinator_id, coordinator in self.coordinators.items():
            self.resume(coordinator)
            self.restart(coordinator_id)
        self.settle()
        for coordinator_id in self.coordinators:
            self.renew_session(coordinator_id)
        if self.zookeeper.active is None:
            self.elect(min(self.coordinators))


def _name(node: SimCoordinator | SimConsumer) -> str:
    return f"coordinator {node.coordinator_id}" if isinstance(node, SimCoordinator) else str(node)
