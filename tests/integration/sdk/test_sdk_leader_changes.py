"""The SDK finds new leaders by itself: no error, no loss, no duplicate, no disorder, and soon."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hightide import Admin, Consumer, Delivery, Producer, TopicPartition
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

PARTITIONS = 3


class Load:
    """Sends numbers to every partition until told to stop, and notes when what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.producer = Producer(bootstrap, linger_ms=1)
        self.deliveries: list[Delivery] = []
        self.acknowledged_at: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.producer.close()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.005):
            for partition in range(PARTITIONS):
                delivery = self.producer.send(self._topic, b"%d" % number, partition=partition)
                delivery.add_done_callback(self._note(partition))
                self.deliveries.append(delivery)
            number += 1

    def _note(self, partition: int) -> Callable[[Delivery], None]:
        return lambda _: self.acknowledged_at[partition].append(time.monotonic())

    def until_acknowledged(self, count: int) -> None:
        """Wait until each partition has acknowledged so many more."""
        wanted = [len(times) + count for times in self.acknowledged_at]
        give_up = time.monotonic() + 60
        while any(len(times) < want for times, want in zip(self.acknowledged_at, wanted, strict=True)):
            assert time.monotonic() < give_up, "writes do not resume"
            threading.Event().wait(0.01)

    def longest_wait_s(self, since: float) -> float:
        """The longest time that one partition went without an acknowledgement."""
        waits = []
        for times in self.acknowledged_at:
            late = [since, *(at for at in times if at >= since)]
            waits += [after - before for before, after in pairwise(late)]
        return max(waits)


def leader_of(bootstrap: str, topic: str) -> int:
    with Admin(bootstrap) as admin:
        leader = admin.describe_topics([topic])[0].partitions[0].leader
    assert leader is not None
    return leader


@pytest.mark.parametrize(
    ("how", "session_timeout_ms", "limit_s"),
    [
        # No session has to end for it: that would take 30 s.
        ("kill", 30_000, 20.0),
        ("terminate", 30_000, 20.0),
        # One has; but no request runs into its timeout of 30 s.
        ("pause", 4_000, 25.0),
    ],
)
def test_a_producer_and_a_consumer_follow_the_leader(
    hightide_cluster_factory: Callable[..., LocalCluster], how: str, session_timeout_ms: int, limit_s: float
) -> None:
    cluster = hightide_cluster_factory(session_timeout_ms=session_timeout_ms)
    topic = "moving"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(topic, PARTITIONS, 3, configs={"min.insync.replicas": "2"})
    read: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    with Consumer(cluster.bootstrap, topics=topic) as consumer:
        with Load(cluster.bootstrap, topic) as load:
            load.until_acknowledged(50)
            name = f"broker-{leader_of(cluster.bootstrap, topic)}"
            since = time.monotonic()
            getattr(cluster, how)(name)
            load.until_acknowledged(100)
            waited_s = load.longest_wait_s(since)
            for record in consumer.poll(timeout_s=10, max_records=100):
                assert record.value is not None
                read[record.partition].append(int(record.value))
            if how == "pause":
                cluster.resume(name)
            load.until_acknowledged(50)
        # By count, not up to the end: a leader that has just woken up may tell an older one.
        while sum(map(len, read.values())) < len(load.deliveries):
            for record in consumer.poll(timeout_s=10, max_records=10_000):
                assert record.value is not None
                read[record.partition].append(int(record.value))
        ends = consumer.end_offsets([TopicPartition(topic, at) for at in range(PARTITIONS)])
    assert [delivery.exception() for delivery in load.deliveries] == [None] * len(load.deliveries)
    sent = len(load.deliveries) // PARTITIONS
    assert read == {partition: list(range(sent)) for partition in range(PARTITIONS)}
    assert list(ends.values()) == [sent] * PARTITIONS
    assert waited_s < limit_s
