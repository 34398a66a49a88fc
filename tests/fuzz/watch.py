"""What is watched while a cluster is attacked: its processes, their logs, the waits of a normal client."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from hightide import Consumer, Producer
from hightide.errors import HightideError

_PAUSE_S: Final = 0.3
_SEND_S: Final = 60.0
_MIB: Final = 2**20

RSS_GROWTH_MAX_MIB: Final = 1_024
"""Two of a broker's budgets for answers (256 MiB), the produces under way, and what HTTP/2 floods leave."""
THREADS_GROWTH_MAX: Final = 100
DESCRIPTORS_LEFT_MAX: Final = 150
"""More open files than before, when the attackers are gone: partitions of attacked topics have some each."""


@dataclass(slots=True)
class Usage:
    """What a process uses: at first, at most, and at the end."""

    first: int
    most: int
    last: int

    def see(self, value: int) -> None:
        """Note what it uses now."""
        self.most, self.last = max(self.most, value), value


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Resident memory in MiB, threads, and open files of a process."""

    rss_mib: Usage
    threads: Usage
    descriptors: Usage


class ProcessWatch:
    """Reads the usage of processes again and again. A with-block runs it; `findings` are its judgement."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self.usage: dict[str, ProcessUsage] = {}
        self.gone: set[str] = set()
        for name, process in self._processes.items():
            values = _read(process)
            self.usage[name] = ProcessUsage(*(Usage(each, each, each) for each in values))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process-watch", daemon=True)

    def look(self) -> None:
        """Read all of them once."""
        for name, process in self._processes.items():
            usage = self.usage[name]
            try:
                rss_mib, threads, descriptors = _read(process)
            except psutil.Error:
                self.gone.add(name)
                continue
            usage.rss_mib.see(rss_mib)
            usage.threads.see(threads)
            usage.descriptors.see(descriptors)

    def _run(self) -> None:
        while not self._stopped.wait(_PAUSE_S):
            self.look()

    def __enter__(self) -> ProcessWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(30)
        self.look()

    def findings(self) -> Iterator[str]:
        """What no attack may bring about."""
        for name in sorted(self.gone):
            yield f"{name} has ended"
        for name, usage in self.usage.items():
            rss, threads, files = usage.rss_mib, usage.threads, usage.descriptors
            if rss.most - rss.first > RSS_GROWTH_MAX_MIB:
                yield f"{name} grew from {rss.first} to {rss.most} MiB"
            if threads.most - threads.first > THREADS_GROWTH_MAX:
                yield f"{name} had {threads.most} threads, and {threads.first} before"
            if files.last - files.first > DESCRIPTORS_LEFT_MAX:
                yield f"{name} keeps {files.last} files and connections open, and had {files.first} before"


def _read(process: psutil.Process) -> tuple[int, int, int]:
    with process.oneshot():
        return process.memory_info().rss // _MIB, process.num_threads(), process.num_fds()


_MISTAKE: Final = re.compile(
    r"Traceback \(most recent|failed unexpectedly| CRITICAL |Fatal Python|AssertionError"
)
_EVENT_BEGINS: Final = re.compile(r"\d{4}-|[EWIF]\d{4} ")
_LINES_SHOWN_MAX: Final = 14


def mistakes_in(log: str) -> Iterator[str]:
    """The events of a service's log that it did not expect, each with its traceback. What stands in ZooKeeper
    by mistake, or what a caller sends, is told in a sentence, which is none."""
    for event in _events(log):
        if any(map(_MISTAKE.search, event)):
            yield "\n    ".join([event[0], *event[1:][-_LINES_SHOWN_MAX:]])


def _events(log: str) -> Iterator[list[str]]:
    """The lines of each event: a time or what gRPC's core writes begins one, and all else goes on with it."""
    event: list[str] = []
    for line in log.splitlines():
        if event and _EVENT_BEGINS.match(line):
            yield event
            event = []
        event.append(line)
    if event:
        yield event


def mistakes_of(log_directory: Path) -> Iterator[str]:
    """Those of all services; ZooKeeper's log is its own."""
    for path in sorted(log_directory.glob("*.log")):
        if path.stem != "zookeeper":
            seen: set[str] = set()
            for mistake in mistakes_in(path.read_text(errors="replace")):
                kind = re.sub(r"\d+", "#", mistake.splitlines()[-1])
                if kind not in seen:
                    seen.add(kind)
                    yield f"{path.stem} logged: {mistake}"


class NormalClient:
    """Produces one record after the other with acks=all, and reads it back: what a client waits for both. A
    with-block runs it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self.waits_ms: list[float] = []
        self.errors: list[HightideError] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="normal-client", daemon=True)

    def _run(self) -> None:
        try:
            with (
                Producer(self._bootstrap, acks="all", linger_ms=0) as producer,
                Consumer(self._bootstrap, topics=self._topic, fetch_max_wait_ms=200) as consumer,
            ):
                while not self._stopped.wait(0.02):
                    began_s = time.monotonic()
                    producer.send(self._topic, b"normal").result(_SEND_S)
                    while not consumer.poll(timeout_s=1.0):
                        pass
                    self.waits_ms.append((time.monotonic() - began_s) * 1000)
        except HightideError as error:
            self.errors.append(error)

    def __enter__(self) -> NormalClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(_SEND_S + 30)

    def wait_ms(self, quantile: float) -> float:
        """A quantile of the waits; 0 without any."""
        ordered = sorted(self.waits_ms)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] if ordered else 0.0
