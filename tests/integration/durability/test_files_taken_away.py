"""Files of one replica are cut or taken away while its broker is down: whoever starts first, and however they
were stopped, every acknowledged record is read back, also when that replica leads."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hightide import Admin, Consumer, Producer, TopicPartition
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S
from hightide_local.histories.waiting import wait_until
from integration.durability.machines import stop_all

pytestmark = pytest.mark.cluster

RECORDS, ROUND = 240, 20
DAMAGED, OTHERS = 1, (2, 3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("taken"), controllers=1, session_timeout_ms=6_000) as cluster:
        yield cluster


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def unlink(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


def empty(paths: list[Path]) -> None:
    for path in paths:
        path.write_bytes(b"")


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zero_the_end(path: Path) -> None:
    contents = path.read_bytes()
    kept = len(contents) // 2
    path.write_bytes(contents[:kept] + bytes(len(contents) - kept))


def cut_epochs(directory: Path) -> None:
    path = directory / "leader_epochs"
    path.write_bytes(path.read_bytes()[:-5])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "tail-cut": lambda directory: cut_in_half(segments(directory)[-1]),
    "tail-zeroed": lambda directory: zero_the_end(segments(directory)[-1]),
    "tail-gone": lambda directory: unlink(segments(directory)[-2:]),
    "front-gone": lambda directory: unlink(segments(directory)[:1]),
    "front-gone-three": lambda directory: unlink(segments(directory)[:3]),
    "all-empty": lambda directory: empty(segments(directory)),
    "directory-emptied": lambda directory: unlink(list(directory.iterdir())),
    "directory-gone": shutil.rmtree,
    "epochs-cut": cut_epochs,
}


def produce(cluster: LocalCluster, topic: str, first: int) -> None:
    with Producer(cluster.bootstrap) as producer:
        for number in range(first, first + RECORDS):
            producer.send(topic, b"%d" % number + b"." * 400, partition=0)
            if number % ROUND == 0:
                producer.flush()


def numbers_read(cluster: LocalCluster, topic: str, count: int) -> list[int]:
    found: list[int] = []
    with Consumer(cluster.bootstrap, topics=topic, offset_reset="earliest") as consumer:

        def is_read() -> bool:
            found.extend(int((each.value or b"").split(b".")[0]) for each in consumer.poll(1.0))
            return len(found) >= count

        wait_until(f"{topic} is read", is_read, HEALED_S)
    return found


@pytest.mark.parametrize("first", ["it starts first", "it starts last"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_acknowledged_is_read_back(cluster: LocalCluster, how: signal.Signals, first: str) -> None:
    topics = {f"{how.name}-{first.split()[-1]}-{name}": damage for name, damage in DAMAGES.items()}
    with Admin(cluster.bootstrap) as admin:
        configs = {"min.insync.replicas": "2", "segment.bytes": "16384"}
        directories = {}
        for topic in topics:
            made = admin.create_topic(topic, configs=configs, assignment=[[DAMAGED, *OTHERS]])
            directories[topic] = cluster.data_directory(DAMAGED) / f"{made.topic_id.hex()}-0"
            produce(cluster, topic, 0)
        for topic in topics:
            cluster.wait_isr(topic, 3)
    stop_all(cluster, how)
    for topic, damage in topics.items():
        assert len(segments(directories[topic])) > 4
        damage(directories[topic])
    order = [DAMAGED, *OTHERS] if first == "it starts first" else [*OTHERS, DAMAGED]
    cluster.restart("controller-1", wait=False)
    for broker_id in order:
        cluster.restart(f"broker-{broker_id}", wait=False)
    cluster.wait_ready()
    for topic in topics:
        cluster.wait_isr(topic, 3)
        assert numbers_read(cluster, topic, RECORDS) == list(range(RECORDS)), topic
    with Admin(cluster.bootstrap) as admin:
        partitions = [TopicPartition(topic, 0) for topic in topics]
        admin.elect_leaders("preferred", partitions)
        wait_until(
            "the one that was damaged leads",
            lambda: all(cluster.leader_of(topic) == f"broker-{DAMAGED}" for topic in topics),
            HEALED_S,
        )
    for topic in topics:
        produce(cluster, topic, RECORDS)
        assert numbers_read(cluster, topic, 2 * RECORDS) == list(range(2 * RECORDS)), topic


def test_the_last_in_sync_without_its_oldest_records_is_damaged_until_it_is_copied_from_another(
    cluster: LocalCluster,
) -> None:
    """It leads with what it has, since nobody else is in sync. It needs no restart to have all again."""
    with Admin(cluster.bootstrap) as admin:
        configs = {"min.insync.replicas": "1", "segment.bytes": "16384"}
        made = admin.create_topic("last", configs=configs, assignment=[[DAMAGED, *OTHERS]])
    directory = cluster.data_directory(DAMAGED) / f"{made.topic_id.hex()}-0"
    produce(cluster, "last", 0)
    cluster.wait_isr("last", 3)
    for broker_id in OTHERS:
        cluster.kill(f"broker-{broker_id}")
    cluster.wait_isr("last", 1)
    produce(cluster, "last", RECORDS)
    cluster.kill(f"broker-{DAMAGED}")
    unlink(segments(directory)[:1])
    cluster.restart(f"broker-{DAMAGED}")
    pid = cluster.running()[f"broker-{DAMAGED}"]
    subject = f"replica of last-0 on broker {DAMAGED}"
    with Admin(cluster.bootstrap) as admin:
        wait_until("health is red", lambda: subject in str(admin.describe_cluster().complaints), HEALED_S)
        assert cluster.leader_of("last") == f"broker-{DAMAGED}"
        for broker_id in OTHERS:
            cluster.restart(f"broker-{broker_id}")
        wait_until("health is green", lambda: not admin.describe_cluster().complaints, HEALED_S)
        cluster.wait_isr("last", 3)
        admin.elect_leaders("preferred", [TopicPartition("last", 0)])
    wait_until("it leads", lambda: cluster.leader_of("last") == f"broker-{DAMAGED}", HEALED_S)
    assert numbers_read(cluster, "last", 2 * RECORDS) == list(range(2 * RECORDS))
    assert cluster.running()[f"broker-{DAMAGED}"] == pid
