"""The script of the demo: kills a broker, a consumer, the coordinator and the controller during the load."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hightide import Admin, TopicDescription
from hightide_local.cluster import LocalCluster

from hightide_demo.group import GROUP, DemoGroup
from hightide_demo.load import DemoLoad

# The share of the rows that is acknowledged when each step begins.
BROKER_DIES_AT = 0.30
CONSUMER_DIES_AT = 0.40
BROKER_RETURNS_AT = 0.50
COORDINATOR_DIES_AT = 0.60
CONTROLLER_DIES_AT = 0.70
# The load does not pass these shares before the broker, the consumer and the controller are dead. So rows are
# left to write after each death, on a slow machine, too, and show that another one takes over.
_LOAD_WAITS_FOR_BROKER_AT = 0.40
_LOAD_WAITS_FOR_CONSUMER_AT = 0.50
_LOAD_WAITS_FOR_CONTROLLER_AT = 0.80
_STEP_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.01


class KilledProcess(Enum):
    """The kind of a killed process whose failover is measured."""

    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Failover:
    """One kill and its consequences. Milliseconds count from the kill."""

    victim: KilledProcess
    name: str
    killed_at_s: float
    """By the wall clock, as in traces."""
    killed_at_ms: float
    """By the monotonic clock, as in acknowledgements."""
    rows_before: int
    led: int
    """The number of partitions that the broker led; 0 for a controller."""
    successor: str
    recovered_ms: float
    """Until every partition acknowledged again, or until the new controller had created a topic."""
    active_ms: float | None = None
    """Until another controller answered as the active one; None for a broker."""


@dataclass(frozen=True, slots=True)
class GroupKill:
    """One kill that affects the consumer group: a consumer, or the coordinator."""

    name: str
    killed_at_s: float
    """By the wall clock, as in traces."""
    rows_before: int
    partitions: int
    """The number of partitions that the consumer owned, or that had owners under the coordinator."""
    successors: str
    recovered_ms: float
    """From the kill until other consumers were handed out records of each partition of the consumer, or until
    another coordinator had all consumers as members."""


@dataclass(frozen=True, slots=True)
class BrokerReturn:
    """The return of the broker: the time from its start until it is in every ISR."""

    name: str
    rows_before: int
    in_sync_ms: float


class ScriptError(Exception):
    """A step of the script did not end in time, or was interrupted."""


class DemoScript:
    """Runs in a thread during the load, and leaves its findings in `failovers`, `group_kills` and `returns`.
    `tell` gets a line of text for each step."""

    def __init__(
        self, cluster: LocalCluster, load: DemoLoad, group: DemoGroup, topic: str, tell: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._load = load
        self._group = group
        self._topic = topic
        self._tell = tell
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-script", daemon=True)
        self.failovers: list[Failover] = []
        self.group_kills: list[GroupKill] = []
        self.returns: list[BrokerReturn] = []
        self.error: Exception | None = None

    def wait_for_group(self) -> None:
        """Wait until every consumer of the group owns partitions. A consumer that came late, to partitions
        that are read to their end, would be handed out nothing. Called once, before `start`."""

        def all_own() -> bool:
            found = self._group.look()
            return all(found.owned_by(name) for name in self._group.names)

        self._until(all_own, "every consumer of the group owns partitions")

    def start(self) -> None:
        """Start the thread. Called once, just before the load."""
        self._load.pace.hold_before(_LOAD_WAITS_FOR_BROKER_AT)
        self._thread.start()

    def wait(self) -> None:
        """Return when the last step is done. Raises the error of the step that failed. Called after the
        load."""
        self._thread.join(timeout=4 * _STEP_TIMEOUT_S)
        if self.error is not None:
            raise self.error

    def cancel(self) -> None:
        """End the thread at its next check. Called at the end of the load, also if the demo was
        interrupted."""
        self._cancelled.set()

    def _run(self) -> None:
        try:
            with Admin(self._cluster.bootstrap) as admin:
                broker = self._kill_the_broker_that_leads_most(
                    admin, BROKER_DIES_AT, lambda: self._load.pace.hold_before(_LOAD_WAITS_FOR_CONSUMER_AT)
                )
                self._kill_a_consumer()
                self._bring_back(admin, broker)
                self._kill_the_active_coordinator(admin)
                if self._cluster.controllers:
                    self._kill_the_active_controller(admin)
                else:
                    release = self._load.pace.release
                    self._kill_the_broker_that_leads_most(admin, CONTROLLER_DIES_AT, release)
        except Exception as error:  # noqa: BLE001 - the top of a thread; `wait` raises it in the main one
            self.error = error
            self._load.stop()

    def _kill_the_broker_that_leads_most(self, admin: Admin, share: float, then: Callable[[], None]) -> str:
        self._wait_for_share(share)
        led = Counter(part.leader for part in self._describe(admin).partitions if part.leader is not None)
        ((broker_id, led_count),) = led.most_common(1)
        name = f"broker-{broker_id}"
        rows_before = self._load.acknowledged
        killed_at_s, killed_at_ms = _kill(self._cluster, name)
        then()
        self._tell(f"killed {name}, leader of {led_count} of {led.total()} partitions")

        def has_recovered() -> bool:
            """Whether every partition has acknowledged a row since, and has another leader."""
            return len(self._load.times.acknowledged_since(killed_at_ms)) == led.total() and all(
                part.leader not in (None, broker_id) for part in self._describe(admin).partitions
            )

        recovered_ms = self._until(
            has_recovered,
            f"every partition acknowledges again after the death of {name}",
            since_ms=killed_at_ms,
        )
        moved = {f"broker-{part.leader}" for part in self._describe(admin).partitions}
        self.failovers.append(
            Failover(
                KilledProcess.BROKER, name, killed_at_s, killed_at_ms, rows_before, led_count,
                ", ".join(sorted(moved)), recovered_ms,
            )
        )  # fmt: skip
        return name

    def _bring_back(self, admin: Admin, name: str) -> None:
        self._wait_for_share(BROKER_RETURNS_AT)
        rows_before = self._load.acknowledged
        started_ms = time.monotonic() * 1000
        self._tell(f"starting {name} again")
        self._cluster.restart(name)
        in_sync_ms = self._until(
            lambda: all(set(part.isr) == set(part.replicas) for part in self._describe(admin).partitions),
            f"{name} is in every ISR again",
            since_ms=started_ms,
        )
        self.returns.append(BrokerReturn(name, rows_before, in_sync_ms))

    def _kill_a_consumer(self) -> None:
        """Kill the consumer with the most partitions, and wait until others read each of them."""
        self._wait_for_share(CONSUMER_DIES_AT)

        def all_read() -> bool:
            found = self._group.look()
            return all(found.reads_all_of(name) for name in self._group.names)

        self._until(all_read, "every consumer of the group owns partitions and has read in each")
        history = self._group.look()
        name = max(self._group.names, key=lambda each: len(history.owned_by(each)))
        rows_before = self._load.acknowledged
        killed_at_s, killed_at_ms = time.time(), self._group.kill(name)
        self._load.pace.hold_before(_LOAD_WAITS_FOR_CONTROLLER_AT)
        owned = self._group.look().owned_by(name)
        self._tell(f"killed {name}, owner of {len(owned)} of {self._partition_count} partitions")
        others = self._group.living

        def read_on_ms() -> list[float]:
            found = self._group.look()
            times = (found.first_handed_out_ms(each, others, killed_at_ms) for each in owned)
            return [at_ms for at_ms in times if at_ms is not None]

        self._until(lambda: len(read_on_ms()) == len(owned), f"others read on in the partitions of {name}")
        successors = set(self._group.look().owners_of(owned).values())
        self.group_kills.append(
            GroupKill(
                name,
                killed_at_s,
                rows_before,
                len(owned),
                ", ".join(sorted(successors)),
                max(read_on_ms()) - killed_at_ms,
            )
        )

    def _kill_the_active_coordinator(self, admin: Admin) -> None:
        """Kill it, and wait until another one has all consumers as members, and an owner for each
        partition."""
        self._wait_for_share(COORDINATOR_DIES_AT)
        before = admin.describe_group(GROUP)
        name = self._cluster.active_coordinator(GROUP)
        rows_before = self._load.acknowledged
        killed_at_s, killed_at_ms = _kill(self._cluster, name)
        self._tell(f"killed {name}, the active coordinator")

        def has_recovered() -> bool:
            now = admin.describe_group(GROUP)
            return (
                now.coordinator_epoch > before.coordinator_epoch
                and now.state == "stable"
                and {member.consumer_id for member in now.members} == set(self._group.living)
                and sum(len(member.partitions) for member in now.members) == self._partition_count
            )

        recovered_ms = self._until(
            has_recovered, f"another coordinator has all consumers back after {name}", since_ms=killed_at_ms
        )
        successor = self._cluster.active_coordinator(GROUP)
        self.group_kills.append(
            GroupKill(name, killed_at_s, rows_before, self._partition_count, successor, recovered_ms)
        )

    def _kill_the_active_controller(self, admin: Admin) -> None:
        self._wait_for_share(CONTROLLER_DIES_AT)
        before = admin.describe_cluster()
        name = f"controller-{before.controller_id}"
        rows_before = self._load.acknowledged
        killed_at_s, killed_at_ms = _kill(self._cluster, name)
        self._load.pace.release()
        self._tell(f"killed {name}, the active controller")
        active_ms = self._until(
            lambda: admin.describe_cluster().controller_epoch > before.controller_epoch,
            f"another controller takes over from {name}",
            since_ms=killed_at_ms,
        )
        # The load does not show this failover, since leaders need no controller. A new topic needs one.
        admin.create_topic(f"{self._topic}-after-controller-failover", 6, 3)
        decided_ms = time.monotonic() * 1000 - killed_at_ms
        successor = f"controller-{admin.describe_cluster().controller_id}"
        self.failovers.append(
            Failover(
                KilledProcess.CONTROLLER, name, killed_at_s, killed_at_ms, rows_before, 0, successor,
                decided_ms, active_ms,
            )
        )  # fmt: skip

    @property
    def _partition_count(self) -> int:
        return self._load.partition_count

    def _describe(self, admin: Admin) -> TopicDescription:
        (described,) = admin.describe_topics([self._topic])
        return described

    def _wait_for_share(self, share: float) -> None:
        wanted = int(self._load.rows_total * share)
        self._until(lambda: self._load.acknowledged >= wanted, f"{wanted} rows are acknowledged")

    def _until(self, happened: Callable[[], bool], what: str, since_ms: float | None = None) -> float:
        """Wait until this has happened. Return the milliseconds since `since_ms`, or since the call. Raises
        ScriptError."""
        from_ms = time.monotonic() * 1000 if since_ms is None else since_ms
        deadline_s = time.monotonic() + _STEP_TIMEOUT_S
        while not happened():
            if self._cancelled.wait(_LOOK_AGAIN_S):
                raise ScriptError(f"interrupted before {what}")
            if time.monotonic() > deadline_s:
                raise ScriptError(f"it did not happen within {_STEP_TIMEOUT_S:.0f} s that {what}")
        return time.monotonic() * 1000 - from_ms


def _kill(cluster: LocalCluster, name: str) -> tuple[float, float]:
    """Send SIGKILL to a process. Return the time by the wall clock in seconds, and by the monotonic clock in
    milliseconds."""
    killed_at_s = cluster.kill(name)
    return killed_at_s, (time.monotonic() - (time.time() - killed_at_s)) * 1000
