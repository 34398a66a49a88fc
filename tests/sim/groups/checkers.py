"""What must hold of consumer groups after every order (docs/protocol.md, "Owners before readers"; C1 to C7).

- AcceptedOwner: one accepted owner per (group, partition, generation); only the owner's word is written down.
- CommittedForward: a committed offset never goes back, unless it was asked to.
- NoRecordSkipped: nothing is committed past a record that nobody has processed.
- ForeignOffset: what was said of a partition is not written down for its namesake.
- FencedWrites: nobody writes under a coordinator epoch that is over.
- DurableFirst: owner and start offset are durable before StartFetcher, a commit before it is acknowledged,
  final positions before the goodbye is.
- OneReader: nobody is told to read what another one with a live stream still reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core.values.registration import ConsumerPosition, PartitionOwner, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from sim.checkers import Violation
from sim.groups.logs import Log, Word, WordKind
from sim.groups.zookeeper import GroupNode, Multi

if TYPE_CHECKING:
    from sim.groups.connection import Connection
    from sim.groups.consumer import SimConsumer
    from sim.groups.coordinator import SimCoordinator
    from sim.groups.world import Groups, Request

__all__ = ["Checkers", "LogHistory"]

NAMELESS = (WordKind.STRANGER, WordKind.OPERATOR)
"""Who speaks of a topic by its name only, and may mean its namesake of before."""
OF_MEMBERS = (WordKind.POSITION, WordKind.COMMIT, WordKind.SEEK)


@dataclass(slots=True, eq=False)
class LogHistory:
    """What a group has done with one partition."""

    processed: set[int] = field(default_factory=set)
    frontier: int | None = None
    """All below were processed, or the group began here; None: it has not begun."""
    highest_committed: int = -1
    applied: list[int] = field(default_factory=list)
    """Leader epochs of the words that were written down, in order."""

    def advance(self) -> None:
        """Move the frontier past what was processed."""
        while self.frontier is not None and self.frontier in self.processed:
            self.frontier += 1


@dataclass(slots=True, eq=False)
class GroupHistory:
    """What has happened to a group since it was there."""

    logs: dict[int, LogHistory] = field(default_factory=dict)
    owners: dict[tuple[TopicPartition, int], str] = field(default_factory=dict)
    """(partition, generation) → member."""

    def log(self, log: Log) -> LogHistory:
        """The group's part in a partition."""
        return self.logs.setdefault(log.number, LogHistory())


class Checkers:
    """They are told of everything that matters, and raise Violation."""

    def __init__(self, world: Groups) -> None:
        self.world = world
        self.groups: dict[str, GroupHistory] = {}
        self.stopped: list[TopicPartition] = []
        """What StopFetcher was sent for."""
        self.started: list[TopicPartition] = []
        """What StartFetcher was sent for."""

    def group(self, name: str) -> GroupHistory:
        """The history of a group."""
        return self.groups.setdefault(name, GroupHistory())

    def violated(self, invariant: str, message: str) -> NoReturn:
        """Say what does not hold."""
        raise Violation(invariant, message, self.world.told_story())

    # ---- what is written down

    def written(self, multi: Multi, node: GroupNode | None) -> None:
        """A multi is about to be applied."""
        if multi.coordinator_epoch != self.world.zookeeper.coordinator_epoch:
            self.violated("FencedWrites", f"{multi} is of an epoch that is over")
        node = node or GroupNode()
        if multi.delete_group:
            if node.owners:
                self.violated("AcceptedOwner", f"{multi.group} is deleted while it has owners {node.owners}")
            self.groups.pop(multi.group, None)
            return
        generation = node.generation
        if multi.header is not None:
            if multi.header[0] < generation:
                self.violated(
                    "AcceptedOwner", f"{multi.group}: generation {generation} goes to {multi.header}"
                )
            generation = multi.header[0]
        for name, committed in multi.offsets.items():
            self._offset_written(multi.group, name, node, committed)
        for name, owner in multi.owners.items():
            if owner is not None:
                self._owner_written(multi.group, name, owner, generation, node.owners.get(name))

    def _owner_written(
        self,
        group: str,
        name: TopicPartition,
        owner: PartitionOwner,
        generation: int,
        before: PartitionOwner | None,
    ) -> None:
        key = (name, owner.generation)
        known = self.group(group).owners.setdefault(key, owner.member_id)
        if known != owner.member_id:
            self.violated("AcceptedOwner", f"{group} {key}: {known} and {owner.member_id}")
        if owner.generation > generation:
            self.violated("AcceptedOwner", f"{group} {name}: {owner} is ahead of generation {generation}")
        if before is not None and before.generation > owner.generation:
            self.violated("AcceptedOwner", f"{group} {name}: {before} is followed by {owner}")

    def _offset_written(
        self, group: str, name: TopicPartition, node: GroupNode, committed: StoredOffset | None
    ) -> None:
        before = node.offsets.get(name)
        log_before = None if before is None else self._log_of(name, before)
        if committed is None:
            if log_before is not None and log_before.is_alive:
                self.violated("CommittedForward", f"{group} {log_before}: {before} is deleted")
            return
        log = self.world.log_numbered(committed.leader_epoch)
        word = None if log is None else log.said(committed.leader_epoch)
        if log is None or word is None or (word.group, word.offset) != (group, committed.offset):
            self.violated("ForeignOffset", f"{group} {name}: nobody said {committed}, but {word}")
        if (log.name, log.topic_id) != (name, committed.topic_id):
            if word.kind in NAMELESS:
                self._taken_for_another(group, name, committed)
                return
            self.violated("ForeignOffset", f"{group} {name}: {committed} was said of {log}")
        if log_before is not None and log_before.number > log.number:
            self.violated(
                "ForeignOffset", f"{group} {name}: {committed} of {log} takes the place of {before}"
            )
        self._check_speaker(group, log, word, node.owners.get(name))
        history = self.group(group).log(log)
        goes_back = before is not None and log_before is log and committed.offset < before.offset
        if goes_back and not word.may_go_back and not _sought(log, before, word, committed):
            self.violated("CommittedForward", f"{group} {log}: {before} goes back to {committed} ({word})")
        self._check_skipped(group, log, word, history)
        history.highest_committed = max(history.highest_committed, committed.offset)
        history.applied.append(committed.leader_epoch)

    def _taken_for_another(self, group: str, name: TopicPartition, committed: StoredOffset) -> None:
        """Who speaks of names only is taken at its word for whatever has the name."""
        log = self.world.log_called(name, committed.topic_id, committed.leader_epoch)
        history = self.group(group).log(log)
        history.processed.update(range(history.frontier or committed.offset, committed.offset))
        history.frontier = committed.offset if history.frontier is None else history.frontier
        history.advance()
        history.applied.append(committed.leader_epoch)

    def _log_of(self, name: TopicPartition, committed: StoredOffset) -> Log | None:
        log = self.world.log_numbered(committed.leader_epoch)
        return log if log and (log.name, log.topic_id) == (name, committed.topic_id) else None

    def _is_member(self, group: str, owner: PartitionOwner) -> bool:
        """Whether the owner still is one for the coordinator: that it is none is written down last."""
        active = self.world.active()
        known = None if active is None else active.state.groups.get(group)
        return known is not None and owner.member_id in known.members

    def _is_namesake(self, log: Log) -> bool:
        return any(
            other.name == log.name and other.number < log.number for other in self.world.all_logs.values()
        )

    def _check_speaker(self, group: str, log: Log, word: Word, owner: PartitionOwner | None) -> None:
        if word.kind in OF_MEMBERS:
            if owner is None or (owner.member_id, owner.generation) != (word.member_id, word.generation):
                self.violated("AcceptedOwner", f"{group} {log}: {word} is written down; the owner is {owner}")
        elif word.kind is not WordKind.LOOK_UP and owner is not None and self._is_member(group, owner):
            self.violated("AcceptedOwner", f"{group} {log}: {word} is written down; the owner is {owner}")

    def _check_skipped(self, group: str, log: Log, word: Word, history: LogHistory) -> None:
        if history.frontier is None:
            history.frontier = word.offset
        elif word.kind in (WordKind.STRANGER, WordKind.OPERATOR):
            history.processed.update(range(history.frontier, word.offset))
        history.advance()
        if word.offset > history.frontier:
            self.violated(
                "NoRecordSkipped", f"{group} {log}: nobody processed {history.frontier}, but {word}"
            )

    # ---- what consumers do

    def processed(self, group: str, log: Log, first: int, end: int) -> None:
        """A user is done with these records."""
        history = self.group(group).log(log)
        history.processed.update(range(first, end))
        history.advance()

    def leaving(self, consumer: SimConsumer, positions: tuple[ConsumerPosition, ...]) -> None:
        """A consumer says goodbye."""
        node = self.world.zookeeper.groups.get(consumer.group, GroupNode())
        for position in positions:
            owner = node.owners.get(position.name)
            said_by = None if owner is None else (owner.member_id, owner.generation)
            if said_by == (consumer.member_id, position.generation):
                consumer.farewell.append((self.world.log_at(position.leader_epoch), position.offset))

    def reading(self, consumer: SimConsumer, start: ef.StartPartition, log: Log) -> None:
        """A consumer begins to read."""
        if start.topic_id != log.topic_id:
            self.violated("ForeignOffset", f"{consumer} reads {log} by {start}")

    # ---- what coordinators say

    def order_sent(
        self,
        coordinator: SimCoordinator,
        order: ef.SendRegistered | ef.SendStopFetcher | ef.SendStartFetcher,
    ) -> None:
        """Called before it is under way."""
        if isinstance(order, ef.SendStopFetcher):
            self.stopped += [each.name for each in order.partitions]
        if not isinstance(order, ef.SendStartFetcher):
            return
        member = coordinator.state.connections[order.connection_id]
        history = self.group(member.group)
        self.started += [each.name for each in order.partitions]
        for start in order.partitions:
            if history.owners.get((start.name, start.generation)) != member.member_id:
                self.violated("DurableFirst", f"{member.member_id} is not yet the owner of {start}")
            if start.offset >= 0:
                log = self.world.log_called(start.name, start.topic_id, start.leader_epoch)
                if start.leader_epoch not in history.log(log).applied:
                    self.violated("DurableFirst", f"{start} is not yet committed")
            self._check_one_reader(coordinator, order.connection_id, member.group, start)

    def _check_one_reader(
        self, coordinator: SimCoordinator, connection_id: int, group: str, start: ef.StartPartition
    ) -> None:
        for connection in coordinator.connections.values():
            other = connection.consumer
            member = coordinator.state.connections.get(connection.connection_id)
            is_live = (
                member is not None
                and member.member_id == other.member_id
                and connection.connection_id != connection_id
                and other.group == group
                and other.connection is connection
            )
            reading = other.readings.get(start.name) if is_live else None
            # A log that is no more may be read by one that has not heard of it, beside its namesake's reader.
            if reading is not None and reading.log.topic_id == start.topic_id and reading.log.is_alive:
                self.violated(
                    "OneReader", f"{other} still reads {start.name} (generation {reading.generation})"
                )

    def closed(self, coordinator: SimCoordinator, connection: Connection, effect: ef.CloseConnection) -> None:
        """A stream ends; with OK where a goodbye was carried out."""
        if effect.refusal is not None:
            return
        consumer = connection.consumer
        for log, offset in consumer.farewell:
            history = self.group(consumer.group).log(log)
            if log.is_alive and history.highest_committed < offset:
                self.violated("DurableFirst", f"{consumer} left, and {offset} of {log} is not committed")

    def commit_answered(self, coordinator: SimCoordinator, request: Request, effect: ef.AnswerCommit) -> None:
        """A CommitOffsets is answered; what has no error is durable."""
        for (log, leader_epoch, since), outcome in zip(request.said, effect.outcomes, strict=True):
            topic = coordinator.state.topics.get(log.name.topic)
            is_known = log.is_alive and topic is not None and topic.topic_id == log.topic_id
            if outcome.refusal is not None or not is_known:
                continue
            word = log.said(leader_epoch)
            assert word is not None
            if word.kind in NAMELESS and self._is_namesake(log):
                continue
            history = self.group(request.group).log(log)
            # Several commits of one member that wait together become one write.
            written = history.applied[since:]
            is_durable = leader_epoch in written or any(
                _member(log, other) == word.member_id for other in written
            )
            if not is_durable and (word.may_go_back or history.highest_committed < word.offset):
                self.violated("DurableFirst", f"{request.group} {log}: {word} is acknowledged, not committed")


def _sought(log: Log, before: StoredOffset | None, word: Word, committed: StoredOffset) -> bool:
    """Whether the member sought back and then committed again, and both became one write."""
    since = 0 if before is None else before.leader_epoch - log.first_epoch + 1
    between = log.words[since : committed.leader_epoch - log.first_epoch]
    return any(
        other.may_go_back and (other.group, other.member_id) == (word.group, word.member_id)
        for other in between
    )


def _member(log: Log, leader_epoch: int) -> Any:
    word = log.said(leader_epoch)
    return None if word is None else word.member_id
