"""A seeded random schedule: orders given to a world by the throw of a dice, then healing.

Rules of this file: everything comes from one `Random(seed)`, also the kind of cluster and how often each
fault happens (sim.swarm), so that a seed is all that is needed to see a run again.
"""

from __future__ import annotations

from dataclasses import fields
from random import Random

from sim.broker import SimBroker
from sim.checkers.healed import Healed
from sim.messages import REQUESTS, ZOOKEEPER, CallFailed, Envelope, Write
from sim.swarm import Falls, Orders, cluster_drawn, odds_of
from sim.world import CONTROLLERS, LAG_TIME_MAX_MS, World
from sim.zookeeper import CONTROLLER_EPOCH, STATE, Put

ORDERS_MAX = 240
PRODUCED_MAX = 60


class RandomWalk:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.world = World(cluster_drawn(self.rng))
        self.orders = Orders.drawn(self.rng)
        self.falls = Falls.drawn(self.rng)
        self._deaths: list[tuple[int, int]] = []
        """(broker id, broker epoch) of each crash, for the failure detector."""

    def run(self) -> World:
        """The whole schedule: start, faults, healing. Raises Violation where something does not hold."""
        world = self.world
        world.start()
        names = [field.name for field in fields(Orders)]
        for name in self.rng.choices(names, odds_of(self.orders), k=ORDERS_MAX):
            getattr(self, f"_{name}")()
        world.heal()
        world.converge()
        healed = Healed(world)
        healed.check()
        healed.check_progress()
        healed.check()
        return world

    # --- the orders ------------------------------------------------------------------------------

    def _deliver(self) -> None:
        open_ones = [e for e in self.world.pending if self.world.is_open(e)]
        if open_ones:
            chosen = self.rng.choice(open_ones)
            self.world.deliver(self.world.first_in_line(chosen))

    def _settle(self) -> None:
        for _ in range(self.rng.randint(1, 40)):
            first = next((e for e in self.world.pending if self.world.is_open(e)), None)
            if first is None:
                return
            self.world.deliver(first)

    def _produce(self) -> None:
        # To whoever believes to lead: that is where a client with old metadata sends to.
        leaders = [b.broker_id for b in self._running() if b.state.is_leader]
        if leaders and self.world.next_value <= PRODUCED_MAX:
            self.world.produce(self.rng.choice(leaders), acks_all=self.rng.random() < 0.9)

    def _delete(self) -> None:
        # Also of whoever only believes to lead, and more than is committed.
        running = self._running()
        if running:
            broker = self.rng.choice(running)
            high_watermark = broker.state.high_watermark
            before = self.rng.choice((-1, high_watermark, self.rng.randint(0, high_watermark + 2)))
            self.world.delete(broker.broker_id, before)

    def _advance(self) -> None:
        self.world.advance(self.rng.randint(1, LAG_TIME_MAX_MS // 4))

    def _lag(self) -> None:
        self.world.advance(LAG_TIME_MAX_MS + 1)

    def _lose(self) -> None:
        lossy = [
            e
            for e in self.world.pending
            if e.call and not isinstance(e.body, CallFailed) and self.world.first_in_line(e) is e
        ]
        if lossy:
            self.world.lose(self.rng.choice(lossy))

    def _duplicate(self) -> None:
        requests = [e for e in self.world.pending if isinstance(e.body, REQUESTS) and e.target != ZOOKEEPER]
        if requests:
            self.world.duplicate(self.rng.choice(requests))

    def _delay(self) -> None:
        # What goes to and from ZooKeeper keeps its order on the wire; it may be slow as a whole (`_hold`).
        slow = [e for e in self.world.pending if e.call and ZOOKEEPER not in (e.source, e.target)]
        if slow:
            self.world.delay(self.rng.choice(slow), give_up=self.rng.random() < 0.5)

    def _let_arrive(self) -> None:
        if self.world.late:
            self.world.let_arrive(self.rng.choice(self.world.late))

    def _echo(self) -> None:
        heard = [b for b in self._running() if b.told]
        if heard:
            broker = self.rng.choice(heard)
            self.world.echo(broker.broker_id, self.rng.randrange(len(broker.told)))

    def _unknown(self) -> None:
        """The connection breaks on a conditional write, which happens later or has happened already."""
        writes = [e for e in self.world.pending if is_conditional_write(e)]
        if writes:
            self.world.delay(self.rng.choice(writes), give_up=True)

    def _depose(self) -> None:
        """Whoever leads falls, in one of the ways of this seed."""
        leader = self.world.brokers.get(self.world.leader)
        if leader is None or not leader.alive or leader.paused:
            return
        (way,) = self.rng.choices([field.name for field in fields(Falls)], odds_of(self.falls))
        match way:
            case "kill":
                self._kill(leader)
                if self.rng.random() < 0.5:
                    self._detect()
                else:
                    self.world.expire(leader.broker_id)
                return
            case "pause":
                self.world.pause(leader.broker_id)
            case "isolate":
                self.world.hold(leader.broker_id, ZOOKEEPER)
            case _:
                pass
        self.world.expire(leader.broker_id)

    def _crash(self) -> None:
        running = self._running()
        if running:
            self._kill(self.rng.choice(running))

    def _kill(self, broker: SimBroker, power_fails: float = 0.5) -> None:
        loses_power = self.rng.random() < power_fails
        power = broker.disk.power_cut(self.rng) if loses_power else None
        self._deaths.append((broker.broker_id, broker.broker_epoch))
        self.world.crash(broker.broker_id, power=power)

    def _blackout(self) -> None:
        """All brokers lose their power, and perhaps the controllers."""
        for broker in self.world.brokers.values():
            if broker.alive:
                self._kill(broker, 1.0)
        if self.rng.random() < 0.5:
            self._controllers_crash()

    def _replace_disk(self) -> None:
        """A broker comes back on an empty disk."""
        running = self._running()
        if running:
            broker = self.rng.choice(running)
            self._deaths.append((broker.broker_id, broker.broker_epoch))
            self.world.crash(broker.broker_id, loses_disk=True)

    def _bounce(self) -> None:
        """A broker is shut down in order: its log is on disk."""
        running = self._running()
        if running:
            broker = self.rng.choice(running)
            self.world.fsync(broker.broker_id)
            broker.checkpoint_high_watermark()
            broker.write_log_start()
            self._deaths.append((broker.broker_id, broker.broker_epoch))
            self.world.crash(broker.broker_id)
            self.world.expire(broker.broker_id)

    def _restart(self) -> None:
        down = [node_id for node_id, node in self.world.nodes.items() if not node.alive]
        if down:
            self.world.restart(self.rng.choice(down))

    def _detect(self) -> None:
        if self._deaths:
            self.world.detect_death(*self._deaths.pop(0))

    def _expire(self) -> None:
        if self.rng.random() < 0.5:
            self.world.expire_orphans()
        else:
            self.world.expire(self.rng.choice(list(self.world.brokers)))

    def _pause(self) -> None:
        self.world.pause(self.rng.choice(list(self.world.nodes)))

    def _resume(self) -> None:
        paused = [node_id for node_id, node in self.world.nodes.items() if node.paused]
        if paused:
            self.world.resume(self.rng.choice(paused))

    def _cut(self) -> None:
        self.world.cut(*self.rng.sample((ZOOKEEPER, *self.world.nodes), 2))

    def _hold(self) -> None:
        self.world.hold(*self.rng.sample((ZOOKEEPER, *self.world.nodes), 2))

    def _mend(self) -> None:
        if self.world.cut_links:
            source, target = self.rng.choice(sorted(self.world.cut_links))
            if self.rng.random() < 0.5:
                self.world.mend_link(source, target)
            else:
                self.world.release(source, target)

    def _time_out(self) -> None:
        self.world.time_out(self.rng.choice(list(self.world.nodes)))

    def _fsync(self) -> None:
        running = self._running()
        if running:
            self.world.fsync(self.rng.choice(running).broker_id)

    def _checkpoint(self) -> None:
        for broker in self._running():
            broker.checkpoint_high_watermark()
            broker.write_log_start()

    def _controller_crash(self) -> None:
        controller_id = self.rng.choice(CONTROLLERS)
        if self.world.nodes[controller_id].alive:
            self.world.crash(controller_id)

    def _controllers_crash(self) -> None:
        for controller_id in CONTROLLERS:
            if self.world.nodes[controller_id].alive:
                self.world.crash(controller_id)

    def _controller_expire(self) -> None:
        self.world.expire(self.rng.choice(CONTROLLERS))

    def _running(self) -> list[SimBroker]:
        return [b for b in self.world.brokers.values() if b.alive and not b.paused]


def is_conditional_write(envelope: Envelope) -> bool:
    """A write that a later one makes void: of the leaderAndISR znode, or of the controller epoch."""
    if not isinstance(envelope.body, Write):
        return False
    return any(isinstance(o, Put) and o.path in (STATE, CONTROLLER_EPOCH) for o in envelope.body.operations)
