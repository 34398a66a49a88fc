"""A seeded random schedule: orders given to a world by the throw of a dice, then healing.

Rules of this file: everything comes from one `Random(seed)`, also the kind of cluster and how often each
fault happens (swarm testing), so that a seed is all that is needed to see a run again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from hightide_broker.core.mends import Mends as BrokerMends
from hightide_controller.core.mends import Mends as ControllerMends
from sim.broker import SimBroker
from sim.checkers.healed import Healed
from sim.messages import REQUESTS, ZOOKEEPER, CallFailed
from sim.world import BROKERS, CONTROLLERS, LAG_TIME_MAX_MS, Settings, World

ORDERS_MAX = 220
PRODUCED_MAX = 60


@dataclass(frozen=True)
class Weights:
    """How often each order is given; a fault that a run does without has 0."""

    deliver: float
    settle: float
    produce: float
    advance: float
    lag: float
    lose: float
    duplicate: float
    crash: float
    restart: float
    detect: float
    expire: float
    pause: float
    resume: float
    cut: float
    mend: float
    time_out: float
    fsync: float
    checkpoint: float
    controller_crash: float
    controller_expire: float

    @staticmethod
    def drawn(rng: Random) -> Weights:
        """Some faults often, some rarely, some not at all."""

        def fault(often: float) -> float:
            return often * rng.choice((0.0, 0.0, 0.3, 1.0, 2.0))

        return Weights(
            deliver=rng.choice((20.0, 40.0, 80.0)),
            settle=rng.choice((0.0, 1.0, 4.0)),
            produce=rng.choice((4.0, 10.0)),
            advance=rng.choice((2.0, 6.0)),
            lag=fault(1.0),
            lose=fault(2.0),
            duplicate=fault(1.5),
            crash=fault(2.0),
            restart=rng.choice((1.0, 3.0)),
            detect=fault(2.0),
            expire=fault(1.5),
            pause=fault(1.0),
            resume=2.0,
            cut=fault(1.5),
            mend=2.0,
            time_out=fault(0.5),
            fsync=4.0,
            checkpoint=0.5,
            controller_crash=fault(0.7),
            controller_expire=fault(0.7),
        )


class RandomWalk:
    """One schedule."""

    def __init__(
        self,
        seed: int,
        broker_mends: BrokerMends | None = None,
        controller_mends: ControllerMends | None = None,
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        settings = Settings(
            replicas=BROKERS if self.rng.random() < 0.8 else BROKERS[:2],
            min_insync_replicas=self.rng.choice((1, 1, 2)),
            flush_on_disk=self.rng.random() < 0.4,
        )
        if broker_mends is not None:
            settings = replace(settings, broker_mends=broker_mends)
        if controller_mends is not None:
            settings = replace(settings, controller_mends=controller_mends)
        self.world = World(settings)
        self.weights = Weights.drawn(self.rng)
        self._names = tuple(Weights.__dataclass_fields__)
        self._odds = [getattr(self.weights, name) for name in self._names]
        self._deaths: list[tuple[int, int]] = []
        """(broker id, broker epoch) of each crash, for the failure detector."""

    def run(self) -> World:
        """The whole schedule: start, faults, healing. Raises Violation where something does not hold."""
        world = self.world
        world.start()
        for _ in range(ORDERS_MAX):
            (name,) = self.rng.choices(self._names, self._odds)
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
        for _ in range(self.rng.randint(1, 30)):
            first = next((e for e in self.world.pending if self.world.is_open(e)), None)
            if first is None:
                return
            self.world.deliver(first)

    def _produce(self) -> None:
        # To whoever believes to lead: that is where a client with old metadata sends to.
        leaders = [b.broker_id for b in self._running() if b.state.is_leader]
        if leaders and self.world.next_value <= PRODUCED_MAX:
            self.world.produce(self.rng.choice(leaders), acks_all=self.rng.random() < 0.9)

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

    def _crash(self) -> None:
        running = self._running()
        if not running:
            return
        broker = self.rng.choice(running)
        unsynced = len(broker.disk.log) - broker.disk.durable_end_offset
        may_lose = self.world.settings.flush_on_disk and unsynced > 0
        self._deaths.append((broker.broker_id, broker.broker_epoch))
        self.world.crash(broker.broker_id, self.rng.randint(0, unsynced) if may_lose else 0)

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

    def _mend(self) -> None:
        if self.world.cut_links:
            self.world.mend_link(*self.rng.choice(sorted(self.world.cut_links)))

    def _time_out(self) -> None:
        self.world.time_out(self.rng.choice(list(self.world.nodes)))

    def _fsync(self) -> None:
        running = self._running()
        if running:
            self.world.fsync(self.rng.choice(running).broker_id)

    def _checkpoint(self) -> None:
        for broker in self._running():
            broker.checkpoint_high_watermark()

    def _controller_crash(self) -> None:
        controller_id = self.rng.choice(CONTROLLERS)
        if self.world.nodes[controller_id].alive:
            self.world.crash(controller_id)

    def _controller_expire(self) -> None:
        self.world.expire(self.rng.choice(CONTROLLERS))

    def _running(self) -> list[SimBroker]:
        return [b for b in self.world.brokers.values() if b.alive and not b.paused]
