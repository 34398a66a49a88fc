"""What a failover costs the controller, without brokers: core and store against a real ZooKeeper.

    .venv/bin/python tests/integration/controller/controller_failover_bench.py [partitions…]

Prints, for each number of partitions (3 brokers, 3 replicas): the creation of their leaders, the read of
everything at a takeover, and the death of one broker until every multi has committed and every
LeaderAndISR is built; once with a warm cache, and once with every version in the cache stale.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from hightide_controller.contract import convert
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.machine import step
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.writes import StoreWrites
from hightide_controller.zookeeper.admin_reader import AdminReader
from hightide_controller.zookeeper.store import ControllerStore
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_runtime.topics.assignment import assign
from hightide_runtime.znodes.cluster_znodes import LeaderAndIsrZnode, TopicZnode
from hightide_runtime.zookeeper.election import ElectedProcess
from hightide_runtime.zookeeper.session import SetData, ZooKeeperSession, multis_of

IDENTITY = convert.Identity("bench", 1, "127.0.0.1", 1)
BROKERS = tuple(ev.Broker(broker_id, 100 + broker_id) for broker_id in (1, 2, 3))


class Driver:
    """The shell's duties, as far as ZooKeeper is concerned."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self.store = ControllerStore(session)
        self.admin_reader = AdminReader(session)
        self.state = ClusterState(controller_id=1)
        self._under_way: set[asyncio.Future[ev.Event]] = set()
        self.first_told_ms = 0.0
        self.sent_bytes = 0
        self._began = 0.0

    def take(self, event: ev.Event) -> None:
        self.state, effects = step(self.state, event)
        for effect in effects:
            match effect:
                case ef.StoreLeaderAndIsr():
                    self._under_way.add(self.store.submit(effect, ""))
                case StoreWrites():
                    self._under_way.add(asyncio.ensure_future(self.store.store_writes(effect, "")))
                case ef.ReadTopics():
                    reading = self.store.read_everything_about(effect.names, self.admin_reader)
                    self._under_way.add(asyncio.ensure_future(reading))
                case ef.ReadStates():
                    self._under_way.add(asyncio.ensure_future(self._read(effect)))
                case ef.SendLeaderAndIsr():
                    self._tell(effect)
                case _:
                    pass

    def _tell(self, effect: ef.SendLeaderAndIsr) -> None:
        request = convert.leader_and_isr_out(self.state, IDENTITY, effect.broker_epoch, effect.decisions)
        self.sent_bytes += len(request.SerializeToString())
        self.first_told_ms = self.first_told_ms or (time.perf_counter() - self._began) * 1000

    async def _read(self, effect: ef.ReadStates) -> ev.Event:
        return ev.StatesRead(await self.store.read_states(effect.names))

    async def until_quiet(self, event: ev.Event) -> float:
        """Take an event and everything that follows from it; the milliseconds that it took."""
        self.first_told_ms = 0.0
        self._began = time.perf_counter()
        self.take(event)
        while self._under_way:
            done, self._under_way = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                self.take(future.result())
        return (time.perf_counter() - self._began) * 1000

    async def take_over(self, controller_epoch: int) -> tuple[float, float]:
        """Be elected and act: milliseconds until everything was read, and until nothing is left to do."""
        self.state = ClusterState(controller_id=1)
        self.take(ev.ControllerSeen(None))
        began = time.perf_counter()
        await self.store.abdicate()
        epoch = await self.store.elect(ElectedProcess(1, "127.0.0.1", 1), None)
        assert epoch is not None
        snapshot = await self.store.read_snapshot(self.admin_reader)
        read_ms = (time.perf_counter() - began) * 1000
        snapshot = ev.ClusterSnapshot(BROKERS, snapshot.topics, snapshot.states)
        rest_ms = await self.until_quiet(ev.Elected(epoch.epoch, epoch.version, snapshot))
        return read_ms, read_ms + rest_ms


async def make_stale(session: ZooKeeperSession, driver: Driver) -> None:
    """Every leader writes its znode once more, as it does when a follower comes back."""
    writes = []
    for name, state in (await driver.store.read_states(driver.state.partitions)).items():
        assert state is not None
        znode = LeaderAndIsrZnode(state.leader, state.leader_epoch, state.isr, state.controller_epoch)
        writes.append([SetData(LeaderAndIsrZnode.path(*name), znode.encode(), state.partition_epoch)])
    for multi in multis_of(writes, None):
        await session.multi(multi)


async def measure(hosts: str, partitions: int) -> None:
    session = await ZooKeeperSession.connect(hosts)
    await session.ensure_cluster_id()
    driver = Driver(session)
    for start in range(0, partitions, 5_000):
        count = min(5_000, partitions - start)
        znode = TopicZnode(start.to_bytes(16), assign([1, 2, 3], count, 3, start))
        await session.create(TopicZnode.path(f"t{start}"), znode.encode())
    _, created_ms = await driver.take_over(1)
    read_ms, taken_ms = await driver.take_over(2)
    cpu = time.process_time()
    warm_ms = await driver.until_quiet(ev.BrokerProcessDied(1, BROKERS[0].broker_epoch))
    warm_cpu_ms, warm_first_ms = (time.process_time() - cpu) * 1000, driver.first_told_ms
    await driver.until_quiet(ev.BrokersChanged((ev.Broker(1, 999), *BROKERS[1:])))
    await make_stale(session, driver)
    stale_ms = await driver.until_quiet(ev.BrokerProcessDied(2, BROKERS[1].broker_epoch))
    led = sum(1 for p in driver.state.partitions.values() if p.leader_and_isr and p.leader_and_isr.leader > 0)
    assert led == partitions
    print(
        f"{partitions:>10,} {created_ms:>9.0f} {read_ms:>9.0f} {taken_ms:>9.0f} "
        f"{warm_first_ms:>10.0f} {warm_ms:>9.0f} {warm_cpu_ms:>8.0f} {stale_ms:>9.0f}"
    )
    await session.close()


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [1_000, 10_000]
    print("milliseconds; died: from the detector's word until all is stored and built")
    print(
        f"{'partitions':>10} {'created':>9} {'read':>9} {'takeover':>9} "
        f"{'first told':>10} {'died':>9} {'CPU':>8} {'stale':>9}"
    )
    with tempfile.TemporaryDirectory() as directory, EmbeddedZooKeeper(Path(directory)) as server:
        for number, size in enumerate(sizes):
            asyncio.run(measure(f"{server.address}/bench-{number}", size))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
