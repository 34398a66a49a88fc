"""Runs a cluster on this machine: ZooKeeper, controllers, coordinators and brokers, each a process."""

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from hightide_runtime.process.environment import service_environment
from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE
from hightide_runtime.znodes.coordination_znode import Coordination

from hightide_local import failure_report
from hightide_local.cluster_certificates import ClusterCertificates
from hightide_local.errors import ClusterError
from hightide_local.layout import ZOOKEEPER, ClusterLayout, FirstPorts, controllers_wanted
from hightide_local.processes.embedded_zookeeper import wait_until_answers, zookeeper_process
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.network import CLIENTS, Network
from hightide_local.processes.ports import HOST
from hightide_local.processes.readiness import ReadinessChannels
from hightide_local.topic_state import PartitionState, wait_for_partitions

__all__ = ["ClusterError", "FirstPorts", "LocalCluster"]

BROKER_PROGRAM = (sys.executable, "-m", "hightide_broker.main")
CONTROLLER_PROGRAM = (sys.executable, "-m", "hightide_controller.main")
COORDINATOR_PROGRAM = (sys.executable, "-m", "hightide_coordinator.main")
_POLL_S, _STOP_S = 0.02, 10.0


class LocalCluster:
    """A cluster with its files in one directory: ports in cluster.json, logs in logs/, traces in traces/,
    data in data/.

    Use it as a with-block. All methods are synchronous, for one thread, and raise ClusterError. Processes are
    called `zookeeper`, `controller-1`…, `coordinator-1`… and `broker-1`…; without a coordinator there are no
    consumer groups. No process outlives the one that started it, however that one ends, unless `detached`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        controllers: int | None = None,
        coordinators: int = 0,
        data_directories_per_broker: int = 1,
        session_timeout_ms: int = 4000,
        replica_lag_time_max_ms: int = 10_000,
        broker_arguments: Sequence[str] = (),
        controller_arguments: Sequence[str] = (),
        coordinator_arguments: Sequence[str] = (),
        log_level: str = "INFO",
        detached: bool = False,
        first_ports: FirstPorts | None = None,
        broker_program: Sequence[str] | None = None,
        controller_program: Sequence[str] | None = None,
        coordinator_program: Sequence[str] | None = None,
        partitionable: bool = False,
        tls: bool = False,
        coordination: Coordination = Coordination.CONTROLLER,
    ) -> None:
        """Prepare the cluster; `start` starts it. The ports are those of an earlier cluster in the directory,
        if there was one.

        `detached` processes run on after this one. With `partitionable`, all connections go through a process
        that can cut them, which `partition` and `refuse_connections` need. With `tls`, all processes use TLS
        and ask clients for certificates; `certificates` has some. ZooKeeper also takes plaintext. There are 2
        controllers unless another number is given; none where `coordination` is by leaders.
        """
        controllers = controllers_wanted(brokers, controllers, coordinators, coordination)
        if detached and partitionable:
            raise ClusterError("a detached cluster has nobody to cut its links; leave out one of the two")
        self._directory = directory.resolve()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._layout = ClusterLayout.of(
            self._directory, brokers, controllers, first_ports or FirstPorts(), coordinators
        )
        self._layout.tls = tls
        self.certificates = ClusterCertificates(self._directory / "certificates") if tls else None
        """The certificates of this cluster, of which `client` is for clients; None: it has no TLS."""
        self._data_directories_per_broker = data_directories_per_broker
        self._detached = detached
        self._guard: ProcessGuard | None = None
        self._lock: IO[str] | None = None
        self._paused: set[str] = set()
        common = ("--zookeeper-session-timeout-ms", str(session_timeout_ms), "--log-level", log_level)
        decided = () if controllers else ("--coordination", coordination.value)
        lag = ("--replica-lag-time-max-ms", str(replica_lag_time_max_ms), *decided)
        self._broker_command = (*(broker_program or BROKER_PROGRAM), *common, *lag, *broker_arguments)
        self._controller_command = (
            *(controller_program or CONTROLLER_PROGRAM),
            *common,
            *controller_arguments,
        )
        self._coordinator_command = (
            *(coordinator_program or COORDINATOR_PROGRAM),
            *common,
            *(() if "--shards" in coordinator_arguments else ("--shards", "1")),
            *coordinator_arguments,
        )
        self._network = self._new_network() if partitionable else None
        self._processes: dict[str, ManagedProcess] = {}
        failure_report.note_traces(self.trace_directory)
        for name, (pid, created_s) in self._layout.processes.items():
            if name in self._layout.names:
                self._process(name).adopt(pid, created_s)

    @property
    def directory(self) -> Path:
        """The directory with all files of this cluster."""
        return self._directory

    @property
    def bootstrap(self) -> str:
        """The address for clients: host:port of all brokers, separated by commas."""
        return ",".join(self.brokers.values())

    @property
    def zookeeper(self) -> str:
        """host:port of ZooKeeper."""
        return f"{HOST}:{self._layout.zookeeper_port}"

    @property
    def brokers(self) -> dict[int, str]:
        """host:port of each broker, by id."""
        return {number: f"{HOST}:{port}" for number, port in self._layout.brokers.items()}

    @property
    def controllers(self) -> dict[int, str]:
        """host:port of each controller, by id."""
        return {number: f"{HOST}:{port}" for number, port in self._layout.controllers.items()}

    @property
    def coordinators(self) -> dict[int, str]:
        """host:port of each coordinator, by id."""
        return {number: f"{HOST}:{port}" for number, port in self._layout.coordinators.items()}

    @property
    def client_environment(self) -> dict[str, str]:
        """The environment variables with which clients reach this cluster; none without TLS."""
        return {} if self.certificates is None else self.certificates.client_environment

    @property
    def names(self) -> list[str]:
        """The names of the processes, ZooKeeper first."""
        return self._layout.names

    @property
    def log_directory(self) -> Path:
        """The directory of logs, with a file <name>.log for each process."""
        return self._directory / "logs"

    @property
    def trace_directory(self) -> Path:
        """The directory of spans, as JSON lines in a file for each process. `traces.span_files.read_spans`
        reads them."""
        return self._directory / "traces"

    def data_directory(self, broker_id: int) -> Path:
        """The directory in which a broker keeps its logs; the first one if it has several."""
        return self._directory / "data" / f"broker-{broker_id}"

    def data_directories(self, broker_id: int) -> list[Path]:
        """All directories in which a broker keeps its logs."""
        first = self.data_directory(broker_id)
        others = range(2, self._data_directories_per_broker + 1)
        return [first, *(first.with_name(f"{first.name}-{number}") for number in others)]

    def address_of(self, name: str) -> str:
        """host:port of the process with this name."""
        self._check_name(name, self.names)
        return f"{HOST}:{self._layout.port_of(name)}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start all processes that do not run, and wait until they are ready.

        If this fails, the processes that it started are killed, and the ClusterError shows the last lines of
        the log of the process that failed.
        """
        self._take_lock()
        self._guard = self._guard or ProcessGuard()
        started: list[str] = []
        try:
            stopped = [name for name in self.names if not self._process(name).is_running()]
            self._layout.replace_taken_ports(stopped)
            self._processes = {name: p for name, p in self._processes.items() if name not in stopped}
            if self._network is not None:
                if len(stopped) == len(self.names):
                    self._network = self._new_network()
                self._network.start()
            # All at the same time, since services wait for ZooKeeper while it starts.
            for name in stopped:
                started.append(name)
                self._start_process(name)
            self._save()
            self._wait_ready([name for name in self.names if name not in self._paused], timeout_s)
        except BaseException:
            for name in started:
                self._process(name).kill()
            if self._network is not None:
                self._network.stop()
            self._save()
            self._end_supervision(keeps_processes=False)
            raise
        if self._detached:
            for process in self._processes.values():
                process.detach()
            self._end_supervision(keeps_processes=True)

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until all processes that run (and are not paused) answer, all brokers know all brokers, and a
        coordinator is active if one runs.

        Raises ClusterError with the end of a log if a process ends meanwhile, or if this takes too long.
        """
        self._wait_ready(self._awake(), timeout_s)

    def _wait_ready(self, awake: Sequence[str], timeout_s: float) -> None:
        """Do the same for these processes. The caller names a process that it has just started, since one
        that has ended already is not among the running ones."""
        deadline = time.monotonic() + timeout_s
        if ZOOKEEPER in awake:
            wait_until_answers(self._process(ZOOKEEPER), self._layout.zookeeper_port, timeout_s)
        services = [name for name in awake if name != ZOOKEEPER]
        brokers = {number for number in self._layout.brokers if f"broker-{number}" in services}
        with self._open_questions() as questions:
            for name in services:
                address = self.address_of(name)
                self._wait_until(
                    partial(questions.is_serving, address),
                    f"{name} at {address} does not say that it serves",
                    deadline,
                    [name, *services],
                )
            for number in brokers:
                self._wait_until(
                    partial(questions.knows_brokers, self.brokers[number], brokers),
                    f"broker-{number} has not heard of the brokers {sorted(brokers)}",
                    deadline,
                    [f"broker-{number}", *services],
                )
            self._wait_for_coordinators(questions, services, deadline)

    def _wait_for_coordinators(
        self, questions: ReadinessChannels, services: list[str], deadline: float
    ) -> None:
        """Wait until a coordinator is active and all brokers know it, if a coordinator runs."""
        coordinators = [name for name in services if name.startswith("coordinator-")]
        if not coordinators:
            return
        addresses = [self.address_of(name) for name in coordinators]
        self._wait_until(
            lambda: any(map(questions.is_active_coordinator, addresses)),
            f"none of {', '.join(coordinators)} answers as the active one",
            deadline,
            [*coordinators, *services],
        )
        for name in services:
            if name.startswith("broker-"):
                self._wait_until(
                    partial(questions.knows_coordinators, self.address_of(name)),
                    f"{name} has not heard which coordinators are active",
                    deadline,
                    [name, *services],
                )

    def stop(self) -> None:
        """Stop all processes: SIGTERM to coordinators, brokers, controllers and ZooKeeper in this order, then
        SIGKILL to those that do not end in time."""
        try:
            # A broker that stops asks the controller to move its leadership, so controllers stop later.
            for kind in ("coordinator-", "broker-", "controller-", ZOOKEEPER):
                self._stop_all([name for name in self.names if name.startswith(kind)])
        finally:
            for process in self._processes.values():
                process.kill()
            if self._network is not None:
                self._network.stop()
            self._paused.clear()
            self._save()
            self._end_supervision(keeps_processes=False)

    def kill(self, name: str) -> float:
        """Send SIGKILL, and wait until the process has ended. Return the time.time() of the signal."""
        process = self._running_process(name)
        killed_at_s = time.time()
        process.kill()
        self._paused.discard(name)
        self._save()
        return killed_at_s

    def terminate(self, name: str, timeout_s: float = 60.0) -> float:
        """Send SIGTERM, and wait until the process has ended. Return the time.time() of the signal."""
        process = self._running_process(name)
        terminated_at_s = time.time()
        if not process.terminate(timeout_s):
            raise ClusterError(
                f"{name} runs on {timeout_s:g} s after SIGTERM; the end of its log:\n{self.log_tail(name)}"
            )
        self._paused.discard(name)
        self._save()
        return terminated_at_s

    def pause(self, name: str) -> None:
        """Send SIGSTOP: the process keeps its connections and answers nothing."""
        self._running_process(name).send(signal.SIGSTOP)
        self._paused.add(name)

    def resume(self, name: str) -> None:
        """Send SIGCONT to a paused process."""
        self._running_process(name).send(signal.SIGCONT)
        self._paused.discard(name)

    def restart(self, name: str, *, wait: bool = True, timeout_s: float = 60.0) -> None:
        """Start a process again, after SIGTERM if it runs. With `wait`, return when all running processes are
        ready."""
        process = self._process(name)
        if process.is_running():
            self.terminate(name, timeout_s)
        self._paused.discard(name)
        self._start_process(name)
        self._save()
        if wait:
            awake = {name, *self._awake()}
            self._wait_ready([each for each in self.names if each in awake], timeout_s)

    def partition(
        self, side: str | Iterable[str], other: str | Iterable[str] | None = None, *, one_way: bool = False
    ) -> None:
        """Cut the links between each process of one side and each of the other, without an error for them, as
        a broken cable does. With `one_way` only the direction from `side` to `other` is cut. Cuts add up
        until `heal`.

        If `other` is None, it is all other processes and the clients, whose name is `clients`
        (`network.CLIENTS`). Needs `partitionable=True`.
        """
        everybody = [*self.names, CLIENTS]
        sources = [side] if isinstance(side, str) else list(side)
        if other is None:
            targets = [name for name in everybody if name not in sources]
        else:
            targets = [other] if isinstance(other, str) else list(other)
        for name in (*sources, *targets):
            self._check_name(name, everybody)
        if self._network is None:
            raise ClusterError("the links of this cluster cannot be cut; start it with partitionable=True")
        self._network.cut(sources, targets, one_way=one_way)

    def refuse_connections(self, *names: str) -> None:
        """Let the ports of these processes refuse connections until `heal`, and end existing connections, as
        a firewall with new rules does. The processes run on. Needs `partitionable=True`."""
        for name in names:
            self._check_name(name, self.names)
        if self._network is None:
            raise ClusterError("no port of this cluster can refuse; start it with partitionable=True")
        self._network.refuse(names)

    def heal(self) -> None:
        """Undo all cuts and refusals. Bytes that waited in cut links arrive now."""
        if self._network is not None:
            self._network.heal()

    def leader_of(self, topic: str, partition: int = 0, timeout_s: float = 60.0) -> str:
        """The name of the running broker that leads a partition, such as "broker-2". Waits until there is
        one."""

        def leader(states: Sequence[PartitionState]) -> list[str]:
            running = self._awake()
            names = [f"broker-{each.leader}" for each in states if each.partition == partition]
            return [name for name in names if name in running]

        what = f"led in partition {partition} by a broker that runs"
        return leader(self._wait_for_partitions(topic, lambda states: bool(leader(states)), what, timeout_s))[
            0
        ]

    def wait_isr(self, topic: str, size: int | None = None, timeout_s: float = 60.0) -> None:
        """Wait until every partition of a topic has a leader and all its replicas in the ISR, or an ISR of
        exactly `size`. Raises ClusterError with the present ISRs."""

        def is_as_wanted(states: Sequence[PartitionState]) -> bool:
            return all(
                each.leader >= 0 and len(each.isr) == (len(each.replicas) if size is None else size)
                for each in states
            )

        what = f"{'all' if size is None else size} replicas in sync"
        self._wait_for_partitions(topic, is_as_wanted, what, timeout_s)

    def _wait_for_partitions(
        self, topic: str, wanted: Callable[[Sequence[PartitionState]], bool], what: str, timeout_s: float
    ) -> Sequence[PartitionState]:
        return wait_for_partitions(topic, self._deciders, self._open_questions, wanted, what, timeout_s)

    def _deciders(self) -> list[str]:
        """The addresses of the processes that answer as the controller, or would."""
        return [self.address_of(name) for name in self._awake() if name in self._layout.deciders]

    def restore(self, timeout_s: float = 60.0) -> None:
        """Undo all faults: heal cut links, resume paused processes, start ended ones. Costs nothing without
        faults. The pytest plugin calls it after each test."""
        broken = [name for name in self.names if not self._process(name).is_running()]
        is_whole = self._network is None or self._network.is_whole
        if not broken and not self._paused and is_whole:
            return
        self.heal()
        for name in tuple(self._paused):
            self.resume(name)
        for name in broken:
            self.restart(name, wait=False)
        self._wait_ready(self.names, timeout_s)
        self.wait_brokers_alive(timeout_s)

    def wait_brokers_alive(self, timeout_s: float = 60.0) -> None:
        """Wait until the active controller counts all running brokers (that are not paused) as alive, and so
        gives them replicas. `wait_ready` asks only brokers, which may not know that they count as dead."""
        awake, deciders = self._awake(), self._deciders()
        brokers = {number for number in self._layout.brokers if f"broker-{number}" in awake}
        with self._open_questions() as questions:
            self._wait_until(
                lambda: any(questions.counts_as_alive(address, brokers) for address in deciders),
                f"no controller counts all of the brokers {sorted(brokers)} as alive",
                time.monotonic() + timeout_s,
                awake,
            )

    def running(self) -> dict[str, int]:
        """The pids of the running processes, by name."""
        return {name: pid for name in self.names if (pid := self._process(name).pid)}

    def active_controller(self, timeout_s: float = 30.0) -> str:
        """The name of the active controller. Waits until one answers as the active one."""
        with self._open_questions() as questions:
            return self._active("controller", questions.is_active_controller, timeout_s)

    def active_coordinator(self, group: str = "", timeout_s: float = 30.0) -> str:
        """The name of the active coordinator, for the shard of this group if one is named. Waits until one
        answers as the active one."""
        with self._open_questions() as questions:
            return self._active(
                "coordinator", partial(questions.is_active_coordinator, group=group), timeout_s
            )

    def _active(self, kind: str, is_active: Callable[[str], bool], timeout_s: float) -> str:
        """The name of the process of this kind whose address `is_active`. Waits until there is one."""
        deadline = time.monotonic() + timeout_s
        while True:
            for name in self._awake():
                if name.startswith(f"{kind}-") and is_active(self.address_of(name)):
                    return name
            if time.monotonic() > deadline:
                raise ClusterError(f"no {kind} answers as the active one within {timeout_s:g} s")
            time.sleep(_POLL_S)

    def log_tail(self, name: str, lines: int = 20) -> str:
        """The last lines of the log of a process."""
        return self._process(name).log_tail(lines)

    def __enter__(self) -> Self:
        """Start the cluster, and wait until it is ready."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the cluster."""
        self.stop()

    def _open_questions(self) -> ReadinessChannels:
        return ReadinessChannels(self.certificates.client if self.certificates is not None else None)

    def _new_network(self) -> Network:
        ports = {name: self._layout.port_of(name) for name in self.names}
        return Network(ports, self.log_directory / "network.log")

    def _own_port(self, name: str) -> int:
        """The port on which a process itself listens. If there is a network, others reach it through that."""
        return self._network.target_port(name) if self._network is not None else self._layout.port_of(name)

    def _start_process(self, name: str) -> None:
        process = self._process(name)
        if self.certificates is not None and name != ZOOKEEPER:
            self.certificates.renew_for(name)
        process.start(self._guard, may_fork=not self._detached)
        if self._network is not None:
            self._network.note_pid(name, process.pid)

    @staticmethod
    def _check_name(name: str, names: Sequence[str]) -> None:
        if name not in names:
            raise ClusterError(f"there is no process {name!r}; there are {', '.join(names)}")

    def _process(self, name: str) -> ManagedProcess:
        if name not in self._processes:
            self._check_name(name, self.names)
            port = self._own_port(name)
            log_path = self.log_directory / f"{name}.log"
            if name == ZOOKEEPER:
                tls = None if self.certificates is None else self.certificates.of_zookeeper()
                process = zookeeper_process(self._directory / "zookeeper", port, log_path=log_path, tls=tls)
            else:
                own = {**os.environ, TRACE_DIRECTORY_VARIABLE: str(self.trace_directory)}
                process = ManagedProcess(name, self._command(name), service_environment(own), log_path)
            self._processes[name] = process
        return self._processes[name]

    def _command(self, name: str) -> list[str]:
        kind, _, number = name.partition("-")
        reached = (
            *("--listen", f"{HOST}:{self._own_port(name)}", "--advertise", self.address_of(name)),
            *("--zookeeper", self.zookeeper),
            *(self.certificates.flags_of(name) if self.certificates is not None else ()),
        )
        if kind == "controller":
            return [*self._controller_command, "--controller-id", number, *reached]
        if kind == "coordinator":
            return [*self._coordinator_command, "--coordinator-id", number, *reached]
        data = [part for path in self.data_directories(int(number)) for part in ("--data-dir", str(path))]
        return [*self._broker_command, "--broker-id", number, *reached, *data]

    def _running_process(self, name: str) -> ManagedProcess:
        process = self._process(name)
        if not process.is_running():
            raise ClusterError(f"{name} does not run")
        return process

    def _awake(self) -> list[str]:
        return [name for name in self.running() if name not in self._paused]

    def _wait_until(
        self, condition: Callable[[], bool], what: str, deadline: float, among: Sequence[str]
    ) -> None:
        while not condition():
            for name in among:
                process = self._process(name)
                if not process.is_running():
                    code = process.exit_code
                    raise ClusterError(
                        f"{name} ended{f' with exit code {code}' if code is not None else ''}; "
                        f"the end of {process.log_path}:\n{process.log_tail()}"
                    )
            if time.monotonic() > deadline:
                log = self._process(among[0])
                raise ClusterError(f"gave up waiting: {what}; the end of {log.log_path}:\n{log.log_tail()}")
            time.sleep(_POLL_S)

    def _stop_all(self, names: Sequence[str]) -> None:
        for name in names:
            process = self._process(name)
            if process.is_running():
                # It may have ended by itself since the check.
                with contextlib.suppress(ClusterError):
                    process.send(signal.SIGTERM)
                    process.send(signal.SIGCONT)
        deadline = time.monotonic() + _STOP_S
        for name in names:
            if not self._process(name).wait(max(0.1, deadline - time.monotonic())):
                self._process(name).kill()

    def _save(self) -> None:
        self._layout.processes = {
            name: (process.pid, process.created_s)
            for name, process in self._processes.items()
            if self._detached and process.is_running()
        }
        self._layout.save()

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        lock = (self._directory / ".lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise ClusterError(f"another process runs the cluster in {self._directory}") from None
        self._lock = lock

    def _end_supervision(self, *, keeps_processes: bool) -> None:
        """Close the guard, which kills the processes unless it `keeps_processes`, and the lock."""
        if self._guard is not None:
            if keeps_processes:
                self._guard.release()
            else:
                self._guard.close()
            self._guard = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
