"""The controller's reads and writes of ZooKeeper, with core values in and out.

Every write is a multi that begins with a check of /controller_epoch; the election is the one that raises it.
What cannot be decoded is logged and left alone, because an operator may have written it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Final

from hightide_runtime.znodes import cluster_znodes
from hightide_runtime.znodes.cluster_znodes import (
    BrokerIncarnationZnode,
    BrokerZnode,
    CandidateZnode,
    ControllerEpochZnode,
    ControllerZnode,
    LeaderAndIsrZnode,
    PartitionZnode,
    TopicConfigZnode,
    TopicIdZnode,
    TopicZnode,
    ZnodeGarbage,
)
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.candidates import read_candidates
from hightide_runtime.zookeeper.election import ElectedProcess, Election, ElectionEpoch, ElectionZnodes
from hightide_runtime.zookeeper.registrations import read_registrations
from hightide_runtime.zookeeper.session import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    Znode,
    ZooKeeperError,
    ZooKeeperRefused,
    ZooKeeperSession,
)
from msgspec.structs import replace

from hightide_controller.core.effects import StoreLeaderAndIsr, StoreTopic
from hightide_controller.core.events import (
    AdminZnodes,
    Broker,
    ClusterSnapshot,
    Event,
    Fenced,
    StoreCommitted,
    StoreRefused,
    StoreUnknown,
    Topic,
    TopicsRead,
    TopicStored,
    TopicStoreRefused,
)
from hightide_controller.core.state.topic_rules import layout_fault
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_controller.core.writes import PartitionRemoved, StoreWrites, Write
from hightide_controller.zookeeper.admin_parents import make_parents, take_away_empty
from hightide_controller.zookeeper.admin_reader import AdminReader
from hightide_controller.zookeeper.unfinished_work import LastWrite
from hightide_controller.zookeeper.write_operations import change_operations, operations_of, topic_znode

__all__ = ["ActiveController", "ControllerStore"]

_log = logging.getLogger(__name__)

_ABSENT: Final = LeaderAndIsr(-1, -1, (), -1, -1)
_REFUSED_PAUSE_S: Final = 1.0
"""Before the core gets a refusal that ZooKeeper would repeat for ever, and tries again."""
_CREATE_ATTEMPTS: Final = 10
_PRECIOUS: Final = "correct it, and do not delete it, because records would be lost with it"
_SEAT: Final = ElectionZnodes(
    ControllerZnode.path(),
    ControllerEpochZnode.path(),
    lambda holder: ControllerZnode(*astuple(holder)).encode(),
    lambda data: ElectedProcess(*astuple(ControllerZnode.decode(data))),
    lambda epoch: ControllerEpochZnode(epoch).encode(),
    lambda data: ControllerEpochZnode.decode(data).controller_epoch,
)


@dataclass(frozen=True, slots=True)
class ActiveController:
    """The content of /controller."""

    znode: ControllerZnode
    version: int
    is_mine: bool
    """Whether this process's session holds it."""


class ControllerStore:
    """Reads and writes ZooKeeper. One for each process. Methods raise ConnectionLost and SessionExpired
    unless they say otherwise."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._election = Election(session, _SEAT)
        self._parents_without_state: set[TopicPartition] = set()
        self._complaints: dict[str, str | None] = {}
        self._unreadable_topics: set[str] = set()
        """Paths of topic znodes that could not be decoded at their last read."""
        self.last_writes: dict[str, LastWrite] = {}
        """By traceparent, as of the last snapshot: the last write of leaders, and its controller."""
        self._notes_writes = False
        self._unreadable_states: set[TopicPartition] = set()
        """Partitions whose leaderAndISR could not be decoded at its last read."""

    def apart(self) -> ControllerStore:
        """A store for reads that answer a request: it does not complain about what it cannot decode."""
        return ControllerStore(self._session)

    async def read_candidates(self, parent: str) -> tuple[CandidateZnode, ...]:
        """The controllers or the coordinators that may be elected; see `candidates`."""
        return await read_candidates(self._session, parent)

    async def read_controller(self, *, watch: bool = False) -> ActiveController | None:
        """The active controller. The watch fires when it changes, also from none to one."""
        standing = await self._election.standing(watch=watch)
        if standing is None:
            return None
        znode = ControllerZnode(*astuple(standing.holder))
        return ActiveController(znode, standing.version, standing.is_mine)

    async def elect(
        self, candidate: ElectedProcess, stale_controller_epoch: int | None
    ) -> ElectionEpoch | None:
        """Run the election once; None if another controller was faster, or is active. See
        `Election.elect`."""
        return await self._election.elect(candidate, stale_controller_epoch)

    async def abdicate(self) -> None:
        """Delete this process's own /controller, so that another one can be elected; it is no error if there
        is none."""
        await self._election.abdicate()

    async def read_snapshot(self, admin: AdminReader) -> ClusterSnapshot:
        """Read everything (V3 D.3), in as few round trips as there are thousands of znodes."""
        brokers = await self.read_brokers()
        # Before the topics: a marker without a topic then belongs to a topic that is gone.
        markers = await self._session.children(cluster_znodes.TOPIC_IDS)
        topic_names = await self.topic_names()
        topics, faults = await self._read_topics(topic_names)
        orphans = await self._orphans_of(markers, topics, faults)
        names = [
            TopicPartition(topic.name, partition)
            for topic in topics
            for partition in range(len(topic.assignment))
        ]
        self.last_writes.clear()
        self._notes_writes = True
        try:
            states = await self.read_states(names)
        finally:
            self._notes_writes = False
        unreadable = {name.topic for name in names if name not in states}
        return ClusterSnapshot(
            brokers,
            tuple(topic for topic in topics if topic.name not in unreadable),
            {name: state for name, state in states.items() if state is not None},
            self._with_complaints((await admin.read_all()).admin),
            orphans,
        )

    async def _orphans_of(
        self, markers: Collection[str], topics: Collection[Topic], unreadable: Collection[str]
    ) -> dict[str, str]:
        """The markers without a topic: by id, the name that it had. An `unreadable` topic may have any id. A
        topic whose name was listed, and that has no znode by now, is gone."""
        ids = {topic.topic_id for topic in topics}
        paths = {f"{cluster_znodes.TOPIC_IDS}/{each}": each for each in markers if each not in ids}
        orphans: dict[str, str] = {}
        for path, found in (await self._session.multi_read(paths)).items():
            try:
                TopicIdZnode.topic_id_of(paths[path])
                name = TopicIdZnode.decode(found.data).topic
            except ZnodeGarbage as error:
                self._complain(path, error.reason)
                continue
            if name not in unreadable:
                orphans[paths[path]] = name
        return orphans

    async def read_brokers(self, *, watch: bool = False) -> tuple[Broker, ...]:
        """The registrations."""
        found = await read_registrations(self._session, self._complain, self._settled, watch=watch)
        return tuple(
            Broker(
                each.broker_id,
                each.czxid,
                each.znode.host,
                each.znode.port,
                external_host=each.znode.external_host,
                external_port=each.znode.external_port,
                incarnation=each.znode.incarnation,
                registered_before=each.znode.registered_before,
            )
            for each in found
        )

    async def read_incarnations(self) -> dict[int, int]:
        """The number of lives of every broker, also of those that are not registered."""
        paths: dict[str, int] = {}
        for name in await self._session.children(cluster_znodes.BROKER_INCARNATIONS):
            with contextlib.suppress(ZnodeGarbage):
                broker_id = BrokerZnode.broker_id_of(name)
                paths[BrokerIncarnationZnode.path(broker_id)] = broker_id
        found = await self._session.multi_read(paths)
        return {paths[path]: znode.version for path, znode in found.items()}

    async def topic_names(self) -> list[str]:
        """The children of /brokers/topics, legal or not."""
        return await self._session.children(cluster_znodes.TOPICS)

    async def watch_topic_names(self) -> tuple[list[str], int]:
        """The children of /brokers/topics, legal or not, and how often one was created or deleted."""
        return await self._session.children_and_changes(cluster_znodes.TOPICS, watch=True)

    async def topics_with_configs(self) -> list[str]:
        """The children of /config/topics, legal or not."""
        return await self._session.children(cluster_znodes.TOPIC_CONFIGS)

    async def read_topics(self, names: Collection[str]) -> tuple[Topic, ...]:
        """These topics with their settings; those that cannot be decoded are complained about."""
        topics, _ = await self._read_topics(names)
        return topics

    async def _read_topics(self, names: Collection[str]) -> tuple[tuple[Topic, ...], frozenset[str]]:
        """As `read_topics`, and the names of topics that exist and cannot be decoded."""
        legal = [name for name in names if is_legal_topic_name(name)]
        for name in set(names) - set(legal):
            self._complain(f"{cluster_znodes.TOPICS}/{name[:260]}", "no topic can have this name")
        topics, faults = await self._decoded_topics(legal)
        if bare := {name: czxid for name, (topic, czxid) in topics.items() if not topic.topic_id}:
            markers = await self._youngest_markers(bare)
            # After the markers: an adoption writes an id and its marker at once, so a topic with a marker had
            # an id.
            for name in bare:
                del topics[name]
            read_again, garbled = await self._decoded_topics(bare)
            topics |= read_again
            faults |= garbled | _overwritten(read_again, markers)
        readable = [topic for name, (topic, _) in topics.items() if name not in faults]
        standing = await self._session.multi_read({_marker_path(each) for each in readable if each.topic_id})
        for name in legal:
            self._note_fault(TopicZnode.path(name), faults.get(name))
        marked = tuple(
            replace(topic, has_marker=_names(standing.get(_marker_path(topic)), topic))
            if topic.topic_id
            else replace(topic, topic_id=uuid.uuid4().hex, has_marker=False, is_bare=True)
            for topic in readable
        )
        return marked, frozenset(faults)

    def _note_fault(self, topic_path: str, fault: str | None) -> None:
        if fault is not None:
            self._complain(topic_path, fault, _PRECIOUS)
            self._unreadable_topics.add(topic_path)
        elif topic_path in self._unreadable_topics:
            # Not for others: the core itself complains if it cannot act on one.
            self._unreadable_topics.discard(topic_path)
            self._settled(topic_path)

    async def _decoded_topics(
        self, names: Collection[str]
    ) -> tuple[dict[str, tuple[Topic, int]], dict[str, str]]:
        """These topics, each with its czxid, and the reasons why others cannot be decoded."""
        paths = [TopicZnode.path(name) for name in names]
        found = await self._session.multi_read(paths + [TopicConfigZnode.path(name) for name in names])
        topics: dict[str, tuple[Topic, int]] = {}
        faults: dict[str, str] = {}
        for name, path in zip(names, paths, strict=True):
            try:
                if (znode := found.get(path)) is not None:
                    topics[name] = _topic_of(name, znode, found.get(TopicConfigZnode.path(name))), znode.czxid
            except ZnodeGarbage as error:
                faults[name] = error.reason
        return topics, faults

    async def _youngest_markers(self, names: Collection[str]) -> dict[str, tuple[int, str]]:
        """For each of these topics the last marker that names it: its czxid and its id."""
        ids = await self._session.children(cluster_znodes.TOPIC_IDS)
        youngest: dict[str, tuple[int, str]] = {}
        for path, marker in (
            await self._session.multi_read(f"{cluster_znodes.TOPIC_IDS}/{i}" for i in ids)
        ).items():
            with contextlib.suppress(ZnodeGarbage):
                name = TopicIdZnode.decode(marker.data).topic
                if name in names:
                    found = (marker.czxid, path.rpartition("/")[2])
                    youngest[name] = max(found, youngest.get(name, found))
        return youngest

    async def read_everything_about(self, names: Collection[str], admin: AdminReader) -> TopicsRead:
        """The answer to ReadTopics: topic znodes, settings, states, and requests below /admin."""
        readable, unreadable = await self._read_topics(names)
        topics = {topic.name: topic for topic in readable}
        states = await self.read_states(
            TopicPartition(topic.name, partition)
            for topic in topics.values()
            for partition in range(len(topic.assignment))
        )
        leftovers: dict[TopicPartition, int | None] = {}
        for topic in topics.values():
            leftovers |= await self._leftovers(topic, states)
        read = await admin.read_about(names)
        found = {name: topics.get(name) for name in names if name not in unreadable}
        return TopicsRead(
            found, states, self._with_complaints(read.admin), leftovers, tuple(sorted(unreadable))
        )

    async def _leftovers(
        self, topic: Topic, states: Mapping[TopicPartition, LeaderAndIsr | None]
    ) -> dict[TopicPartition, int | None]:
        """What is below a topic znode besides the partitions that it names (see TopicsRead)."""
        path = TopicZnode.path(topic.name)
        try:
            children = await self._session.children(path)
        except NoNode:
            return {}
        beside: list[TopicPartition] = []
        for child in children:
            try:
                name = TopicPartition(topic.name, cluster_znodes.partition_of(child))
            except ZnodeGarbage as error:
                self._complain(f"{path}/{child[:260]}", error.reason)
                continue
            if name.partition >= len(topic.assignment) or states.get(name, _ABSENT) is None:
                beside.append(name)
        found = await self._session.multi_read(LeaderAndIsrZnode.path(*name) for name in beside)
        versions = {path: znode.version for path, znode in found.items()}
        leftovers = {name: versions.get(LeaderAndIsrZnode.path(*name)) for name in beside}
        self._parents_without_state.update(name for name, version in leftovers.items() if version is None)
        return leftovers

    def take_complaints(self) -> dict[str, str | None]:
        """What could not be decoded since the last call: path → reason; None: it can be now, or is gone."""
        complaints, self._complaints = self._complaints, {}
        return complaints

    def _with_complaints(self, admin: AdminZnodes) -> AdminZnodes:
        """The content read below /admin, and complaints about other znodes meanwhile."""
        return replace(admin, complaints={**admin.complaints, **self.take_complaints()})

    def _complain(self, path: str, reason: str, advice: str = "correct it or delete it") -> None:
        self._complaints[path] = f"{reason}; the controller does not use it: {advice}"

    def _settled(self, path: str) -> None:
        self._complaints[path] = None

    async def read_states(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr | None]:
        """These leaderAndISR znodes: None if there is none, absent if it cannot be decoded."""
        paths = {LeaderAndIsrZnode.path(*name): name for name in names}
        found = await self._session.multi_read(paths)
        await self._look_for_parents([name for path, name in paths.items() if path not in found])
        states: dict[TopicPartition, LeaderAndIsr | None] = {}
        for path, name in paths.items():
            znode = found.get(path)
            try:
                states[name] = None if znode is None else self._state_of(znode)
            except ZnodeGarbage as error:
                self._complain(path, error.reason, _PRECIOUS)
                self._unreadable_states.add(name)
            else:
                if name in self._unreadable_states:
                    self._unreadable_states.discard(name)
                    self._complaints[path] = None
        return states

    def _state_of(self, found: Znode) -> LeaderAndIsr:
        znode = LeaderAndIsrZnode.decode(found.data)
        if znode.traceparent and self._notes_writes:
            last = self.last_writes.get(znode.traceparent)
            if last is None or last.written_at_ms < found.written_at_ms:
                write = LastWrite(znode.traceparent, znode.controller_epoch, found.written_at_ms)
                self.last_writes[znode.traceparent] = write
        return LeaderAndIsr(
            znode.leader,
            znode.leader_epoch,
            znode.isr,
            znode.controller_epoch,
            found.version,
            znode.eligible,
            znode.recovered,
            znode.unclean_epoch,
        )

    def submit(self, effect: StoreLeaderAndIsr, traceparent: str) -> asyncio.Future[Event]:
        """Send the multi now. The future has the event that follows from its outcome, and never an error."""
        operations: list[Operation] = _fence(effect.controller_epoch_version)
        for change in effect.changes:
            operations += change_operations(change, traceparent, self._parents_without_state)
        return self._submitted(effect.store_id, operations)

    async def store_writes(self, effect: StoreWrites, traceparent: str) -> Event:
        """Send the multi of a StoreWrites. Returns the event that follows from its outcome, and never
        raises."""
        try:
            await self._prepare(effect.writes)
        except ZooKeeperError as error:
            _log.warning("a write is not tried: %s", error)
            return StoreUnknown(effect.store_id)
        operations: list[Operation] = _fence(effect.controller_epoch_version)
        for write in effect.writes:
            operations += operations_of(write, traceparent, self._parents_without_state)
        return await self._submitted(effect.store_id, operations)

    def _submitted(self, store_id: int, operations: Sequence[Operation]) -> asyncio.Future[Event]:
        outcome: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

        def settle(committed: asyncio.Future[tuple[int, ...]]) -> None:
            error = None if committed.cancelled() else committed.exception()
            if isinstance(error, ZooKeeperRefused):
                asyncio.get_running_loop().call_later(_REFUSED_PAUSE_S, tell, error)
            else:
                tell(error)

        def tell(error: BaseException | None) -> None:
            if not outcome.cancelled():
                outcome.set_result(_event_of(store_id, error))

        self._session.submit_multi(operations).add_done_callback(settle)
        return outcome

    async def _prepare(self, writes: Collection[Write]) -> None:
        """Create the parents of what is created or deleted: they are empty, so no fence is needed."""
        await make_parents(self._session, writes)
        stateless = [
            write.name
            for write in writes
            if isinstance(write, PartitionRemoved) and write.expected_partition_epoch is None
        ]
        await self._look_for_parents(stateless)

    async def tidy(self, writes: Iterable[Write], event: Event) -> None:
        """Delete what the writes left empty below /admin. Called when their outcome is reported: no caller
        waits."""
        await take_away_empty(self._session, writes, is_committed=isinstance(event, StoreCommitted))

    async def _look_for_parents(self, missing: list[TopicPartition]) -> None:
        """Look for parents without leaderAndISR: an operator may have deleted it, and the parent cannot be
        created again."""
        parents = {PartitionZnode.path(*name): name for name in missing}
        found = await self._session.multi_read(parents) if parents else {}
        self._parents_without_state.difference_update(missing)
        self._parents_without_state.update(parents[path] for path in found)

    async def store_topic(self, effect: StoreTopic) -> Event:
        """Create the topic znode and its settings. Returns the event that follows, and never raises."""
        for _ in range(_CREATE_ATTEMPTS):
            event = await self._store_topic_once(effect)
            if event is not None:
                return event
        _log.warning("topic %s is not created: an operator keeps changing its settings", effect.topic.name)
        return TopicStoreRefused(effect.request_id, exists=False)

    async def _store_topic_once(self, effect: StoreTopic) -> Event | None:
        """As `store_topic`; None if settings of an earlier topic changed meanwhile."""
        topic = effect.topic
        znode = topic_znode(topic)
        config_path = TopicConfigZnode.path(topic.name)
        config = TopicConfigZnode(topic.configs).encode() if topic.configs else None
        operations = _fence(effect.controller_epoch_version)
        operations.append(Create(TopicZnode.path(topic.name), znode.encode()))
        operations.append(Create(TopicIdZnode.path(znode.topic_id), TopicIdZnode(topic.name).encode()))
        operations += await self._replacing(config_path, config)
        try:
            await self._session.multi(operations)
        except (BadVersion, NodeExists, NoNode) as error:
            if error.path == ControllerEpochZnode.path():
                return Fenced(is_write=True)
            if error.path == config_path:
                return None
            return TopicStoreRefused(effect.request_id, exists=True)
        except ZooKeeperError as error:
            _log.warning("whether topic %s was created is unknown: %s", topic.name, error)
            return TopicStoreRefused(effect.request_id, exists=False)
        return TopicStored(effect.request_id)

    async def _replacing(self, path: str, data: bytes | None) -> Sequence[Operation]:
        """Replace settings that an earlier topic of the name left behind: they must neither block the
        creation nor apply."""
        try:
            left_behind = await self._session.exists(path)
        except (ConnectionLost, SessionExpired):
            left_behind = None  # the multi that follows fails for the same reason
        deleted: list[Operation] = [Delete(path, left_behind.version)] if left_behind else []
        return deleted if data is None else [*deleted, Create(path, data)]


def _topic_of(name: str, found: Znode, config: Znode | None) -> Topic:
    """A topic as ZooKeeper holds it; raises ZnodeGarbage. The AdminReader complains about invalid settings,
    which do not apply."""
    znode = TopicZnode.decode(found.data)
    if (fault := layout_fault(znode.partitions)) is not None:
        raise ZnodeGarbage(found.path, fault)
    configs: dict[str, str] = {}
    has_garbled_configs = False
    if config is not None:
        try:
            configs = dict(TopicConfigZnode.decode(config.data).configs)
        except ZnodeGarbage:
            has_garbled_configs = True
    return Topic(
        name,
        znode.topic_id.hex(),
        znode.partitions,
        configs,
        version=found.version,
        config_version=None if config is None else config.version,
        first_leader_epochs=dict(znode.first_leader_epochs),
        has_garbled_configs=has_garbled_configs,
    )


def _overwritten(
    topics: Mapping[str, tuple[Topic, int]], markers: Mapping[str, tuple[int, str]]
) -> dict[str, str]:
    """Topics without an id that had one before an operator overwrote them, and the complaints about them.

    A marker as old as the topic, or younger, belongs to that very topic: with another id it would lose all of
    its data. An older one belongs to an earlier topic of the name.
    """
    return {
        name: f'its id is missing: write "topic_id":"{markers[name][1]}" and "partitions" into it'
        for name, (topic, czxid) in topics.items()
        if not topic.topic_id and name in markers and markers[name][0] >= czxid
    }


def _marker_path(topic: Topic) -> str:
    return TopicIdZnode.path(bytes.fromhex(topic.topic_id))


def _names(marker: Znode | None, topic: Topic) -> bool:
    """Whether the marker of the topic's id exists and names the topic."""
    try:
        return marker is not None and TopicIdZnode.decode(marker.data).topic == topic.name
    except ZnodeGarbage:
        return False


def _fence(version: int) -> list[Operation]:
    return [Check(ControllerEpochZnode.path(), version)]


def _event_of(store_id: int, error: BaseException | None) -> Event:
    match error:
        case None:
            return StoreCommitted(store_id)
        case BadVersion(path=path) | NoNode(path=path) if path == ControllerEpochZnode.path():
            return Fenced(is_write=True)
        case NotEmpty(path=path):
            _log.error("%s has children that Hightide did not make; take them away", path)
            return StoreRefused(store_id)
        case BadVersion() | NodeExists() | NoNode():
            return StoreRefused(store_id)
        case _:
            # Also for unexpected errors: whatever happened, reading again shows the state.
            _log.warning("the outcome of a multi is unknown: %s", error)
            return StoreUnknown(store_id)
