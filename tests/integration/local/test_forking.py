"""A service that is forked is as one that is started: what it is told, what it prints, how it ends."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from hightide_local.errors import ClusterError
from hightide_local.processes.forking import ForkServer, end_forking, fork_services
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.ports import free_port
from hightide_runtime.process.environment import service_environment
from leftovers import is_gone

PATIENCE_S = 30.0
SERVICES = ("broker", "controller", "coordinator")
#: Starts a controller that finds no ZooKeeper, says its pid and its parent's, and waits.
SUPERVISOR = """
import os, signal, sys
from pathlib import Path
import psutil
from hightide_local.processes.forking import fork_services
from hightide_local.processes.guard import Guard
from hightide_local.processes.managed_process import ManagedProcess
fork_services(os.environ)
process = ManagedProcess("controller", sys.argv[2:], os.environ, Path(sys.argv[1]))
process.start(Guard())
print(process.pid, psutil.Process(process.pid).ppid(), flush=True)
signal.pause()
"""


def command(service: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"hightide_{service}.main", *arguments]


def searching() -> list[str]:
    """A controller that looks for a ZooKeeper that is nowhere."""
    listen = ("--listen", f"127.0.0.1:{free_port()}", "--zookeeper", f"127.0.0.1:{free_port()}")
    return command("controller", "--controller-id", "1", *listen)


def environment() -> dict[str, str]:
    """That of the project's clusters, whatever this run has itself."""
    return {name: value for name, value in service_environment(os.environ).items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    running = ForkServer(environment())
    yield running
    running.close()


def wait_until_gone(pid: int) -> None:
    """Ended, also where nobody has asked yet how."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([descriptor], [], [], PATIENCE_S)[0], f"{pid} runs on"
    os.close(descriptor)


def run_forked(server: ForkServer, told: list[str], log: Path, told_by: Mapping[str, str]) -> tuple[int, str]:
    assert server.can_start(told, told_by)
    with log.open("wb") as output:
        child = server.start(told, told_by, output.fileno())
    child.open_gate()
    return child.wait(PATIENCE_S), log.read_text()


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    "arguments", [("--help",), ("--listen", "nowhere"), ("--no-such-flag", "1")], ids=" ".join
)
def test_a_fork_says_and_returns_what_a_process_of_its_own_does(
    server: ForkServer, tmp_path: Path, service: str, arguments: tuple[str, ...]
) -> None:
    told = command(service, *arguments)
    alone = subprocess.run(
        told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), check=False
    )
    assert run_forked(server, told, tmp_path / "log", environment()) == (alone.returncode, alone.stdout)


PROGRAM = """
import os, sys
import beside
print(__name__, __file__, sys.argv[1:], sys.path[0], beside.VALUE, os.path.basename(os.getcwd()))
sys.exit("it ends so")
"""


def test_a_fork_runs_a_file_as_python_does(server: ForkServer, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    told = [sys.executable, str(program), "one", "--two"]
    alone = subprocess.run(
        told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), check=False
    )
    assert alone.returncode == 1
    assert run_forked(server, told, tmp_path / "log", environment()) == (1, alone.stdout)


def test_a_fork_has_the_environment_and_the_directory_of_who_asked_for_it(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told_by = {**environment(), "HIGHTIDE_CONTROLLER_LISTEN": "nowhere"}
    told = command("controller", "--controller-id", "1")
    code, printed = run_forked(server, told, tmp_path / "log", told_by)
    assert code == 2
    assert "nowhere" in printed
    with (tmp_path / "log").open("wb") as output:
        child = server.start(searching(), environment(), output.fileno())
    child.open_gate()
    process = psutil.Process(child.pid)
    assert os.getsid(child.pid) == child.pid
    assert psutil.Process(process.ppid()).cwd() != process.cwd() == str(tmp_path)
    process.kill()
    assert child.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_fork_does_nothing_before_its_gate_opens_and_ends_where_it_never_does(
    server: ForkServer, tmp_path: Path
) -> None:
    with (tmp_path / "log").open("wb") as output:
        child = server.start(command("broker", "--help"), environment(), output.fileno())
    assert child.poll() is None
    os.close(child._gate)
    assert child.wait(PATIENCE_S) == 1
    assert (tmp_path / "log").read_bytes() == b""


def test_what_python_reads_as_it_starts_has_a_process_start_by_itself(server: ForkServer) -> None:
    """A fork of another's Python would not have it."""
    told = command("broker", "--help")
    for name in ("HIGHTIDE_BROKER_LISTEN", "OTEL_METRIC_EXPORT_INTERVAL"):
        assert server.can_start(told, {**environment(), name: "1"})
    for name in ("PYTHONPATH", "MALLOC_ARENA_MAX", "OTEL_SDK_DISABLED", "GRPC_VERBOSITY"):
        assert not server.can_start(told, {**environment(), name: "2"})
    assert not server.can_start([sys.executable, "-c", "pass"], environment())
    assert not server.can_start([sys.executable, "-X", "dev", *told[1:]], environment())


def test_a_managed_process_is_stopped_woken_and_ended_whether_it_is_forked_or_not(tmp_path: Path) -> None:
    guard = ProcessGuard()
    fork_services(environment())
    try:
        for may_fork in (True, False):
            told = searching()
            process = ManagedProcess("controller", told, environment(), tmp_path / "log")
            process.start(guard, may_fork=may_fork)
            assert process.is_running()
            assert (psutil.Process(process.pid).ppid() == os.getpid()) is not may_fork
            process.send(signal.SIGSTOP)
            assert psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
            process.send(signal.SIGCONT)
            assert not process.wait(0.01)
            process.kill()
            assert (process.is_running(), process.exit_code) == (False, -signal.SIGKILL)
            with pytest.raises(ClusterError, match="controller does not run"):
                process.send(signal.SIGTERM)
    finally:
        guard.close()
        end_forking()
        fork_services(service_environment(os.environ))


def test_forks_end_with_their_supervisor_and_so_does_the_process_that_forked_them(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path / "log"), *searching()],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as supervisor:
        assert supervisor.stdout is not None
        pids = [int(pid) for pid in supervisor.stdout.readline().split()]
        assert not any(map(is_gone, pids))
        supervisor.kill()
    for pid in pids:
        wait_until_gone(pid)


def test_where_the_process_that_forks_is_gone_a_start_says_so_and_its_forks_are_still_seen_to_end(
    tmp_path: Path,
) -> None:
    server = ForkServer(environment())
    with (tmp_path / "log").open("wb") as output:
        child = server.start(searching(), environment(), output.fileno())
        child.open_gate()
        psutil.Process(psutil.Process(child.pid).ppid()).kill()
        with pytest.raises(ClusterError, match="the process that forks services is gone"):
            server.start(searching(), environment(), output.fileno())
    assert child.poll() is None
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(PATIENCE_S) == 255
    server.close()
