"""The supervisor, with stand-ins for brokers and controllers: real processes, a real ZooKeeper."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from hightide_local import detached
from hightide_local.cluster import ClusterError, LocalCluster
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.ports import HOST
from hightide_runtime.zookeeper.session import ZooKeeperSession
from interrupts import Job, started_as

STAND_IN = Path(__file__).with_name("stand_in_service.py")
BROKER = (sys.executable, str(STAND_IN), "broker")
CONTROLLER = (sys.executable, str(STAND_IN), "controller")
WAIT_S = 60.0


def cluster_in(directory: Path, **options: Any) -> LocalCluster:
    return LocalCluster(
        directory,
        **{
            "brokers": 1,
            "controllers": 1,
            "broker_program": BROKER,
            "controller_program": CONTROLLER,
            **options,
        },
    )


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with cluster_in(tmp_path_factory.mktemp("cluster"), brokers=2, controllers=2) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: LocalCluster) -> LocalCluster:
    """A cluster in which everything runs, whatever the test before did to it."""
    for name in shared_cluster.names:
        if name not in shared_cluster.running():
            shared_cluster.restart(name)
    return shared_cluster


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for the kernel's view of other processes, which sends no event."""
    deadline = time.monotonic() + WAIT_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, what
        pause.wait(0.02)


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if is_alive(pid)]


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_cluster_is_ready_when_all_brokers_have_heard_of_each_other(cluster: LocalCluster) -> None:
    assert list(cluster.running()) == ["zookeeper", "controller-1", "controller-2", "broker-1", "broker-2"]
    assert cluster.active_controller() in ("controller-1", "controller-2")
    assert (cluster.log_directory / "broker-1.log").exists()


def test_a_killed_process_is_gone_and_a_restarted_one_is_back_at_its_address(cluster: LocalCluster) -> None:
    before, address = cluster.running()["broker-2"], cluster.brokers[2]
    killed_at_s = cluster.kill("broker-2")
    assert abs(time.time() - killed_at_s) < WAIT_S
    assert "broker-2" not in cluster.running()
    assert alive([before]) == []
    cluster.restart("broker-2")
    assert cluster.running()["broker-2"] != before
    with socket.create_connection((HOST, int(address.rpartition(":")[2]))):
        pass


def test_terminate_lets_a_process_end_by_itself_and_restart_does_so_first(cluster: LocalCluster) -> None:
    cluster.terminate("broker-1")
    assert "broker-1" not in cluster.running()
    before = cluster.running()["broker-2"]
    cluster.restart("broker-2")
    assert cluster.running()["broker-2"] != before


def test_the_other_controller_takes_over_when_the_active_one_is_killed(cluster: LocalCluster) -> None:
    active = cluster.active_controller()
    cluster.kill(active)
    assert cluster.active_controller() != active


def test_a_paused_process_runs_on_after_resume_and_can_be_stopped_while_paused(cluster: LocalCluster) -> None:
    pid = cluster.running()["broker-1"]
    cluster.pause("broker-1")
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "not stopped")
    cluster.wait_ready()
    cluster.resume("broker-1")
    wait_until(lambda: psutil.Process(pid).status() != psutil.STATUS_STOPPED, "not resumed")
    cluster.pause("broker-1")
    cluster.terminate("broker-1")
    assert alive([pid]) == []


def test_zookeeper_comes_back_with_its_data(cluster: LocalCluster) -> None:
    async def in_session(task: Callable[[ZooKeeperSession], Awaitable[Any]]) -> Any:
        session = await ZooKeeperSession.connect(cluster.zookeeper)
        try:
            return await task(session)
        finally:
            await session.close()

    asyncio.run(in_session(lambda session: session.create("/kept", b"data")))
    cluster.kill("zookeeper")
    cluster.restart("zookeeper")
    assert asyncio.run(in_session(lambda session: session.get("/kept"))).data == b"data"


def test_what_does_not_run_cannot_be_signalled(cluster: LocalCluster) -> None:
    cluster.kill("broker-1")
    for signalling in (cluster.kill, cluster.terminate, cluster.pause, cluster.resume):
        with pytest.raises(ClusterError, match="broker-1 does not run"):
            signalling("broker-1")


def test_a_stopped_cluster_starts_again_at_the_same_addresses(tmp_path: Path) -> None:
    with cluster_in(tmp_path) as first:
        pids = list(first.running().values())
    assert alive(pids) == []
    with cluster_in(tmp_path) as second:
        assert (second.bootstrap, second.zookeeper) == (first.bootstrap, first.zookeeper)


def test_a_second_cluster_in_the_same_directory_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="another process runs the cluster"):
        cluster_in(cluster.directory).start()
    assert len(cluster.running()) == 5


def test_a_failed_start_shows_the_end_of_the_log_and_leaves_nothing_running(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path, broker_arguments=("--fail-with", "the disk is on fire"))
    with pytest.raises(ClusterError, match=r"(?s)broker-\d ended with exit code 1.*the disk is on fire"):
        cluster.start()
    assert cluster.running() == {}
    # And the directory can be used again.
    with cluster_in(tmp_path):
        pass


class LateSupervisor(LocalCluster):
    """Looks at what it has started when a broker that fails has ended long ago."""

    def _start_process(self, name: str) -> None:
        super()._start_process(name)
        if name == "broker-1":
            assert self._process(name).wait(WAIT_S)


def test_a_broker_that_has_ended_before_anybody_looks_is_missed_all_the_same(tmp_path: Path) -> None:
    failing = (*BROKER, "--fail-with", "the disk is on fire")
    cluster = LateSupervisor(
        tmp_path, brokers=1, controllers=1, broker_program=failing, controller_program=CONTROLLER
    )
    with pytest.raises(ClusterError, match=r"(?s)broker-1 ended with exit code 1.*the disk is on fire"):
        cluster.start()
    assert cluster.running() == {}


def test_a_process_that_ends_by_the_first_signal_of_two_is_terminated(tmp_path: Path) -> None:
    class LateSignals(ManagedProcess):
        def send(self, number: signal.Signals) -> None:
            super().send(number)
            assert self.wait(WAIT_S)

    process = LateSignals("sleeper", ["sleep", "1000"], os.environ, tmp_path / "sleeper.log")
    guard = ProcessGuard()
    process.start(guard)
    assert process.terminate(WAIT_S)
    guard.close()


def test_a_start_that_takes_too_long_says_what_it_waited_for(tmp_path: Path) -> None:
    """All but the broker are there already, or it could be one of them that was waited for."""
    asleep = tmp_path / "asleep"
    script = f'test -e {asleep} && exec sleep 1000; exec "$@"'
    cluster = cluster_in(tmp_path, broker_program=("/bin/sh", "-c", script, "sh", *BROKER))
    with cluster:
        cluster.kill("broker-1")
        asleep.touch()
        with pytest.raises(ClusterError, match="gave up waiting: broker-1 at"):
            cluster.start(timeout_s=5)
        assert "broker-1" not in cluster.running()


SUPERVISOR = f"""
import pathlib, sys, threading
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[2])]!r}
from test_local_supervisor import cluster_in
with cluster_in(pathlib.Path(sys.argv[1])) as cluster:
    print(*cluster.running().values(), flush=True)
    # Not signal.pause(): a signal that comes just before it is not seen until the next one.
    while True:
        threading.Event().wait(0.2)
"""


@contextmanager
def supervisor_in(directory: Path, job: Job = Job.FOREGROUND) -> Iterator["subprocess.Popen[str]"]:
    """SUPERVISOR, and never longer than this block: a test that fails must not wait for it."""
    with started_as(job):
        supervisor = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, str(directory)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
    with supervisor:
        try:
            yield supervisor
        finally:
            supervisor.kill()


@pytest.mark.parametrize(
    ("number", "job"),
    [
        (signal.SIGKILL, Job.FOREGROUND),
        (signal.SIGTERM, Job.FOREGROUND),
        (signal.SIGINT, Job.FOREGROUND),
        (signal.SIGTERM, Job.BACKGROUND),
    ],
)
def test_no_process_outlives_its_supervisor_however_that_one_ends(
    tmp_path: Path, number: signal.Signals, job: Job
) -> None:
    with supervisor_in(tmp_path, job) as supervisor:
        assert supervisor.stdout is not None
        pids = [int(pid) for pid in supervisor.stdout.readline().split()]
        assert len(alive(pids)) == 3
        # To the whole group, as a terminal does on Ctrl-C.
        os.killpg(supervisor.pid, number)
        supervisor.wait(WAIT_S)
    wait_until(lambda: not alive(pids), f"still alive: {alive(pids)}")


def test_a_supervisor_killed_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    with supervisor_in(tmp_path) as supervisor:
        wait_until(lambda: bool(processes_of(tmp_path)), "nothing was started")
        supervisor.kill()
    wait_until(lambda: not processes_of(tmp_path), "something was left behind")


def processes_of(directory: Path) -> list[int]:
    """Whatever has the directory on its command line, except for the supervisor itself."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(
            argument.startswith(f"{directory}/") for argument in command
        ):
            found.append(process.pid)
    return found


@pytest.fixture
def detached_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("hightide_local.cluster.BROKER_PROGRAM", BROKER)
    monkeypatch.setattr("hightide_local.cluster.CONTROLLER_PROGRAM", CONTROLLER)
    yield tmp_path
    if (tmp_path / "cluster.json").exists():
        detached.down(tmp_path)


def test_a_detached_cluster_runs_on_and_is_found_by_its_directory(detached_directory: Path) -> None:
    started = detached.up(detached_directory, brokers=1, controllers=1)
    pids = started.running()
    del started
    status = {process.name: process.pid for process in detached.status(detached_directory)}
    assert status == pids
    found = detached.find(detached_directory)
    found.kill("broker-1")
    ended = [(each.name, each.pid) for each in detached.status(detached_directory) if not each.running]
    assert ended == [("broker-1", None)], "a program that gets a pid here may send it a signal"
    # `up` starts what is missing and leaves the rest alone.
    again = detached.up(detached_directory, brokers=1, controllers=1).running()
    assert again["zookeeper"] == pids["zookeeper"]
    assert again["broker-1"] != pids["broker-1"]
    with pytest.raises(ClusterError, match="1 brokers, 1 controllers and 0 coordinators without TLS runs in"):
        detached.up(detached_directory, brokers=2, controllers=1)
    assert sorted(detached.down(detached_directory)) == ["broker-1", "controller-1", "zookeeper"]
    assert alive(list(again.values())) == []
    assert detached.down(detached_directory, delete=True) == []
    assert not detached_directory.exists()


def test_where_no_cluster_was_started_none_is_found(tmp_path: Path) -> None:
    for ask in (detached.find, detached.status, detached.down):
        with pytest.raises(ClusterError, match="hightide dev up"):
            ask(tmp_path)
