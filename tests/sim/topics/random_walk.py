"""A seeded random schedule over topics: operators and clients ask for everything at once, and things break.

Rules of this file: everything comes from one `Random(seed)`. Each seed leaves some orders out altogether and
gives others often (swarm testing). What cannot be done now is simply not done.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from hightide_runtime.znodes.admin_znodes import (
    DeleteTopicZnode,
    PartitionAddZnode,
    PartitionRemoveZnode,
    ReassignmentZnode,
)
from hightide_runtime.znodes.cluster_znodes import TopicZnode
from sim.messages import ZOOKEEPER, CallFailed, Envelope
from sim.topics.broker import LAG_TIME_MAX_MS
from sim.topics.damage import DAMAGES, KEEP_FRONT
from sim.topics.messages import COMMANDS, Rpc
from sim.topics.world import BROKERS, CONTROLLERS, PRODUCERS, Cluster

ORDERS_MAX: Final = 200
PARTITIONS_MAX: Final = 3
YEAR_MS: Final = 365 * 24 * 60 * 60 * 1000
NAMES: Final = ("ebb", "flow")
LEVELS: Final = (0.0, 0.0, 0.3, 1.0, 2.0)

OFTEN: Final = {
    "deliver": 20.0,
    "settle": 12.0,
    "produce": 5.0,
    "send": 6.0,
    "advance": 5.0,
    "restart": 4.0,
    "resume": 3.0,
    "mend": 4.0,
    "let_in": 2.0,
    "let_threads_go_on": 2.0,
    "make_room": 1.2,
    "create": 3.0,
}
"""Always in it."""
FAULTS: Final = {
    "lose": 1.5,
    "duplicate": 1.0,
    "delay": 1.5,
    "let_arrive": 2.0,
    "crash": 0.8,
    "detect": 1.5,
    "expire": 0.8,
    "pause": 0.6,
    "cut": 0.7,
    "time_out": 0.5,
    "controller_crash": 0.8,
    "resign": 0.8,
    "fail_disk": 0.4,
    "fill_disk": 2.5,
    "refuse": 0.6,
    "doubt": 0.5,
    "stop": 0.6,
    "cut_power": 0.8,
    "damage": 0.8,
    "set_clock": 0.3,
    "slow_disks": 0.5,
    "stop_threads": 0.6,
    "hang": 0.5,
}
REQUESTS: Final = {
    "delete": 1.5,
    "delete_by_hand": 0.5,
    "take_topic_away": 0.2,
    "add": 1.5,
    "add_by_hand": 0.5,
    "remove": 1.5,
    "remove_by_hand": 0.5,
    "move": 2.5,
    "move_by_hand": 1.0,
    "cancel": 0.8,
    "elect": 1.0,
    "unclean": 0.5,
    "delete_records": 4.0,
    "alter": 0.8,
}


class RandomWalk:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.world = Cluster()
        drawn = {name: odds * self.rng.choice(LEVELS) for name, odds in {**FAULTS, **REQUESTS}.items()}
        self.odds = {**OFTEN, **drawn}
        self.configs = {"flush": self.rng.choice(("replicated", "fsync")), "segment.bytes": "1024"}
        """Of every topic. What flush=replicated promises where machines go down is asked of others."""
        self._deaths: list[tuple[int, int]] = []
        self._alone: set[int] = set()
        """Brokers that some partition was to move to, and to no other."""

    def run(self) -> Cluster:
        """The whole schedule: start, requests and faults, healing. Raises Violation. The world is closed."""
        world = self.world
        try:
            world.start()
            self._create()
            world.settle()
            for name in self.rng.choices(list(self.odds), list(self.odds.values()), k=ORDERS_MAX):
                getattr(self, f"_{name}")()
            world.heal()
            world.until_healed()
            world.fail_over()
            world.until_healed()
            self._check_progress()
        finally:
            world.close()
        return world

    def _check_progress(self) -> None:
        for name, topic in self.world.topics().items():
            for partition in range(len(topic.partitions)):
                assert self.world.produce_to(name, partition) is not None, (name, partition)
        self.world.until_healed()

    # --- the network and the processes -----------------------------------------------------------

    def _deliver(self) -> None:
        open_ones = [e for e in self.world.pending if self.world.is_open(e)]
        if open_ones:
            self.world.deliver(self.world.first_in_line(self.rng.choice(open_ones)))

    def _settle(self) -> None:
        for _ in range(self.rng.randint(1, 60)):
            first = next((e for e in self.world.pending if self.world.is_open(e)), None)
            if first is None:
                return
            self.world.deliver(first)

    def _advance(self) -> None:
        self.world.advance(self.rng.choice((20, 100, 300, LAG_TIME_MAX_MS + 1)))

    def _lose(self) -> None:
        lossy = [
            e
            for e in self.world.pending
            if e.call and not isinstance(e.body, CallFailed) and self.world.first_in_line(e) is e
        ]
        if lossy:
            self.world.lose(self.rng.choice(lossy))

    def _duplicate(self) -> None:
        commands = [e for e in self.world.pending if is_command(e)]
        if commands:
            self.world.duplicate(self.rng.choice(commands))

    def _delay(self) -> None:
        # What goes to ZooKeeper is lost or comes in order: requests of a session that still wait on an old
        # connection are refused once it speaks on the next one (SessionMoved).
        slow = [e for e in self.world.pending if e.call and ZOOKEEPER not in (e.source, e.target)]
        if slow:
            self.world.delay(self.rng.choice(slow), give_up=self.rng.random() < 0.7)

    def _let_arrive(self) -> None:
        if self.world.late:
            self.world.let_arrive(self.rng.choice(self.world.late))

    def _crash(self) -> None:
        running = [host for host in self.world.hosts.values() if host.alive]
        if len(running) > 1:
            host = self.rng.choice(running)
            self._deaths.append((host.broker_id, host.broker_epoch))
            self.world.crash(host.broker_id)

    def _detect(self) -> None:
        if self._deaths:
            self.world.detect_death(*self._deaths.pop(0))

    def _refuse(self) -> None:
        running = [host for host in self.world.hosts.values() if host.alive]
        if running:
            host = self.rng.choice(running)
            self.world.refuse(host.broker_id)
            if self.rng.random() < 0.7:
                self._deaths.append((host.broker_id, host.broker_epoch))

    def _let_in(self) -> None:
        if self.world.refusing:
            self.world.let_in(self.rng.choice(sorted(self.world.refusing)))

    def _doubt(self) -> None:
        """The detector is wrong about one that lives."""
        running = [host for host in self.world.hosts.values() if host.alive]
        if running:
            host = self.rng.choice(running)
            self.world.detect_death(host.broker_id, host.broker_epoch)

    def _restart(self) -> None:
        down = [node_id for node_id, node in self.world.nodes.items() if not node.alive]
        if down:
            self.world.restart(self.rng.choice(down))

    def _expire(self) -> None:
        if self.rng.random() < 0.5:
            self.world.expire_orphans()
        else:
            self.world.expire(self.rng.choice(list(self.world.nodes)))

    def _pause(self) -> None:
        self.world.pause(self.rng.choice(list(self.world.nodes)))

    def _resume(self) -> None:
        paused = [node_id for node_id, node in self.world.nodes.items() if node.paused]
        if paused:
            self.world.resume(self.rng.choice(paused))

    def _cut(self) -> None:
        self.world.cut(*self.rng.sample((ZOOKEEPER, *self.world.nodes), 2))

    def _mend(self) -> None:
        if self.world.cut_links:
            self.world.mend_link(*self.rng.choice(sorted(self.world.cut_links)))

    def _time_out(self) -> None:
        self.world.time_out(self.rng.choice(list(self.world.nodes)))

    def _resign(self) -> None:
        self.world.ask(ev.ResignationRequested(0), ef.AnswerResigned)

    def _controller_crash(self) -> None:
        active = [n for n, each in self.world.controllers.items() if each.is_active]
        controller_id = self.rng.choice(active or list(CONTROLLERS))
        if self.world.nodes[controller_id].alive:
            self.world.crash(controller_id)
            if self.rng.random() < 0.7:
                self.world.expire(controller_id)

    def _stop(self) -> None:
        running = [host for host in self.world.hosts.values() if host.alive and not host.paused]
        if len(running) > 1:
            self.world.stop(self.rng.choice(running).broker_id)

    def _cut_power(self) -> None:
        if self.configs.get("flush") == "fsync":
            host = self.world.hosts[self.rng.choice(BROKERS)]
            if host.is_damaged:
                return  # Nothing says any more what it had: two faults at one machine.
            if host.alive:
                self._deaths.append((host.broker_id, host.broker_epoch))
            self.world.lose_power(host.broker_id, self.rng.getrandbits(32))

    def _damage(self) -> None:
        """Files of one broker at a time: of no other one until that has fetched anew what it lost."""
        host = self.world.hosts[self.rng.choice(BROKERS)]
        if self.world.checkers.unhealed or host.has_rebooted:
            return
        if host.alive:
            self._deaths.append((host.broker_id, host.broker_epoch))
            self.world.crash(host.broker_id)
        # What the last one that is to have all lacks at the front it cannot get anywhere, nor give to others.
        # That it is the last one may be under way.
        is_last = (
            self.world.checkers.is_last_anywhere(host.broker_id)
            or host.broker_id in self._alone
            or any((each.source, each.target) == (host.broker_id, ZOOKEEPER) for each in self.world.pending)
        )
        kinds = KEEP_FRONT if is_last else DAMAGES
        self.world.damage(host.broker_id, self.rng.getrandbits(32), kinds)

    def _set_clock(self) -> None:
        by_ms = self.rng.choice((-YEAR_MS, -1_000, 1_000, YEAR_MS))
        self.world.set_clock(self.rng.choice(BROKERS), by_ms)

    def _slow_disks(self) -> None:
        self.world.slow_disks(self.rng.choice(BROKERS), self.rng.choice((0, 15, 400)))

    def _stop_threads(self) -> None:
        running = [host for host in self.world.hosts.values() if host.alive and host.threads]
        if running:
            host = self.rng.choice(running)
            self.world.stop_threads(host.broker_id, self.rng.choice(sorted(host.threads)))

    def _let_threads_go_on(self) -> None:
        host = self.world.hosts[self.rng.choice(BROKERS)]
        if host.alive and not host.paused:
            self.world.let_threads_go_on(host.broker_id)

    def _hang(self) -> None:
        """A loop stands still for so long that the watchdog ends the session."""
        node_id = self.rng.choice((*BROKERS, *CONTROLLERS))
        if self.world.nodes[node_id].alive:
            self.world.pause(node_id)
            self.world.expire(node_id)

    def _fail_disk(self) -> None:
        running = [host for host in self.world.hosts.values() if host.alive]
        if running:
            host = self.rng.choice(running)
            self.world.break_disk(host.broker_id, self.rng.choice(host.paths))

    def _fill_disk(self) -> None:
        host = self.world.hosts[self.rng.choice(BROKERS)]
        self.world.fill_disk(
            host.broker_id, self.rng.choice(host.paths), self.rng.choice((0, 100, 700, 3_000))
        )

    def _make_room(self) -> None:
        full = [host.broker_id for host in self.world.hosts.values() if host.disk.room]
        if full:
            self.world.make_room(self.rng.choice(full))

    def _produce(self) -> None:
        leaders = [
            (host.broker_id, key)
            for host in self.world.hosts.values()
            if host.alive and not host.paused
            for key, replica in host.replicas.items()
            if replica.state.is_leader
        ]
        if leaders:
            self.world.produce(*self.rng.choice(leaders), acks_all=self.rng.random() < 0.9)

    def _delete_records(self) -> None:
        # Also of whoever only believes to lead, and more than is committed.
        replicas = [
            (host.broker_id, key, replica.state.high_watermark)
            for host in self.world.hosts.values()
            if host.alive and not host.paused
            for key, replica in host.replicas.items()
            if replica.state.is_leader
        ]
        if replicas:
            broker_id, key, high_watermark = self.rng.choice(replicas)
            before = self.rng.choice((-1, high_watermark, self.rng.randint(0, high_watermark + 2)))
            self.world.delete_records(broker_id, key, before)

    def _send(self) -> None:
        if (name := self._partition()) is not None:
            self.world.send(self.rng.choice(PRODUCERS), *name)

    # --- what clients and operators request----------------------------------------------------------

    def _ask(self, event: Any, kind: Any) -> None:
        self.world.ask(event, kind)

    def _replicas(self) -> tuple[int, ...]:
        return tuple(self.rng.sample(BROKERS, self.rng.choice((1, 2, 3, 3))))

    def _topic(self) -> tuple[str, TopicZnode] | None:
        topics = list(self.world.topics().items())
        return self.rng.choice(topics) if topics else None

    def _partition(self) -> TopicPartition | None:
        found = self._topic()
        if found is None:
            return None
        return TopicPartition(found[0], self.rng.randrange(len(found[1].partitions)))

    def _create(self) -> None:
        name = self.rng.choice(NAMES)
        assignment = tuple(self._replicas() for _ in range(self.rng.randint(1, 2)))
        topic_id = self.rng.randbytes(16).hex()
        event = ev.CreateTopicRequested(0, name, topic_id, 0, 0, assignment, self.configs)
        self._ask(event, ef.AnswerCreateTopic)

    def _delete(self) -> None:
        self._ask(rq.DeleteTopicRequested(0, self.rng.choice(NAMES)), ef.AnswerTopic)

    def _delete_by_hand(self) -> None:
        if (found := self._topic()) is not None:
            self.world.by_hand(DeleteTopicZnode.path(found[0]))

    def _take_topic_away(self) -> None:
        """An operator deletes the topic's znodes, children first, as `deleteall` does."""
        if (found := self._topic()) is not None:
            self.world.take_away(TopicZnode.path(found[0]))

    def _add(self) -> None:
        if (found := self._topic()) is not None:
            more = self.rng.randint(1, 2)
            count = min(PARTITIONS_MAX, len(found[1].partitions) + more)
            assignment = tuple(self._replicas() for _ in range(count - len(found[1].partitions)))
            self._ask(rq.AddPartitionsRequested(0, found[0], count, assignment), ef.AnswerTopic)

    def _add_by_hand(self) -> None:
        if (found := self._topic()) is not None and len(found[1].partitions) < PARTITIONS_MAX:
            path = PartitionAddZnode.path(found[0], len(found[1].partitions))
            self.world.by_hand(path, json.dumps(self._replicas()).encode())

    def _remove(self) -> None:
        if (found := self._topic()) is not None:
            count = self.rng.randint(1, len(found[1].partitions))
            self._ask(rq.RemovePartitionsRequested(0, found[0], count), ef.AnswerTopic)

    def _remove_by_hand(self) -> None:
        if (found := self._topic()) is not None and len(found[1].partitions) > 1:
            self.world.by_hand(PartitionRemoveZnode.path(found[0], len(found[1].partitions) - 1))

    def _target(self) -> tuple[int, ...]:
        """Of a move. An operator moves nothing to a broker alone that has lost files and has not told."""
        target = self._replicas()
        if set(target) <= self.world.checkers.unhealed:
            target = (*target, *(each for each in BROKERS if each not in target))
        if len(target) == 1:
            self._alone.update(target)
        return target

    def _move(self) -> None:
        if (name := self._partition()) is not None:
            moves = (rq.Move(name, self._target()),)
            self._ask(rq.ReassignmentsRequested(0, moves), ef.AnswerPartitions)

    def _move_by_hand(self) -> None:
        if (name := self._partition()) is not None:
            path = ReassignmentZnode.path(*name)
            if self.world.tree.read(path) is None:
                self.world.by_hand(path, json.dumps({"replicas": self._target()}).encode())

    def _cancel(self) -> None:
        self._ask(rq.CancelReassignmentsRequested(0), ef.AnswerPartitions)

    def _elect(self) -> None:
        if (name := self._partition()) is not None:
            kind = rq.ElectionKind.PREFERRED
            self._ask(rq.ElectLeadersRequested(0, kind, (name,)), ef.AnswerElections)

    def _unclean(self) -> None:
        if (name := self._partition()) is not None:
            self.world.checkers.unclean_asked.add((name.topic, name.partition))
            kind = rq.ElectionKind.UNCLEAN
            self._ask(rq.ElectLeadersRequested(0, kind, (name,)), ef.AnswerElections)

    def _alter(self) -> None:
        if (found := self._topic()) is not None:
            minimum = self.rng.choice(("1", "2"))
            event = rq.AlterTopicConfigRequested(0, found[0], {"min.insync.replicas": minimum})
            self._ask(event, ef.AnswerTopic)


def is_command(envelope: Envelope) -> bool:
    """Whether a controller says it."""
    body: Any = envelope.body
    return isinstance(body, Rpc) and body.method in COMMANDS
