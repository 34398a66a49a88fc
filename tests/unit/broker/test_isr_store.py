"""Every leader that asked ZooKeeper something hears something, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from hightide_broker.core.effects import Effects
from hightide_broker.core.events import Event, FollowerFetched, IsrStored, LeaderAndIsrDecided
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.isr import Committed
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.hosted import HostedReplica
from hightide_broker.isr_store import IsrStore
from hightide_broker.shell import Payload, ReplicaShell
from hightide_broker.storage import DataDirectory
from hightide_broker.topic_settings import TopicSettings
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry import Telemetry
from hightide_runtime.znodes import LeaderAndIsrZnode
from hightide_runtime.zookeeper import Operation, Znode, ZooKeeperRefused, ZooKeeperSession

TOPIC_ID = bytes(range(16))
STORED_S = 10.0
PATH = LeaderAndIsrZnode.path("flights", 0)


class OneZnode:
    """A session with one leaderAndISR behind it, which fails first in a way that nobody thought of."""

    def __init__(self) -> None:
        self.znode = Znode(PATH, LeaderAndIsrZnode(1, 1, (1,), 1).encode(), version=1, czxid=1)
        self.write_faults: list[Exception] = [RuntimeError("a bug")]
        self.read_faults: list[Exception] = [ZooKeeperRefused("no right to read"), RuntimeError("a bug")]

    def submit_multi(self, operations: Sequence[Operation]) -> asyncio.Future[tuple[int, ...]]:
        if self.write_faults:
            raise self.write_faults.pop()
        answer: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        answer.set_result((2,))
        return answer

    async def multi_read(self, paths: Sequence[str]) -> dict[str, Znode]:
        assert list(paths) == [PATH]
        if self.read_faults:
            raise self.read_faults.pop()
        return {PATH: self.znode}


class Attentive(ReplicaShell):
    """Tells when a leader has heard that its ISR is stored."""

    def __init__(self) -> None:
        failures: list[Exception] = []
        super().__init__(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        self.stored = asyncio.Event()

    def feed(self, replica: HostedReplica, event: Event, payload: Payload | None = None) -> Effects:
        effects = super().feed(replica, event, payload)
        if isinstance(event, IsrStored):
            self.stored.set()
        return effects


def test_a_leader_whose_isr_write_and_read_fail_unexpectedly_asks_until_it_knows(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path, "the-cluster", 1)

    async def scenario() -> HostedReplica:
        shell = Attentive()
        shell.isr = store = IsrStore(1, SystemClock(), cast(ZooKeeperSession, OneZnode()), shell)
        topic = TopicSettings()
        leader = HostedReplica(
            (TOPIC_ID, 0), "flights", topic, Replica.opened(ReplicaSettings(1)),
            data.log(TOPIC_ID, 0, True, "flights", topic.log),
        )  # fmt: skip
        shell.feed(leader, LeaderAndIsrDecided.dummy(1, 1, (1,), replicas=(1, 2)))
        shell.feed(leader, FollowerFetched(2, 1, 0, SystemClock().monotonic_ms()))
        await asyncio.wait_for(shell.stored.wait(), STORED_S)
        await store.close()
        shell.close()
        return leader

    leader = asyncio.run(scenario())
    assert leader.state.leading is not None
    assert leader.state.leading.isr == Committed((1, 2), 2)
    data.close()
