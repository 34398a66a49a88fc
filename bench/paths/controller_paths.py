"""Compares the ways in which a controller can store ten thousand decisions, on one ZooKeeper.

    .venv/bin/python bench/paths/controller_paths.py [--partitions 10000] [--rounds 3] [--json]

Write: one conditional write for each leaderAndISR, awaited one by one (V3 A.3.3); the same pipelined; and
pipelined multis of 1,000 writes, each after a check of the controller epoch (Hightide's way). Read (V3 A.3.1,
D.3): one by one, pipelined, multiRead. How decisions reach brokers is measured by `coordination_paths.py`.

Figures are medians of the rounds. Each round measures all ways in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from statistics import median

from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_runtime.znodes.cluster_znodes import LeaderAndIsrZnode, PartitionZnode, TopicZnode
from hightide_runtime.zookeeper.session import Check, Create, SetData, ZooKeeperSession, multis_of

EPOCH = "/fence"

Ways = dict[str, list[float]]
"""The milliseconds of each round, by the name of the way."""


class Storing:
    """Reads and writes the leaderAndISR znodes of one topic, in each of the ways."""

    def __init__(self, session: ZooKeeperSession, partitions: int) -> None:
        self._session = session
        self._paths = [LeaderAndIsrZnode.path("flights", number) for number in range(partitions)]
        self._version = 0

    async def create(self) -> None:
        """Create the znodes, and the one that multis check."""
        await self._session.ensure_path(TopicZnode.path("flights"))
        await self._session.create(EPOCH, b"")
        data = self._data()
        groups = [
            [Create(PartitionZnode.path("flights", number), b""), Create(path, data)]
            for number, path in enumerate(self._paths)
        ]
        for multi in multis_of(groups, None):
            await self._session.multi(multi)

    def _data(self) -> bytes:
        return LeaderAndIsrZnode(2, self._version, (2, 3), 1).encode()

    async def write_one_by_one(self) -> None:
        """Wait for each write (V3 A.3.3)."""
        for path in self._paths:
            await self._session.set(path, self._data(), self._version)
        self._version += 1

    async def write_pipelined(self) -> None:
        """Send a request for each znode without waiting for the others."""
        writes = (self._session.set(path, self._data(), self._version) for path in self._paths)
        await asyncio.gather(*writes)
        self._version += 1

    async def write_in_multis(self) -> None:
        """Send multis of the largest size without waiting for the others."""
        groups = [[SetData(path, self._data(), self._version)] for path in self._paths]
        multis = multis_of(groups, Check(EPOCH, 0))
        await asyncio.gather(*(self._session.submit_multi(multi) for multi in multis))
        self._version += 1

    async def read_one_by_one(self) -> None:
        """Wait for each read."""
        for path in self._paths:
            await self._session.get(path)

    async def read_pipelined(self) -> None:
        """Send a request for each znode without waiting for the others."""
        await asyncio.gather(*(self._session.get(path) for path in self._paths))

    async def multi_read(self) -> None:
        """Read by ZooKeeper's multiRead, 1,000 znodes in a request."""
        found = await self._session.multi_read(self._paths)
        assert len(found) == len(self._paths)


async def timed_ms(work: Callable[[], Awaitable[None]]) -> float:
    """Return the milliseconds that this work takes."""
    began_s = time.perf_counter()
    await work()
    return (time.perf_counter() - began_s) * 1000


async def measure(zookeeper: str, partitions: int, rounds: int) -> tuple[Ways, Ways]:
    """Measure all ways. Return the milliseconds of writing and reading, by way."""
    session = await ZooKeeperSession.connect(zookeeper)
    try:
        storing = Storing(session, partitions)
        await storing.create()
        groups: tuple[Mapping[str, Callable[[], Awaitable[None]]], ...] = (
            {
                "one by one": storing.write_one_by_one,
                "pipelined": storing.write_pipelined,
                "multi of 1,000, pipelined": storing.write_in_multis,
            },
            {
                "one by one": storing.read_one_by_one,
                "pipelined": storing.read_pipelined,
                "multiRead of 1,000, pipelined": storing.multi_read,
            },
        )
        await storing.multi_read()  # Once without a measurement, to warm up.
        writing, reading = ({way: [] for way in group} for group in groups)
        for _ in range(rounds):
            for group, ways in zip(groups, (writing, reading), strict=True):
                for way, work in group.items():
                    ways[way].append(await timed_ms(work))
        return writing, reading
    finally:
        await session.close()


def summary(ways: Ways) -> dict[str, tuple[float, float]]:
    """The median of each way, and its ratio to that of the fastest way."""
    medians = {way: median(each) for way, each in ways.items()}
    best = min(medians.values())
    return {way: (each, each / best) for way, each in medians.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Ways to store a failover's decisions.")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="One line of JSON.")
    chosen = parser.parse_args()
    import uvloop

    with tempfile.TemporaryDirectory() as directory, EmbeddedZooKeeper(Path(directory)) as server:
        found = uvloop.run(measure(server.address, chosen.partitions, chosen.rounds))
    names = ("write_ms", "read_ms")
    summaries = {name: summary(ways) for name, ways in zip(names, found, strict=True)}
    if chosen.json:
        document = {
            "benchmark": "controller_paths",
            "partitions": chosen.partitions,
            "rounds": chosen.rounds,
            "load_average": round(os.getloadavg()[0], 2),
            **{
                name: {way: round(ms, 3) for way, (ms, _) in each.items()} for name, each in summaries.items()
            },
        }
        print(json.dumps(document))
        return
    headings = (
        f"{chosen.partitions:,} conditional writes of leaderAndISR",
        f"{chosen.partitions:,} reads of it",
    )
    for heading, each in zip(headings, summaries.values(), strict=True):
        print(heading)
        for way, (ms, ratio) in each.items():
            print(f"    {way:<42} {ms:>10.2f} ms {ratio:>8.1f} x")


if __name__ == "__main__":
    main()
