"""Moves go as fast as their limit says, and cost those who are in sync nothing (V3 F, KIP-73)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import pytest
from hightide import Admin, Producer, TopicPartition
from hightide.records import ReplicaDescription
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import replica_differences
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

MB = 1_000_000
MOVED_BYTES = 50 * MB
PATIENCE_S = 90
BEFORE, AFTER = (1, 2, 3), (1, 2, 4)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Four brokers, so that there is one to move to; ISRs shrink soon where anybody is slowed."""
    directory = tmp_path_factory.mktemp("throttled")
    with LocalCluster(directory, brokers=4, controllers=1, replica_lag_time_max_ms=4_000) as cluster:
        yield cluster


class Move:
    """A topic with 50 MB on brokers 1, 2 and 3, which is produced to while it moves from 3 to 4."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self.cluster = cluster
        self.partition = TopicPartition(topic, 0)
        self.admin = Admin(cluster.bootstrap)
        self._stopping = threading.Event()
        self._producing = threading.Thread(target=self._produce)
        self.acknowledged_after_s: list[float] = []
        self.began_s = 0.0

    def begin(self, throttle_bytes_per_s: int) -> None:
        """Begin to move."""
        # Before it is asked for: what is copied before the answer counts as well.
        self.began_s = time.monotonic()
        (outcome,) = self.admin.reassign_partitions(
            {self.partition: AFTER}, throttle_bytes_per_s=throttle_bytes_per_s
        )
        assert outcome.ok, outcome.error

    def copied_bytes(self) -> int:
        """How much the new replica has."""

        def mine(replica: ReplicaDescription) -> bool:
            return replica.partition == self.partition and replica.broker_id == AFTER[-1]

        listing = self.admin.describe_replicas([self.partition.topic])
        return sum(each.size_bytes for each in listing.replicas if mine(each))

    @property
    def isr(self) -> tuple[int, ...]:
        """The ISR, from the source of truth."""
        (topic,) = self.admin.describe_topics([self.partition.topic])
        return topic.partitions[0].isr

    @property
    def is_done(self) -> bool:
        """Whether nothing is left of the move."""
        return not self.admin.list_reassignments([self.partition]).reassignments

    def _produce(self) -> None:
        with Producer(self.cluster.bootstrap) as producer:
            while not self._stopping.wait(0.01):
                started = time.monotonic()
                producer.send(self.partition.topic, b"while it moves", partition=0).result(PATIENCE_S)
                self.acknowledged_after_s.append(time.monotonic() - started)

    def __enter__(self) -> Self:
        self.admin.create_topic(
            self.partition.topic, assignment=[BEFORE], configs={"min.insync.replicas": "3"}
        )
        value = random.Random(1).randbytes(MB // 2)
        with Producer(self.cluster.bootstrap) as producer:
            for _ in range(MOVED_BYTES // len(value)):
                producer.send(self.partition.topic, value, partition=0)
        self._producing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._producing.join(PATIENCE_S)
        self.admin.set_reassignment_throttle(0)
        self.admin.close()


def test_a_move_goes_as_fast_as_its_limit_and_takes_nobody_out_of_the_isr(cluster: LocalCluster) -> None:
    # For twice as long as ISRs have patience.
    rate = 6 * MB
    with Move(cluster, "limited") as move:
        move.begin(rate)
        samples: list[tuple[float, int]] = []

        def is_done() -> bool:
            # The bytes are older than the time, never newer: so it is never too fast by the clock alone.
            copied = move.copied_bytes()
            samples.append((time.monotonic() - move.began_s, copied))
            assert set(move.isr) >= set(AFTER[:2]), "who was in sync stays in sync"
            return move.is_done

        wait_until("the end of the move", is_done, PATIENCE_S)
        assert set(move.isr) == set(AFTER)
        # A second's worth may come at once, and what was sent last may be a batch too much.
        too_fast = [(at_s, copied) for at_s, copied in samples if copied > rate * (at_s + 1) + 2 * MB]
        assert too_fast == []
        took_s = samples[-1][0]
        assert MOVED_BYTES / rate - 1 < took_s < 5 * MOVED_BYTES / rate, samples[-10:]
        assert len({copied for _, copied in samples}) > 5, "it came bit by bit"
        produced = sorted(move.acknowledged_after_s)
    assert len(produced) > 20
    # With min.insync.replicas=3 each of these needed all three: none of them waited for the limit.
    assert produced[len(produced) // 2] < 0.5
    assert replica_differences(cluster, move.partition.topic) == []


def test_a_limit_that_is_lifted_lets_a_move_finish_at_once(cluster: LocalCluster) -> None:
    rate = MB // 2
    with Move(cluster, "lifted") as move:
        move.begin(rate)
        wait_until("some progress", lambda: move.copied_bytes() > rate, PATIENCE_S)
        assert not move.is_done
        move.admin.set_reassignment_throttle(0)
        lifted_s = time.monotonic()
        wait_until("the end of the move", lambda: move.is_done, PATIENCE_S)
        assert time.monotonic() - lifted_s < MOVED_BYTES / rate / 2, "it would have taken 100 s"
        assert set(move.isr) == set(AFTER)
    assert replica_differences(cluster, move.partition.topic) == []
