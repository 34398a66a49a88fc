"""A cluster of topics in memory: four brokers, two controllers, ZooKeeper, the network, the clock.

Rules of this file: as in sim.world. Nothing happens by itself; the same orders give the same world; after
each order the checkers look at it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hightide_broker.core.mends import Mends as BrokerMends
from hightide_broker.core.replica import ReplicaSettings
from hightide_controller.core.mends import Mends as ControllerMends
from hightide_runtime import znodes
from hightide_runtime.znodes import ClusterIdZnode, LeaderAndIsrZnode, TopicZnode
from hightide_runtime.zookeeper import Create, Delete, SetData, TreeChanged, WatchFired, ZooKeeperError
from sim.messages import ZOOKEEPER, CallFailed, Envelope, ProcessDied, Record
from sim.network import Network
from sim.topics.broker import HostMends, SimHost, SimReplica
from sim.topics.checkers import Checkers
from sim.topics.controller import SimControllerProcess
from sim.topics.messages import REQUESTS, Addressed, Answered, Asked, Expired, Fired, Key
from sim.topics.tree import Client, Tree

BROKERS = (1, 2, 3, 4)
CONTROLLERS = (11, 12)
LAG_TIME_MAX_MS = 1_000


@dataclass(frozen=True)
class Settings:
    """What kind of cluster it is."""

    broker_mends: BrokerMends = field(default_factory=BrokerMends)
    host_mends: HostMends = field(default_factory=HostMends)
    controller_mends: ControllerMends = field(default_factory=ControllerMends)


class Cluster(Network):
    """The cluster. Public methods are the orders. `close` it: event loops hold files."""

    cluster_id = "sim"

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__((*BROKERS, *CONTROLLERS))
        self.settings = settings or Settings()
        self.tree = Tree(self._notify)
        for path in znodes.PARENTS:
            self._make(path)
        self.tree.by_hand(Create(ClusterIdZnode.path(), ClusterIdZnode(self.cluster_id).encode()))
        base = ReplicaSettings(0, LAG_TIME_MAX_MS, mends=self.settings.broker_mends)
        self.hosts = {n: SimHost(self, replace(base, broker_id=n), self.settings.host_mends) for n in BROKERS}
        self.controllers = {
            n: SimControllerProcess(self, n, self.settings.controller_mends) for n in CONTROLLERS
        }
        self.nodes: dict[int, SimHost | SimControllerProcess] = {**self.hosts, **self.controllers}
        self.orphans: list[int] = []
        self.next_value = 1
        self.checkers = Checkers(self)

    def close(self) -> None:
        """End every process."""
        for node in self.nodes.values():
            if node.alive:
                node.crash()

    # --- what nodes may do -----------------------------------------------------------------------

    def open_session(self) -> int:
        """A new ZooKeeper session."""
        return self.tree.open_session()

    def connection_broken(self, client: Client) -> None:
        """A message between a process and ZooKeeper was lost: its watches are gone."""
        self.tree.forget(client)

    def acknowledged(self, replica: SimReplica, offset: int, record: Record) -> None:
        """A producer is told that its record is committed."""
        self.story.append(f"      acknowledged {record} at {offset} by {replica.broker_id}")
        self.checkers.acknowledged(replica, offset, record)

    def committed(self, replica: SimReplica) -> None:
        """A replica's high watermark moved."""
        self.checkers.committed(replica)

    def log_changed(self) -> None:
        """Some log is not what it was."""
        self.checkers.logs_changed = True

    def put_aside(self, host: SimHost, key: Key, why: str) -> None:
        """A broker lets go of a replica."""
        self.story.append(f"      {host.broker_id} puts {key[0][:2].hex()}-{key[1]} aside: {why}")
        self.checkers.put_aside(host, key, why)

    def _notify(self, client: Client, event: WatchFired | TreeChanged) -> None:
        fired: Any = Fired(client, event)
        self.pending.append(Envelope(ZOOKEEPER, client.node_id, 0, fired))

    # --- the network -----------------------------------------------------------------------------

    def is_request(self, envelope: Envelope) -> bool:
        body: Any = envelope.body
        if isinstance(body, Addressed):
            return super().is_request(replace(envelope, body=body.body))
        return isinstance(body, REQUESTS)

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

    def touched(self, node_id: int) -> None:
        """What reached a process wakes its tasks."""
        node = self.nodes.get(node_id)
        if node is not None and node.alive and not node.paused:
            node.loop.settle()

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
        node = self.nodes[node_id]
        node.crash()
        for number in [number for number, call in self._calls.items() if call.source == node_id]:
            del self._calls[number]
        self.tree.forget(node.client)
        if isinstance(node, SimHost):
            self._break_calls_to(node)
        self.check()

    def _break_calls_to(self, host: SimHost) -> None:
        under_way = {e.call for e in self.pending}
        for replica in host.replicas.values():
            for envelope in replica.parked.values():
                if envelope.call in self._calls and envelope.call not in under_way:
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

    def advance(self, by_ms: int) -> None:
        """Time passes for everyone who lives and is not paused."""
        self.story.append(f"advance {by_ms}")
        self.now_ms += by_ms
        for node in self.nodes.values():
            if node.alive and not node.paused:
                node.loop.settle()
                node.tick()
                node.loop.settle()
        self.check()

    def resume(self, node_id: int) -> None:
        """It goes on as if nothing had been."""
        super().resume(node_id)
        self.touched(node_id)

    def check(self) -> None:
        """Let every checker look."""
        self.checkers.check()

    # --- orders: clients and operators -----------------------------------------------------------

    def produce(self, broker_id: int, key: Key, acks_all: bool = True) -> int | None:
        """A producer sends one record to a replica; its value, or None where it was refused."""
        value = self.next_value
        self.next_value += 1
        replica = self.hosts[broker_id].replicas[key]
        self.story.append(f"produce {value} at {broker_id} for {key[0][:2].hex()}-{key[1]}")
        self.checkers.made(replica, value)
        appended = replica.produce(value, acks_all)
        self.touched(broker_id)
        self.check()
        return value if appended else None

    def produce_to(self, topic: str, partition: int = 0, acks_all: bool = True) -> int | None:
        """A producer sends one record to the leader that ZooKeeper names."""
        state = self.state(topic, partition)
        key = (self.topic(topic).topic_id, partition)
        if state is None or key not in self.hosts[state.leader].replicas:
            return None
        return self.produce(state.leader, key, acks_all)

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
        return {name: self.topic(name) for name in self.tree.children(znodes.TOPICS)}

    def topic(self, name: str) -> TopicZnode:
        """One of them."""
        found = self.tree.read(TopicZnode.path(name))
        assert found is not None, name
        return TopicZnode.decode(found.data)

    def state(self, topic: str, partition: int) -> LeaderAndIsrZnode | None:
        """The leaderAndISR of a partition."""
        found = self.tree.read(LeaderAndIsrZnode.path(topic, partition))
        return None if found is None else LeaderAndIsrZnode.decode(found.data)

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
        self.pending += self.late
        self.late.clear()
        self.expire_orphans()
        for node_id, node in self.nodes.items():
            if node.paused:
                self.resume(node_id)
            if not node.alive or (isinstance(node, SimHost) and node.failed):
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

    def converge(self, rounds: int = 16) -> None:
        """After healing: let time pass until there is nothing left to do."""
        for _ in range(rounds):
            self.settle(20_000)
            self.advance(LAG_TIME_MAX_MS // 2)
        self.settle(20_000)
