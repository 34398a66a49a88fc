"""Whether this broker's logs can be taken at their word after a restart (DESIGN §6.8).

A process that is killed loses nothing that it wrote: the operating system has it. A machine that loses its
power, or a disk that was replaced, takes the tail of the log or all of it along; such a broker must not count
as in sync for what it had before. It takes itself out of the ISRs before it registers, and comes back in by
catching up.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hightide_runtime.errors import StartupError
from hightide_runtime.znodes import LeaderAndIsrZnode
from hightide_runtime.zookeeper import BadVersion, NoNode, SetData, ZooKeeperSession, multis_of

from hightide_broker.core.replica import NO_LEADER
from hightide_broker.decisions import Decisions, PartitionDecision, PartitionKey, TopicDecisions
from hightide_broker.startup import ClusterAsStored, read_cluster
from hightide_broker.storage import DataDirectory, StorageError
from hightide_broker.topic_settings import topic_settings

log = logging.getLogger(__name__)

ATTEMPTS: Final = 10
_MARK: Final = "machine_boot_id"
_RECOVERING: Final = "recovering"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the logs of a data directory can be believed."""

    is_new: bool
    """The directory has no history, or none to be relied on: what it held earlier may not be in it."""
    may_lack_tails: bool
    """The machine went down without the broker being stopped: what was not synced may be lost."""

    def doubts(self, topic: TopicDecisions) -> bool:
        """Whether what ZooKeeper says about this broker's replicas of a topic may be more than it has."""
        if self.is_new:
            return True
        # With flush=fsync a replica's word was given only for what was on its disk.
        return self.may_lack_tails and not topic_settings(topic.topic, topic.configs, 1).flush_on_disk


def assess(data_dir: Path, was_closed_cleanly: bool) -> Trust:
    """Compare what the last life of the broker left behind with the machine's present boot. Does file I/O."""
    try:
        mark = (data_dir / _MARK).read_text(encoding="ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return Trust(is_new=True, may_lack_tails=True)
    if mark == _RECOVERING:
        # The last life ended between cutting damaged logs and acting on it: they look whole now.
        return Trust(is_new=True, may_lack_tails=True)
    same_boot = mark != "" and mark == _boot_id()
    return Trust(is_new=False, may_lack_tails=not was_closed_cleanly and not same_boot)


def suspend(data_dir: Path) -> None:
    """From here on nothing is believed, until `confirm`. Does file I/O.

    Called after `assess`, where the last stop was not clean: recovery is about to cut what is damaged, and a
    crash must not make that forgotten.
    """
    (data_dir / _MARK).write_text(_RECOVERING, encoding="ascii")


def confirm(data_dir: Path) -> None:
    """From here on the logs are believed, until the machine goes down. Does file I/O."""
    (data_dir / _MARK).write_text(_boot_id(), encoding="ascii")


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""  # No Linux: then only a clean shutdown is believed.


def damaged_logs(data: DataDirectory, decisions: Decisions) -> frozenset[PartitionKey]:
    """The partitions whose logs lost batches to damage, found by recovering them. Does file I/O.

    After a clean shutdown nothing is recovered, so nothing is opened here.
    """
    found: set[PartitionKey] = set()
    if data.was_closed_cleanly:
        return frozenset(found)
    on_disk = frozenset(data.partitions())
    for topic in decisions.topics:
        settings = topic_settings(topic.topic, topic.configs, 1)
        for each in topic.partitions:
            key = (topic.topic_id, each.partition)
            if key not in on_disk:
                continue
            try:
                if data.log(*key, False, topic.topic, settings.log).lost_data:
                    found.add(key)
            except StorageError as error:
                # The decision about it will meet the same error, and answer it.
                log.error("%s-%d cannot be opened: %s", topic.topic, each.partition, error)
                found.add(key)
    return frozenset(found)


async def leave_doubtful_isrs(
    session: ZooKeeperSession,
    broker_id: int,
    trust: Trust,
    damaged: Collection[PartitionKey],
    stored: ClusterAsStored,
) -> ClusterAsStored:
    """Take this broker out of the ISRs that it may no longer deserve; the cluster as it is stored then.

    Called once at startup, before the broker registers. Where it is the only member left it stays, since an
    ISR is never empty, and says so. Raises ZooKeeperError, StartupError.
    """
    for _ in range(ATTEMPTS):
        writes = list(_departures(broker_id, trust, damaged, stored.decisions))
        if not writes:
            return stored
        for multi in multis_of([[write] for write in writes], None):
            try:
                await session.multi(multi)
            except (BadVersion, NoNode):
                # Somebody else decided about one of them: read, and see what is left to do.
                log.info("leaving %d ISRs is repeated: one of them has changed", len(multi))
        log.warning("left the ISRs of %d partitions: the tails of their logs may be lost", len(writes))
        stored = await read_cluster(session, broker_id)
    raise StartupError(f"the ISRs that broker {broker_id} must leave keep changing; start it again")


def _departures(
    broker_id: int, trust: Trust, damaged: Collection[PartitionKey], decisions: Decisions
) -> Iterator[SetData]:
    for topic in decisions.topics:
        doubts_topic = trust.doubts(topic)
        for each in topic.partitions:
            is_doubtful = doubts_topic or (topic.topic_id, each.partition) in damaged
            if not is_doubtful or broker_id not in each.isr:
                continue
            if len(each.isr) == 1:
                if not trust.is_new or each.leader_epoch > 0:
                    log.error(
                        "%s-%d: this broker is the only in-sync replica, and its last records may be lost",
                        topic.topic,
                        each.partition,
                    )
                continue
            yield _departure(broker_id, topic.topic, each)


def _departure(broker_id: int, topic: str, decision: PartitionDecision) -> SetData:
    leader = NO_LEADER if decision.leader == broker_id else decision.leader
    isr = tuple(member for member in decision.isr if member != broker_id)
    znode = LeaderAndIsrZnode(leader, decision.leader_epoch, isr, decision.controller_epoch)
    return SetData(
        LeaderAndIsrZnode.path(topic, decision.partition), znode.encode(), decision.partition_epoch
    )
