"""Finding replicas that are not assigned to this broker any more, and putting them into quarantine (KIP-516).

Theory of operation (docs/protocol.md, "Nothing is deleted by omission"). StopReplica is the quick way, and a
broker that was down never receives it. So three kinds of replicas are *suspect*: those that a starting broker
finds on its disks and that are not assigned to it, those that an UpdateMetadata seems to take away, and those
that a late order has left here. A message that leaves a replica out is not enough to remove it. The broker
asks ZooKeeper, after a sync, and acts only on what ZooKeeper says for certain. The replica goes into
quarantine, and can be brought back until the grace period is over.

It is certain if the cluster id is ours, and one of these holds: no topic has the id; the topic has no such
partition; or this broker is not in AR, and leaderAndISR is no older than the newest decision known here. AR
is read after leaderAndISR, and every change of AR gives leaderAndISR another version. So the AR that is read
is no older either. A replica is left alone, and checked again later, if something cannot be read, if an
operator wrote the topic and it has no id yet, or if it has no leader yet.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from hightide.calls.backoff import Backoff
from hightide_runtime.znodes.cluster_znodes import (
    TOPICS,
    ClusterIdZnode,
    LeaderAndIsrZnode,
    TopicZnode,
    ZnodeGarbage,
)
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.session import NoNode, Znode, ZooKeeperError, ZooKeeperSession

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.core.lineage import NO_EPOCH

log = logging.getLogger(__name__)

GATHER_S: Final = 1.0
"""How long a suspect waits before the check: nearly always a StopReplica is under way as well."""
ROUND_MAX: Final = 500
"""Suspects that are checked together."""
REPEAT: Final = Backoff(initial_ms=500, maximum_ms=10_000)
AGAIN_S: Final = 30.0
"""How long a suspect is left alone if ZooKeeper's answer was not certain, or if there was news about it, or
no room, when it was to be put aside."""


@dataclass(frozen=True, slots=True)
class HeldReplica:
    """A partition's replica on this broker, and the newest decision about it that the broker has carried
    out."""

    key: PartitionKey
    topic: str = ""
    """The topic's name; empty if the replica is only on disk, which does not know the name."""
    leader_epoch: int = NO_EPOCH
    partition_epoch: int = -1

    def __str__(self) -> str:
        topic_id, partition = self.key
        return f"{self.topic or 'partition'}-{partition} of topic id {topic_id.hex()}"


@dataclass(frozen=True, slots=True)
class StoredPartitions:
    """What ZooKeeper holds about suspects. The topics were read after the states."""

    topics: Mapping[str, TopicZnode | None]
    """By name; None if the znode exists and cannot be read. All topics, if `is_whole`."""
    states: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Leader epoch and zkVersion of leaderAndISR, by topic and partition. Unreadable ones are left out."""
    is_whole: bool = False


class StrayFinding(Enum):
    """The result of the check of a suspect; the value ends the sentence "… is put aside: "."""

    ASSIGNED = "it is assigned to this broker"
    UNCERTAIN = "ZooKeeper does not say for certain"
    TOPIC_GONE = "its topic is deleted"
    PARTITION_REMOVED = "its topic has no such partition any more"
    ASSIGNED_ELSEWHERE = "other brokers hold the partition now"

    @property
    def is_stray(self) -> bool:
        """Whether the suspect is to be removed."""
        return self not in (StrayFinding.ASSIGNED, StrayFinding.UNCERTAIN)


def look_at(broker_id: int, held: HeldReplica, stored: StoredPartitions) -> StrayFinding:
    """Decide about one suspect, by the rules at the top of this file. Pure."""
    topic_id, partition = held.key
    name = held.topic or _name_of(topic_id, stored)
    if not name:
        is_known = stored.is_whole and all(
            topic is not None and topic.topic_id for topic in stored.topics.values()
        )
        return StrayFinding.TOPIC_GONE if is_known else StrayFinding.UNCERTAIN
    if name not in stored.topics:
        return StrayFinding.TOPIC_GONE
    topic = stored.topics[name]
    if topic is None or not topic.topic_id:
        return StrayFinding.UNCERTAIN
    if topic.topic_id != topic_id:
        return StrayFinding.TOPIC_GONE
    if partition >= len(topic.partitions):
        return StrayFinding.PARTITION_REMOVED
    if broker_id in topic.partitions[partition]:
        return StrayFinding.ASSIGNED
    state = stored.states.get((name, partition))
    if state is None or state < (held.leader_epoch, held.partition_epoch):
        return StrayFinding.UNCERTAIN
    return StrayFinding.ASSIGNED_ELSEWHERE


def _name_of(topic_id: bytes, stored: StoredPartitions) -> str:
    for name, topic in stored.topics.items():
        if topic is not None and topic.topic_id == topic_id:
            return name
    return ""


# --- reading ---------------------------------------------------------------------------------------


async def read_stored(
    session: ZooKeeperSession, cluster_id: str, suspects: Sequence[HeldReplica]
) -> StoredPartitions | None:
    """Read what `look_at` needs, at least as new as this call; None if this is another cluster's ZooKeeper.

    Raises ZooKeeperError.
    """
    await session.sync()
    names = {held.topic: None for held in suspects if held.topic}
    ids = {held.key[0] for held in suspects if not held.topic}
    topics: dict[str, TopicZnode | None] = {}
    if ids:
        # A directory's name has the topic's id and not its name.
        try:
            names.update((name, None) for name in await session.children(TOPICS) if is_legal_topic_name(name))
        except NoNode:
            return None
        topics = await _read_topics(session, names)
    partitions = {
        (name, held.key[1])
        for held in suspects
        for name in ((held.topic,) if held.topic else _names_of(held.key[0], topics))
    }
    paths = {LeaderAndIsrZnode.path(*each): each for each in partitions}
    found = await session.multi_read([ClusterIdZnode.path(), *paths])
    if not is_of_cluster(found.get(ClusterIdZnode.path()), cluster_id):
        return None
    states = {}
    for path, partition in paths.items():
        if (znode := found.get(path)) is not None:
            try:
                states[partition] = (LeaderAndIsrZnode.decode(znode.data).leader_epoch, znode.version)
            except ZnodeGarbage as error:
                log.error("%s-%d: %s", *partition, error)
    return StoredPartitions(await _read_topics(session, names), states, is_whole=bool(ids))


def _names_of(topic_id: bytes, topics: Mapping[str, TopicZnode | None]) -> Iterable[str]:
    return (name for name, topic in topics.items() if topic is not None and topic.topic_id == topic_id)


async def _read_topics(session: ZooKeeperSession, names: Iterable[str]) -> dict[str, TopicZnode | None]:
    found = await session.multi_read([TopicZnode.path(name) for name in names])
    topics: dict[str, TopicZnode | None] = {}
    for name in names:
        if (znode := found.get(TopicZnode.path(name))) is not None:
            try:
                topics[name] = TopicZnode.decode(znode.data)
            except ZnodeGarbage as error:
                log.error("topic %s: %s", name, error)
                topics[name] = None
    return topics


def is_of_cluster(znode: Znode | None, cluster_id: str) -> bool:
    """Whether that is what a ZooKeeper of this cluster says of itself."""
    try:
        return znode is not None and ClusterIdZnode.decode(znode.data).cluster_id == cluster_id
    except ZnodeGarbage as error:
        log.error("%s", error)
        return False


# --- the task --------------------------------------------------------------------------------------


ReadStored = Callable[[Sequence[HeldReplica]], Awaitable[StoredPartitions | None]]
"""Reads what `look_at` needs, at least as new as the call; None if this is another cluster's ZooKeeper.
Raises ZooKeeperError."""


class StrayWatch:
    """Checks suspects, a bounded number at a time. One for each broker; on the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        cluster_id: str,
        read: ReadStored,
        held: Callable[[PartitionKey], HeldReplica | None],
        let_go: Callable[[HeldReplica], Awaitable[bool]],
    ) -> None:
        """`read` reads what ZooKeeper has about suspects. `held` returns what the broker holds now. `let_go`
        puts it into quarantine, unless that has changed, and returns whether it did."""
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._read = read
        self._held = held
        self._let_go = let_go
        self._suspects: dict[PartitionKey, None] = {}
        self._unsure: dict[PartitionKey, None] = {}
        """Those to check again later: ZooKeeper was not certain, or they could not be put aside."""
        self._again: asyncio.TimerHandle | None = None
        self._stir = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="strays")

    def suspect(self, keys: Iterable[PartitionKey]) -> None:
        """Check soon whether these replicas are still assigned to this broker. Their number is at most that
        of its replicas."""
        self._suspects.update(dict.fromkeys(keys))
        if self._suspects:
            self._stir.set()

    async def close(self) -> None:
        """Stop checking. The rest is checked when the broker starts again."""
        if self._again is not None:
            self._again.cancel()
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._stir.wait()
            self._stir.clear()
            await asyncio.sleep(GATHER_S)
            while self._suspects:
                keys = list(itertools.islice(self._suspects, ROUND_MAX))
                try:
                    await self.look(keys)
                except ZooKeeperError as error:
                    log.warning("looking for strays is repeated: %s", error)
                except Exception:
                    # The top of a task: without this, no stray would be found any more.
                    log.exception("looking for strays is repeated")
                else:
                    failures = 0
                    for key in keys:
                        self._suspects.pop(key, None)
                    continue
                failures += 1
                await asyncio.sleep(REPEAT.pause_s(failures))
            if self._unsure and self._again is None:
                self._again = asyncio.get_running_loop().call_later(AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._again = None
        self.suspect(self._unsure)

    async def look(self, keys: Iterable[PartitionKey]) -> None:
        """Check these suspects now, and put strays into quarantine. Raises ZooKeeperError."""
        suspects = []
        for key in keys:
            if (held := self._held(key)) is not None:
                suspects.append(held)
            else:
                self._unsure.pop(key, None)
        if not suspects:
            return
        stored = await self._read(suspects)
        if stored is None:
            log.error(
                "ZooKeeper does not hold cluster %s (any more): nothing is put aside; is it the right one, "
                "and has it its data?",
                self._cluster_id,
            )
            return
        for held in suspects:
            finding = look_at(self._broker_id, held, stored)
            if finding.is_stray:
                if await self._let_go(held):
                    log.warning("%s is put aside: %s", held, finding.value)
                    self._unsure.pop(held.key, None)
                else:
                    self._unsure[held.key] = None
            elif finding is StrayFinding.ASSIGNED:
                self._unsure.pop(held.key, None)
            elif held.key not in self._unsure:
                self._unsure[held.key] = None
                log.warning("%s is perhaps not assigned here, and is left as it is: %s", held, finding.value)
