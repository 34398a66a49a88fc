"""A cluster of topics in memory: four brokers, two controllers, ZooKeeper, the network, the clock.

Rules of this file: as in sim.world. Nothing happens by itself; the same orders give the same world; after
each order the checkers look at it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from hightide.v1.broker_service_pb2 import ACKS_ALL, ACKS_LEADER
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_runtime.addresses import HostPort
from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.znodes import cluster_znodes
from hightide_runtime.znodes.cluster_znodes import (
    ClusterIdZnode,
    LeaderAndIsrZnode,
    TopicConfigZnode,
    TopicZnode,
)
from hightide_runtime.zookeeper.session import (
    Create,
    Delete,
    SetData,
    TreeChanged,
    WatchFired,
    ZooKeeperError,
)
from sim.checkers import Violation
from sim.messages import ZOOKEEPER, CallFailed, Envelope, ProcessDied
from sim.network import Network
from sim.topics.batches import crc_of, make_batch
from sim.topics.broker import LAG_TIME_MAX_MS, PORT, SimHost, SimReplica
from sim.topics.bugs import Bugs
from sim.topics.checkers import Checkers
from sim.topics.controller import SimControllerProcess
from sim.topics.damage import DAMAGES, Damage
from sim.topics.messages import REQUESTS, Answered, Asked, Expired, Fired, Key
from sim.topics.producer import SimProducer
from sim.topics.stored import flush_in, state_in, topic_in
from sim.topics.tree import Client, Tree

BROKERS = (1, 2, 3, 4)
CONTROLLERS = (11, 12)
PRODUCERS = (21, 22)
MOMENT_MS = 10
"""As long as brokers gather what they write of ISRs."""
MOMENTS = 5
SETTLED_WITHIN_MS = 10_000
"""Producers ask every few moments while all brokers are down, which lasts until somebody starts one."""
HEALED_WITHIN_MS = 120_000
"""Among what takes long: a partition that could not be copied is tried again after a minute at most."""


@dataclass(frozen=True)
class Settings:
    """What kind of cluster it is."""

    min_insync_replicas: int = 1


class Cluster(Network):
    """The cluster. Public methods are the orders. `close` it: event loops hold files."""

    cluster_id = "sim"

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__((*BROKERS, *CONTROLLERS, *PRODUCERS))
        self.settings = settings or Settings()
        self.tree = Tree(self._notify)
        for path in cluster_znodes.PARENTS:
            self._make(path)
        self.tree.by_hand(Create(ClusterIdZnode.path(), ClusterIdZnode(self.cluster_id).encode()))
        self.values: dict[int, tuple[int, ...]] = {}
        """The values of each batch that was ever made, by its CRC."""
        self.failed: set[int] = set()
        """The values whose producer was told that they failed, and may have been appended."""
        self.sent: dict[int, int] = {}
        """The values that idempotent producers sent, and which of them."""
        self.hosts = {n: SimHost(self, n, self.settings.min_insync_replicas) for n in BROKERS}
        self.controllers = {n: SimControllerProcess(self, n) for n in CONTROLLERS}
        addresses = tuple(f"broker{n}:{PORT}" for n in BROKERS)
        self.producers = {n: SimProducer(self, n, addresses) for n in PRODUCERS}
        self.nodes: dict[int, SimHost | SimControllerProcess | SimProducer] = {
            **self.hosts,
            **self.controllers,
            **self.producers,
        }
        self.orphans: list[int] = []
        self.refusing: set[int] = set()
        """Brokers whose ports take nothing, though they live."""
        self.bugs = Bugs()
        self._deaths_ms: dict[int, int] = {}
        self._is_as_it_was = False
        """Whether no broker can have done anything since the checkers looked."""
        self.next_value = 1
        self.checkers = Checkers(self)

    def close(self) -> None:
        """End every process."""
        for node in self.nodes.values():
            if node.alive:
                node.crash()
        self.bugs.close()

    # --- what nodes may do -----------------------------------------------------------------------

    def open_session(self) -> int:
        """A new ZooKeeper session."""
        return self.tree.open_session()

    def connection_broken(self, client: Client) -> None:
        """A message between a process and ZooKeeper was lost: its watches are gone."""
        self.tree.forget(client)

    def acknowledged(self, host: SimHost, key: Key, base_offset: int, crc: int) -> None:
        """A producer is told that a batch is committed."""
        values = self.values[crc]
        name = f"{key[0][:2].hex()}-{key[1]}"
        self.story.append(f"      {host.broker_id} acknowledges {values} at {base_offset} of {name}")
        for offset, value in enumerate(values, base_offset):
            self.checkers.acknowledged(host, key, offset, value)

    def committed(self, replica: SimReplica) -> None:
        """A replica's high watermark moved."""
        self.checkers.committed(replica)

    def put_aside(self, host: SimHost, key: Key, replica: HostedReplica | None) -> None:
        """A broker gives up a replica, which it may not run."""
        self.story.append(f"      {host.broker_id} puts {key[0][:2].hex()}-{key[1]} aside")
        self.checkers.put_aside(host, key, replica)

    def died_ms(self, node_id: int) -> int:
        """When its process last died; now, where it never did."""
        return self._deaths_ms.get(node_id, self.now_ms)

    def telemetry_of(self, controller_id: int) -> Telemetry:
        """Where a controller process that starts sends its spans."""
        return Telemetry.off()

    def gave_its_word(self, host: SimHost) -> None:
        """A broker is registered: it has told what it may lack."""
        self.checkers.gave_its_word(host.broker_id)

    def node_at(self, address: HostPort) -> int:
        """Who listens there."""
        return int(address.host.lstrip("abcdefghijklmnopqrstuvwxyz"))

    def is_reachable(self, source: int, target: int) -> bool:
        """Whether a connection can be made."""
        is_listening = self.nodes[target].alive and target not in self.refusing
        return is_listening and not {(source, target), (target, source)} & self.cut_links

    def _notify(self, client: Client, event: WatchFired | TreeChanged) -> None:
        fired: Any = Fired(client, event)
        self.pending.append(Envelope(ZOOKEEPER, client.node_id, 0, fired))

    # --- the network -----------------------------------------------------------------------------

    def is_request(self, envelope: Envelope) -> bool:
        return isinstance(envelope.body, REQUESTS)

    def takes(self, envelope: Envelope) -> bool:
        is_refused = envelope.target in self.refusing and self.is_request(envelope)
        return super().takes(envelope) and not is_refused

    def at_zookeeper(self, envelope: Envelope) -> None:
        """A request of a session."""
        asked: Any = envelope.body
        assert isinstance(asked, Asked)
        try:
            value: Any = self._asked(asked, envelope.source)
        except ZooKeeperError as error:
            value = error
        self.answer(envelope, Answered(value))

    def _asked(self, asked: Asked, source: int) -> Any:
        tree, (*arguments,) = self.tree, asked.arguments
        match asked.what:
            case "get" | "exists" | "children_and_changes":
                return getattr(tree, asked.what)(asked.client, *arguments)
            case "multi_read":
                found = {path: tree.read(path) for path in arguments[0]}
                return {path: znode for path, znode in found.items() if znode is not None}
            case "watch_tree":
                return tree.watch_tree(asked.client, *arguments)
            case "multi":
                return tree.multi(asked.session, arguments[0], source)
            case _:
                assert asked.what == "sync"
                return None

    def settle(self, limit: int = 3_000) -> None:
        """Deliver in order until nothing is under way that can arrive, nor is said within a moment.

        Who asks again and again, and finds nobody, is not waited for longer than `SETTLED_WITHIN_MS`.
        """
        give_up_ms = self.now_ms + SETTLED_WITHIN_MS
        for _ in range(limit):
            envelope = self.next_message()
            if envelope is None or self.now_ms > give_up_ms:
                return
            self.deliver(envelope)
        raise AssertionError("the cluster does not come to rest")

    def settle_until(self, reached: Callable[[], bool], limit: int = 3_000) -> None:
        """Deliver in order until something is so."""
        for _ in range(limit):
            if reached():
                return
            envelope = self._first_open()
            if envelope is not None:
                self.deliver(envelope)
            else:
                self.advance(MOMENT_MS)
        raise AssertionError("the cluster does not get there")

    def _first_open(self) -> Envelope | None:
        return next((e for e in self.pending if self.is_open(e)), None)

    def next_message(self) -> Envelope | None:
        """What can arrive next, and is said within a moment; None where that is nothing."""
        end_ms = self.now_ms + MOMENTS * MOMENT_MS
        while (envelope := self._first_open()) is None and self.now_ms < end_ms:
            self.advance(self._until_one_is_due(end_ms))
        return envelope

    def _until_one_is_due(self, end_ms: int) -> int:
        """As many whole moments as pass before a process has something to do."""
        due_ms = end_ms
        for node in self.nodes.values():
            if node.alive and not node.paused and (at_ms := node.loop.due_ms) is not None:
                due_ms = min(due_ms, at_ms)
        return max(1, -(-(due_ms - self.now_ms) // MOMENT_MS)) * MOMENT_MS

    def touched(self, node_id: int) -> None:
        """What reached a process wakes its tasks."""
        node = self.nodes.get(node_id)
        if node is not None and node.alive and not node.paused:
            node.loop.settle()
        self._bury(node_id)

    def _bury(self, node_id: int) -> None:
        """A broker that has ended by itself is gone."""
        host = self.hosts.get(node_id)
        if host is not None and host.alive and host.end:
            self.story.append(f"{node_id} ends: {host.end}")
            self._die(node_id)

    # --- orders: processes and time --------------------------------------------------------------

    def start(self) -> None:
        """Everything starts."""
        for node_id, node in self.nodes.items():
            self._lives[node_id] += 1
            node.start()
        self.settle()

    def crash(self, node_id: int) -> None:
        """The process dies; ZooKeeper will notice when its session ends (`expire`)."""
        self.story.append(f"crash {node_id}")
        self._die(node_id)
        self.check()

    def _die(self, node_id: int) -> None:
        node = self.nodes[node_id]
        self._deaths_ms[node_id] = self.now_ms
        node.crash()
        for number in [number for number, call in self._calls.items() if call.source == node_id]:
            del self._calls[number]
        self.tree.forget(node.client)
        if isinstance(node, SimHost):
            self._reset(node)

    def _reset(self, host: SimHost) -> None:
        """Connections to a broker break: whoever waits for an answer learns it."""
        for envelope in host.in_hand:
            if envelope.call in self._calls:
                failed = Envelope(host.broker_id, envelope.source, envelope.call, CallFailed())
                self.pending.append(failed)

    def restart(self, node_id: int) -> None:
        """The process is started again, a broker on the disk that it left."""
        self.story.append(f"restart {node_id}")
        self._lives[node_id] += 1
        self.orphans.append(self.nodes[node_id].session)
        self.nodes[node_id].start()
        self.check()

    def expire(self, node_id: int) -> None:
        """ZooKeeper ends the process's session; it hears of it later, if it lives."""
        self.story.append(f"expire {node_id}")
        node = self.nodes[node_id]
        if node.session in self.tree.live_sessions:
            self.tree.expire(node.session)
            self.tree.forget(node.client)
            if node.alive:
                expired: Any = Expired(node.client, node.session)
                self.pending.append(Envelope(ZOOKEEPER, node_id, 0, expired))
        self.check()

    def expire_orphans(self) -> None:
        """ZooKeeper ends the sessions of processes that are gone."""
        self.story.append("expire orphans")
        for session in self.orphans:
            self.tree.expire(session)
        self.orphans.clear()
        self.check()

    def detect_death(self, broker_id: int, broker_epoch: int) -> None:
        """The controllers' failure detector: the process with this broker epoch is gone."""
        self.story.append(f"detect death of {broker_id}")
        for controller_id, controller in self.controllers.items():
            if controller.is_active:
                notice = ProcessDied(broker_id, broker_epoch)
                self.pending.append(Envelope(broker_id, controller_id, 0, notice))

    def refuse(self, broker_id: int) -> None:
        """A broker's port refuses whoever connects, and resets who is, though it lives and calls others."""
        self.story.append(f"{broker_id} refuses connections")
        self.refusing.add(broker_id)
        self._reset(self.hosts[broker_id])
        self.check()

    def let_in(self, broker_id: int) -> None:
        """Its port takes connections again."""
        self.story.append(f"{broker_id} takes connections")
        self.refusing.discard(broker_id)

    def stop(self, broker_id: int) -> None:
        """A broker is told to stop."""
        self.story.append(f"stop {broker_id}")
        self.hosts[broker_id].stop()
        self.touched(broker_id)
        self.check()

    def lose_power(self, broker_id: int, seed: int) -> None:
        """A broker's machine goes down, with what had not reached its disks; `seed` says how much that is."""
        self.story.append(f"power cut at {broker_id}, {seed}")
        if self.hosts[broker_id].alive:
            self._die(broker_id)
        self.hosts[broker_id].cut_power(Random(seed))
        self.check()

    def damage(self, broker_id: int, seed: int, kinds: Sequence[Damage] = DAMAGES) -> None:
        """One of these happens to the files of a broker that is stopped; `seed` says which, and where."""
        said = self.hosts[broker_id].damage(Random(seed), kinds)
        self.story.append(f"damage at {broker_id}, {seed}: {said or 'nothing'}")
        if said:
            self.checkers.unhealed.add(broker_id)
        self.check()

    def set_clock(self, broker_id: int, by_ms: int) -> None:
        """An operator sets a machine's clock."""
        self.story.append(f"the clock of {broker_id} jumps by {by_ms}")
        self.hosts[broker_id].clock.jumped_us += by_ms * 1000

    def slow_disks(self, broker_id: int, latency_ms: int) -> None:
        """Whatever waits for the broker's disks takes so long from now on."""
        self.story.append(f"the disks of {broker_id} take {latency_ms}")
        self.hosts[broker_id].disk_latency_ms = latency_ms

    def stop_threads(self, broker_id: int, name: str) -> None:
        """Some of a broker's threads stand still, and the others do not."""
        self.story.append(f"the threads {name} of {broker_id} stop")
        self.hosts[broker_id].threads[name].stop()

    def let_threads_go_on(self, broker_id: int) -> None:
        """All of a broker's threads run again."""
        self.story.append(f"the threads of {broker_id} go on")
        for threads in self.hosts[broker_id].threads.values():
            threads.go_on()
        self.touched(broker_id)
        self.check()

    def break_disk(self, broker_id: int, path: str) -> None:
        """A data directory of a broker fails, until its next life."""
        self.story.append(f"the disk {path} fails")
        self.hosts[broker_id].files.broken.add(path)

    def fill_disk(self, broker_id: int, path: str, room_bytes: int) -> None:
        """A data directory of a broker has room for so many bytes more."""
        self.story.append(f"the disk {path} has room for {room_bytes}")
        self.hosts[broker_id].disk.room[path] = room_bytes

    def make_room(self, broker_id: int) -> None:
        """The disks of a broker have room again."""
        self.story.append(f"the disks of {broker_id} have room")
        self.hosts[broker_id].disk.room.clear()

    def advance(self, by_ms: int) -> None:
        """Time passes for everyone who lives and is not paused."""
        self.story.append(f"advance {by_ms}")
        self.now_ms += by_ms
        self._is_as_it_was = True
        for node_id, node in self.nodes.items():
            if node.alive and not node.paused:
                node.tick()
                if node.loop.settle() and node_id in self.hosts:
                    self._is_as_it_was = False
                    self._bury(node_id)
        self.check()

    def resume(self, node_id: int) -> None:
        """It goes on as if nothing had been."""
        super().resume(node_id)
        self.touched(node_id)

    def deliver(self, envelope: Envelope) -> None:
        self._is_as_it_was = envelope.target not in self.hosts
        super().deliver(envelope)

    def check(self) -> None:
        """Let every checker look, unless no broker was touched and nothing was written since they did."""
        if self.bugs.found:
            raise Violation("Bug", self.bugs.found[0], self.story)
        if self.tree.written or not self._is_as_it_was:
            self.checkers.check()
        self._is_as_it_was = False

    # --- orders: clients and operators -----------------------------------------------------------

    def produce(self, broker_id: int, key: Key, acks_all: bool = True) -> int | None:
        """A producer sends one record to a replica; its value, or None where it was refused."""
        value = self.next_value
        self.next_value += 1
        host = self.hosts[broker_id]
        self.story.append(f"produce {value} at {broker_id} for {key[0][:2].hex()}-{key[1]}")
        batch = make_batch(key, value)
        self.values[crc_of(batch)] = (value,)
        host.produce(key, batch, ACKS_ALL if acks_all else ACKS_LEADER)
        self.touched(broker_id)
        self.check()
        is_there = host.alive and any(each == value for _, each in host.logs.log(key).log)
        return value if is_there else None

    def delete_records(self, broker_id: int, key: Key, before_offset: int) -> None:
        """An operator asks a replica to delete all records before an offset; -1: all that are committed."""
        self.story.append(f"delete before {before_offset} at {broker_id} of {key[0][:2].hex()}-{key[1]}")
        host = self.hosts[broker_id]
        self.checkers.deleting(host, key, before_offset)
        host.delete_records(key, before_offset)
        self.touched(broker_id)
        self.check()

    def produce_to(self, topic: str, partition: int = 0, acks_all: bool = True) -> int | None:
        """A producer sends one record to the leader that ZooKeeper names."""
        state = self.state(topic, partition)
        key = (self.topic(topic).topic_id, partition)
        if state is None or state.leader not in self.hosts:
            return None
        return self.produce(state.leader, key, acks_all)

    def send(self, producer_id: int, topic: str, partition: int) -> None:
        """A program gives a producer one record, which brings it to the leader as its SDK does."""
        value = self.next_value
        self.next_value += 1
        self.story.append(f"send {value} by {producer_id} to {topic}-{partition}")
        self.sent[value] = producer_id
        self.producers[producer_id].send(topic, partition, value)
        self.check()

    def ask(self, event: Any, kind: Any) -> tuple[int, int] | None:
        """A client asks the active controller; who that is and the request's id, or None where none is."""
        for controller_id, controller in self.controllers.items():
            if controller.is_active and not controller.paused:
                self.story.append(f"ask {controller_id} {event}")
                request_id = controller.ask(event, kind)
                self.check()
                return controller_id, request_id
        return None

    def tell(self, event: Any) -> None:
        """A broker tells the active controller something that needs no answer."""
        for controller in self.controllers.values():
            if controller.is_active and not controller.paused:
                controller.tell(event)
        self.check()

    def take_away(self, path: str) -> None:
        """An operator deletes a znode and all below it in a ZooKeeper shell."""
        self.story.append(f"take away {path}")
        for name in self.tree.children(path):
            self.take_away(f"{path}/{name}")
        self.tree.by_hand(Delete(path, -1))
        self.check()

    def by_hand(self, path: str, data: bytes = b"") -> None:
        """An operator creates a znode in a ZooKeeper shell, and what is missing above it, or sets it."""
        self.story.append(f"by hand {path} {data!r}")
        self._make(path.rpartition("/")[0])
        found = self.tree.read(path)
        self.tree.by_hand(Create(path, data) if found is None else SetData(path, data, -1))
        self.check()

    def _make(self, path: str) -> None:
        above = ""
        for name in path.strip("/").split("/"):
            above = f"{above}/{name}"
            if self.tree.read(above) is None:
                self.tree.by_hand(Create(above, b""))

    # --- what a schedule asks --------------------------------------------------------------------

    def topics(self) -> Mapping[str, TopicZnode]:
        """The topics that ZooKeeper holds."""
        return {name: self.topic(name) for name in self.tree.children(cluster_znodes.TOPICS)}

    def topic(self, name: str) -> TopicZnode:
        """One of them."""
        found = self.tree.read(TopicZnode.path(name))
        assert found is not None, name
        return topic_in(found.data)

    def is_fsynced(self, topic: str) -> bool:
        """Whether what its producers are told of is on disks."""
        found = self.tree.read(TopicConfigZnode.path(topic))
        return found is not None and flush_in(found.data) == "fsync"

    def state(self, topic: str, partition: int) -> LeaderAndIsrZnode | None:
        """The leaderAndISR of a partition."""
        found = self.tree.read(LeaderAndIsrZnode.path(topic, partition))
        return None if found is None else state_in(found.data)

    def partition_epoch(self, topic: str, partition: int) -> int:
        """Its version; -1 where there is none."""
        found = self.tree.read(LeaderAndIsrZnode.path(topic, partition))
        return -1 if found is None else found.version

    @property
    def complaints(self) -> Collection[str]:
        """What the active controller complains about, by path."""
        return next((c.shell.state.complaints for c in self.controllers.values() if c.is_active), ())

    def heal(self) -> None:
        """Faults end: links are whole, everyone lives, sessions of the dead are gone."""
        self.story.append("heal")
        self.cut_links.clear()
        self.refusing.clear()
        for host in self.hosts.values():
            host.disk_latency_ms = 0
            host.disk.room.clear()
            if host.alive:
                self.let_threads_go_on(host.broker_id)
        self.pending += self.late
        self.late.clear()
        self.expire_orphans()
        for node_id, node in self.nodes.items():
            if node.paused:
                self.resume(node_id)
            if not node.alive or (isinstance(node, SimHost) and node.has_failed_disk):
                if node.alive:
                    self.crash(node_id)
                self.expire(node_id)
                self.restart(node_id)

    def fail_over(self) -> None:
        """The active controller dies, and another one tells brokers everything: what a command that came very
        late has brought back is found out then."""
        for controller_id, controller in self.controllers.items():
            if controller.is_active:
                self.crash(controller_id)
                self.expire(controller_id)
                self.restart(controller_id)
                self.converge(8)
                return

    def until_healed(self) -> None:
        """After healing: let time pass until all is well, which it must be before two minutes have."""
        give_up_ms = self.now_ms + HEALED_WITHIN_MS
        self.converge(4)
        while self.now_ms < give_up_ms:
            try:
                self.checkers.check_healed()
            except Violation as violation:
                if violation.invariant != "Healed":
                    raise
                self.converge(4)
            else:
                return
        self.checkers.check_healed()

    def converge(self, rounds: int = 16) -> None:
        """After healing: let time pass until there is nothing left to do."""
        for _ in range(rounds):
            self.settle(20_000)
            self.advance(LAG_TIME_MAX_MS // 2)
            for node_id, node in self.nodes.items():
                if not node.alive:
                    self.restart(node_id)
        self.settle(20_000)
