"""A broker's connections to the outside, which its builder passes in: `broker`, or a simulation.

They are what a simulation replaces: time, ZooKeeper, other processes, threads. The files of a data directory
are passed to `LogDirectories.open`.
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from hightide_runtime.clock import Clock
from hightide_runtime.serving.channels import OpenChannel
from hightide_runtime.zookeeper.session import ZooKeeperSession


class DiskThreads(Protocol):
    """Makes the threads that wait for disks."""

    def __call__(self, count: int, name: str) -> Executor:
        """Make `count` threads, whose names begin with `name`."""
        ...


def os_threads(count: int, name: str) -> Executor:
    """Threads of the operating system."""
    return ThreadPoolExecutor(count, thread_name_prefix=name)


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """All ports of one broker, except its files."""

    clock: Clock
    session: ZooKeeperSession
    connect: OpenChannel
    threads: DiskThreads = os_threads
    follow: OpenChannel | None = None
    """How followers connect to their leaders; None: by `connect`."""
