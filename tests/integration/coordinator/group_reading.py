"""What tests of consumer groups have in common: topics with numbered records, and consumers that are polled
in turn until something holds."""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hightide import Admin, Consumer, Producer, Record, TopicPartition
from hightide_local.cluster import LocalCluster

SESSION_TIMEOUT_MS = 60_000
"""Where nobody is to die: a consumer whose process stands still for longer is given up, and what it has in
hand is read again; so it is where its user is away for a third of it while partitions are to move."""


def new_name(what: str) -> str:
    """A name that no other test uses."""
    return f"{what}-{uuid.uuid4().hex[:12]}"


def new_topic(cluster: LocalCluster, partitions: int = 6, replication_factor: int = 1) -> str:
    """An empty topic."""
    name = new_name("flights")
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=partitions, replication_factor=replication_factor)
    return name


def send(cluster: LocalCluster, topic: str, numbers: range, partitions: int = 6) -> None:
    """One record for each number, evenly over the partitions, acknowledged."""
    with Producer(cluster.bootstrap) as producer:
        sent = [producer.send(topic, b"%d" % each, partition=each % partitions) for each in numbers]
        for delivery in sent:
            delivery.result(60)


def values(records: Sequence[Record]) -> list[int]:
    """The numbers of records."""
    return [int(record.value or b"-1") for record in records]


@dataclass
class Reading:
    """Consumers that are polled in turn by this thread, and what each has read."""

    consumers: list[Consumer]
    records: list[list[Record]] = field(default_factory=list)

    def until(self, is_done: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Poll each in turn until something holds."""
        began = time.monotonic()
        while not is_done():
            taken = time.monotonic() - began
            state = [(consumer.assignment, len(self.of(consumer))) for consumer in self.consumers]
            assert taken < timeout_s, f"not within {timeout_s} s: {state}"
            for consumer in list(self.consumers):
                self.of(consumer).extend(consumer.poll(0.02))

    def of(self, consumer: Consumer) -> list[Record]:
        """What a consumer has read."""
        at = self.consumers.index(consumer)
        while len(self.records) <= at:
            self.records.append([])
        return self.records[at]

    def count(self) -> int:
        """How many records were read, by all."""
        return sum(map(len, self.records))

    def times_read(self) -> Counter[int]:
        """How often each number was read."""
        return Counter(number for records in self.records for number in values(records))

    def numbers(self) -> set[int]:
        """Which numbers were read at all."""
        return set(self.times_read())

    def is_shared(self, partition_count: int) -> bool:
        """Whether every partition has its owner, and the load is even."""
        owned = [len(consumer.assignment) for consumer in self.consumers]
        return sum(owned) == partition_count and max(owned) - min(owned) <= 1


def parts(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    """Partitions of a topic."""
    return tuple(TopicPartition(topic, number) for number in numbers)
