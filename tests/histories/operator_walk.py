"""An operator who does things at random: what the walk of random_faults.py does besides breaking processes.

Topics other than the one under load are created, filled, deleted, made again, grown, shrunk, altered and
moved; the one under load is moved, cancelled, throttled and elected. Every deed may fail while things are
broken; what it must not do is lose what was acknowledged, or stay half done when all is healed.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hightide import Admin, Producer, TopicPartition
from hightide.errors import HightideError
from hightide_local.cluster import LocalCluster

TOPICS = ("walk-a", "walk-b", "walk-c")
_TIMEOUT_MS = 12_000


class OperatorWalk:
    """Deeds of several operators at once, each drawn from one chance. `finish`, then look at `done`."""

    def __init__(self, cluster: LocalCluster, topic: str, partitions: int, chance: random.Random) -> None:
        self._cluster, self._topic, self._partitions, self._chance = cluster, topic, partitions, chance
        self._pool = ThreadPoolExecutor(3)
        self._lock = threading.Lock()
        self.done: Counter[str] = Counter()
        """By deed and how it ended: what operators met with."""
        self.kept: dict[tuple[bytes, int], int] = {}
        """By topic id and partition: how many records were acknowledged."""

    def stir(self) -> list[str]:
        """Begin one to three deeds; returns which, for the log."""
        deeds = [self._draw() for _ in range(self._chance.choice((1, 1, 2, 3)))]
        for _, deed in deeds:
            self._pool.submit(deed)
        return [name for name, _ in deeds]

    def finish(self) -> None:
        """Wait until all that was begun has ended, one way or the other."""
        self._pool.shutdown(wait=True)

    def _draw(self) -> tuple[str, Callable[[], None]]:
        chance = self._chance
        topic = chance.choice(TOPICS)
        number = chance.randrange(self._partitions)
        moved = [TopicPartition(self._topic, number)]
        replicas = chance.sample(sorted(self._cluster.brokers), 3)
        count = chance.randint(1, 5)
        deeds: dict[str, tuple[int, Callable[[Admin], object]]] = {
            f"create {topic} {count}": (4, lambda admin: admin.create_topic(topic, count, 3)),
            f"fill {topic}": (4, lambda admin: self._fill(admin, topic)),
            f"delete {topic}": (2, lambda admin: admin.delete_topic(topic)),
            f"grow {topic} {count + 2}": (2, lambda admin: admin.add_partitions(topic, count + 2)),
            f"shrink {topic} {count}": (1, lambda admin: self._shrink(admin, topic, count)),
            f"alter {topic}": (
                2,
                lambda admin: admin.alter_topic_config(topic, {"retention.ms": str(3_600_000 + count)}),
            ),
            f"move {topic}": (
                3,
                lambda admin: admin.reassign_partitions(
                    {TopicPartition(topic, n): replicas for n in range(count)}
                ),
            ),
            f"move {self._topic}-{number} {replicas}": (
                6,
                lambda admin: admin.reassign_partitions(dict.fromkeys(moved, replicas)),
            ),
            "cancel all": (2, lambda admin: admin.cancel_reassignments()),
            f"cancel {self._topic}-{number}": (2, lambda admin: admin.cancel_reassignments(moved)),
            f"throttle {count}": (1, lambda admin: admin.set_reassignment_throttle(count * 200_000)),
            "throttle off": (1, lambda admin: admin.set_reassignment_throttle(0)),
            "elect preferred": (3, lambda admin: admin.elect_leaders("preferred")),
        }
        names = list(deeds)
        (name,) = chance.choices(names, [deeds[each][0] for each in names])
        return name, lambda: self._do(name, deeds[name][1])

    def _do(self, name: str, deed: Callable[[Admin], object]) -> None:
        kind = name.split()[0]
        try:
            with Admin(self._cluster.bootstrap, timeout_ms=_TIMEOUT_MS) as admin:
                deed(admin)
        except HightideError as error:
            outcome = type(error).__name__
        except Exception as error:  # noqa: BLE001 - the top of a thread; told at the end as a failure
            outcome = f"BUG {error!r}"
        else:
            outcome = "done"
        with self._lock:
            self.done[f"{kind}: {outcome}"] += 1

    def _fill(self, admin: Admin, topic: str) -> None:
        """Acknowledged records, counted for the topic that they were written to."""
        (described,) = admin.describe_topics([topic])
        with Producer(
            self._cluster.bootstrap, delivery_timeout_ms=8_000, request_timeout_ms=3_000
        ) as producer:
            sent = [
                (n, producer.send(topic, b"walk %d" % n, partition=n))
                for _ in range(50)
                for n in range(len(described.partitions))
            ]
            producer.flush(20)
        (after,) = admin.describe_topics([topic])
        if after.topic_id != described.topic_id:
            return
        with self._lock:
            for number, delivery in sent:
                if delivery.exception(0) is None:
                    key = (described.topic_id, number)
                    self.kept[key] = self.kept.get(key, 0) + 1

    def _shrink(self, admin: Admin, topic: str, count: int) -> None:
        """What was in the partitions that go counts no more, whether or not they go."""
        (described,) = admin.describe_topics([topic])
        with self._lock:
            for key in [k for k in self.kept if k[0] == described.topic_id and k[1] >= count]:
                self.kept[key] = -(10**9)
        admin.remove_partitions(topic, count)
