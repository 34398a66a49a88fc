"""A consumer group of real processes under load while a test breaks things, and the judgement afterwards."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hightide import Admin, Consumer, GroupDescription, HightideError, Producer, TopicPartition
from hightide.errors import UnknownPartitionError
from hightide_local.cluster import LocalCluster
from hightide_local.histories.violation import ViolationError, require
from hightide_local.histories.waiting import wait_until
from hightide_runtime.znodes.group_znodes import OffsetZnode
from histories.group_anomalies import (
    Committed,
    Given,
    GroupHistory,
    HandedOut,
    OffsetSeen,
    find_group_anomalies,
)
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

HEALED_S = 60.0
_READER = Path(__file__).with_name("group_reader.py")
_PAUSE_S = 0.05


@dataclass
class Reader:
    """A process of `group_reader`, and what it has reported so far."""

    name: str
    report_path: Path
    process: subprocess.Popen[bytes]
    third_ms: float
    """Of its session timeout: so long it may read on without a sign of its coordinator."""
    standstills_ms: list[list[float]] = field(default_factory=list)
    reports: list[Given | HandedOut | Committed] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    _read_bytes: int = 0

    def signal(self, number: signal.Signals) -> None:
        """Send one; SIGSTOP and SIGCONT are remembered."""
        if number is signal.SIGSTOP:
            self.standstills_ms.append([_now_ms(), float("inf")])
        self.process.send_signal(number)
        if number is signal.SIGCONT and self.standstills_ms:
            self.standstills_ms[-1][1] = _now_ms()

    def take_reports(self) -> None:
        """Read what was reported since the last time."""
        with self.report_path.open("rb") as file:
            file.seek(self._read_bytes)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            match json.loads(line):
                case ["given", at_ms, partition, generation]:
                    self.reports.append(Given(at_ms, partition, generation))
                case ["handed", at_ms, began_ms, partition, generation, first, following]:
                    # Also one that nobody has stopped may have stood still with records in its hands.
                    stood = at_ms - began_ms > self.third_ms or any(
                        begin >= began_ms and begin <= at_ms for begin, _ in self.standstills_ms
                    )
                    self.reports.append(HandedOut(at_ms, partition, generation, first, following, stood))
                case ["committed", at_ms, partition, offset]:
                    self.reports.append(Committed(at_ms, partition, offset))
                case ["stands still", at_ms]:
                    self.standstills_ms.append([at_ms, float("inf")])
                case ["woken", at_ms]:
                    self.standstills_ms[-1][1] = at_ms
                case ["refused", at_ms, kind, message]:
                    self.refusals.append(f"{at_ms:.0f} {kind}: {message}")
                case ["taken", *_]:
                    pass
                case _:
                    raise ViolationError(f"{self.name} reports {line!r}")


class GroupDrill:
    """A topic of some partitions on all brokers, a trickle of records, and readers of one group.

    A with-block around the faults. When it ends without an error, the load stops, the group reads up to the
    end, and everything promised is checked (`group_anomalies`).
    """

    def __init__(
        self,
        cluster: LocalCluster,
        directory: Path,
        name: str,
        *,
        partitions: int = 6,
        records_per_s: int = 400,
        session_timeout_ms: int = 1_500,
    ) -> None:
        self.cluster, self.name, self.partition_count = cluster, name, partitions
        self.session_timeout_ms = session_timeout_ms
        self.history = GroupHistory()
        self.admin = Admin(cluster.bootstrap)
        self.readers: list[Reader] = []
        self.send_errors: list[HightideError] = []
        self._directory = directory
        self._batch = max(1, round(records_per_s * _PAUSE_S))
        self._stopped = threading.Event()
        self._sending = threading.Thread(target=self._send, name="trickle", daemon=True)
        self._watch_ended = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="offset-watch", daemon=True)

    # ---- readers

    def start(self, *, by_hand: bool = False, **settings: Any) -> Reader:
        """Start one more; `by_hand` commits after each poll."""
        name = f"reader-{len(self.readers) + 1}"
        report_path = self._directory / f"{self.name}-{name}.jsonl"
        report_path.touch()
        told = {
            "bootstrap": self.cluster.bootstrap,
            "topics": self.name,
            "group": self.name,
            "consumer_id": name,
            "session_timeout_ms": self.session_timeout_ms,
            "auto_commit": not by_hand,
            "commit_interval_ms": 200,
            "request_timeout_ms": 2_000,
            **settings,
        }
        with (self._directory / f"{self.name}-{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(_READER), str(report_path), json.dumps(told)], stderr=log
            )
        self.readers.append(Reader(name, report_path, process, self.session_timeout_ms / 3))
        return self.readers[-1]

    def alive(self) -> list[Reader]:
        """Those that were not killed and have not left."""
        return [reader for reader in self.readers if reader.process.poll() is None]

    def kill(self, reader: Reader) -> None:
        """End it as a crash does."""
        reader.process.kill()
        reader.process.wait()

    def let_leave(self, reader: Reader, timeout_s: float = 60.0) -> float:
        """SIGTERM: it closes its consumer; how many seconds that took."""
        began = time.monotonic()
        reader.process.terminate()
        reader.process.wait(timeout_s)
        return time.monotonic() - began

    # ---- what is seen

    def take_reports(self) -> None:
        """Bring the history up to date."""
        for reader in self.readers:
            reader.take_reports()
            self.history.reports[reader.name] = reader.reports

    def handed_out(self) -> dict[int, int]:
        """Partition → how far it was handed out."""
        self.take_reports()
        reached: dict[int, int] = defaultdict(int)
        for _, report in self.history.every():
            if isinstance(report, HandedOut):
                reached[report.partition] = max(reached[report.partition], report.following)
        return dict(reached)

    def described(self) -> GroupDescription | None:
        """The group as its coordinator sees it; None while nobody says."""
        try:
            return self.admin.describe_group(self.name)
        except HightideError:
            return None

    def is_whole(self) -> bool:
        """Whether the group is stable, every partition owned, and by exactly the readers that are alive."""
        group = self.described()
        return (
            group is not None
            and group.state == "stable"
            and len(group.owners) == self.partition_count
            and all(member.is_connected for member in group.members)
            and {member.consumer_id for member in group.members} == {each.name for each in self.alive()}
        )

    def wait_until_whole(self, timeout_s: float = HEALED_S) -> None:
        """Wait for that."""
        wait_until(f"group {self.name} is whole", self.is_whole, timeout_s)

    def wait_for_progress(self, records: int = 20, timeout_s: float = HEALED_S) -> None:
        """Wait until so many more records of each partition were handed out."""
        before = self.handed_out()
        goals = {number: before.get(number, 0) + records for number in range(self.partition_count)}
        wait_until(f"{records} more of each partition", lambda: self._has_reached(goals), timeout_s)

    def _has_reached(self, goals: dict[int, int]) -> bool:
        now = self.handed_out()
        return all(now.get(number, 0) >= goal for number, goal in goals.items())

    def committed(self) -> dict[int, int]:
        """Partition → the last offset that was seen in ZooKeeper."""
        return {seen.partition: seen.offset for seen in list(self.history.offsets)}

    # ---- what goes on meanwhile

    def grow(self, to: int) -> None:
        """Add partitions, up to so many."""
        self.admin.add_partitions(self.name, to)
        self.partition_count = to

    def _send(self) -> None:
        number = 0
        while not self._stopped.is_set():
            count = self.partition_count
            # A producer that is told the partition does not ask whether there are more by now: a new one may.
            is_known = True
            with Producer(
                self.cluster.bootstrap, linger_ms=1, request_timeout_ms=2_000, delivery_timeout_ms=90_000
            ) as producer:
                while is_known and count == self.partition_count and not self._stopped.wait(_PAUSE_S):
                    for _ in range(self._batch):
                        number += 1
                        try:
                            producer.send(self.name, b"%d" % number, partition=number % count)
                        except UnknownPartitionError:
                            is_known = False
                        except HightideError as error:
                            self.send_errors.append(error)

    def _watch(self) -> None:
        """ZooKeeper's word, not that of a coordinator which may be out of date."""
        with _zookeeper(self.cluster) as client:
            while not self._watch_ended.wait(_PAUSE_S):
                for partition in range(self.partition_count):
                    asked_ms = _now_ms()
                    try:
                        data = client.get(OffsetZnode.path(self.name, self.name, partition))[0]
                    except NoNodeError:
                        continue
                    except (KazooException, KazooTimeoutError):
                        break
                    offset = OffsetZnode.decode(data).offset
                    self.history.offsets.append(OffsetSeen(asked_ms, _now_ms(), partition, offset))

    # ---- the block

    def __enter__(self) -> Self:
        brokers = min(3, len(self.cluster.brokers))
        self.admin.create_topic(self.name, partitions=self.partition_count, replication_factor=brokers)
        self._sending.start()
        self._watching.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stopped.set()
            self._sending.join(100)
            if error is None:
                self._finish()
        finally:
            self._watch_ended.set()
            self._watching.join(30)
            for reader in self.readers:
                reader.process.kill()
                reader.process.wait()
            self.admin.close()
        if error is None:
            self.judge()

    def _finish(self) -> None:
        """All is read, and committed, by readers that are alive; then they leave."""
        require(not self.send_errors, "each record is taken", self.send_errors)
        with Consumer(self.cluster.bootstrap) as asker:
            partitions = [TopicPartition(self.name, number) for number in range(self.partition_count)]
            self.history.ends = {
                partition.partition: end for partition, end in asker.end_offsets(partitions).items()
            }
        self.wait_until_whole()
        wait_until("all is read", lambda: self._has_reached(self.history.ends), HEALED_S)
        for reader in self.alive():
            self.let_leave(reader)
        # Within one watch's pause, since a goodbye ends when it is durable.
        ends = {number: end for number, end in self.history.ends.items() if end}
        wait_until("all is committed", lambda: {**self.committed()} == ends, HEALED_S)

    def judge(self) -> None:
        """Everything that the group promises. Raises ViolationError."""
        self.take_reports()
        ends = {0, -signal.SIGKILL, -signal.SIGTERM}  # It left, was killed, or was told to end as it began.
        crashed = [each.name for each in self.readers if each.process.returncode not in ends]
        require(not crashed, f"no reader crashes, as {crashed} did", self.tell() if crashed else ())
        require(self.history.offsets, "somebody watches the committed offsets")
        anomalies = find_group_anomalies(self.history)
        require(not anomalies, f"a group keeps its promises; {len(anomalies)} anomalies", anomalies)

    def tell(self) -> Iterator[str]:
        """For whoever looks for the cause."""
        yield f"group: {self.described()}"
        yield f"handed out: {self.handed_out()}; committed: {self.committed()}"
        for reader in self.readers:
            alive = "alive" if reader.process.poll() is None else f"ended with {reader.process.returncode}"
            yield f"{reader.name}: {alive}, stood still {reader.standstills_ms}; {reader.refusals[-3:]}"
            yield (self._directory / f"{self.name}-{reader.name}.log").read_text()[-2_000:]


def _now_ms() -> float:
    return time.monotonic() * 1000


class _zookeeper:  # noqa: N801
    """A client that outlives outages; a with-block."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._client = KazooClient(cluster.zookeeper, timeout=10.0)

    def __enter__(self) -> KazooClient:
        self._client.start(20)
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()
