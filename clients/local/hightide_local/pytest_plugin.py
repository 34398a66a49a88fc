"""Fixtures for tests against a real cluster. pytest finds them by itself if `hightide[local]` is installed.

The first test that uses the shared cluster starts it. After each test its faults are undone: cut links are
healed, paused processes resume, killed ones start again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from hightide_local import failure_report

if TYPE_CHECKING:
    from hightide_local.cluster import LocalCluster

#: Takes the options of LocalCluster, and returns it running and ready.
ClusterFactory: TypeAlias = "Callable[..., LocalCluster]"

# Every run of pytest on a machine with this package imports this module, so it imports nothing slow at its
# top.
_SHARED = pytest.StashKey["LocalCluster"]()
_BEGAN = pytest.StashKey[failure_report.TestStart]()
_SIZES = {"brokers": 3, "controllers": 2, "coordinators": 1}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings of the ini file: the size of the shared cluster."""
    for kind, count in _SIZES.items():
        sentence = f"how many {kind} the shared cluster has"
        parser.addini(f"hightide_{kind}", sentence, "string", str(count))


@pytest.fixture(scope="session")
def hightide_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """The cluster for all tests of the session: 3 brokers, 2 controllers and a coordinator unless the ini
    file says otherwise. A test may kill, pause, restart and partition its processes. The next test finds it
    restored."""
    from hightide_local.cluster import LocalCluster

    config = request.config
    with ExitStack() as stack:
        with _start_failure_in_one_line():
            cluster = stack.enter_context(
                LocalCluster(
                    tmp_path_factory.mktemp("hightide"),
                    brokers=_count(config, "hightide_brokers"),
                    controllers=_count(config, "hightide_controllers"),
                    coordinators=_count(config, "hightide_coordinators"),
                    partitionable=True,
                )
            )
        config.stash[_SHARED] = cluster
        yield cluster
        del config.stash[_SHARED]


@pytest.fixture
def hightide_cluster_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterFactory]:
    """A function that starts a cluster for this test alone, which is stopped after the test."""
    from hightide_local.cluster import LocalCluster

    clusters: list[LocalCluster] = []

    def start(**options: Any) -> LocalCluster:
        directory = options.pop("directory", None) or tmp_path_factory.mktemp("hightide")
        with _start_failure_in_one_line():
            cluster = LocalCluster(directory, **options)
            cluster.start()  # A failed start leaves no process to stop.
        clusters.append(cluster)
        return cluster

    yield start
    for cluster in clusters:
        cluster.stop()


@pytest.fixture
def hightide_topic(hightide_cluster: LocalCluster) -> str:
    """The name of a new topic of the shared cluster: one partition, on all brokers."""
    from hightide import Admin

    topic = f"test-{uuid.uuid4().hex}"
    hightide_cluster.wait_brokers_alive()
    with Admin(hightide_cluster.bootstrap) as admin:
        admin.create_topic(topic, partitions=1, replication_factor=len(hightide_cluster.brokers))
    return topic


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before a test and its fixtures, remember the sizes of the logs."""
    item.stash[_BEGAN] = failure_report.now()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """After a test and its own fixtures, restore the shared cluster, if there is one."""
    try:
        return (yield)
    finally:
        cluster = item.config.stash.get(_SHARED, None)
        if cluster is not None:
            cluster.restore()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test the warnings and failovers of all clusters since the test began, and
    the paths of the shared cluster's logs."""
    report = yield
    if not report.failed:
        return report
    cluster = item.config.stash.get(_SHARED, None)
    lines = []
    if cluster is not None:
        lines += [f"logs: {cluster.log_directory}", f"traces: {cluster.trace_directory}"]
        ended = [name for name in cluster.names if name not in cluster.running()]
        lines += [f"{name} does not run; the end of its log:\n{cluster.log_tail(name)}" for name in ended]
    if _BEGAN in item.stash:
        lines.append(failure_report.report_since(item.stash[_BEGAN]))
    if any(lines):
        report.sections.append(("hightide cluster", "\n".join(filter(None, lines))))
    return report


@contextmanager
def _start_failure_in_one_line() -> Generator[None]:
    """Turn a ClusterError at the start of a cluster into a failure of one line. A traceback would be of no
    use, and pytest would print the environment with it."""
    from hightide_local.errors import ClusterError

    try:
        yield
    except ClusterError as error:
        message = f"the cluster of the tests cannot be started: {error}"
        raise pytest.fail.Exception(message, pytrace=False) from None


def _count(config: pytest.Config, name: str) -> int:
    value = config.getini(name)
    if not value.isdigit():
        raise pytest.UsageError(f"{name} = {value!r} in the ini file is no number")
    return int(value)
