"""Fixtures that the rooms share."""

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_local.processes.forking import end_forking, fork_services
from hightide_runtime.process.environment import service_environment
from leftovers import Watchdog

_WATCHDOG = pytest.StashKey[Watchdog]()


def pytest_configure(config: pytest.Config) -> None:
    """Tests that a shell starts in the background are born with SIGINT ignored, and so would be all that they
    start: a command that a test interrupts would run on for ever. And what a run that is killed has started
    must not run on either."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_WATCHDOG] = Watchdog()
    # Until all is collected nothing is garbage: to look for it again and again was a third of the collection.
    gc.disable()
    fork_services(service_environment(os.environ))


def pytest_unconfigure(config: pytest.Config) -> None:
    """The end of the run."""
    end_forking()
    config.stash[_WATCHDOG].close()


def pytest_collection_finish() -> None:
    """Modules and tests stay for the whole run: no search for garbage has to pass through them."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that may take long begin first: where workers share the files, the one that ends last counts."""
    longest: dict[Path, float] = defaultdict(float)
    for item in items:
        limits = (mark.args[0] for mark in item.iter_markers("timeout"))
        longest[item.path] = max(longest[item.path], *limits, 0.0)
    items.sort(key=lambda item: -longest[item.path])


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A real ZooKeeper for the whole session; tests keep to a chroot of their own."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), tick_time_ms=200) as server:
        yield server


@pytest.fixture
def zookeeper_hosts(zookeeper_server: EmbeddedZooKeeper, request: pytest.FixtureRequest) -> str:
    """host:port/chroot of the session's ZooKeeper, with a chroot that belongs to this test."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return f"{zookeeper_server.address}/{name}"
