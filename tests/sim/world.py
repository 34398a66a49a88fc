"""A whole cluster in memory: three brokers, two controllers, ZooKeeper, the network between them, and the
clock.

Rules of this file: nothing happens by itself. Whoever holds a world (a schedule, a random walk, Hypothesis)
says which message arrives next, what is lost, who dies, when time passes; the same orders give the same
world. After each order the checkers look at it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from hightide_broker.core.isr_state import IsrState, PendingExpand
from hightide_broker.core.replica import Replica, ReplicaSettings
from msgspec.structs import replace
from sim.broker import SimBroker
from sim.checkers import ALL_CHECKERS, Checker
from sim.controller import SimController
from sim.disk import PowerCut
from sim.messages import (
    ZOOKEEPER,
    CallFailed,
    Envelope,
    Look,
    Noticed,
    ProcessDied,
    Record,
    SessionEnded,
    View,
    Write,
    WriteAnswer,
)
from sim.network import Network
from sim.zookeeper import CONTROLLER, CONTROLLER_EPOCH, Stored, ZooKeeper

BROKERS = (1, 2, 3)
CONTROLLERS = (11, 12)
LAG_TIME_MAX_MS = 1_000


@dataclass(frozen=True)
class Settings:
    """What kind of cluster it is."""

    replicas: tuple[int, ...] = BROKERS
    min_insync_replicas: int = 1
    min_insync_known: int | None = None
    """What the controllers take for it; None: the same."""
    flush_on_disk: bool = False


class World(Network):
    """The cluster. Public methods are the orders."""

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__((*BROKERS, *CONTROLLERS))
        self.settings = settings or Settings()
        self.zookeeper = self.zookeeper_of_world()
        self.acked: dict[int, Record] = {}
        self.contradictions: list[tuple[int, Record]] = []
        """Records acknowledged at an offset where another one was before."""
        self.commits: list[tuple[int, int, int]] = []
        """(leader epoch, broker, high watermark) of each advance at a leader since the last check."""
        self.divergences: list[tuple[int, int]] = []
        """(broker, offset): a follower would not cut there what it knows to be committed."""
        self.losses: dict[Record, set[int]] = {}
        """Record → the brokers whose disks lost it."""
        self.unclean_epoch = 0
        """The last epoch whose leader was elected where all that were in sync may have lost their ends."""
        self.kept: tuple[Record, ...] = ()
        """That leader's log. It may have back what it had cut off, and so what was never committed."""
        self.logs_changed = True
        self.asked_before = 0
        """As far as any leader was ever told to delete records."""
        self.deleted_before = 0
        """The same, but for what the last unclean leader never had: others may be in its place since."""
        self.orphans: list[int] = []
        """ZooKeeper sessions of lives that are over."""
        base = ReplicaSettings(
            0,
            LAG_TIME_MAX_MS,
            self.settings.min_insync_replicas,
            self.settings.flush_on_disk,
        )
        replicas = self.settings.replicas
        self.brokers = self.brokers_of_world(base, replicas)
        self.controllers = self.controllers_of_world(replicas)
        self.nodes: dict[int, SimBroker | SimController] = {**self.brokers, **self.controllers}
        self.next_value = 1
        self._seen: list[Replica] = []
        self._view: View | None = None
        self._viewed_at = -1
        """The zxid of that view."""
        self._electable: tuple[int, ...] = ()
        self._electable_by: Stored | None = None
        self.checkers: list[Checker] = [checker(self) for checker in self.judged_by]

    # --- what another kind of cluster consists of ------------------------------------------------

    judged_by: Sequence[type[Checker]] = ALL_CHECKERS

    def zookeeper_of_world(self) -> ZooKeeper:
        """Its ZooKeeper."""
        return ZooKeeper(self._notify)

    def brokers_of_world(self, base: ReplicaSettings, replicas: tuple[int, ...]) -> dict[int, SimBroker]:
        """Its brokers: those that have a replica."""
        return {n: SimBroker(self, replace(base, broker_id=n), replicas) for n in BROKERS if n in replicas}

    def controllers_of_world(self, replicas: tuple[int, ...]) -> dict[int, SimController]:
        """Its controllers."""
        known = self.settings.min_insync_known or self.settings.min_insync_replicas
        return {n: SimController(self, n, replicas, known) for n in CONTROLLERS}

    @property
    def assigned(self) -> tuple[int, ...]:
        """AR."""
        return tuple(self.brokers)

    # --- what nodes may do (sim.surroundings, sim.controller.Surroundings) -----------------------

    def open_session(self) -> int:
        """A new ZooKeeper session."""
        return self.zookeeper.open_session()

    def acknowledged(self, broker_id: int, offset: int, record: Record) -> None:
        """A producer is told that its record is committed."""
        self.story.append(f"      acknowledged {record} at {offset} by {broker_id}")
        if self.brokers[broker_id].state.leader_epoch < self.unclean_epoch:
            return  # It was lost since by those that it was committed on.
        if self.acked.setdefault(offset, record) != record:
            self.contradictions.append((offset, record))
        self._seen.clear()

    def committed(self, broker: SimBroker) -> None:
        """A replica's high watermark moved."""
        if broker.state.is_leader:
            self.commits.append((broker.state.leader_epoch, broker.broker_id, broker.state.high_watermark))

    def log_changed(self) -> None:
        """Some log is not what it was."""
        self.logs_changed = True

    def lost(self, broker_id: int, records: list[Record]) -> None:
        """A disk does not have these records any more."""
        for record in records:
            self.losses.setdefault(record, set()).add(broker_id)

    def diverged(self, broker_id: int, offset: int) -> None:
        """A follower was to cut what it knows to be committed, and no unclean election says why."""
        self.divergences.append((broker_id, offset))

    def deleting(self, before_offset: int) -> None:
        """A leader deletes records."""
        self.deleted_before = max(self.deleted_before, before_offset)
        self.asked_before = max(self.asked_before, before_offset)
        self.logs_changed = True

    def _notify(self, node: int, path: str) -> None:
        self.pending.append(Envelope(ZOOKEEPER, node, 0, Noticed(path)))

    def take_apart(self) -> None:
        """The schedule is over, and nobody looks any more: nodes and world let go of one another, and are
        gone at once. The collector of cycles would look at all of it several times before."""
        for node in self.nodes.values():
            vars(node).clear()
        vars(self).clear()

    # --- orders: the network ---------------------------------------------------------------------

    def touched(self, node_id: int) -> None:
        """Nodes of this world act at once."""

    def at_zookeeper(self, envelope: Envelope) -> None:
        """A multi, or a look at everything."""
        match envelope.body:
            case Write(operations):
                refused = self.zookeeper.multi(operations, envelope.source)
                self.answer(envelope, WriteAnswer(refused))
            case Look(watch):
                for path in watch:
                    self.zookeeper.watch(path, envelope.source)
                self.answer(envelope, self.view())
            case _:
                raise AssertionError(envelope)

    def view(self) -> View:
        """What ZooKeeper holds; only a multi changes it."""
        if self._view is None or self._viewed_at != self.zookeeper.zxid:
            self._view, self._viewed_at = self._view_now(), self.zookeeper.zxid
        return self._view

    def _view_now(self) -> View:
        node = self.zookeeper.nodes.get(CONTROLLER)
        controller = None
        if node is not None:
            assert isinstance(node.data, tuple)
            controller = (node.data[0], node.data[1])
        return View(
            controller,
            node.session if node is not None else 0,
            self.zookeeper.controller_epoch,
            self.zookeeper.nodes[CONTROLLER_EPOCH].version,
            self.zookeeper.brokers(),
            self.zookeeper.broker_sessions(),
            self.zookeeper.incarnations(),
            self.zookeeper.state(),
        )

    def echo(self, broker_id: int, which: int) -> None:
        """A decision or an answer that a broker has had reaches it again."""
        self.story.append(f"echo {which} at {broker_id}: {self.brokers[broker_id].told[which]}")
        self.brokers[broker_id].hear_again(which)
        self.check()

    # --- orders: nodes, disks, clocks ------------------------------------------------------------

    def start(self) -> None:
        """Everything starts, and the partition gets its first leader."""
        for node in self.nodes.values():
            self._lives[self._id(node)] += 1
            node.start()
        self.settle()

    def _id(self, node: SimBroker | SimController) -> int:
        return node.broker_id if isinstance(node, SimBroker) else node.controller_id

    def crash(
        self,
        node_id: int,
        lost_records: int = 0,
        *,
        power: PowerCut | None = None,
        loses_power: bool = False,
        loses_disk: bool = False,
    ) -> None:
        """The process dies; ZooKeeper will notice when its session ends (`expire`).

        With the power of its machine go `lost_records` at the end of the log, or whatever `power` says.
        """
        if power is None and (lost_records or loses_power):
            power = PowerCut(lost_records)
        lost = "all" if loses_disk else "nothing" if power is None else power
        self.story.append(f"crash {node_id} lost={lost}")
        node = self.nodes[node_id]
        if isinstance(node, SimBroker):
            node.crash(power, loses_disk=loses_disk)
        else:
            node.crash()
        # Parked requests of others break with the connection.
        for number in [number for number, call in self._calls.items() if call.source == node_id]:
            del self._calls[number]
        self._break_calls_to(node_id)
        self.check()

    def _break_calls_to(self, node_id: int) -> None:
        under_way = {e.call for e in self.pending}
        if isinstance(node := self.nodes[node_id], SimBroker):
            for envelope in node.parked.values():
                if envelope.call in self._calls and envelope.call not in under_way:
                    self.pending.append(Envelope(node_id, envelope.source, envelope.call, CallFailed()))

    def restart(self, node_id: int) -> None:
        """The process is started again on the disk that it left."""
        self.story.append(f"restart {node_id}")
        self._lives[node_id] += 1
        self.orphans.append(self.nodes[node_id].session)
        self.nodes[node_id].start()
        self.check()

    def expire_orphans(self) -> None:
        """ZooKeeper ends the sessions of processes that are gone."""
        self.story.append("expire orphans")
        for session in self.orphans:
            self.zookeeper.expire(session)
        self.orphans.clear()
        self.check()

    def expire(self, node_id: int) -> None:
        """ZooKeeper ends the node's session; the node hears of it later, if it lives."""
        self.story.append(f"expire {node_id}")
        session = self.nodes[node_id].session
        if session in self.zookeeper.live_sessions:
            self.zookeeper.expire(session)
            self.pending.append(Envelope(ZOOKEEPER, node_id, 0, SessionEnded(session)))
        self.check()

    def detect_death(self, broker_id: int, life_epoch: int) -> None:
        """The controllers' failure detector: the process with this broker epoch is gone."""
        self.story.append(f"detect death of {broker_id}")
        for controller_id, controller in self.controllers.items():
            if controller.is_active:
                notice = ProcessDied(broker_id, life_epoch)
                self.pending.append(Envelope(broker_id, controller_id, 0, notice))

    def produce(self, broker_id: int, acks_all: bool = True) -> int | None:
        """A producer sends one record to a broker; its value, or None where it was refused."""
        value = self.next_value
        self.next_value += 1
        self.story.append(f"produce {value} at {broker_id}")
        appended = self.brokers[broker_id].produce(value, acks_all)
        self.check()
        return value if appended else None

    def delete(self, broker_id: int, before_offset: int) -> int | None:
        """An operator asks a broker to delete records; where its log begins then, None where refused."""
        self.story.append(f"delete before {before_offset} at {broker_id}")
        start = self.brokers[broker_id].delete(before_offset)
        self.check()
        return start

    def fsync(self, broker_id: int) -> None:
        """A broker's log reaches its disk."""
        self.story.append(f"fsync {broker_id}")
        self.brokers[broker_id].fsync()
        self.check()

    def advance(self, by_ms: int) -> None:
        """Time passes for everyone who lives and is not paused."""
        self.story.append(f"advance {by_ms}")
        self.now_ms += by_ms
        for node in self.nodes.values():
            if node.alive and not node.paused:
                node.tick()
        self.check()

    def check(self) -> None:
        """Let every checker look, unless nothing is different from what they saw last."""
        replicas = [broker.state for broker in self.brokers.values() if broker.lives and broker.alive]
        same = len(replicas) == len(self._seen) and all(map(operator.is_, replicas, self._seen))
        if same and not (self.logs_changed or self.commits or self.zookeeper.state_writes):
            return
        self._seen = replicas
        for checker in self.checkers:
            checker.check()
        self.logs_changed = False
        self.commits.clear()

    # --- what a schedule asks --------------------------------------------------------------------

    @property
    def leader(self) -> int:
        """The leader that ZooKeeper names, -1 where there is none."""
        state = self.zookeeper.state()
        return -1 if state is None else state[0].leader

    @property
    def isr(self) -> tuple[int, ...]:
        """The ISR that ZooKeeper holds."""
        state = self.zookeeper.state()
        return () if state is None else state[0].isr

    @property
    def doubted(self) -> frozenset[int]:
        """Who may have lost the end of its log and has not caught up since."""
        state = self.zookeeper.state()
        return frozenset() if state is None else state[0].doubted

    @property
    def electable(self) -> tuple[int, ...]:
        """Who is to have all that is committed: the ISR and the eligible that ZooKeeper holds, but for who is
        in doubt."""
        state = self.zookeeper.state()
        if state is None:
            return ()
        if self._electable_by is not state[0]:
            self._electable_by, self._electable = state[0], tuple(sorted(state[0].trusted))
        return self._electable

    @property
    def promised_copies(self) -> int:
        """How many disks have a record before it is acknowledged, and are remembered to have it."""
        settings = self.settings
        known = settings.min_insync_known or settings.min_insync_replicas
        return min(known, settings.min_insync_replicas, len(settings.replicas))

    def counts(self, member: int, isr: IsrState | None = None) -> bool:
        """Whether a member of the stored ISR, or of what a leader takes for it, can be held to its word.

        One that lost its power says so before it comes back. A leader may not have heard of it yet, or
        may still ask for its earlier life to be taken in; neither can come to anything.
        """
        if self.brokers[member].disk.is_doubtful:
            return False
        if isr is None:
            return True
        if member in self.doubted:
            return False
        if isinstance(isr, PendingExpand) and member in isr.joining:
            asked = isr.incarnations[isr.joining.index(member)]
            return asked == dict(self.zookeeper.incarnations()).get(member)
        return self.brokers[member].out_at <= isr.partition_epoch

    def heal(self) -> None:
        """Faults end: links are whole, everyone lives, sessions of the dead are gone."""
        self.story.append("heal")
        self.cut_links.clear()
        self.pending += self.late
        self.late.clear()
        self.expire_orphans()
        for node_id, node in self.nodes.items():
            node.paused = False
            if not node.alive:
                self.expire(node_id)
                self.restart(node_id)

    def converge(self, rounds: int = 12) -> None:
        """After healing: let time pass until there is nothing left to do."""
        for _ in range(rounds):
            self.settle()
            if self.settings.flush_on_disk:
                for broker_id in self.brokers:
                    self.fsync(broker_id)
                self.settle()
            self.advance(LAG_TIME_MAX_MS // 2)
        self.settle()
