"""A real cluster with something in it, and the command `hightide console` before it: what tests in a browser
look at, and what the pictures of the docs show."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from hightide import Admin, Consumer, Producer
from hightide_local.cluster import LocalCluster

ORDERS: Final = "orders"
PAYMENTS: Final = "payments"
SESSIONS: Final = "sessions"
GROUP: Final = "billing"
_TOPICS: Final = ((ORDERS, 12), (PAYMENTS, 6), (SESSIONS, 24))
_BATCH: Final = 40
_PACE_S: Final = 0.05


def fill(cluster: LocalCluster) -> None:
    """Create the topics, with some records in each."""
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        for name, partitions in _TOPICS:
            admin.create_topic(name, partitions, 3, configs={"retention.ms": "86400000"})
        for name, _ in _TOPICS:
            for number in range(300):
                producer.send(name, _order(number), f"customer-{number % 40}".encode(), headers=_HEADERS)
        producer.flush()


def _order(number: int) -> bytes:
    city = ("Lisbon", "Malmö", "Kyoto", "Tunis")[number % 4]
    return f'{{"order": {number}, "city": "{city}", "total": {number * 7 % 400}.50}}'.encode()


_HEADERS: Final = [("source", b"shop"), ("version", b"3")]


class Traffic:
    """Writes to the topics, and reads one of them in a group, until it is left. Failovers only delay it."""

    def __init__(self, cluster: LocalCluster, members: int = 2) -> None:
        self._bootstrap, self._members = cluster.bootstrap, members
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._write)]
        self._threads += [threading.Thread(target=self._read, args=(each,)) for each in range(members)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for each in self._threads:
            each.join()

    def _write(self) -> None:
        number = 300
        with Producer(self._bootstrap) as producer:
            while not self._ended.wait(_PACE_S):
                for name, _ in _TOPICS:
                    for _ in range(_BATCH):
                        number += 1
                        producer.send(
                            name, _order(number), f"customer-{number % 40}".encode(), headers=_HEADERS
                        )

    def _read(self, member: int) -> None:
        name = f"billing-{member + 1}"
        with Consumer(self._bootstrap, group=GROUP, consumer_id=name, offset_reset="earliest") as consumer:
            consumer.subscribe([ORDERS])
            while not self._ended.is_set():
                consumer.poll(0.2)


@dataclass(frozen=True, slots=True)
class Started:
    """A console that runs: the address that it printed, and its process."""

    address: str
    pid: int


@contextmanager
def console(arguments: Sequence[str]) -> Iterator[Started]:
    """The command as a process of its own, with these arguments."""
    command = [sys.executable, "-m", "hightide_cli", "console", "--port", "0", *arguments]
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        assert process.stdout is not None
        yield Started(process.stdout.readline().split()[-1], process.pid)


@contextmanager
def console_of(cluster: LocalCluster, *arguments: str) -> Iterator[str]:
    """The address of a console of this cluster, with its traces."""
    with started_on(cluster, *arguments) as started:
        yield started.address


def started_on(cluster: LocalCluster, *arguments: str) -> AbstractContextManager[Started]:
    """A console of this cluster, with its traces."""
    return console(["--bootstrap", cluster.bootstrap, "--traces", str(cluster.trace_directory), *arguments])
