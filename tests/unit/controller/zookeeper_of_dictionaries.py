"""What ZooKeeper holds, as dictionaries: multis happen as a whole or not at all, under versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field

from hightide_controller.core import events as ev
from hightide_controller.core import writes as wr
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from msgspec.structs import replace


class Refused(Exception):
    """A znode is not as a multi expects it."""


@dataclass
class ZooKeeper:
    """`topics` hold no settings and no word of markers; both are read beside them."""

    states: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    topics: dict[str, ev.Topic] = field(default_factory=dict)
    markers: dict[str, str] = field(default_factory=dict)
    configs: dict[str, tuple[dict[str, str], int]] = field(default_factory=dict)
    garbled_configs: set[str] = field(default_factory=set)
    """The topics whose settings an operator has garbled."""
    moves: dict[TopicPartition, ev.StoredReassignment] = field(default_factory=dict)
    additions: dict[TopicPartition, ev.StoredAddition] = field(default_factory=dict)
    removals: dict[TopicPartition, ev.StoredRemoval] = field(default_factory=dict)
    deletions: dict[str, ev.StoredDeletion] = field(default_factory=dict)
    throttle: ev.StoredThrottle | None = None
    ids_made_up: int = 0
    puts: int = 0
    created: dict[str, int] = field(default_factory=dict)
    """Which put made a topic znode: its czxid."""
    taken_away: set[str] = field(default_factory=set)
    """Ids of topics that an operator took away."""

    def put(self, topic: ev.Topic) -> None:
        """A topic as issue after issue of this software, or an operator, has left it."""
        self.puts += 1
        self.created[topic.name] = self.puts
        self.topics[topic.name] = replace(topic, configs={}, config_version=None, has_marker=True)
        if topic.has_marker and topic.topic_id:
            self.markers[topic.topic_id] = topic.name
        if topic.configs:
            self.configs[topic.name] = (dict(topic.configs), topic.config_version or 0)

    def remove_by_hand(self, topic_name: str) -> None:
        """`deleteall /brokers/topics/[topic]`."""
        self.taken_away.add(self.topics.pop(topic_name).topic_id)
        for name in [name for name in self.states if name.topic == topic_name]:
            del self.states[name]

    def multi(self, writes: Iterable[wr.Write]) -> bool:
        """All of it, or nothing."""
        trial = ZooKeeper(**{each: copy(getattr(self, each)) for each in self._held()})
        try:
            for write in writes:
                trial.apply(write)
        except Refused:
            return False
        for each in self._held():
            held, after = getattr(self, each), getattr(trial, each)
            if isinstance(held, dict | set):
                # In place: tests hold on to these dictionaries.
                held.clear()
                held.update(after)
            else:
                setattr(self, each, after)
        return True

    def _held(self) -> list[str]:
        return list(self.__dataclass_fields__)

    def apply(self, write: wr.Write) -> None:
        """One operation of a multi."""
        match write:
            case wr.LeaderAndIsrWrite(name, expected, decided):
                held = self.states.get(name)
                expect((None if held is None else held.partition_epoch) == expected)
                expect(name.topic in self.topics)
                self.states[name] = decided
            case wr.TopicWrite(topic, expected):
                expect(topic.name in self.topics and self.topics[topic.name].version == expected)
                bare = replace(topic, configs={}, config_version=None, has_marker=True, is_bare=False)
                self.topics[topic.name] = replace(bare, version=expected + 1)
            case wr.TopicRemoved(topic, expected):
                self._remove(topic, expected)
            case wr.MarkerCreated(topic_name, topic_id):
                expect(topic_id not in self.markers)
                self.markers[topic_id] = topic_name
            case wr.MarkerRaised(_, topic_id):
                expect(topic_id in self.markers)
            case wr.MarkerRemoved(topic_id):
                expect(topic_id in self.markers)
                del self.markers[topic_id]
            case wr.ConfigWrite(topic_name, configs, expected):
                found = self.configs.get(topic_name)
                expect((None if found is None else found[1]) == expected)
                self.configs[topic_name] = (dict(configs), 0 if expected is None else expected + 1)
                self.garbled_configs.discard(topic_name)
            case wr.PartitionRemoved(name, expected):
                held = self.states.pop(name, None)
                expect((None if held is None else held.partition_epoch) == expected)
            case _:
                self._apply_admin(write)

    def _remove(self, topic: ev.Topic, expected: int) -> None:
        expect(topic.name in self.topics and self.topics[topic.name].version == expected)
        expect(not any(name.topic == topic.name for name in self.states))
        del self.topics[topic.name]
        if topic.has_marker:
            expect(self.markers.pop(topic.topic_id, None) == topic.name)
        if topic.config_version is not None:
            found = self.configs.pop(topic.name, None)
            expect(found is not None and found[1] == topic.config_version)

    def _apply_admin(self, write: wr.Write) -> None:
        match write:
            case wr.ReassignmentWrite(name, target, original, expected):
                expect(version_of(self.moves.get(name)) == expected)
                self.moves[name] = ev.StoredReassignment(target, original, following(expected))
            case wr.ReassignmentDone(name, expected):
                expect(version_of(self.moves.pop(name, None)) == expected)
            case wr.AdditionDone(name, expected):
                expect(version_of(self.additions.pop(name, None)) == expected)
            case wr.RemovalDone(name, expected):
                expect(version_of(self.removals.pop(name, None)) == expected)
            case wr.DeletionAdopted(topic_name, topic_id, expected):
                expect(version_of(self.deletions.get(topic_name)) == expected)
                self.deletions[topic_name] = ev.StoredDeletion(topic_id, following(expected))
            case wr.DeletionDone(topic_name, expected):
                expect(version_of(self.deletions.pop(topic_name, None)) == expected)
            case wr.ThrottleWrite(throttle, expected):
                expect(version_of(self.throttle) == expected)
                self.throttle = ev.StoredThrottle(throttle, following(expected))
            case _:
                raise AssertionError(write)

    def read_topic(self, topic_name: str) -> ev.Topic | None:
        """With settings and marker; a bare one gets an id made up, another one each time."""
        topic = self.topics.get(topic_name)
        if topic is None:
            return None
        configs, config_version = self.configs.get(topic_name, ({}, None))
        if not topic.topic_id:
            self.ids_made_up += 1
            made_up = f"{self.ids_made_up + 10**30:032}"
            topic = replace(topic, topic_id=made_up, is_bare=True)
        has_marker = self.markers.get(topic.topic_id) == topic_name
        return replace(
            topic,
            configs={} if topic_name in self.garbled_configs else configs,
            config_version=config_version,
            has_marker=has_marker,
            has_garbled_configs=topic_name in self.garbled_configs,
        )

    def read(self, names: Iterable[str], cause: str = "") -> ev.TopicsRead:
        """All there is about these topics."""
        asked = list(names)
        topics = {name: self.read_topic(name) for name in asked}
        partitions = [
            TopicPartition(topic.name, number)
            for topic in topics.values()
            if topic is not None
            for number in range(len(topic.assignment))
        ]
        known = set(partitions)
        leftovers: dict[TopicPartition, int | None] = {
            name: state.partition_epoch
            for name, state in self.states.items()
            if name.topic in topics and name not in known
        }
        states = {name: self.states.get(name) for name in partitions}
        return ev.TopicsRead(topics, states, self.admin(asked.__contains__), leftovers, cause=cause)

    def admin(self, about: Callable[[str], bool] = lambda _: True) -> ev.AdminZnodes:
        """What stands below /admin."""
        return ev.AdminZnodes(
            {name: znode for name, znode in self.moves.items() if about(name.topic)},
            {name: znode for name, znode in self.additions.items() if about(name.topic)},
            {name: znode for name, znode in self.removals.items() if about(name.topic)},
            {name: znode for name, znode in self.deletions.items() if about(name)},
            self.throttle,
        )

    def snapshot(self, *brokers: ev.Broker) -> ev.ClusterSnapshot:
        """Everything."""
        topics = [topic for name in self.topics if (topic := self.read_topic(name)) is not None]
        ids = {topic.topic_id for topic in topics}
        orphans = {topic_id: name for topic_id, name in self.markers.items() if topic_id not in ids}
        return ev.ClusterSnapshot(brokers, tuple(topics), dict(self.states), self.admin(), orphans)


def expect(condition: bool) -> None:
    """What a multi expects of a znode."""
    if not condition:
        raise Refused


def version_of(znode: object) -> int | None:
    """Of a znode that may not be there."""
    version = getattr(znode, "version", None)
    assert version is None or isinstance(version, int)
    return version


def following(version: int | None) -> int:
    """The version that a write gives."""
    return 0 if version is None else version + 1
