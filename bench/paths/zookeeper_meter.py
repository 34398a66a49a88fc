"""What a cluster asks of ZooKeeper, as ZooKeeper itself counts it (`mntr`), and when it decides who leads."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from hightide_runtime.znodes.cluster_znodes import TOPICS, LeaderAndIsrZnode
from hightide_runtime.znodes.leaders_znodes import LeaderZnode
from hightide_runtime.zookeeper.session import TreeChanged, ZooKeeperEvent, ZooKeeperSession

BYTES_PER_KB = 1_000
_LOOK_AGAIN_S = 0.01


@dataclass(frozen=True, slots=True)
class ZooKeeperCounts:
    """The counters of a ZooKeeper server up to a moment.

    A multi is one write, and a multiRead one read. Pings count as reads: each session without other requests
    sends one in a third of its timeout.
    """

    at_s: float
    reads: int
    writes: int
    received_bytes: int
    watches: int
    znodes: int

    @classmethod
    def now(cls, address: str) -> Self:
        """Ask the server at host:port. Raises OSError, KeyError if it does not tell."""
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(b"mntr")
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        told = dict(line.split("\t", 1) for line in answer.decode().splitlines() if "\t" in line)
        return cls(
            time.monotonic(),
            _whole(told["zk_cnt_readlatency"]),
            _whole(told["zk_cnt_updatelatency"]),
            _whole(told["zk_bytes_received_count"]),
            _whole(told["zk_watch_count"]),
            _whole(told["zk_znode_count"]),
        )

    def since(self, earlier: Self) -> dict[str, float | None]:
        """Return what was asked between two moments."""
        return {
            "reads": float(self.reads - earlier.reads),
            "writes": float(self.writes - earlier.writes),
            "kb": (self.received_bytes - earlier.received_bytes) / BYTES_PER_KB,
        }


def _whole(text: str) -> int:
    return int(float(text))


class LeaderWatch:
    """Follows in ZooKeeper who leads what, in a thread of its own. A with-block."""

    def __init__(self, zookeeper: str, *, is_led: bool) -> None:
        """`is_led`: the cluster has no controller."""
        self._zookeeper = zookeeper
        # Without a controller a leader znode goes, and another one comes.
        self._changes = 2 if is_led else 1
        self._path = LeaderZnode.path if is_led else LeaderAndIsrZnode.path
        self._seen: dict[str, list[float]] = defaultdict(list)
        self._awaited: frozenset[str] = frozenset()
        self._ready, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._follow()), daemon=True)

    def begin(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Forget what was seen. From now on, each of these partitions is to get another leader."""
        self._awaited = frozenset(self._path(*each) for each in partitions)
        self._seen.clear()

    def until_decided(self, timeout_s: float) -> bool:
        """Wait until each has one. False if that takes too long."""
        deadline_s = time.monotonic() + timeout_s
        while not self._is_decided():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_AGAIN_S)
        return True

    def first_ms(self) -> float:
        """When the first change was seen, on the monotonic clock; call it after `until_decided`."""
        return min(times[0] for path, times in self._seen.items() if path in self._awaited)

    def decided_ms(self) -> float:
        """When the last partition got its leader; call it after `until_decided`."""
        return max(self._seen[path][self._changes - 1] for path in self._awaited)

    def _is_decided(self) -> bool:
        seen = dict(self._seen)
        return all(len(seen.get(path, ())) >= self._changes for path in self._awaited)

    async def _follow(self) -> None:
        session = await ZooKeeperSession.connect(self._zookeeper)
        session.followers.add(self._note)
        await session.watch_tree(TOPICS)
        self._ready.set()
        await asyncio.to_thread(self._stop.wait)
        await session.close()

    def _note(self, event: ZooKeeperEvent) -> None:
        if isinstance(event, TreeChanged) and event.path in self._awaited:
            self._seen[event.path].append(time.monotonic() * 1000)

    def __enter__(self) -> Self:
        """Begin to follow."""
        self._thread.start()
        if not self._ready.wait(60):
            raise TimeoutError(f"ZooKeeper at {self._zookeeper} did not answer the bench within 60 s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join()
