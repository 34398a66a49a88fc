"""The metrics of every Hightide process: its use of the machine, the lag of its event loop, and its ZooKeeper
session. Names are OpenTelemetry's, if it has any."""

import asyncio
import gc
import os
import resource
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from hightide_runtime.telemetry.metric_declarations import (
    Distribution,
    Reading,
    Readings,
    counter,
    gauge,
    histogram,
)
from hightide_runtime.telemetry.metric_export import Metrics
from hightide_runtime.zookeeper.session import SessionState, ZooKeeperSession

__all__ = ["METRICS", "report_process"]

LOOK_EVERY_S: Final = 0.5
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

METRICS = (
    counter("process.cpu.time", "s", "CPU that the process has used", "cpu.mode"),
    gauge("process.memory.usage", "By", "resident memory"),
    gauge("process.open_file_descriptors", "{file_descriptor}", "open files and sockets"),
    gauge("process.file_descriptors_max", "{file_descriptor}", "how many it may have open"),
    gauge("process.threads", "{thread}", "threads that Python knows of"),
    gauge("process.uptime", "s", "since it began to report"),
    counter("cpython.gc.collections", "{collection}", "garbage collections", "cpython.gc.generation"),
    counter("cpython.gc.pause", "s", "time that they took, in which nothing else happened"),
    histogram(
        "hightide.process.event_loop_lag", "s",
        f"how much too late a timer rings that is set every {LOOK_EVERY_S:g} s: how long an answer waits for "
        "others that are being worked on",
    ),
    gauge("hightide.zookeeper.connected", "{connection}", "1 where ZooKeeper answers, else 0"),
    counter("hightide.zookeeper.connections_lost", "{connection}", "connections to ZooKeeper that broke"),
    counter(
        "hightide.zookeeper.sessions_expired", "{session}",
        "sessions that ZooKeeper gave up: what the process had registered was gone",
    ),
    counter(
        "hightide.zookeeper.nonsense", "{read}",
        "reads of a setting of the cluster that found what is none, so that the one before stays in force",
    ),
    histogram(
        "hightide.zookeeper.request.duration", "s",
        "from the sending of a request to ZooKeeper's answer, or to the end of the connection",
    ),
)  # fmt: skip


def report_process(metrics: Metrics, session: ZooKeeperSession) -> None:
    """Report these metrics from now on. Mains call it on the loop once the session exists."""
    if metrics.enabled:
        metrics.report(METRICS, _Process(session, asyncio.get_running_loop()).measure)


class _Process:
    def __init__(self, session: ZooKeeperSession, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self._loop = loop
        self._started = time.monotonic()
        self._lag = Distribution()
        self._gc_pause_s = 0.0
        self._gc_began = 0.0
        gc.callbacks.append(self._collecting)
        self._set_timer()

    def measure(self) -> Readings:
        """Read them all; a few system calls."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        zookeeper = self._session.counts
        return {
            "process.cpu.time": {("user",): used.ru_utime, ("system",): used.ru_stime},
            "process.memory.usage": _of_proc(_resident_bytes),
            "process.open_file_descriptors": _of_proc(lambda: len(os.listdir("/proc/self/fd"))),
            "process.file_descriptors_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "process.threads": threading.active_count(),
            "process.uptime": time.monotonic() - self._started,
            "cpython.gc.collections": {
                (str(generation),): each["collections"] for generation, each in enumerate(gc.get_stats())
            },
            "cpython.gc.pause": self._gc_pause_s,
            "hightide.process.event_loop_lag": self._lag,
            "hightide.zookeeper.connected": int(self._session.state is SessionState.CONNECTED),
            "hightide.zookeeper.connections_lost": zookeeper.connections_lost,
            "hightide.zookeeper.sessions_expired": zookeeper.sessions_expired,
            "hightide.zookeeper.nonsense": zookeeper.nonsense,
            "hightide.zookeeper.request.duration": zookeeper.request_s,
        }

    def _collecting(self, phase: str, info: dict[str, Any]) -> None:
        """Called by the collector at the beginning and the end of each of its rounds."""
        if phase == "start":
            self._gc_began = time.perf_counter()
        else:
            self._gc_pause_s += time.perf_counter() - self._gc_began

    def _set_timer(self) -> None:
        self._loop.call_later(LOOK_EVERY_S, self._rang, self._loop.time() + LOOK_EVERY_S)

    def _rang(self, due: float) -> None:
        # uvloop's timers have a resolution of a millisecond, and may fire early by one.
        self._lag.record(max(0.0, self._loop.time() - due))
        self._set_timer()


def _of_proc(read: Callable[[], int]) -> Reading:
    """Unknown if there is no /proc, on a developer's machine."""
    try:
        return read()
    except FileNotFoundError:
        return {}


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * _PAGE_BYTES
