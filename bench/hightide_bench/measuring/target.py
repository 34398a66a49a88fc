"""The cluster that a benchmark measures: a running one, or one that is started for it."""

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import click
from hightide import Admin, HightideError
from hightide.errors import UnknownTopicError
from hightide_cli.printing.progress import waiting
from hightide_local.cluster import ClusterError, LocalCluster
from hightide_local.detached import default_directory, find
from hightide_local.traces.client_traces import export_trace_directory

from hightide_bench.measuring.bench_folder import bench_folder

# Benchmarks write gigabytes, so old segments are deleted while they run.
RETENTION = {"retention.bytes": str(256 << 20), "segment.bytes": str(64 << 20)}
_DELETE_TIMEOUT_MS = 15_000


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """The cluster to measure. `cluster` is None if the brokers do not run on this machine. `keeps_topics`
    says that the topics stay after the benchmark, for the user to examine."""

    bootstrap: str
    cluster: LocalCluster | None
    keeps_topics: bool = False

    def broker_pids(self) -> list[int]:
        """Return the process ids of the brokers; none if they do not run on this machine."""
        if self.cluster is None:
            return []
        return [pid for name, pid in self.cluster.running().items() if name.startswith("broker-")]

    def create_topic(self, purpose: str, partitions: int, configs: dict[str, str] | None = None) -> str:
        """Create a topic for one benchmark, with a replica on each broker but at most 3. Return its name."""
        name = _topic_name(purpose)
        self._create(name, partitions, configs)
        return name

    def _create(self, name: str, partitions: int, configs: dict[str, str] | None) -> None:
        with Admin(self.bootstrap) as admin:
            alive = sum(broker.alive for broker in admin.describe_cluster().brokers)
            admin.create_topic(name, partitions, min(3, alive), configs=configs or {})

    @contextmanager
    def topic(self, purpose: str, partitions: int, configs: dict[str, str] | None = None) -> Iterator[str]:
        """Create a topic as `create_topic` does, and delete it after the block, also after Ctrl-C, unless
        topics are kept."""
        name = _topic_name(purpose)
        try:
            # Within the block that deletes it, since Ctrl-C may come after the topic exists and before the
            # answer.
            self._create(name, partitions, configs)
            yield name
        finally:
            self.delete_topics([name])

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete the topics of a benchmark that has ended or failed, unless they are kept. If one cannot be
        deleted, a message on stderr gives the command for it, and the figures are still printed."""
        for name in topics:
            if self.keeps_topics:
                click.echo(f"topic {name} is kept", err=True)
                continue
            try:
                with Admin(self.bootstrap, timeout_ms=_DELETE_TIMEOUT_MS) as admin:
                    admin.delete_topic(name)
            except UnknownTopicError:
                continue
            except HightideError as error:
                again = f"`hightide topic delete {name}` deletes it"
                click.echo(f"topic {name} could not be deleted: {error}; {again}", err=True)


def _topic_name(purpose: str) -> str:
    return f"bench-{purpose}-{time.time_ns() // 1_000_000}-{os.getpid()}"


@contextmanager
def bench_target(bootstrap: str | None, *, keeps_topics: bool = False) -> Iterator[LoadTarget]:
    """Give the cluster at `bootstrap`, else the running one of `dev up`, else a new one that ends with the
    block."""
    running = _running_dev_cluster()
    if running is not None and (bootstrap is None or _same(bootstrap, running.bootstrap.split(","))):
        yield LoadTarget(running.bootstrap, running, keeps_topics)
    elif bootstrap is not None:
        yield LoadTarget(bootstrap, None, keeps_topics)
    else:
        click.echo("no cluster runs; starting one for this benchmark", err=True)
        with ExitStack() as stack:
            with waiting("starting a cluster"):
                cluster = stack.enter_context(own_cluster())
            yield LoadTarget(cluster.bootstrap, cluster, keeps_topics)


@contextmanager
def own_cluster(
    *,
    brokers: int = 3,
    controllers: int = 2,
    coordinators: int = 0,
    coordinator_arguments: Sequence[str] = (),
) -> Iterator[LocalCluster]:
    """Give a new cluster that ends with the block. Its logs and traces stay until the next one starts. Raises
    ClusterError if another benchmark has one."""
    with bench_folder() as directory:
        try:
            with LocalCluster(
                directory,
                brokers=brokers,
                controllers=controllers,
                coordinators=coordinators,
                coordinator_arguments=coordinator_arguments,
            ) as cluster:
                export_trace_directory(cluster.trace_directory)
                yield cluster
        finally:
            for entry in directory.iterdir():
                if entry.name not in {"logs", "traces"} and entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)


def _running_dev_cluster() -> LocalCluster | None:
    try:
        cluster = find(default_directory())
    except ClusterError:
        return None
    return cluster if any(name.startswith("broker-") for name in cluster.running()) else None


def _same(bootstrap: str, addresses: Sequence[str]) -> bool:
    return any(address.strip() in addresses for address in bootstrap.split(","))
