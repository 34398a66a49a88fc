"""A seeded random schedule over a cluster without controllers: the orders of sim.random_walk, and moves."""

from __future__ import annotations

from dataclasses import fields
from random import Random

from sim.leaders.checkers import LedHealed
from sim.leaders.messages import Inquiry
from sim.leaders.world import LeadersWorld
from sim.random_walk import ORDERS_MAX, RandomWalk
from sim.swarm import Falls, Orders, cluster_drawn, odds_of
from sim.world import BROKERS


class LeadersWalk(RandomWalk):
    """One schedule."""

    world: LeadersWorld

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.world = LeadersWorld(cluster_drawn(self.rng))
        self.orders = Orders.drawn(self.rng)
        self.falls = Falls.drawn(self.rng)
        self._deaths = []

    def run(self) -> LeadersWorld:
        """The whole schedule: start, faults, healing. Raises Violation where something does not hold."""
        world = self.world
        world.start()
        names = [field.name for field in fields(Orders)]
        for name in self.rng.choices(names, odds_of(self.orders), k=ORDERS_MAX):
            getattr(self, f"_{name}")()
        world.heal()
        world.converge(20)
        world.finish_what_admins_left()
        world.converge(4)
        healed = LedHealed(world)
        healed.check()
        healed.check_progress()
        healed.check()
        return world

    def _unknown(self) -> None:
        """The connection breaks on a write, which happens later or has happened already."""
        writes = [e for e in self.world.pending if isinstance(e.body, Inquiry) and e.body.writes]
        if writes:
            self.world.delay(self.rng.choice(writes), give_up=True)

    def _detect(self) -> None:
        """A broker hears of one that died, which may be back by now."""
        running = self._running()
        if self._deaths and running:
            gone, _ = self._deaths.pop(0)
            self.world.tell_of_the_gone(self.rng.choice(running).broker_id, gone)

    def _controller_crash(self) -> None:
        """There is none. A client asks any broker to move the partition, to as many replicas."""
        running = self._running()
        if running:
            replicas = tuple(self.rng.sample(BROKERS, len(self.world.settings.replicas)))
            self.world.ask_to_move(self.rng.choice(running).broker_id, replicas)

    def _controllers_crash(self) -> None:
        """There is none. A client asks any broker to take the last move back."""
        running = self._running()
        if running:
            self.world.ask_to_move(self.rng.choice(running).broker_id, None)

    def _controller_expire(self) -> None:
        """There is none. A client asks any broker for the preferred leader, for a partition more, or for one
        less."""
        running = self._running()
        if not running:
            return
        admin, what = self.rng.choice(running).broker_id, self.rng.choice(("elect", "grow", "shrink"))
        if what == "elect":
            self.world.ask_to_elect(admin)
        elif what == "grow":
            self.world.ask_to_grow(admin, tuple(self.rng.sample(BROKERS, 2)))
        else:
            self.world.ask_to_shrink(admin)
