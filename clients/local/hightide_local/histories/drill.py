"""Puts one topic under load while a test injects faults, and checks the promises afterwards."""

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from hightide import Admin, Consumer, PartitionDescription, TopicPartition

from hightide_local.cluster import LocalCluster
from hightide_local.histories.anomalies import AnomalyKind
from hightide_local.histories.history import History, SendOutcome, SentRecord
from hightide_local.histories.judgement import judge_clients, judge_records, judge_replicas
from hightide_local.histories.load import EndWatch, HistoryLoad, TopicTail, read_everything
from hightide_local.histories.replica_logs import differences, partition_directory
from hightide_local.histories.waiting import wait_until

#: The time within which a cluster must recover: a session timeout, the start of a process on a busy machine,
#: and a reserve.
HEALED_S = 60.0


class FaultDrill:
    """A topic of three partitions on all brokers, all led by the first of `replicas`;
    min.insync.replicas=2.

    Use it as a with-block around the faults. At its end the load stops, and all promises are checked: each
    acknowledged record is there, once and in order, no client saw an error, the ISR has all replicas again,
    and the replicas are byte-identical. Raises ViolationError.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        topic: str,
        *,
        flush: str = "replicated",
        request_timeout_ms: int = 5_000,
        delivery_timeout_ms: int = 60_000,
        configs: Mapping[str, str] | None = None,
        allowed: frozenset[AnomalyKind] = frozenset(),
    ) -> None:
        """`allowed` are kinds of anomalies that the fault causes by design; the test gives the reason.
        `configs` are further settings of the topic."""
        self._allowed = allowed
        self.cluster, self.topic = cluster, topic
        self.history = History()
        self.admin = Admin(cluster.bootstrap)
        self._configs = {"min.insync.replicas": "2", "flush": flush, **(configs or {})}
        self._assignment = [[1, 2, 3], [1, 3, 2], [1, 2, 3]]
        self.partitions = [TopicPartition(topic, number) for number in range(len(self._assignment))]
        self._asides: list[SentRecord] = []
        self._request_timeout_ms = request_timeout_ms
        self._delivery_timeout_ms = delivery_timeout_ms

    def describe(self) -> tuple[PartitionDescription, ...]:
        """The partitions, from the active controller."""
        return self.admin.describe_topics([self.topic])[0].partitions

    def leader(self, partition: int = 0) -> int:
        """The broker id of the leader. Waits until there is one."""
        return (
            wait_until(
                f"a leader of {self.topic}-{partition}", lambda: self.describe()[partition].leader, HEALED_S
            )
            or -1
        )

    def wait_for_other_leaders(self, than: int, timeout_s: float = HEALED_S) -> None:
        """Wait until every partition has a leader that is not this broker."""
        wait_until(
            f"leaders of {self.topic} other than broker {than}",
            lambda: all(each.leader not in (None, than) for each in self.describe()),
            timeout_s,
        )

    def wait_for_isr(self, size: int, timeout_s: float = HEALED_S) -> None:
        """Wait until the ISR of every partition has this size."""
        wait_until(
            f"{size} in-sync replicas in every partition of {self.topic}",
            lambda: all(len(each.isr) == size for each in self.describe()),
            timeout_s,
        )

    def wait_for_progress(self, records: int = 40, timeout_s: float = HEALED_S) -> None:
        """Wait until every partition has acknowledged this many more records. So before a fault there are
        replicated records, and not only some under way."""
        self.load.wait_for_acknowledged(records, range(len(self.partitions)), timeout_s)

    def kill(self, broker_id: int) -> None:
        """Send SIGKILL to a broker."""
        self.cluster.kill(f"broker-{broker_id}")

    def restart(self, broker_id: int) -> None:
        """Start a broker again, without waiting until it is ready."""
        self.cluster.restart(f"broker-{broker_id}", wait=False)

    def drop(self) -> None:
        """Delete the topic. Called after the check."""
        with Admin(self.cluster.bootstrap) as admin:
            admin.delete_topic(self.topic)

    def note_aside(self, value: bytes) -> None:
        """Note a record that the test itself sent with the key b"key", and that may be in the log or not."""
        unknown = SentRecord("aside", len(self.history.sends), b"key", value, SendOutcome.UNKNOWN, None, 0)
        self._asides.append(unknown)

    def __enter__(self) -> Self:
        self.admin.create_topic(self.topic, assignment=self._assignment, configs=self._configs)
        bootstrap = self.cluster.bootstrap
        self.load = HistoryLoad(
            bootstrap,
            self.topic,
            self.history,
            name=self.topic,
            delivery_timeout_ms=self._delivery_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
        )
        self._watch = EndWatch(bootstrap, self.partitions, self.history)
        self._tail = TopicTail(bootstrap, self.topic, self.history)
        self.load.__enter__()
        self._watch.__enter__()
        self._tail.__enter__()
        self.wait_for_progress()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                wait_until("somebody reads along", lambda: self.history.reads, HEALED_S)
                wait_until("somebody watches the high watermark", lambda: self.history.ends, HEALED_S)
            self.load.__exit__(kind, error, trace)
        finally:
            self._watch.__exit__(kind, error, trace)
            self._tail.__exit__(kind, error, trace)
        if error is None:
            self.judge()
        self.admin.close()

    def judge(self) -> None:
        """Check that each acknowledged record is there, once and in order, that no client saw an error, and
        that all replicas have the same bytes. Raises ViolationError."""
        judge_clients(self.history, [*self.load.errors, *self._tail.errors, *self._watch.errors])
        self.history.sends += self._asides
        self.wait_for_isr(3)
        read_everything(self.cluster.bootstrap, self.topic, self.history, reader="afterwards")
        judge_records(self.history, self._allowed)
        judge_replicas(replica_differences(self.cluster, self.topic))


def high_watermarks(cluster: LocalCluster, topic: str) -> dict[int, int]:
    """The high watermark of each partition, from the leaders."""
    with Consumer(cluster.bootstrap) as consumer:
        return {
            partition.partition: offset
            for partition, offset in consumer.end_offsets(consumer.partitions_for(topic)).items()
        }


def replica_differences(cluster: LocalCluster, topic: str, ends: dict[int, int] | None = None) -> list[str]:
    """The differences between the replicas of a topic on disk, below the high watermarks. `ends` gives these
    if no leader can be asked."""
    with Admin(cluster.bootstrap) as admin:
        (described,) = admin.describe_topics([topic])
    holders = {each.partition: each.replicas for each in described.partitions}
    return differences_of(cluster, described.topic_id, ends or high_watermarks(cluster, topic), holders)


def differences_of(
    cluster: LocalCluster,
    topic_id: bytes,
    ends: dict[int, int],
    holders: Mapping[int, Collection[int]] | None = None,
) -> list[str]:
    """The same from the files alone, for a cluster that is stopped. `holders` are the brokers with a replica
    of each partition; None means all brokers."""
    return [
        found
        for partition, end in sorted(ends.items())
        for found in differences(
            {
                broker_id: partition_directory(cluster.data_directories(broker_id), topic_id, partition)
                for broker_id in (holders[partition] if holders else cluster.brokers)
            },
            end,
        )
    ]
