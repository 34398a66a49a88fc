"""A simulated broker that decides for itself: the shell around the two real cores, the replica's and the
decider's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from hightide_broker.core import effects as bx
from hightide_broker.core import events as bv
from hightide_broker.core.isr_state import CommittedIsr
from hightide_broker.core.replica import Decision, Replica, ReplicaSettings, Role
from hightide_leaders.core import effects as fx
from hightide_leaders.core import elections, queues
from hightide_leaders.core import events as ev
from hightide_leaders.core.machine import step
from hightide_leaders.core.state import LeadersState, next_deadline_ms
from hightide_leaders.core.values import Decision as Decided
from hightide_leaders.core.values import PartitionNodes, QueuedChange, Settings, TopicPartition
from hightide_leaders.core.writes import Operations
from hightide_runtime.znodes.leaders_znodes import (
    LeaderZnode,
    ReassignedZnode,
    ReplicasZnode,
    StateQueueZnode,
)
from hightide_runtime.znodes.led_nodes import IsrNode
from sim.broker import SimBroker
from sim.disk import Disk
from sim.leaders.messages import Inquiry, Told
from sim.leaders.zookeeper import ISR, NAME, NAMES, LeadersZooKeeper
from sim.messages import KEY, ZOOKEEPER, Body, Envelope, Noticed, Record, SessionEnded, View
from sim.surroundings import Surroundings
from sim.words import as_read
from sim.zookeeper import Check, incarnation

PREFERRED_REPLICA_TIME_MS = 100
LEADER_ELECTION_WAIT_TIME_MS = 300
KEEP_IN_SYNC_TIME_MS = 1_000


class LeadersBroker(SimBroker):
    """One broker with at most one replica."""

    def __init__(self, world: Surroundings, settings: ReplicaSettings, queue_max: int) -> None:
        super().__init__(world, settings, ())
        self.queue_max = queue_max
        self.topic_id = ""
        """Of what is on the disk."""
        self.second: tuple[str, int] | None = None
        """Which partition with the number of the second one the disk has: its topic id and first epoch."""
        self.wrong: list[str] = []
        """What it did with that one that nobody may do."""

    def open(self, *, is_new: bool = False) -> None:
        """A new life; nothing is decided yet."""
        super().open(is_new=is_new)
        self.leaders = LeadersState(
            Settings(
                self.broker_id,
                PREFERRED_REPLICA_TIME_MS,
                LEADER_ELECTION_WAIT_TIME_MS,
                KEEP_IN_SYNC_TIME_MS,
                self.queue_max,
            )
        )
        self.heard: deque[ev.Event] = deque()
        self.is_stepping = False
        self.told_isr: tuple[int, int] = (-1, -1)
        self.watched_for: set[fx.ReadQueues] = set()
        self.answers: dict[int, fx.Outcome] = {}

    # --- the start -------------------------------------------------------------------------------

    def start(self) -> None:
        """As ever; and it follows the tree of topics for its clients."""
        super().start()
        self._follow_topics()

    def _follow_topics(self) -> None:
        """Watch the tree of topics, and read what is there."""
        me = self.broker_id

        def read(zookeeper: LeadersZooKeeper) -> Any:
            zookeeper.watch_tree(me)
            return zookeeper.partition(NAME)

        def told(nodes: PartitionNodes | None) -> None:
            if nodes is not None:
                self.hear(ev.IsrChanged(NAME, nodes.topic_id, nodes.version))

        self._inquire("read the topics", read, told)

    def _leave_isr(self, view: View) -> None:
        """Before it races for anything, a broker whose log may lack records leaves the ISR, and says what
        it has."""
        self._inquire("read my partition", lambda zookeeper: zookeeper.partition(NAME), self._leave_isr_of)

    def _leave_isr_of(self, nodes: Any) -> None:
        stored = None if nodes is None else nodes.isr
        if stored is not None and nodes.topic_id == self.topic_id:
            is_doubted = self.broker_id in stored.doubted
            trusts = self.broker_id in {*stored.isr, *stored.eligible} - stored.doubted
            leaves = self.disk.is_doubtful and trusts
            end = (self.state.epochs.latest_epoch, len(self.disk.log))
            write = elections.departure(NAME, nodes, self.broker_id, *end)
            if write is not None and (is_doubted or leaves):
                self._write(write, lambda _: self._look_then(self._leave_isr))
                return
            self.out_at = stored.version if self.disk.is_doubtful else self.out_at
        self.disk.is_doubtful = False
        self.hear(ev.Started(self.incarnation, self.session))

    def _start_up(self, view: View) -> None:
        if dict(view.sessions).get(self.broker_id) != self.session:
            self._register_over(view)
            return
        self.broker_epoch = dict(view.brokers)[self.broker_id]

    # --- ZooKeeper -------------------------------------------------------------------------------

    def _inquire(
        self,
        words: object,
        run: Callable[[LeadersZooKeeper], Any],
        then: Callable[[Any], None],
        failed: Callable[[], None] | None = None,
    ) -> None:
        """Ask ZooKeeper. A read that fails is asked again with the next tick; of a write, the outcome is
        unknown."""
        inquiry = Inquiry(words, run, writes=failed is not None)

        def answered(body: Body | Told) -> None:
            if isinstance(body, Told):
                then(body.value)
            elif failed is not None:
                failed()
            else:
                self.retries.append(lambda: self._inquire(words, run, then))

        self.world.call(self.broker_id, ZOOKEEPER, inquiry, answered)  # type: ignore[arg-type]

    def _write(
        self, operations: Operations, then: Callable[[Any], None], failed: Callable[[], None] | None = None
    ) -> None:
        session, me = self.session, self.broker_id
        self._inquire(
            operations,
            lambda zookeeper: zookeeper.write(operations, session, me),
            then,
            failed or (lambda: then(None)),
        )

    def _store_isr(self, effect: bx.StoreIsr) -> None:
        expected = effect.expected_partition_epoch
        node = IsrNode(
            effect.leader_epoch,
            effect.isr,
            eligible=effect.eligible,
            recovered=effect.recovered,
            unclean_epoch=effect.unclean_epoch,
        )

        def stored(refused: object) -> None:
            if refused is None:
                self.feed(bv.IsrStored(expected + 1))
            else:
                self.feed(bv.IsrStoreRefused(expected, for_good=is_of_a_life(refused)))

        def unknown() -> None:
            self.feed(bv.IsrStoreUnknown(expected))

        write = elections.isr_change(NAME, node, expected, effect.joining)
        self._write(write, stored, unknown)

    def _isr_read(self, view: View) -> None:
        if view.state is not None:
            stored, version, _ = view.state
            self.feed(as_read(stored, version, self.world.now_ms))

    # --- the decider -----------------------------------------------------------------------------

    def hear(self, event: ev.Event) -> None:
        """Feed events one at a time, and perform their effects in order."""
        self.heard.append(event)
        if self.is_stepping:
            return
        self.is_stepping = True
        while self.heard and self.alive:
            for effect in step(self.leaders, self.heard.popleft(), self.world.now_ms):
                self._do(effect)
        self.is_stepping = False

    def _do(self, effect: fx.Effect) -> None:
        me = self.broker_id
        match effect:
            case fx.Read(names, read_id, as_leader):
                self._inquire(effect, reading(names, me, as_leader), lambda found: self._read(read_id, found))
            case fx.ReadAssignments():
                self._inquire(effect, assigned_to(me), lambda names: self.hear(ev.AssignmentsRead(names)))
            case fx.ReadQueue():
                self._inquire(effect, own_queue(me), lambda changes: self.hear(ev.QueueRead(changes)))
            case fx.ReadTopic(request_id, topic):
                self._inquire(
                    effect,
                    lambda zookeeper: (zookeeper.topic(topic), zookeeper.lives()),
                    lambda found: self.hear(ev.TopicRead(request_id, *found)),
                )
            case fx.ReadQueues():
                self._read_queues(effect)
            case fx.Write():
                self._write_with_place(effect)
            case fx.Register():
                self._look_then(self._register_over)
            case fx.OpenReplica(name, nodes) if name == NAME:
                self._open_replica(nodes.topic_id)
            case fx.CloseReplica(name, topic_id) if name == NAME:
                self._close_replica(topic_id)
            case fx.Decide(name, decision) if name == NAME:
                self._decide(decision)
            case fx.OpenReplica(_, nodes):
                self.second = nodes.life
            case fx.CloseReplica(_, topic_id):
                if self.second is not None and self.second[0] == topic_id:
                    self.second = None
            case fx.Decide(_, decision):
                self._decide_second(decision)
            case fx.Answer(request_id, outcome):
                self.answers[request_id] = outcome
            case fx.StepAside():
                raise AssertionError("one process for each broker in these schedules")

    def _read(self, read_id: int, found: Any) -> None:
        """Ask who lives, too. A watch of the read may fire before that is known."""
        self._inquire(
            f"who lives, for read {read_id}",
            lambda zookeeper: zookeeper.lives(),
            lambda lives: self.hear(ev.PartitionsRead(read_id, found, lives)),
        )

    def _ending(self, refused: object) -> ev.Ending:
        if refused is None:
            return ev.Ending.COMMITTED
        mine = isinstance(refused, Check) and refused.path == incarnation(self.broker_id)
        return ev.Ending.SUPERSEDED if mine else ev.Ending.REFUSED

    def _read_queues(self, effect: fx.ReadQueues) -> None:
        self.watched_for.add(effect)
        me = self.broker_id

        def look(zookeeper: LeadersZooKeeper) -> Any:
            for broker_id in effect.broker_ids:
                zookeeper.watch(StateQueueZnode.path(broker_id), me)
            return {
                broker_id: zookeeper.queue(broker_id) for broker_id in effect.broker_ids
            }, zookeeper.lives()

        self._inquire(effect, look, lambda found: self.hear(ev.QueuesRead(effect.request_id, *found)))

    def _write_with_place(self, effect: fx.Write) -> None:
        """Look at the queues to which it adds, and write."""
        added, limit = queues.added_by(effect), self.queue_max

        def ended(ending: ev.Ending) -> None:
            self.hear(ev.WriteEnded(effect.write_id, ending))

        def write(found: dict[int, tuple[QueuedChange, ...]]) -> None:
            full = {each: queue for each, queue in found.items() if len(queue) + added[each] > limit}
            try:
                placed = queues.make_place(effect, full, limit)
            except queues.FollowerStateChangeQueueFull:
                ended(ev.Ending.QUEUE_FULL)
                return
            write_on([placed.operations, *((*placed.fence, *group) for group in placed.rest if group)])

        def write_on(multis: list[Operations]) -> None:
            """As if each group were too much for the multi before it: the process may die between two."""

            def written(refused: object) -> None:
                if refused is None and multis[1:]:
                    write_on(multis[1:])
                else:
                    ended(self._ending(refused))

            self._write(multis[0], written, lambda: ended(ev.Ending.UNKNOWN))

        if not added:
            write({})
            return
        words = f"read the queues of {sorted(added)}"
        self._inquire(words, lambda zookeeper: {each: zookeeper.queue(each) for each in sorted(added)}, write)

    # --- the replica -----------------------------------------------------------------------------

    def _open_replica(self, topic_id: str) -> None:
        if self.topic_id not in ("", topic_id):
            self._close_replica(self.topic_id)
        self.topic_id = topic_id

    def _close_replica(self, topic_id: str) -> None:
        """Stop it, and put its log into quarantine: another one is another life."""
        if topic_id != self.topic_id:
            return
        if self.state.role is not Role.IDLE:
            self.feed(bv.StopRequested(0, self.state.leader_epoch, delete=True))
        stored = self.world.view().state  # type: ignore[attr-defined]
        if stored is not None and self.broker_id not in {*stored[0].isr, *stored[0].eligible}:
            self.out_at = stored[1]  # It left the ISR before.
        self.topic_id, self.disk = "", Disk(syncs_cuts=self.disk.syncs_cuts)
        self.lives += 1
        self.state = Replica.opened(self.settings, is_new=False)
        self.fetching_from, self.asking, self.told_isr = -1, None, (-1, -1)
        self.told.clear()
        self.world.log_changed()

    def _decide_second(self, decided: Decided) -> None:
        """It holds nothing; but a broker that leads it must have the log of that very partition."""
        zookeeper = self.world.zookeeper  # type: ignore[attr-defined]
        begun = [epoch for epoch in zookeeper.begun if epoch <= decided.leader_epoch]
        if decided.leader == self.broker_id and (self.second is None or self.second[1] != begun[-1]):
            self.wrong.append(
                f"{self.broker_id} leads the second partition in epoch {decided.leader_epoch} by the log of "
                f"{self.second}; first epochs are {begun}"
            )

    def _decide(self, decided: Decided) -> None:
        isr = decided.isr
        decision = Decision(
            0, decided.leader, decided.leader_epoch, isr.isr, decided.replicas, isr.version, isr.eligible,
            isr.recovered, isr.unclean_epoch,
        )  # fmt: skip
        self.feed(bv.LeaderAndIsrDecided(decision, self.world.now_ms))
        leads = self.state.is_leader and self.state.leader_epoch >= decided.leader_epoch
        if decided.leader == self.broker_id and not leads:
            self.hear(ev.LeadershipDeclined(NAME, decided.leader_epoch))

    def feed(self, event: bv.Event, records: tuple[Record, ...] = ()) -> bx.Effects:
        """One step of the replica's core; its decider hears of a new ISR, and of commits."""
        effects = super().feed(event, records)
        leading = self.state.leading
        if leading is not None and isinstance(leading.isr, CommittedIsr):
            epoch, isr = self.state.leader_epoch, leading.isr
            committed = any(isinstance(effect, bx.AdvanceHighWatermark) for effect in effects)
            if committed or self.told_isr != (epoch, isr.partition_epoch):
                self.told_isr = (epoch, isr.partition_epoch)
                self.hear(ev.IsrAdopted(NAME, epoch, isr.isr, isr.partition_epoch, committed))
        return effects

    def _perform(self, effect: bx.Effect, records: tuple[Record, ...]) -> None:
        if isinstance(effect, bx.ReplicaStopped):
            self.fetcher.forget(KEY)
            return
        super()._perform(effect, records)

    # --- what comes in ---------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> None:
        """A request, a watch, or the end of the session."""
        match envelope.body:
            case SessionEnded(session) if session == self.session:
                self.session = self.world.open_session()
                self._follow_topics()
                if self.leaders.session:
                    self.hear(ev.Connected(self.session))
            case Noticed(path) if path == StateQueueZnode.path(self.broker_id):
                self._do(fx.ReadQueue())
                self._watched(path)
            case Noticed(path) if path == ISR:
                self._follow_topics()
            case Noticed(path) if path in PARTITION_PATHS:
                self.hear(ev.PartitionTouched(PARTITION_PATHS[path]))
            case Noticed(path):
                self._watched(path)
            case _:
                super().receive(envelope)

    def _watched(self, path: str) -> None:
        for effect in sorted(self.watched_for, key=lambda each: each.request_id):
            if effect.request_id not in self.leaders.requests:
                self.watched_for.discard(effect)
            elif path in map(StateQueueZnode.path, effect.broker_ids):
                self._read_queues(effect)

    def tick(self) -> None:
        """Time passed for both cores."""
        super().tick()
        due = next_deadline_ms(self.leaders)
        if due is not None and due <= self.world.now_ms:
            self.hear(ev.Ticked())


PARTITION_PATHS = {
    kind.path(*name): name for name in NAMES for kind in (LeaderZnode, ReplicasZnode, ReassignedZnode)
}


def is_of_a_life(refused: object) -> bool:
    """Whether a write failed since a broker has begun another life."""
    return isinstance(refused, Check) and refused.path.startswith(incarnation(0)[:-1])


def reading(names: tuple[TopicPartition, ...], me: int, as_leader: bool) -> Callable[[LeadersZooKeeper], Any]:
    """Read partitions, and leave the watches of a read."""

    def read(zookeeper: LeadersZooKeeper) -> Any:
        for name in names:
            zookeeper.watch_partition(name, me, as_leader)
        return {name: zookeeper.partition(name) for name in names}

    return read


def assigned_to(me: int) -> Callable[[LeadersZooKeeper], Any]:
    """The partitions that name a broker."""

    def read(zookeeper: LeadersZooKeeper) -> Any:
        known = ((name, zookeeper.partition(name)) for name in NAMES)
        return tuple(name for name, nodes in known if nodes is not None and me in nodes.assigned)

    return read


def own_queue(me: int) -> Callable[[LeadersZooKeeper], Any]:
    """What is in a broker's queue, with a watch."""

    def read(zookeeper: LeadersZooKeeper) -> Any:
        zookeeper.watch(StateQueueZnode.path(me), me)
        return zookeeper.queue(me)

    return read
