"""Checking after a restart whether this broker's logs are complete.

The rule: docs/protocol.md, "A restarted broker is not trusted".

A killed process loses nothing that it wrote, because the operating system has it. A power loss of the machine
may take the tail of a log, and the replacement of a disk takes all of it. Such a broker must not count as in
sync for what it had before. It leaves the ISRs before it registers, and joins them again by catching up.

When it leaves, it also writes how far its logs go. If all in-sync replicas may have lost the ends of their
logs, the one with the longest log leads. The broker updates what an earlier life wrote in this way.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hightide.calls.backoff import Backoff
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import TOPIC_IDS, TopicIdZnode
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.zookeeper.session import (
    BadVersion,
    Check,
    NoNode,
    Operation,
    SetData,
    ZooKeeperSession,
    multis_of,
)

from hightide_broker.cluster.partition_decisions import (
    Decisions,
    PartitionDecision,
    PartitionKey,
    TopicDecisions,
)
from hightide_broker.cluster.topic_settings import topic_settings
from hightide_broker.directories.log_directories import LogDirectories, LogDirectory
from hightide_broker.hosting.startup import ClusterAsStored, StoredCluster
from hightide_broker.storage import DataDirectory, DiskFull, StorageError, StorageFailed

log = logging.getLogger(__name__)

ATTEMPTS: Final = 10
AGAIN: Final = Backoff(initial_ms=20, maximum_ms=1_000)
WRITES_MAX: Final = 400
"""Partitions of one topic in one multi. With its check it stays below the limit of a multi."""
_MARK: Final = "machine_boot_id"
_DIRECTORIES: Final = "data_directories"


@dataclass(frozen=True, slots=True)
class DirectoryTrust:
    """How far the logs of a data directory can be trusted."""

    is_new: bool
    """The directory has no reliable history: logs that it had earlier may be missing."""
    may_lack_tails: bool
    """The machine went down while the broker ran: what was not synced may be lost."""

    def doubts(self, topic: TopicDecisions) -> bool:
        """Whether ZooKeeper may expect more of this broker's replicas of a topic than they have."""
        if self.is_new:
            return True
        # With flush=fsync a replica acknowledged only what was on its disk.
        return self.may_lack_tails and not topic_settings(topic.topic, topic.configs, 1).flush_on_disk

    @property
    def doubts_absence(self) -> bool:
        """Whether a log that is missing may have been here. After a power cut there may be no note of a
        young log: marks are from the boot before, and checkpoints name a log only seconds after its first
        records."""
        return self.is_new or self.may_lack_tails


NONE: Final = DirectoryTrust(is_new=True, may_lack_tails=True)
"""The trust in a directory that has no marks, or that cannot be read."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log that was found."""

    leader_epoch: int
    """The latest leader epoch in it; -1 if it has no record."""
    log_end_offset: int


NOTHING: Final = LogEnd(-1, 0)


@dataclass(frozen=True, slots=True)
class BrokerTrust:
    """How far a broker's logs can be trusted, for each directory.

    A log that is found is as trustworthy as its directory. A partition that is on no disk may have been in
    any directory, so its absence is trusted only if all directories are. A directory that was emptied,
    replaced, left out or is offline therefore costs the ISRs of the partitions that may have been in it. A
    new directory beside others costs next to nothing.
    """

    of_directories: Mapping[str, DirectoryTrust]
    """By path. A directory that is offline, or that the broker had once and was not given now, has NONE."""
    home_of: Callable[[PartitionKey], str | None]
    """The path of the directory in which a partition was found; None if it is on no disk."""
    damaged: frozenset[PartitionKey]
    """The partitions whose logs have less than before, are gone, or cannot be opened."""
    ends: Mapping[PartitionKey, LogEnd] = field(default_factory=dict)
    """The log ends of the partitions that are in doubt, or were in doubt in an earlier life."""
    lack_front: frozenset[PartitionKey] = frozenset()
    """The partitions whose oldest records are missing."""

    def doubts(self, topic: TopicDecisions, partition: int) -> bool:
        """Whether ZooKeeper may expect more of this broker's replica than it has."""
        key = (topic.topic_id, partition)
        if key in self.damaged:
            return True
        home = self.home_of(key)
        if home is not None:
            return self.of_directories[home].doubts(topic)
        return any(trust.doubts_absence for trust in self.of_directories.values())


def assess(data: DataDirectory) -> DirectoryTrust:
    """Compare the marks of the broker's last life with the machine's current boot. Does file I/O."""
    try:
        found = data.read_note(_MARK)
    except StorageError as error:
        log.error("%s", error)
        return NONE
    mark = b"" if found is None else found
    if found is None or not mark.isascii():
        return NONE  # Also if the last life ended after it cut damaged logs and before it acted on that.
    same_boot = mark != b"" and mark.decode("ascii") == data.machine_boot()
    if data.lost_checkpoints or (same_boot and not data.knows_its_logs):
        log.error("%s lacks what says how long its logs were: none of them is believed", data.path)
        return NONE
    return DirectoryTrust(is_new=False, may_lack_tails=not data.was_closed_cleanly and not same_boot)


def suspend(data: DataDirectory) -> None:
    """Stop trusting the logs until `confirm`. Does file I/O, which needs no room on the disk.

    Called after `assess`, if the last stop was not clean. Recovery is about to cut what is damaged, and the
    logs look whole afterwards. A crash must not make the broker forget the damage. Raises StorageError.
    """
    data.remove_note(_MARK)


def disown(data: DataDirectory) -> None:
    """Try to mark a failed directory, so that the next start does not trust it: data that the operating
    system took may never have reached its disk. Does file I/O; raises nothing."""
    data.try_to_remove_note(_MARK)


def confirm(data: DataDirectory) -> None:
    """Trust the logs from now on, until the machine goes down. Does file I/O.

    On a full disk the mark cannot be written. If the logs were not trusted before, a restart then leaves the
    ISRs once more. Raises StorageFailed.
    """
    mark = data.machine_boot().encode("ascii")
    if data.read_note(_MARK) == mark:
        return
    try:
        data.write_note(_MARK, mark)
    except DiskFull as error:
        log.warning("the logs are not believed after the next restart, since there is no room: %s", error)
        data.remove_note(_MARK)


@dataclass(slots=True)
class LogsFound:
    """The logs in a data directory of the partitions that are assigned to its broker."""

    damaged: set[PartitionKey] = field(default_factory=set)
    """The partitions whose logs have less than before, or cannot be opened."""
    missing: set[PartitionKey] = field(default_factory=set)
    """The partitions whose logs were here and not empty, and are gone."""
    lack_front: set[PartitionKey] = field(default_factory=set)
    """The damaged partitions whose oldest records are missing."""


def look_at_logs(data: DataDirectory, decisions: Decisions, *, may_lack_tails: bool) -> LogsFound:
    """Open the logs, which compares each with its marks, and recovers it if it has to be read. Does file I/O.
    After a clean shutdown nothing is read. Raises StartupError."""
    found = LogsFound()
    on_disk = frozenset(data.partitions())
    for topic in decisions.topics:
        settings = topic_settings(topic.topic, topic.configs, 1)
        for each in topic.partitions:
            key = (topic.topic_id, each.partition)
            if may_lack_tails and settings.flush_on_disk and not data.acks_were_synced(*key):
                log.error("%s-%d was not kept with flush=fsync for long", topic.topic, each.partition)
                found.damaged.add(key)
            if key not in on_disk:
                if data.is_missing(*key):
                    found.missing.add(key)
                continue
            try:
                opened = data.log(*key, False, topic.topic, settings.log)
            except StorageError as error:
                if isinstance(error, StorageFailed) and not data.failed:
                    # It lacks descriptors or memory, and others would think that it has lost its logs.
                    raise StartupError(f"{topic.topic}-{each.partition} cannot be opened: {error}") from error
                # The decision about it will get the same error, and answer it.
                log.error("%s-%d cannot be opened: %s", topic.topic, each.partition, error)
                found.damaged.add(key)
                continue
            if opened.lost_data:
                found.damaged.add(key)
            if opened.lacks_front:
                found.lack_front.add(key)
    return found


def log_ends(
    data: DataDirectory, wanted: Collection[tuple[TopicDecisions, int]]
) -> dict[PartitionKey, LogEnd]:
    """How far the logs of these partitions go, without those that cannot be opened. Does file I/O."""
    ends: dict[PartitionKey, LogEnd] = {}
    for topic, partition in wanted:
        settings = topic_settings(topic.topic, topic.configs, 1)
        try:
            log_there = data.log(topic.topic_id, partition, False, topic.topic, settings.log)
        except StorageError:
            continue  # `look_at_logs` has reported it, and the decision about it gets the error again.
        epochs = log_there.epochs.entries
        ends[topic.topic_id, partition] = LogEnd(
            epochs[-1].epoch if epochs else NOTHING.leader_epoch, log_there.log_end_offset
        )
    return ends


@dataclass(frozen=True, slots=True)
class LastLife:
    """What a data directory knows of the broker's last life that had it."""

    paths: frozenset[str] = frozenset()
    """Of all data directories of that life."""
    incarnation: int | None = None
    """Its number; None if it is not known."""


def last_life(data: DataDirectory) -> LastLife:
    """The last life of the broker that had this directory. Does file I/O."""
    try:
        note = data.read_note(_DIRECTORIES)
        known = LastLife() if note is None else _life_in(json.loads(note))
    except (StorageError, ValueError, TypeError, LookupError) as error:
        log.error("%s: the other data directories of its last life are not known: %s", data.path, error)
        return LastLife()
    return known


def _life_in(note: object) -> LastLife:
    """What a note says. Raises TypeError, LookupError."""
    if isinstance(note, list):
        return LastLife(frozenset(map(str, note)))  # Of a broker that did not count its lives there.
    if not isinstance(note, dict) or not isinstance(note["incarnation"], int):
        raise TypeError(f"it says {note!r:.200}")
    return LastLife(frozenset(map(str, note["directories"])), note["incarnation"])


def note_life(data: DataDirectory, life: LastLife) -> None:
    """Store which data directories the broker has in this life. Does file I/O. Raises StorageFailed."""
    note = {"directories": sorted(life.paths), "incarnation": life.incarnation}
    try:
        data.write_note(_DIRECTORIES, json.dumps(note).encode() + b"\n")
    except DiskFull as error:
        log.warning("%s", error)


async def look_at_disks(
    directories: LogDirectories, broker_id: int, decisions: Decisions, incarnation: int
) -> BrokerTrust:
    """Find out how far this broker's logs can be trusted, after recovery if that is needed. Each directory is
    read on its own thread. The caller calls `confirm_all` when the partitions in doubt have left their ISRs.

    A directory that was left out in the life before, while one that is missing now was there, is not
    trusted: its logs were fetched anew into the other, and went on there. `incarnation`: of this life.

    Called once at startup.
    """

    def look_at(data: DataDirectory) -> tuple[DirectoryTrust, LogsFound, LastLife]:
        trust, known = assess(data), last_life(data)
        try:
            if not data.was_closed_cleanly:
                suspend(data)
        except StorageError as error:
            log.error("%s", error)
        found = look_at_logs(data, decisions, may_lack_tails=trust.may_lack_tails)
        return (NONE if data.failed else trust), found, known

    async def look_if_it_answers(each: LogDirectory) -> tuple[DirectoryTrust, LogsFound, LastLife]:
        try:
            return await each.run(look_at, each.data)
        except StorageFailed as error:
            log.error("%s", error)
            return NONE, LogsFound(), LastLife()

    online = directories.online
    looked = await asyncio.gather(*map(look_if_it_answers, online))
    broker_trust = dict.fromkeys((each.path for each in directories.all), NONE)
    missing_paths = frozenset[str]().union(*(known.paths for _, _, known in looked)) - broker_trust.keys()
    for path in missing_paths:
        log.error(
            "%s was a data directory of this broker and is not given any more: what it held is fetched anew",
            path,
        )
        broker_trust[path] = NONE
    for each, (trust, _, known) in zip(online, looked, strict=True):
        broker_trust[each.path] = trust
        if missing_paths and known.incarnation not in (None, incarnation - 1):
            log.error(
                "%s was left out before, and one that was given then is missing: what it holds may be old",
                each.path,
            )
            broker_trust[each.path] = NONE

    def home_of(key: PartitionKey) -> str | None:
        home = directories.home_of(key)
        return None if home is None else home.path

    missing = {key for _, logs, _ in looked for key in logs.missing if directories.home_of(key) is None}
    for topic_id, partition in sorted(missing):
        log.error("partition %d of topic id %s was on a disk and is on none", partition, topic_id.hex())
    damaged = directories.in_two.union(missing, *(logs.damaged for _, logs, _ in looked))
    lack_front = frozenset[PartitionKey]().union(*(logs.lack_front for _, logs, _ in looked))
    found = BrokerTrust(broker_trust, home_of, damaged, lack_front=lack_front)
    return replace(found, ends=await _measure(broker_id, directories, decisions, found))


def check_readable(broker_trust: BrokerTrust, unreadable: Sequence[str]) -> None:
    """Refuse the start of a broker whose logs may lack something, while ZooKeeper has what it cannot decode:
    when that is corrected, the ISR may still have this broker, whose doubts would be forgotten by then.

    Called once at startup. Raises StartupError.
    """
    doubted = [path for path, trust in broker_trust.of_directories.items() if trust.doubts_absence]
    if doubted and unreadable:
        raise StartupError(
            f"records in {', '.join(sorted(doubted))} may be lost, since the machine went down, or a disk is "
            "new or missing. This broker has to leave the ISRs that rely on them, and cannot decode what "
            f"ZooKeeper has of {', '.join(unreadable[:10])} ({len(unreadable)} in all). Correct that, then "
            "start the broker again"
        )


async def _measure(
    broker_id: int, directories: LogDirectories, decisions: Decisions, broker_trust: BrokerTrust
) -> dict[PartitionKey, LogEnd]:
    """Find the log ends that this broker has to write to ZooKeeper."""
    wanted: dict[LogDirectory, list[tuple[TopicDecisions, int]]] = {}
    for topic in decisions.topics:
        for each in topic.partitions:
            home = directories.home_of((topic.topic_id, each.partition))
            if home is not None and _has_to_tell(broker_id, broker_trust, topic, each):
                wanted.setdefault(home, []).append((topic, each.partition))
    online = [home for home in wanted if home in directories.online]
    measured = await asyncio.gather(
        *(home.run(log_ends, home.data, wanted[home]) for home in online), return_exceptions=True
    )
    ends: dict[PartitionKey, LogEnd] = {}
    for home, found in zip(online, measured, strict=True):
        if not isinstance(found, BaseException):
            ends |= found
        elif not (isinstance(found, StorageFailed) and home.is_given_up):
            raise found
    return ends


async def begin_anew(
    directories: LogDirectories, broker_id: int, broker_trust: BrokerTrust, stored: Decisions
) -> None:
    """Put logs into quarantine whose oldest records are missing, if no other broker relies on this one for
    them. A follower never fetches what it lacks at the beginning, and as a leader it would pass the gap on.
    It fetches the partition again as a whole, also if it stays in the ISR as the last one while eligible
    replicas have all records. If no other replica is known to have them, it keeps what it has.

    Called once at startup, after ZooKeeper has the log ends.
    """
    for topic in stored.topics:
        for each in topic.partitions:
            key = (topic.topic_id, each.partition)
            decision = each.decision
            told = [log for log in decision.recovered if log.broker_id == broker_id]
            counts = broker_id in decision.trusted or told not in ([], [_told(broker_id, NOTHING)])
            if key not in broker_trust.lack_front or counts:
                continue
            log.error("%s-%d lacks its oldest records: it is fetched anew", topic.topic, each.partition)
            try:
                await directories.quarantine(key)
            except StorageError as error:
                log.error("%s-%d is not put aside: %s", topic.topic, each.partition, error)


async def confirm_all(directories: LogDirectories, incarnation: int) -> None:
    """Trust the logs from now on, which is the life of this number. A directory that fails at this is
    offline."""

    life = LastLife(frozenset(each.path for each in directories.all), incarnation)

    def try_to_confirm(data: DataDirectory) -> None:
        try:
            confirm(data)
            data.settle()
            note_life(data, life)
            if not data.was_closed_cleanly:
                # Records that a log lost do not count as committed any more, whatever is appended in their
                # place before a crash.
                data.checkpoint_high_watermarks({})
        except DiskFull as error:
            log.warning("high watermarks of logs that lost their ends stand as they were: %s", error)
        except StorageFailed as error:
            log.error("%s", error)

    async def confirm_if_it_answers(each: LogDirectory) -> None:
        try:
            await each.run(try_to_confirm, each.data)
        except StorageFailed as error:
            log.error("%s", error)

    await asyncio.gather(*map(confirm_if_it_answers, directories.online))


async def leave_doubtful_isrs(
    session: ZooKeeperSession,
    cluster: StoredCluster,
    broker_id: int,
    broker_trust: BrokerTrust,
    stored: ClusterAsStored,
) -> ClusterAsStored:
    """Take this broker out of the ISRs of partitions that it may not have in full. Returns the cluster as it
    is stored then.

    Called once at startup, before the broker registers. If it is the only member it stays in the ISR, because
    an ISR is never empty. Raises ZooKeeperError, StartupError.
    """
    for attempt in range(ATTEMPTS):
        groups = list(_departures(cluster, broker_id, broker_trust, stored))
        if not groups:
            return stored
        # All in one multi at first. If a partition has changed, each of the others is written separately.
        for multi in groups if attempt else multis_of(groups, None):
            try:
                await session.multi(multi)
            except (BadVersion, NoNode) as error:
                # Another process decided about one of them, or the controller has not marked a topic yet.
                log.info("leaving %d ISRs is repeated: %s", len(multi), error)
        count = sum(isinstance(operation, SetData) for group in groups for operation in group)
        log.warning("left the ISRs of %d partitions: the tails of their logs may be lost", count)
        await asyncio.sleep(AGAIN.pause_s(attempt + 1))
        stored = await cluster.read()
    raise StartupError(
        f"the ISRs that broker {broker_id} must leave keep changing, or their topics have no marker below "
        f"{TOPIC_IDS}, which the controller makes; start a controller, then this broker again"
    )


def _departures(
    cluster: StoredCluster, broker_id: int, broker_trust: BrokerTrust, stored: ClusterAsStored
) -> Iterator[list[Operation]]:
    """The operations that are written together: some of a topic, under a check of its marker. Without the
    check, the versions could be those of another topic that has got the same name since they were read, or of
    another partition that has got the same number."""
    for topic in stored.decisions.topics:
        writes = list(_departures_from(cluster, broker_id, broker_trust, topic))
        for start in range(0, len(writes), WRITES_MAX):
            some = writes[start : start + WRITES_MAX]
            version = stored.markers.get(topic.topic_id, -1)
            yield [Check(TopicIdZnode.path(topic.topic_id), version), *itertools.chain(*some)]


def _departures_from(
    cluster: StoredCluster, broker_id: int, broker_trust: BrokerTrust, topic: TopicDecisions
) -> Iterator[Sequence[Operation]]:
    for each in topic.partitions:
        if not _has_to_tell(broker_id, broker_trust, topic, each):
            continue
        key = (topic.topic_id, each.partition)
        told = _told(broker_id, broker_trust.ends.get(key, NOTHING))
        if key in broker_trust.lack_front and each.decision.trusted - {broker_id}:
            told = _told(broker_id, NOTHING)  # It is about to be fetched again.
        if told in each.decision.recovered and broker_id not in each.decision.trusted:
            continue
        if each.decision.trusted == {broker_id}:
            log.error(
                "%s-%d: this broker is the last that was to have all records, and the end of its log may be "
                "lost; it ends at %d",
                topic.topic,
                each.partition,
                told.log_end_offset,
            )
        yield cluster.departure(topic, each, told)


def _has_to_tell(
    broker_id: int, broker_trust: BrokerTrust, topic: TopicDecisions, stored: PartitionDecision
) -> bool:
    """Whether others would assume that this broker has more than it may have."""
    if any(log.broker_id == broker_id for log in stored.decision.recovered):
        return True
    return broker_id in stored.decision.trusted and broker_trust.doubts(topic, stored.partition)


def _told(broker_id: int, end: LogEnd) -> RecoveredLog:
    return RecoveredLog(broker_id, end.leader_epoch, end.log_end_offset)
