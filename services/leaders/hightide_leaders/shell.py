"""The shell of the decider: one session with ZooKeeper, one inbox, and the replicas of the broker that
hosts it.

Rules of this file: events go to the core one at a time; effects are performed in order; reads and writes
are sent and not waited for. All reads that one turn of the loop asks for are one multiRead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol, assert_never

from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.znodes.cluster_znodes import (
    BROKER_IDS,
    TOPIC_IDS,
    TOPICS,
    BrokerIncarnationZnode,
)
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.leaders_znodes import (
    PARTITIONS_REASSIGNED,
    STATE,
    DrainedZnode,
    LeaderZnode,
    LedTopicZnode,
    ReassignedZnode,
    ReplicasZnode,
    StateChangeZnode,
    StateQueueZnode,
    is_queued,
)
from hightide_runtime.znodes.led_nodes import TopicNode
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.errors import (
    BadVersion,
    NodeExists,
    NoNode,
    NotEmpty,
    ZooKeeperError,
    ZooKeeperRefused,
)
from hightide_runtime.zookeeper.registrations import read_registrations
from hightide_runtime.zookeeper.session import (
    SessionState,
    SessionStateChanged,
    WatchFired,
    ZooKeeperSession,
)
from hightide_runtime.zookeeper.znode_reader import RepeatedReader

from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import queues
from hightide_leaders.core.machine import step
from hightide_leaders.core.state import LeadersState, next_deadline_ms
from hightide_leaders.core.values import (
    Decision,
    Lives,
    PartitionNodes,
    QueuedChange,
    Settings,
    StateChange,
    TopicNodes,
    TopicPartition,
)
from hightide_leaders.state_change_spans import StateChangeSpans
from hightide_leaders.znode_operations import (
    change_of,
    multis_for,
    numbers_in,
    read_partitions,
    topic_of,
)

_log = logging.getLogger(__name__)
REFUSALS = (BadVersion, NodeExists, NoNode)
_REFUSED_PAUSE_S: Final = 1.0
"""Before a write is made again that would be refused for ever."""


def _complain(subject: str, reason: str) -> None:
    _log.error("%s: %s", subject, reason)


class HostedReplicas(Protocol):
    """What the broker does for its decider. A replica that does not lead when it is to is told by
    `LeadersShell.hear(LeadershipDeclined(…))`."""

    async def open_replica(self, name: TopicPartition, nodes: PartitionNodes) -> None:
        """Open its log, or create it; a log of another topic id, or with records of before the first epoch,
        is put aside first. If nobody led before, there is none of it anywhere."""
        ...

    async def close_replica(self, name: TopicPartition, topic_id: str) -> None:
        """Stop it and put its log aside, durably; nothing to do where there is none of that id."""
        ...

    def decide(self, name: TopicPartition, decision: Decision) -> None:
        """Hand a decision to the replica's core."""
        ...

    async def register(self) -> None:
        """Create /brokers/ids/[broker_id] in the present session, in place of an earlier one."""
        ...

    def step_aside(self) -> None:
        """End the process: a later life of this broker has begun."""
        ...


class LeadersShell:
    """The decider of one broker. `run` is a task from the time when the broker has left the ISRs that
    expect more of its logs than they have; `ask` is for its servicer."""

    def __init__(
        self,
        session: ZooKeeperSession,
        settings: Settings,
        replicas: HostedReplicas,
        min_insync_replicas: int = 1,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.state = LeadersState(settings)
        self._session = session
        self._replicas = replicas
        self._min_insync_replicas = min_insync_replicas
        self._loop = asyncio.get_running_loop()
        self._inbox: asyncio.Queue[ev.Event | BaseException] = asyncio.Queue()
        self._names: dict[str, TopicPartition] = {}
        """By the path of a watch."""
        self._reads: list[fx.Read] = []
        self._topics: list[fx.ReadTopic] = []
        self._watching: dict[int, fx.ReadQueues] = {}
        """By request: whose queues it waits for."""
        self._connected = asyncio.Event()
        self._readers: dict[type[fx.Effect], RepeatedReader] = {
            effect: RepeatedReader(effect.__name__, read, self._connected)
            for effect, read in (
                (fx.Register, replicas.register),
                (fx.ReadQueue, self._read_queue),
                (fx.ReadAssignments, self._read_assignments),
                (fx.Read, self._read_partitions),
                (fx.ReadTopic, self._read_topics),
                (fx.ReadQueues, self._read_queues),
            )
        }
        self._spans = StateChangeSpans(telemetry or Telemetry.off())
        self.queue_lengths: dict[int, int] = {}
        """By broker: the length of its queue, as far as this one follows it; for metrics."""
        self._known_changes: dict[int, dict[str, StateChange | None]] = {}
        """By broker and znode: what was in its queue when that was read last."""
        self._waiting: dict[int, asyncio.Future[fx.Outcome]] = {}
        self._asked = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def now_ms(self) -> int:
        """The monotonic clock of the loop."""
        return int(self._loop.time() * 1000)

    def hear(self, event: ev.Event) -> None:
        """An event for the core, in its turn."""
        self._inbox.put_nowait(event)

    async def ask(self, request: Callable[[int], ev.Event]) -> fx.Outcome:
        """A client's request: `request` makes the event of its number. Returns when it has ended."""
        self._asked -= 1
        outcome: asyncio.Future[fx.Outcome] = self._loop.create_future()
        self._waiting[self._asked] = outcome
        self.hear(request(self._asked))
        return await outcome

    async def hand_over(self) -> None:
        """Leave what others can lead, and take nothing any more; returns when they lead it. Called once,
        before the broker stops. The caller bounds how long."""
        await self.ask(ev.StopRequested)

    async def run(self, incarnation: int) -> None:
        """Start the replicas, register, and decide, until cancelled."""
        me = self.state.me
        for path in (BROKER_IDS, TOPICS, TOPIC_IDS, PARTITIONS_REASSIGNED, STATE, StateQueueZnode.path(me)):
            await self._session.ensure_path(path)
        self._session.followers.add(self._zookeeper_says)
        self._connected.set()
        for reader in self._readers.values():
            reader.start()
        self.hear(ev.Started(incarnation, self._session.session_id))
        try:
            while True:
                event = await self._inbox.get()
                if isinstance(event, BaseException):
                    raise event
                for effect in step(self.state, event, self.now_ms):
                    await self._perform(effect)
                self._arm()
        finally:
            self._session.followers.discard(self._zookeeper_says)
            for reader in self._readers.values():
                await reader.close()
            for task in self._tasks:
                task.cancel()
            if self._timer is not None:
                self._timer.cancel()

    def _arm(self) -> None:
        """Send Ticked when something is due."""
        due_ms = next_deadline_ms(self.state)
        if self._timer is not None:
            self._timer.cancel()
        delay_s = None if due_ms is None else max(0, due_ms - self.now_ms) / 1000
        self._timer = None if delay_s is None else self._loop.call_later(delay_s, self.hear, ev.Ticked())

    async def _perform(self, effect: fx.Effect) -> None:
        if type(effect) in self._readers:
            self._readers[type(effect)].mark()
        match effect:
            case fx.Register() | fx.ReadQueue() | fx.ReadAssignments():
                pass
            case fx.Read():
                self._reads.append(effect)
            case fx.ReadTopic():
                self._topics.append(effect)
            case fx.ReadQueues(request_id):
                self._watching[request_id] = effect
            case fx.Write():
                task = asyncio.ensure_future(self._write(effect))
                self._tasks.add(task)
                task.add_done_callback(self._written)
            case fx.Decide(name, decision):
                self._replicas.decide(name, decision)
            case fx.OpenReplica(name, nodes):
                await self._replicas.open_replica(name, nodes)
            case fx.CloseReplica(name, topic_id):
                await self._replicas.close_replica(name, topic_id)
            case fx.Answer(request_id, outcome):
                self._watching.pop(request_id, None)
                waiting = self._waiting.pop(request_id)
                if not waiting.done():
                    waiting.set_result(outcome)
            case fx.StepAside():
                self._replicas.step_aside()
            case _:
                assert_never(effect)

    # --- ZooKeeper -------------------------------------------------------------------------------

    def _zookeeper_says(self, event: object) -> None:
        if isinstance(event, WatchFired):
            if event.path in self._names:
                self.hear(ev.PartitionTouched(self._names[event.path]))
            elif event.path.startswith(f"{STATE}/"):
                if event.path == StateQueueZnode.path(self.state.me):
                    self._readers[fx.ReadQueue].mark()
                self._readers[fx.ReadQueues].mark()
        elif isinstance(event, SessionStateChanged) and event.state is not SessionState.CONNECTED:
            self._connected.clear()
        elif isinstance(event, SessionStateChanged):
            self._connected.set()
            self._readers[fx.ReadQueues].mark()
            self.hear(ev.Connected(event.session_id))

    def _written(self, task: asyncio.Task[None]) -> None:
        """A bug ends `run`, as one in the core does: the partition would wait for this write for ever."""
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._inbox.put_nowait(bug)

    async def _write(self, effect: fx.Write) -> None:
        effect, requested = self._spans.requested(effect)
        try:
            with requested:
                for multi in multis_for(await self._with_place(effect)):
                    await self._session.multi(multi)
            self._spans.written(effect.operations)
            ending = ev.Ending.COMMITTED
        except queues.FollowerStateChangeQueueFull:
            _log.warning("a broker's queue of state changes is full: %s", queues.added_by(effect))
            ending = ev.Ending.QUEUE_FULL
        except REFUSALS as refused:
            mine = refused.path == BrokerIncarnationZnode.path(self.state.me)
            ending = ev.Ending.SUPERSEDED if mine else ev.Ending.REFUSED
        except (NotEmpty, ZooKeeperRefused) as refused:
            _log.error("a write is tried again until an operator corrects what is in the way: %s", refused)
            await asyncio.sleep(_REFUSED_PAUSE_S)
            ending = ev.Ending.REFUSED
        except ZooKeeperError as error:
            _log.info("the outcome of a write is unknown: %s", error)
            ending = ev.Ending.UNKNOWN
        self.hear(ev.WriteEnded(effect.write_id, ending))

    async def _read_partitions(self) -> None:
        """All that the core wants to know of partitions, in one multiRead, after its watches."""
        if not (reads := list(self._reads)):
            return  # What is asked for while it is read is marked again.
        names = dict.fromkeys(name for read in reads for name in read.names)
        watched = {name for read in reads if read.as_leader for name in read.names}
        watches = [path for name in names for path in self._paths_watched(name, name in watched)]
        # Pipelined on one connection, in this order: what changes after the read fires its watch.
        watching = asyncio.gather(*(self._session.exists(path, watch=True) for path in watches))
        _, partitions, lives = await asyncio.gather(watching, self._partitions(names), self._lives())
        del self._reads[: len(reads)]
        for read in reads:
            of_read = {name: partitions[name] for name in read.names}
            self.hear(ev.PartitionsRead(read.read_id, of_read, lives))

    def _paths_watched(self, name: TopicPartition, as_leader: bool) -> list[str]:
        hosted = self.state.hosted.get(name)
        paths = [LeaderZnode.path(*name)]
        if hosted is None or not hosted.nodes.replicas:
            paths.append(ReplicasZnode.path(*name))
        if as_leader:
            paths.append(ReassignedZnode.path(*name))
        for path in paths:
            self._names[path] = name
        return paths

    async def _lives(self) -> Lives:
        """The registered brokers, with the incarnations that they say they have, and who is drained."""
        registrations, found = await asyncio.gather(
            read_registrations(self._session, _complain, lambda path: None, watch=False),
            self._session.multi_read([DrainedZnode.path()]),
        )
        lives = tuple((each.broker_id, each.znode.incarnation) for each in registrations)
        drained: frozenset[tuple[int, int]] = frozenset()
        with suppress(KeyError, ZnodeGarbage):
            drained = frozenset(DrainedZnode.decode(found[DrainedZnode.path()].data).lives)
        return Lives(lives, frozenset(broker_id for broker_id, _ in drained & set(lives)))

    async def _with_place(self, effect: fx.Write) -> fx.Write:
        """The write, and with it those by which queues shrink that have no place for it."""
        limit, full = self.state.settings.queue_max, {}
        for broker_id, count in queues.added_by(effect).items():
            if len(await self._queued(broker_id, watch=True)) + count > limit:
                full[broker_id] = await self._changes(broker_id)
        return queues.make_place(effect, full, limit)

    async def _read_queue(self) -> None:
        queue = await self._changes(self.state.me, watch=True)
        self._spans.received(queue)
        self.hear(ev.QueueRead(queue))

    async def _queued(self, broker_id: int, *, watch: bool = False) -> list[str]:
        """The znodes in a queue."""
        try:
            names = await self._session.children(StateQueueZnode.path(broker_id), watch=watch)
        except NoNode:
            # Of a broker that is gone for good an operator may have taken it away.
            await self._session.ensure_path(StateQueueZnode.path(broker_id))
            names = []
        queued = [name for name in names if is_queued(name)]
        self.queue_lengths[broker_id] = len(queued)
        return queued

    async def _changes(self, broker_id: int, *, watch: bool = False) -> tuple[QueuedChange, ...]:
        """What is in a queue. A state change never changes, so each is read once."""
        names = await self._queued(broker_id, watch=watch)
        known = self._known_changes.get(broker_id, {})
        new = {StateChangeZnode.path(broker_id, name): name for name in names if name not in known}
        found = await self._session.multi_read(new) if new else {}
        known |= {name: change_of(found.get(path)) for path, name in new.items()}
        self._known_changes[broker_id] = {name: known[name] for name in names}
        return tuple(QueuedChange(name, known[name]) for name in names)

    async def _read_assignments(self) -> None:
        """All partitions that name this broker. It costs what there is: once at a start, and after a
        break."""
        topics = [name for name in await self._session.children(TOPICS) if is_legal_topic_name(name)]
        children = await self._session.multi_children([LedTopicZnode.path(topic) for topic in topics])
        names = [
            TopicPartition(topic, number)
            for topic in topics
            for number in numbers_in(children.get(LedTopicZnode.path(topic), ()))
        ]
        partitions = await self._partitions(names)
        mine = (name for name, nodes in partitions.items() if nodes and self.state.me in nodes.assigned)
        self.hear(ev.AssignmentsRead(tuple(mine)))

    async def _partitions(
        self, names: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionNodes | None]:
        return await read_partitions(self._session, list(names), self._min_insync_replicas)

    async def _topic(self, topic: str, only: int | None) -> TopicNodes | None:
        """A topic with all its partitions, or with one; its id is empty if its znode cannot be read."""
        path = LedTopicZnode.path(topic)
        try:
            znode, children = await asyncio.gather(self._session.get(path), self._session.children(path))
            node = topic_of(znode.data)
        except NoNode:
            return None
        except ZnodeGarbage as garbage:
            _log.warning("topic %s: %s; correct or delete the znode", topic, garbage)
            return TopicNodes(TopicNode(b""), 0, {})
        numbers = [number for number in numbers_in(children) if only in (None, number)]
        nodes = await self._partitions([TopicPartition(topic, number) for number in numbers])
        # A partition without AR and RAR is one that a creation has not come to.
        known = {
            name.partition: found
            or PartitionNodes(node.topic_id.hex(), first_epoch=node.first_epoch(name.partition))
            for name, found in nodes.items()
        }
        return TopicNodes(node, znode.version, known)

    async def _read_topics(self) -> None:
        if not (asked := list(self._topics)):
            return
        topics = asyncio.gather(*(self._topic(each.topic, each.partition) for each in asked))
        found, lives = await asyncio.gather(topics, self._lives())
        del self._topics[: len(asked)]
        for each, topic in zip(asked, found, strict=True):
            self.hear(ev.TopicRead(each.request_id, topic, lives))

    async def _read_queues(self) -> None:
        """The queues that requests wait for, once for all of them, and the lengths of those to which this
        broker has added something, until they are empty."""
        waiting = list(self._watching.values())
        asked = sorted({each for effect in waiting for each in effect.broker_ids})
        found = await asyncio.gather(*(self._changes(broker_id, watch=True) for broker_id in asked))
        for broker_id in self.queue_lengths.keys() - {*asked, self.state.me}:
            if not await self._queued(broker_id, watch=True):
                self.queue_lengths.pop(broker_id, None)
        if not waiting:
            return
        lives = await self._lives()
        for effect in waiting:
            self.hear(ev.QueuesRead(effect.request_id, dict(zip(asked, found, strict=True)), lives))
