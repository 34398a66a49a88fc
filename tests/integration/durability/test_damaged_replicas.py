"""Disks change and lose what is at rest: nobody is given what is wrong, and the replica makes itself whole.

The brokers are real processes, and the damage is done to the files under them. Before, such a replica stayed
in the ISR and led on, its consumers stood still, and health was green; a missing file stopped the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from adversary.target import Target
from damages import DAMAGES
from e2e.command_line import hightide
from hightide import Admin, Producer, RangeReader, TopicDescription
from hightide.batch.header import iterate
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S
from hightide_local.histories.replica_logs import partition_directory
from hightide_local.histories.waiting import wait_until
from hightide_runtime.znodes.coordination_znode import Coordination

pytestmark = pytest.mark.cluster

ROWS, PORTION = 800, 100
LEADER, FOLLOWER = "the leader", "a follower"


@dataclass
class Bench:
    """A cluster with a topic whose three replicas have several segments, none of which is in memory."""

    cluster: LocalCluster
    admin: Admin
    topic: TopicDescription

    def segments(self, broker_id: int) -> list[Path]:
        directory = partition_directory(self.cluster.data_directories(broker_id), self.topic.topic_id, 0)
        return sorted(directory.glob("*.log"))

    def middle(self, broker_id: int) -> Path:
        """A segment with others on both sides that has enough batches for each kind of damage: a follower
        begins a new one where what it fetched at once does not fit, however little is in the one before."""
        inner = self.segments(broker_id)[1:-1]
        return next(each for each in inner if len(list(iterate(each.read_bytes()))) >= 3)

    def kept(self, broker_id: int) -> list[bytes]:
        """The damaged segments that wait in quarantine, of which a data directory has eight at most."""
        directories = self.cluster.data_directories(broker_id)
        places = (each.glob("quarantine/*.damaged.*/*.log") for each in directories)
        return [path.read_bytes() for found in places for path in found]

    def leader(self) -> int:
        """Who leads. Without a controller nobody does for a moment while a leader gives way to the preferred
        replica."""
        leader = wait_until(
            "somebody leads",
            lambda: self.admin.describe_topics([self.topic.name])[0].partitions[0].leader,
            HEALED_S,
        )
        assert leader is not None
        return leader

    def epoch(self) -> int:
        return self.admin.describe_topics([self.topic.name])[0].partitions[0].leader_epoch

    def read(self) -> list[int]:
        """All records, from whoever leads."""
        with RangeReader(self.cluster.bootstrap, fetch_max_bytes=1 << 12) as reader:
            found: list[int] = []
            for batch in reader.read(self.topic.name, self.topic.topic_id, 0, 0, ROWS):
                values = [int(value) for value in batch.rows.column("value").to_pylist()]
                assert values[0] == batch.base_offset
                found += values
        return found

    def all_end_at(self, offset: int) -> bool:
        ends = [each.log_end_offset for each in self.admin.describe_replicas([self.topic.name]).replicas]
        return ends == [offset] * len(self.cluster.brokers)

    def is_well(self) -> bool:
        described = self.admin.describe_cluster()
        return not described.complaints and described.under_replicated_partition_count == 0

    def is_known(self) -> bool:
        """Whether the controller has read what the leader wrote last, and so has told brokers of it. Else its
        next election is refused by ZooKeeper, and the replica may be whole before it is decided again."""
        told = Target.beside_others(self.cluster.bootstrap, self.topic.name).metadata.partitions[0]
        described = self.admin.describe_topics([self.topic.name])[0].partitions[0]
        return told.partition_epoch == described.partition_epoch

    def complaints(self, broker_id: int) -> int:
        """How often a controller has complained of the replica on this broker; without one, how often the
        broker has taken it out of the ISR."""
        words = f"replica of {self.topic.name}-0 on broker {broker_id}: is damaged"
        logs = self.cluster.log_directory.glob("controller-*.log")
        if not self.cluster.controllers:
            words = f"{self.topic.name}-0 left its ISR"
            logs = self.cluster.log_directory.glob(f"broker-{broker_id}*.log")
        return sum(log.read_text().count(words) for log in logs)


@pytest.fixture(scope="module", params=[Coordination.CONTROLLER, Coordination.LEADERS], ids=str)
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    often = ("--scrub-interval-ms", "300", "--scrub-bytes-per-s", "100000000")
    with (
        LocalCluster(
            tmp_path_factory.mktemp("damage"),
            session_timeout_ms=6_000,
            replica_lag_time_max_ms=3_000,
            broker_arguments=often,
            coordination=request.param,
        ) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        topic = admin.create_topic("flights", 1, 3, configs={"segment.bytes": "20000"})
        bench = Bench(cluster, admin, topic)
        # In portions that all replicas have before the next one comes: a follower writes what it fetches at
        # once into one segment, and one that was held up would fetch all of it at once.
        for first in range(0, ROWS, PORTION):
            write(cluster, topic.name, range(first, first + PORTION))
            wait_until("all have it", partial(bench.all_end_at, first + PORTION), HEALED_S)
        for broker_id in cluster.brokers:
            cluster.restart(f"broker-{broker_id}")
            wait_until("all are in sync", bench.is_well, HEALED_S)
        for broker_id in cluster.brokers:
            assert len(bench.segments(broker_id)) >= 3
        yield bench


def write(cluster: LocalCluster, topic: str, numbers: range = range(ROWS)) -> None:
    values = pa.array([b"%-100d" % at for at in numbers], pa.binary())
    with Producer(cluster.bootstrap, batch_bytes_max=1 << 12) as producer:
        producer.send_arrow(topic, pa.table({"value": values}), partition=0).result(60)


def holds(segment: Path, content: bytes) -> bool:
    return segment.exists() and segment.read_bytes() == content


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("whose", [LEADER, FOLLOWER])
def test_what_is_damaged_is_read_from_others_mended_by_itself_and_kept_as_it_was(
    bench: Bench, tmp_path: Path, whose: str, damage: str
) -> None:
    wait_until("it is known who is in sync", bench.is_known, HEALED_S)
    leader, epoch = bench.leader(), bench.epoch()
    victim = leader if whose == LEADER else next(each for each in bench.cluster.brokers if each != leader)
    middle = bench.middle(victim)
    pid = bench.cluster.running()[f"broker-{victim}"]
    before = middle.read_bytes()
    complaints = bench.complaints(victim)
    alike = tmp_path / middle.name
    alike.write_bytes(before)
    DAMAGES[damage](alike)
    DAMAGES[damage](middle)
    assert bench.read() == list(range(ROWS))
    wait_until(
        "the segment is as it was", lambda: middle.exists() and middle.read_bytes() == before, HEALED_S
    )
    if alike.exists():
        kept = bench.kept(victim)
        assert alike.read_bytes() in kept or len(kept) == 8
    wait_until("health is green", bench.is_well, HEALED_S)
    assert bench.complaints(victim) > complaints
    has_moved = bench.epoch() > epoch
    # Without a controller, a leader gives way to the preferred replica by itself, at any moment.
    may_move = whose == LEADER or not bench.cluster.controllers
    assert has_moved or whose != LEADER, "one that is whole leads"
    assert may_move or not has_moved, "the leader was whole"
    assert bench.read() == list(range(ROWS))
    assert bench.cluster.running()[f"broker-{victim}"] == pid
    assert not hightide(bench.cluster, "cluster", "health").returncode


def test_two_that_are_damaged_at_different_places_mend_each_other(bench: Bench) -> None:
    victims = list(bench.cluster.brokers)
    places = [bench.segments(broker_id)[at] for at, broker_id in enumerate(victims)]
    before = [place.read_bytes() for place in places]
    for place in places:
        DAMAGES["a flipped bit in a body"](place)
    assert bench.read() == list(range(ROWS))
    for place, content in zip(places, before, strict=True):
        wait_until(f"{place} is as it was", partial(holds, place, content), HEALED_S)
    wait_until("health is green", bench.is_well, HEALED_S)
    assert bench.read() == list(range(ROWS))


@pytest.mark.parametrize("bench", [Coordination.CONTROLLER], ids=str, indirect=True)
def test_the_last_copy_serves_what_is_whole_and_health_is_red_until_it_is_mended(bench: Bench) -> None:
    topic = bench.admin.create_topic(
        "alone", assignment=[[1]], configs={"segment.bytes": "20000", "min.insync.replicas": "1"}
    )
    write(bench.cluster, "alone")
    alone = Bench(bench.cluster, bench.admin, topic)
    last = alone.segments(1)[-2]
    before = last.read_bytes()
    DAMAGES["a flipped bit in a body"](last)
    wait_until("the controller complains", lambda: bench.admin.describe_cluster().complaints, HEALED_S)
    health = hightide(bench.cluster, "cluster", "health")
    assert health.returncode == 1
    assert b"replica of alone-0 on broker 1" in health.stdout
    assert alone.leader() == 1
    with RangeReader(bench.cluster.bootstrap) as reader:
        assert next(reader.read("alone", topic.topic_id, 0, 0, 1)).base_offset == 0
    write(bench.cluster, "alone")
    cluster, active = bench.cluster, bench.admin.describe_cluster().controller_id
    cluster.kill(f"controller-{active}")
    wait_until("another controller complains", lambda: alone.complaints(1) == 2, HEALED_S)
    cluster.restart(f"controller-{active}")
    assert hightide(cluster, "cluster", "health").returncode == 1
    # As an operator does who has a backup.
    last.write_bytes(before)
    wait_until("health is green", bench.is_well, HEALED_S)
    assert alone.read() == list(range(ROWS))
