"""Topics, their partitions, and what the brokers hold of them.

A partition whose number, or whose topic's name, is used again is another one: a `Log` of its own. Leader
epochs tell which: those of a log lie between its first and the next log's. What anybody says of an offset
carries a leader epoch that nobody else uses, so that a checker knows who said what is written down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from hightide_coordinator.core.values.topic_partition import Topic, TopicPartition

__all__ = ["EPOCHS_PER_LOG", "Log", "SimTopic", "Topics", "Word", "WordKind"]

EPOCHS_PER_LOG: Final = 100_000


class WordKind(Enum):
    """Who said that an offset is to be written down."""

    POSITION = auto()
    """A consumer with auto commit, in an answer or a goodbye."""
    COMMIT = auto()
    """A consumer with CommitOffsets."""
    SEEK = auto()
    """A consumer that sought back."""
    LOOK_UP = auto()
    """A broker that was asked where a partition begins or ends."""
    STRANGER = auto()
    """A client without membership."""
    OPERATOR = auto()
    """ResetOffsets."""


@dataclass(frozen=True, slots=True)
class Word:
    """One offset that was said; `leader_epoch` is its number."""

    kind: WordKind
    group: str
    offset: int
    member_id: str = ""
    generation: int = 0

    @property
    def may_go_back(self) -> bool:
        """Whether it was said in order to read something again."""
        return self.kind in (WordKind.SEEK, WordKind.OPERATOR)


@dataclass(slots=True, eq=False)
class Log:
    """One partition of one topic, from its creation to its end."""

    number: int
    name: TopicPartition
    topic_id: bytes
    start: int
    end: int
    is_alive: bool = True
    words: list[Word] = field(default_factory=list)

    @property
    def first_epoch(self) -> int:
        """The leader epoch that it begins with."""
        return self.number * EPOCHS_PER_LOG

    def say(self, word: Word) -> int:
        """The leader epoch that stands for the word from here on."""
        self.words.append(word)
        assert len(self.words) < EPOCHS_PER_LOG
        return self.first_epoch + len(self.words) - 1

    def said(self, leader_epoch: int) -> Word | None:
        """The word that a leader epoch stands for; None: nobody said that of this log."""
        at = leader_epoch - self.first_epoch
        return self.words[at] if 0 <= at < len(self.words) else None

    def __str__(self) -> str:
        return f"{self.name.topic}-{self.name.partition}#{self.number}"


@dataclass(slots=True, eq=False)
class SimTopic:
    """A topic that exists."""

    name: str
    topic_id: bytes
    logs: list[Log] = field(default_factory=list)
    first_leader_epochs: dict[int, int] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    """Numbers that were ever partitions."""


class Topics:
    """All topics of the cluster."""

    def __init__(self) -> None:
        self.by_name: dict[str, SimTopic] = {}
        self.log_count = 0
        self._topic_count = 0

    def create(self, name: str, partition_count: int, start: int, end: int) -> None:
        """A topic comes; a namesake may have been there before."""
        self._topic_count += 1
        self.by_name[name] = SimTopic(name, self._topic_count.to_bytes(16, "big"))
        self.grow(name, partition_count, start, end)

    def grow(self, name: str, by: int, start: int, end: int) -> None:
        """Partitions are added."""
        topic = self.by_name[name]
        for _ in range(by):
            number = len(topic.logs)
            self.log_count += 1
            log = Log(self.log_count, TopicPartition(name, number), topic.topic_id, start, end)
            if number in topic.used:
                topic.first_leader_epochs[number] = log.first_epoch
            topic.used.add(number)
            topic.logs.append(log)

    def shrink(self, name: str, by: int) -> None:
        """The last partitions are removed."""
        topic = self.by_name[name]
        for _ in range(min(by, len(topic.logs) - 1)):
            topic.logs.pop().is_alive = False

    def delete(self, name: str) -> None:
        """A topic goes."""
        for log in self.by_name.pop(name).logs:
            log.is_alive = False

    def log(self, name: TopicPartition) -> Log | None:
        """The partition that has this name now."""
        topic = self.by_name.get(name.topic)
        return topic.logs[name.partition] if topic and name.partition < len(topic.logs) else None

    def logs(self) -> list[Log]:
        """All partitions that exist."""
        return [log for topic in self.by_name.values() for log in topic.logs]

    def znode(self, name: str) -> Topic | None:
        """The topic as the coordinator reads it."""
        topic = self.by_name.get(name)
        if topic is None:
            return None
        return Topic(name, topic.topic_id, len(topic.logs), dict(topic.first_leader_epochs))

    def znodes(self) -> dict[str, Topic]:
        """All of them."""
        found = {name: self.znode(name) for name in self.by_name}
        return {name: topic for name, topic in found.items() if topic is not None}
