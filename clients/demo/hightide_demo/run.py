"""The whole demo: starts a cluster, loads it, kills processes, reads back, compares, runs Spark, and
reports."""

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from hightide import Admin, Consumer, Producer, TopicPartition
from hightide_bench.measuring.comparison import Comparer, Comparison, RecordRow
from hightide_cli.trace.search import broker_failover, controller_failover, coordinator_failover
from hightide_local.cluster import LocalCluster
from hightide_local.cluster_certificates import TLS_VARIABLES
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.spark_java import spark_java_home
from hightide_local.traces.client_traces import export_trace_directory, trace_clients
from hightide_local.traces.trace_lookup import summarise_failover
from hightide_runtime.znodes.coordination_znode import Coordination
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from hightide_demo.flights import flights_file, read_flights
from hightide_demo.group import DemoGroup
from hightide_demo.group_history import GroupFindings
from hightide_demo.load import DemoLoad
from hightide_demo.report import DemoReport, MeasuredFailover
from hightide_demo.script import DemoScript, Failover, GroupKill, KilledProcess
from hightide_demo.spark import DELAYS_TOPIC, SparkFindings, SparkSettings, run_on_spark

TOPIC = "flights"
PARTITIONS = 6
REPLICAS = 3
CONFIGS = {"min.insync.replicas": "2"}
COORDINATORS = 2
# The group reads during the load. Records that it has not read this long afterwards count as skipped.
_GROUP_READS_ON_S = 120.0
_LOOK_AGAIN_S = 0.05
_SHOW_EVERY_ROWS = 2000


class DemoDirectoryError(Exception):
    """The demo cannot use the directory: another demo runs in it, or it has files that are not the demo's."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The number of rows (None for all flights), the duration of the load, the directory of the cluster,
    whether it uses TLS, what decides who leads, and whether a console shows it."""

    rows: int | None
    duration_s: float
    directory: Path
    tls: bool = False
    coordination: Coordination = Coordination.CONTROLLER
    with_console: bool = False


def run_demo(settings: DemoSettings, console: Console) -> DemoReport:
    """Run the demo and return its findings. The command calls it, prints them, and chooses the exit code.

    At the end, also after Ctrl-C and SIGTERM, no process runs and the data is deleted. Logs and traces stay
    for `hightide trace show`, and the chart of the delays. Raises DemoDirectoryError, FlightsMissingError,
    ClusterError, ScriptError, SparkFailedError, HightideError.
    """
    archive = flights_file()
    java_home = spark_java_home()
    with own_directory(settings.directory), _interrupted_by_sigterm():
        shutil.rmtree(settings.directory, ignore_errors=True)
        settings.directory.mkdir(parents=True)
        cluster = LocalCluster(
            settings.directory,
            coordinators=COORDINATORS,
            tls=settings.tls,
            coordination=settings.coordination,
        )
        _let_clients_in(cluster)
        try:
            with console.status(f"starting {', '.join(cluster.names)}"):
                began_s = time.monotonic()
                cluster.start()
                export_trace_directory(cluster.trace_directory)
                trace_clients(at_once=True)
            took_s = time.monotonic() - began_s
            console.print(f"cluster ready in {took_s:.1f} s: {', '.join(sorted(cluster.running()))}")
            with console.status("reading the flights"):
                rows = read_flights(archive, settings.rows)
            # A full garbage collection over all rows stops every thread for half a second, which would count
            # as a wait of the clients.
            gc.freeze()
            with _console_beside(cluster, console) if settings.with_console else nullcontext():
                return _load_and_compare(cluster, rows, settings, java_home, console)
        finally:
            with console.status("stopping the cluster"):
                _throw_away(cluster)
            _delete_data(settings.directory, keep={cluster.log_directory.name, cluster.trace_directory.name})


def _let_clients_in(cluster: LocalCluster) -> None:
    """Let the clients of this process, and of those that it starts, reach the cluster. What the user's
    environment says of TLS is about another one."""
    for name in TLS_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(cluster.client_environment)


@contextmanager
def _console_beside(cluster: LocalCluster, console: Console) -> Iterator[None]:
    """A console of the cluster, whose address is told, and which opens in a browser, if this machine has one.
    Without it the demo goes on."""
    arguments = ["--bootstrap", cluster.bootstrap, "--traces", str(cluster.trace_directory)]
    command = [sys.executable, "-m", "hightide_cli", "console", "--port", "0", "--open", *arguments]
    guard = ProcessGuard()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    guard.watch(process.pid)
    try:
        assert process.stdout is not None, "it is a pipe"
        address = process.stdout.readline().strip()
        said = address or f"the console has not started: {process.communicate()[1].strip()}"
        console.print(said, markup=False, highlight=False, soft_wrap=True)
        yield
    finally:
        process.kill()
        process.wait()
        guard.forget(process.pid)
        guard.close()


def _throw_away(cluster: LocalCluster) -> None:
    """Kill all processes, since an orderly end would add failovers to the traces that stay."""
    for name in sorted(cluster.running(), reverse=True):
        if name.startswith(("coordinator-", "controller-", "broker-")):
            cluster.kill(name)
    cluster.stop()


def _load_and_compare(
    cluster: LocalCluster,
    rows: Sequence[RecordRow],
    settings: DemoSettings,
    java_home: Path,
    console: Console,
) -> DemoReport:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, REPLICAS, configs=CONFIGS)
        admin.create_topic(DELAYS_TOPIC, 1, REPLICAS, configs=CONFIGS)
    load = DemoLoad(rows, TOPIC, PARTITIONS, settings.duration_s)
    with (
        _progress(console) as progress,
        DemoGroup(cluster.bootstrap, TOPIC, cluster.log_directory) as group,
    ):
        script = DemoScript(cluster, load, group, TOPIC, tell=progress.console.print)
        writing = progress.add_task(f"writing {len(rows):,} flights, acks=all", total=len(rows))
        try:
            script.wait_for_group()
            with Producer(cluster.bootstrap, acks="all", idempotent=True) as producer:
                script.start()
                load.send_all(producer, lambda: progress.update(writing, completed=load.acknowledged))
            if load.first_error is not None:
                progress.console.print(f"not delivered: {load.first_error}")
            progress.update(writing, completed=load.acknowledged)
            script.wait()
        finally:
            script.cancel()
        findings = _group_findings(cluster.bootstrap, group, progress)
        reading = progress.add_task("reading back, comparing", total=len(rows))
        comparison = _read_back(cluster.bootstrap, load, progress, reading)
    with console.status("archiving, counting and telling delays on Spark"):
        on_spark = _run_pipelines(cluster, settings.directory, java_home)
    return DemoReport(
        len(rows),
        comparison,
        _measure(cluster, load, script.failovers),
        tuple(script.returns),
        findings,
        tuple(script.group_kills),
        on_spark,
        _coordinator_trace_id(cluster, script.group_kills),
    )


def _group_findings(bootstrap: str, group: DemoGroup, progress: Progress) -> GroupFindings:
    """Let the group read to the end, stop it, and compare its reports with the log."""
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    with Admin(bootstrap) as admin:
        first, following = (
            admin.list_offsets(partitions, "earliest"),
            admin.list_offsets(partitions, "latest"),
        )
    starts = {each.partition: first[each] or 0 for each in partitions}
    ends = {each.partition: following[each] or 0 for each in partitions}
    total = sum(ends.values())
    task = progress.add_task(f"a group of {len(group.names)} reads along", total=total)
    deadline_s = time.monotonic() + _GROUP_READS_ON_S
    while not group.look().has_read_to(ends) and time.monotonic() < deadline_s:
        progress.update(task, completed=min(total, group.look().record_count))
        time.sleep(_LOOK_AGAIN_S)
    findings = group.stop().findings(starts, ends)
    progress.update(task, completed=total - findings.skipped)
    return findings


def _read_back(bootstrap: str, load: DemoLoad, progress: Progress, task: TaskID) -> Comparison:
    comparer = Comparer(load.written(), load.unsure())
    gc.freeze()
    count = 0
    with Consumer(bootstrap, topics=[TOPIC]) as consumer:
        for count, record in enumerate(consumer.read_to_end(), 1):
            comparer.read_back(RecordRow(record.key, record.value))
            if count % _SHOW_EVERY_ROWS == 0:
                progress.update(task, completed=count)
    progress.update(task, completed=count)
    return comparer.result()


def _run_pipelines(cluster: LocalCluster, directory: Path, java_home: Path) -> SparkFindings:
    """Run the pipelines on Spark, and copy the chart out of the data, which is deleted."""
    wanted = SparkSettings(cluster.bootstrap, TOPIC, str(directory / "spark"))
    found = run_on_spark(wanted, cluster.log_directory, java_home)
    return replace(found, chart=str(shutil.copy(found.chart, directory)))


def _coordinator_trace_id(cluster: LocalCluster, kills: Sequence[GroupKill]) -> str | None:
    killed_at_s = next((each.killed_at_s for each in kills if each.name.startswith("coordinator-")), None)
    trace = None if killed_at_s is None else coordinator_failover(cluster.trace_directory, killed_at_s)
    return None if trace is None else trace.trace_id


def _measure(cluster: LocalCluster, load: DemoLoad, found: Sequence[Failover]) -> list[MeasuredFailover]:
    """Combine each kill with its trace and with the gaps between acknowledgements until the next kill."""
    ends_ms = [*(each.killed_at_ms for each in found[1:]), load.times.latest_ms()]
    measured = []
    for failover, end_ms in zip(found, ends_ms, strict=True):
        trace = (
            broker_failover(cluster.trace_directory, int(failover.name.split("-")[1]), failover.killed_at_s)
            if failover.victim is KilledProcess.BROKER
            else controller_failover(cluster.trace_directory, failover.killed_at_s)
        )
        summary = None if trace is None else summarise_failover(trace, failover.killed_at_s)
        waits = load.times.longest_waits_ms(failover.killed_at_ms, max(end_ms, failover.killed_at_ms))
        measured.append(MeasuredFailover(failover, summary, tuple(waits.values())))
    return measured


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


@contextmanager
def own_directory(directory: Path) -> Iterator[None]:
    """Hold a lock beside the directory within the block, so that a second demo does not delete the first
    one's data.

    The lock's file stays, and shows a later demo that the content of the directory is an earlier demo's.
    Raises DemoDirectoryError if there is other content, since the demo begins by deleting it.
    """
    lock_path = directory.parent / f"{directory.name}.lock"
    if not lock_path.exists() and directory.exists() and any(directory.iterdir()):
        raise DemoDirectoryError(
            f"{directory} has files that are not an earlier demo's, and the demo would delete them; give "
            "--directory a new or empty directory"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    with lock_path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DemoDirectoryError(f"a demo is running in {directory} already") from error
        yield


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Make SIGTERM within the block end the demo as Ctrl-C does, including its cleanup."""

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _delete_data(directory: Path, keep: set[str]) -> None:
    for entry in directory.iterdir():
        if entry.is_dir() and entry.name not in keep:
            shutil.rmtree(entry, ignore_errors=True)
