"""An operator with a ZooKeeper shell, and what such a one can see of a running cluster."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from hightide import Admin, PartitionDescription, Producer, TopicPartition
from hightide.errors import UnknownPartitionError, UnknownTopicError
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S
from hightide_local.histories.waiting import wait_until
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

REQUESTS = ("partitions_reassigned", "partitions_add", "partitions_remove", "delete_topics")


class ZooKeeperOperator:
    """Writes znodes and looks at what came of it. `close` it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.admin = Admin(cluster.bootstrap)
        self.zookeeper = KazooClient(cluster.zookeeper, timeout=10.0)
        self.zookeeper.start(60)

    def close(self) -> None:
        self.admin.close()
        self.zookeeper.stop()
        self.zookeeper.close()

    def make_whole(self) -> None:
        """Let everything run that does not; for fixtures, after a test that failed halfway."""
        running = self.cluster.running()
        for name in self.cluster.names:
            if name in running:
                self.cluster.resume(name)
            else:
                self.cluster.restart(name, wait=False)
        self.cluster.wait_ready()

    # ---- what it does

    def put(self, path: str, content: bytes = b"") -> None:
        """As `create` in a shell, and its parents with it, or `set` where it exists."""

        def is_written() -> bool:
            with suppress(NoNodeError):
                self.zookeeper.set(path, content)
                return True
            # The controller may take it away, or its parent, as soon as what it asks for is done.
            with suppress(NoNodeError, NodeExistsError):
                self.zookeeper.create(path, content, makepath=True)
                return True
            return False

        wait_until(f"{path} is written", is_written, HEALED_S)

    def take_away(self, path: str) -> None:
        """As `deleteall` in a shell."""
        self.zookeeper.delete(path, recursive=True)

    def produce(self, topic: str, count: int, partitions: int) -> None:
        """So many records to each of the first partitions, all acknowledged."""
        with Producer(self.cluster.bootstrap) as producer:
            for number in range(count * partitions):
                producer.send(topic, b"record %d" % number, partition=number % partitions)

    # ---- what it sees

    def content(self, path: str) -> bytes | None:
        with suppress(NoNodeError):
            data: bytes = self.zookeeper.get(path)[0]
            return data
        return None

    def version(self, path: str) -> int:
        version: int = self.zookeeper.get(path)[1].version
        return version

    def asked_for(self) -> list[str]:
        """What stands below the /admin paths, parents named after topics too: nothing when all is done."""
        return [
            f"{kind}/{name}" for kind in REQUESTS for name in self.zookeeper.get_children(f"/admin/{kind}")
        ]

    def asked_for_in_full(self) -> list[str]:
        """The znodes below /admin that ask for something. One named after a topic that holds nothing any more
        asks for nothing: it outlives a controller that died just before it would have taken it away."""
        found: list[str] = []
        for each in self.asked_for():
            if each.startswith("delete_topics/"):
                found.append(each)
                continue
            with suppress(NoNodeError):
                found += [f"{each}/{name}" for name in self.zookeeper.get_children(f"/admin/{each}")]
        return found

    def wait_until_done(self) -> None:
        wait_until("nothing below /admin is left", lambda: self.asked_for() == [], HEALED_S)

    def wait_until_nothing_is_asked_for(self) -> None:
        """As `wait_until_done`, where a controller that dies or falls asleep may leave an empty parent."""
        wait_until("nothing below /admin is asked for", lambda: self.asked_for_in_full() == [], HEALED_S)

    def exists(self, topic: str) -> bool:
        return any(each.name == topic for each in self.admin.describe_topics())

    def partitions(self, topic: str) -> tuple[PartitionDescription, ...]:
        """As the controller describes them; none where there is no such topic."""
        for each in self.admin.describe_topics():
            if each.name == topic:
                return each.partitions
        return ()

    @staticmethod
    def partition(topic: str, number: int = 0) -> TopicPartition:
        return TopicPartition(topic, number)

    def topic_id(self, topic: str) -> bytes:
        return self.admin.describe_topics([topic])[0].topic_id

    def topic_id_or_none(self, topic: str) -> bytes | None:
        """For a topic that comes and goes."""
        return next((each.topic_id for each in self.admin.describe_topics() if each.name == topic), None)

    def wait_until_led(self, topic: str, count: int) -> None:
        """So many partitions, each led and with ISR = AR."""
        wait_until(
            f"{count} led partitions of {topic}, all in sync",
            lambda: (
                len(found := self.partitions(topic)) == count
                and all(each.leader is not None and set(each.isr) == set(each.replicas) for each in found)
            ),
            HEALED_S,
        )

    def ends(self, topic: str, count: int) -> list[int | None]:
        """The high watermark of each partition, once the brokers have heard of all of them."""
        partitions = [TopicPartition(topic, number) for number in range(count)]

        def told() -> dict[TopicPartition, int | None] | None:
            with suppress(UnknownTopicError, UnknownPartitionError):
                return self.admin.list_offsets(partitions)
            return None

        ends = wait_until(f"brokers know {topic}", told, HEALED_S) or {}
        return [ends[partition] for partition in partitions]

    def holders(self, topic_id: bytes) -> Mapping[int, list[int]]:
        """Which partitions of a topic each broker keeps on its disk, quarantined ones not counted."""
        found: dict[int, list[int]] = {}
        for broker_id in self.cluster.brokers:
            for directory in self.cluster.data_directories(broker_id):
                for path in directory.glob(f"{topic_id.hex()}-*"):
                    found.setdefault(broker_id, []).append(int(path.name.rpartition("-")[2]))
        return {broker_id: sorted(partitions) for broker_id, partitions in found.items()}

    def complaints(self) -> dict[str, str]:
        """What the controller complains about: subject → sentence."""
        return {each.subject: each.message for each in self.admin.describe_cluster().complaints}

    def complaints_counted(self) -> int:
        """The metric, as the active controller exported it last."""
        path = self.cluster.trace_directory / f"{self.cluster.active_controller()}.metrics"
        values = [
            line["value"]
            # What is being written has no end yet.
            for line in map(json.loads, path.read_text().split("\n")[:-1] if path.exists() else ())
            if line["name"] == "hightide.controller.complaints"
        ]
        return int(values[-1]) if values else -1

    def log_lines(self, text: str) -> Counter[str]:
        """How many lines of each controller's log have this text."""
        return Counter(
            {
                f"controller-{number}": sum(
                    text in line
                    for line in (self.cluster.log_directory / f"controller-{number}.log")
                    .read_text()
                    .splitlines()
                )
                for number in self.cluster.controllers
            }
        )
