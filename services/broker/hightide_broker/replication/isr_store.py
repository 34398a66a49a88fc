"""ISR changes, which leaders write to ZooKeeper by conditional set (V3 section G).

Theory of operation. Changes gather for a moment and go out as few multis (10 us of CPU for each change
instead of 120). Each multi also checks that the topics still exist, and that no partition of them was removed
since. For this it checks the marker of the topic's id, by version, because leaderAndISR begins at 0 again if
a name or a number is used again. It also checks that followers that join are in the life in which they caught
up. If one check fails, the whole multi fails, and its changes are written one by one, pipelined. The
conditional write decides: a refused change is refused, and a connection loss is reported as unknown. In both
cases the znode is read again, at once the first time, and later after growing pauses. A leader whose topic is
gone stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hightide.calls.backoff import Backoff
from hightide_runtime.clock import Clock
from hightide_runtime.znodes.cluster_znodes import TopicIdZnode, TopicZnode, ZnodeGarbage
from hightide_runtime.zookeeper.session import (
    BadVersion,
    Check,
    ConnectionLost,
    NoNode,
    Operation,
    SessionExpired,
    SetData,
    Znode,
    ZooKeeperError,
    ZooKeeperRefused,
    ZooKeeperSession,
    multis_of,
)

from hightide_broker.core.effects import StoreIsr
from hightide_broker.core.events import (
    IsrStored,
    IsrStoreRefused,
    IsrStoreUnknown,
    LeaderAndIsrRead,
    StopRequested,
)
from hightide_broker.core.isr_state import CommittedIsr
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.replica.shell import FeedPort
from hightide_broker.replication.isr_znodes import IsrZnodes
from hightide_broker.storage import StorageError

log = logging.getLogger(__name__)

GATHER_S: Final = 0.01
READ_AGAIN: Final = Backoff(initial_ms=200, maximum_ms=5_000)
RECONNECTED: Final = Backoff(initial_ms=200, maximum_ms=1_000)
"""While ZooKeeper is away. Asking costs ZooKeeper nothing, and ISR changes wait for its
return."""
CHANGES_MAX: Final = 400
"""Changes of one topic in one multi. With its checks it stays below the limit of a multi."""


@dataclass(frozen=True, slots=True)
class _Change:
    """One ISR change that is to be written."""

    replica: HostedReplica
    effect: StoreIsr
    write: SetData
    lives: tuple[Check, ...]
    """The lives of the followers that join."""
    marker: Check
    """The version of the marker of the topic's id."""


@dataclass(frozen=True, slots=True)
class _Marker:
    """The marker of a topic's id, as this broker has read it."""

    version: int
    """Its version, which grows whenever partitions of the topic are removed."""
    first_leader_epochs: Mapping[int, int]
    """The first leader epochs of partitions whose numbers were used before, as of that version or later."""


@dataclass(slots=True)
class _Trouble:
    """A replica whose znode is not known: the number of failed attempts, and the pauses between them."""

    failures: int
    backoff: Backoff

    @property
    def pause_s(self) -> float:
        """Zero after the first failure, because usually only the version has changed."""
        if self.failures <= 1:
            return 0.0
        return self.backoff.pause_s(self.failures - 1)


class IsrStore:
    """Writes and reads the ISR znodes of the partitions that this broker leads. One task, which sleeps while
    there is nothing to do."""

    def __init__(self, znodes: IsrZnodes, clock: Clock, session: ZooKeeperSession, shell: FeedPort) -> None:
        """`shell` is told the outcomes."""
        self._znodes = znodes
        self._clock = clock
        self._session = session
        self._shell = shell
        self._to_store: dict[HostedReplica, StoreIsr] = {}
        self._to_read: dict[HostedReplica, None] = {}
        self._troubled: dict[HostedReplica, _Trouble] = {}
        self._markers: dict[bytes, _Marker] = {}
        """By topic id; dropped when ZooKeeper has another version."""
        self.shrinks = 0
        self.expansions = 0
        """Stored ISRs that became smaller, and those that became larger."""
        self._stir = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="isr-store")

    def store(self, replica: HostedReplica, effect: StoreIsr) -> None:
        """Write the ISR if the znode still has the expected version, and feed the outcome to the replica."""
        self._to_store[replica] = effect
        self._stir.set()

    def read(self, replica: HostedReplica) -> None:
        """Read the znode, as often as necessary, and feed its content to the replica."""
        trouble = self._troubled.get(replica)
        if trouble is None or trouble.pause_s == 0.0:
            self._to_read[replica] = None
            self._stir.set()
        else:
            self._read_later(trouble.pause_s, (replica,))

    async def close(self) -> None:
        """Stop. The next leader decides anew about what was not written."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await self._stir.wait()
            await asyncio.sleep(GATHER_S)
            self._stir.clear()
            stores, self._to_store = self._to_store, {}
            reads, self._to_read = self._to_read, {}
            try:
                await self._store_all(stores)
            except Exception:
                # The top of a task: without this, no ISR would ever change again.
                log.exception("writing %d ISRs failed; they are read to see what became of them", len(stores))
                self._tell_all_unknown(stores)
            try:
                await self._read_all(list(reads))
            except Exception:
                # Likewise.
                log.exception("reading %d ISRs is repeated", len(reads))
                self._read_again(reads, READ_AGAIN)

    def _tell_all_unknown(self, stores: dict[HostedReplica, StoreIsr]) -> None:
        """Feed the outcome "unknown" to all, so that no leader waits for ever. A leader that has its outcome
        ignores this one."""
        for replica, effect in stores.items():
            self._note_failure(replica, READ_AGAIN)
            try:
                self._feed(replica, IsrStoreUnknown(effect.expected_partition_epoch))
            except Exception:
                # A failure in one replica must not keep it from the others.
                log.exception("%s: after an ISR change", replica)

    # --- writing ---------------------------------------------------------------------------------

    async def _store_all(self, stores: dict[HostedReplica, StoreIsr]) -> None:
        try:
            await self._learn_markers(stores)
        except (ConnectionLost, SessionExpired) as error:
            log.warning("%d ISRs are not written: %s", len(stores), error)
            self._tell_all_unknown(stores)
            return
        changes = []
        for replica, effect in stores.items():
            if self._is_of_a_removed_partition(replica, effect):
                self._feed(replica, IsrStoreRefused(effect.expected_partition_epoch))
            else:
                changes.append(self._change(replica, effect))
        # Not by path: a deleted topic may be led here beside one of the same name.
        by_write = {id(change.write): change for change in changes}
        multis = multis_of(_groups(changes), None)
        outcomes = await asyncio.gather(*map(self._session.submit_multi, multis), return_exceptions=True)
        for multi, outcome in zip(multis, outcomes, strict=True):
            written = [by_write[id(each)] for each in multi if isinstance(each, SetData)]
            is_definite = isinstance(outcome, BadVersion | NoNode | ZooKeeperRefused)
            if not isinstance(outcome, BaseException):
                self._tell_stored(multi, outcome, by_write)
            elif is_definite and len(written) > 1:
                # Nothing of it was written. One by one, only those fail that cannot be written.
                await asyncio.gather(*map(self._store_one, written))
            else:
                self._tell_failure(written, outcome)

    async def _learn_markers(self, replicas: Iterable[HostedReplica]) -> None:
        """Read the markers that are not known. Each is read before its topic znode, so that the topic is at
        least as new."""
        unknown = {replica.key[0]: replica for replica in replicas if replica.key[0] not in self._markers}
        paths = [
            path for each in unknown.values() for path in (_marker_path(each), TopicZnode.path(each.topic))
        ]
        found = await self._session.multi_read(paths) if paths else {}
        for topic_id, replica in unknown.items():
            marker, topic = found.get(_marker_path(replica)), found.get(TopicZnode.path(replica.topic))
            if marker is None or topic is None:
                continue
            try:
                stored = self._znodes.decode_topic(topic.data)
            except ZnodeGarbage as error:
                log.error("topic %s: %s", replica.topic, error)
                continue
            if stored.topic_id == topic_id:
                self._markers[topic_id] = _Marker(marker.version, stored.first_leader_epochs)

    def _is_of_a_removed_partition(self, replica: HostedReplica, effect: StoreIsr) -> bool:
        """Whether the partition's number is in use again. Then its leaderAndISR belongs to another partition
        of the same topic, and may have the expected version."""
        topic_id, partition = replica.key
        marker = self._markers.get(topic_id)
        return marker is not None and effect.leader_epoch < marker.first_leader_epochs.get(partition, 0)

    async def _store_one(self, change: _Change) -> None:
        (operations,) = multis_of(_groups([change]), None)
        try:
            versions = await self._session.submit_multi(operations)
        except ZooKeeperError as error:
            self._tell_failure([change], error)
        else:
            self._tell_stored(operations, versions, {id(change.write): change})

    def _tell_stored(
        self, operations: Sequence[Operation], versions: Sequence[int], by_write: dict[int, _Change]
    ) -> None:
        for operation, version in zip(operations, versions, strict=True):
            if isinstance(operation, SetData):
                change = by_write[id(operation)]
                replica = change.replica
                self._troubled.pop(replica, None)
                self._count(change)
                self._feed(replica, IsrStored(version))

    def _count(self, change: _Change) -> None:
        leading = change.replica.state.leading
        if leading is not None:
            before, after = set(leading.isr.isr), set(change.effect.isr)
            self.shrinks += bool(before - after)
            self.expansions += bool(after - before)

    def _tell_failure(self, written: Sequence[_Change], failure: BaseException) -> None:
        if not isinstance(failure, ZooKeeperError):
            raise failure
        is_unknown = isinstance(failure, ConnectionLost | SessionExpired)
        log.log(
            logging.WARNING if is_unknown else logging.INFO,
            "%s: the ISR %s%s is not written%s: %s",
            written[0].replica,
            list(written[0].effect.isr),
            f" (and those of {len(written) - 1} more)" if len(written) > 1 else "",
            " as far as is known" if is_unknown else "",
            failure,
        )
        for change in written:
            if isinstance(failure, BadVersion | NoNode) and failure.path == change.marker.path:
                self._markers.pop(change.replica.key[0], None)
            self._note_failure(change.replica, RECONNECTED if is_unknown else READ_AGAIN)
            expected = change.effect.expected_partition_epoch
            if is_unknown:
                self._feed(change.replica, IsrStoreUnknown(expected))
            else:
                self._feed(change.replica, IsrStoreRefused(expected, _is_another_life(change, failure)))

    def _change(self, replica: HostedReplica, effect: StoreIsr) -> _Change:
        write, lives = self._znodes.change(replica.topic, replica.key[1], effect)
        known = self._markers.get(replica.key[0])
        marker = Check(_marker_path(replica), -1 if known is None else known.version)
        return _Change(replica, effect, write, lives, marker)

    # --- reading ---------------------------------------------------------------------------------

    async def _read_all(self, replicas: list[HostedReplica]) -> None:
        if not replicas:
            return
        states = [self._path(replica) for replica in replicas]
        # Read after the states: if the marker of a topic is found, the topic existed when they were read.
        markers = dict.fromkeys(_marker_path(replica) for replica in replicas)
        try:
            found = await self._session.multi_read([*states, *markers])
            doubtful = [
                replica
                for replica, path in zip(replicas, states, strict=True)
                if path not in found or _marker_path(replica) not in found
            ]
            gone = await self._gone(doubtful)
        except (ConnectionLost, SessionExpired) as error:
            log.warning("reading %d ISRs is repeated: %s", len(replicas), error)
            self._read_again(replicas, RECONNECTED)
            return
        except ZooKeeperError as error:
            if len(replicas) > 1:
                # A failure of one must not keep the others from being read.
                await asyncio.gather(*(self._read_all([replica]) for replica in replicas))
                return
            log.warning("%s: reading its ISR is repeated: %s", replicas[0], error)
            self._read_again(replicas, READ_AGAIN)
            return
        for replica in replicas:
            if replica in gone:
                self._stop(replica)
            else:
                self._tell_read(replica, found.get(self._path(replica)))

    def _tell_read(self, replica: HostedReplica, znode: Znode | None) -> None:
        if znode is None:
            self._read_again((replica,), READ_AGAIN)
            return
        try:
            read = self._znodes.decode(znode.data)
        except ZnodeGarbage as error:
            log.error("%s: %s", replica, error)
            self._read_again((replica,), READ_AGAIN)
            return
        event = LeaderAndIsrRead(
            read.leader,
            read.leader_epoch,
            read.isr,
            znode.version,
            self._clock.monotonic_ms(),
            read.eligible,
            read.recovered,
        )
        self._feed(replica, event)
        leading = replica.state.leading
        if leading is None or (isinstance(leading.isr, CommittedIsr) and not leading.is_behind):
            self._troubled.pop(replica, None)
        elif (trouble := self._troubled.get(replica)) is not None:
            trouble.failures += 1
        elif leading.is_behind:
            self._note_failure(
                replica, RECONNECTED
            )  # The ZooKeeper server that answered is behind a follower's.

    async def _gone(self, doubtful: Sequence[HostedReplica]) -> set[HostedReplica]:
        """Those whose topic or partition is gone, by a read that is not stale.

        A topic without a marker may be one that the controller has not marked yet. A partition without
        leaderAndISR may be one that an operator has changed. Both are read again later.
        """
        if not doubtful:
            return set()
        # The ZooKeeper server that answers may be behind, and not know of a new topic yet.
        await self._session.sync()
        topics = await self._session.multi_read(
            list(dict.fromkeys(TopicZnode.path(replica.topic) for replica in doubtful))
        )
        gone = set()
        for replica in doubtful:
            topic_id, partition = replica.key
            znode = topics.get(TopicZnode.path(replica.topic))
            if znode is None:
                gone.add(replica)
                continue
            try:
                topic = self._znodes.decode_topic(znode.data)
            except ZnodeGarbage as error:
                log.error("topic %s: %s", replica.topic, error)
                continue
            is_removed = topic.partition_count is not None and partition >= topic.partition_count
            if topic.topic_id not in (b"", topic_id) or is_removed:
                gone.add(replica)
        return gone

    def _stop(self, replica: HostedReplica) -> None:
        """Stop leading, and answer the requests that wait. The search for strays puts the data into
        quarantine."""
        self._troubled.pop(replica, None)
        if replica.state.is_leader:
            log.info("%s (topic id %s) is deleted: it is led no more", replica, replica.key[0].hex())
            decision = replica.state.decision
            self._feed(replica, StopRequested(decision.controller_epoch, decision.leader_epoch, False, None))

    # --- trying again ----------------------------------------------------------------------------

    def _note_failure(self, replica: HostedReplica, backoff: Backoff) -> float:
        """Count a failure, and return the pause after it."""
        trouble = self._troubled.setdefault(replica, _Trouble(0, backoff))
        trouble.failures += 1
        trouble.backoff = backoff
        return trouble.pause_s

    def _read_again(self, replicas: Iterable[HostedReplica], backoff: Backoff) -> None:
        """Read again after a failure; replicas with the same pause together."""
        by_pause: dict[float, list[HostedReplica]] = {}
        for replica in replicas:
            by_pause.setdefault(self._note_failure(replica, backoff), []).append(replica)
        for pause_s, some in by_pause.items():
            self._read_later(pause_s, some)

    def _read_later(self, pause_s: float, replicas: Sequence[HostedReplica]) -> None:
        def read_now() -> None:
            for replica in replicas:
                if replica.state.is_leader:
                    self._to_read[replica] = None
                    self._stir.set()
                else:
                    self._troubled.pop(replica, None)

        asyncio.get_running_loop().call_later(pause_s, read_now)

    def _path(self, replica: HostedReplica) -> str:
        return self._znodes.path(replica.topic, replica.key[1])

    def _feed(
        self,
        replica: HostedReplica,
        event: IsrStored | IsrStoreRefused | IsrStoreUnknown | LeaderAndIsrRead | StopRequested,
    ) -> None:
        try:
            self._shell.feed(replica, event)
        except StorageError as error:
            log.error("%s: after an ISR change: %s", replica, error)


def _groups(changes: Iterable[_Change]) -> list[list[Operation]]:
    """For each topic the check of its marker, then its changes. A life in which several followers join is
    checked once."""
    by_topic: dict[Check, list[_Change]] = {}
    for change in changes:
        by_topic.setdefault(change.marker, []).append(change)
    groups: list[list[Operation]] = []
    for marker, of_topic in by_topic.items():
        for start in range(0, len(of_topic), CHANGES_MAX):
            some = of_topic[start : start + CHANGES_MAX]
            lives = dict.fromkeys(life for change in some for life in change.lives)
            groups.append([marker, *lives, *(change.write for change in some)])
    return groups


def _is_another_life(change: _Change, failure: ZooKeeperError) -> bool:
    """Whether it failed because a follower that should join has restarted since it fetched."""
    lives = {life.path for life in change.lives}
    return isinstance(failure, BadVersion | NoNode) and failure.path in lives


def _marker_path(replica: HostedReplica) -> str:
    return TopicIdZnode.path(replica.key[0])
