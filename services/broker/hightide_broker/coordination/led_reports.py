"""Replicas of a broker without a controller that cannot lead, or should not: failed, damaged, contradicted by
their leaders, or waiting for a disk that does not answer.

Such a replica leaves the ISR by itself, if another one has all records, and stops leading: what it leads is
taken over by the others. It joins again as every follower does, by fetching. If it is the last that has all
records, it stays: there is nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from hightide.calls.backoff import Backoff
from hightide_leaders.core import elections
from hightide_leaders.core.values import TopicPartition
from hightide_leaders.znode_operations import operations_of
from hightide_runtime.zookeeper.session import BadVersion, NoNode, ZooKeeperError, ZooKeeperSession

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.coordination.led_cluster import LedCluster
from hightide_broker.core.lineage import NO_EPOCH
from hightide_broker.core.replica import Role
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Divergence

log = logging.getLogger(__name__)

AGAIN: Final = Backoff(initial_ms=50, maximum_ms=5_000)


class LedReports:
    """Takes such replicas out of their ISRs. On the event loop's thread."""

    def __init__(
        self,
        session: ZooKeeperSession,
        broker_id: int,
        cluster: LedCluster,
        metadata: MetadataCache,
        replicas: HostedReplicas,
        declines: Callable[[HostedReplica], None],
    ) -> None:
        """`declines` tells the decider that a replica which leads must not any more."""
        self._session = session
        self._broker_id = broker_id
        self._cluster = cluster
        self._metadata = metadata
        self._replicas = replicas
        self._declines = declines
        self._leaving: dict[PartitionKey, None] = {}
        self._task: asyncio.Task[None] | None = None

    def report(self, replicas: Iterable[PartitionKey]) -> None:
        """Let replicas leave that failed with their data directory."""
        self._leave(replicas)

    def report_damage(self, key: PartitionKey, offset: int) -> None:
        """Let a damaged replica leave."""
        self._leave((key,))

    def report_whole(self, key: PartitionKey) -> None:
        """A replica that is whole again joins by fetching."""
        self._leaving.pop(key, None)

    def report_hang(self, key: PartitionKey) -> None:
        """Let a replica leave that waits for its disk."""
        self._leave((key,))

    def hangs_no_more(self, key: PartitionKey) -> None:
        """A replica whose disk answers joins by fetching."""
        self._leaving.pop(key, None)

    def report_divergence(self, key: PartitionKey, divergence: Divergence) -> None:
        """Let a replica leave that keeps what its leader lacks."""
        self._leave((key,))

    def diverges_no_more(self, key: PartitionKey) -> None:
        """A replica that follows again joins by fetching."""
        self._leaving.pop(key, None)

    def report_difference(self, key: PartitionKey, where: Divergence | None) -> None:
        """Nobody knows which of the two is right: the log says where they differ, and a person decides."""

    async def told(self, patience_s: float) -> None:
        """Wait until those have left that were reported, for at most `patience_s`."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=patience_s)

    async def close(self) -> None:
        """Stop: the broker stops, and its leaderships move in any case."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _leave(self, keys: Iterable[PartitionKey]) -> None:
        self._leaving.update(dict.fromkeys(keys))
        if self._leaving and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="failed-replicas")

    async def _run(self) -> None:
        failures = 0
        try:
            while self._leaving:
                for key in list(self._leaving):
                    if await self._has_left(key):
                        self._leaving.pop(key, None)
                        failures = 0
                if self._leaving:
                    failures += 1
                    await asyncio.sleep(AGAIN.pause_s(failures))
        except Exception:
            # The top of a task: what has not left does so with the next report.
            log.exception("%d failed replicas did not leave their ISRs", len(self._leaving))

    async def _has_left(self, key: PartitionKey) -> bool:
        """Leave once. False if that is to be tried again."""
        topic = self._metadata.topic_by_id(key[0])
        replica = self._replicas.get(key)
        if topic is None or replica is None:
            return True
        name = TopicPartition(topic.topic, key[1])
        try:
            _, nodes = (await self._cluster.read_partitions([name])).get(name.topic, (None, {}))
            found = nodes.get(name.partition)
            if found is not None and found.topic_id == key[0].hex():
                if not elections.trusted(found) - {self._broker_id}:
                    return True
                write = elections.departure(name, found, self._broker_id, *_end_of(replica))
                if write is not None:
                    await self._session.multi(operations_of((elections.of_partition(found), *write)))
                    log.warning("%s left its ISR", replica)
        except (BadVersion, NoNode):
            return False
        except ZooKeeperError as error:
            log.warning("%s leaves its ISR later: %s", replica, error)
            return False
        if replica.state.is_leader:
            self._declines(replica)
        return True


def _end_of(replica: HostedReplica) -> tuple[int, int]:
    """Leader epoch and log end that a replica may vouch for; of a failed disk, nothing."""
    state = replica.state
    if state.role is Role.FAILED:
        return NO_EPOCH, 0
    return state.epochs.latest_epoch, state.reliable_end_offset
