"""Hypothesis chooses the orders, and shrinks them where an invariant breaks.

Three real broker cores and two real controller cores, joined by a network that delays, loses, doubles and
reorders, a ZooKeeper whose watches fire once and late and whose answers get lost, and processes that die,
pause and come back.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sim.checkers import Violation
from sim.checkers.healed import Healed
from sim.known_wrong import BROKER_RULES, without
from sim.messages import REQUESTS, ZOOKEEPER, CallFailed, Envelope
from sim.world import BROKERS, CONTROLLERS, LAG_TIME_MAX_MS, Settings, World

PICK = st.integers(0, 30)
BROKER = st.sampled_from(BROKERS)
NODE = st.sampled_from((*BROKERS, *CONTROLLERS))
PRODUCED_MAX = 25


class ReplicatedPartition(RuleBasedStateMachine):
    """One partition on three brokers; every rule ends with all checkers looking."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @initialize(flush_on_disk=st.booleans(), min_insync_replicas=st.sampled_from((1, 2)))
    def start(self, flush_on_disk: bool, min_insync_replicas: int) -> None:
        self.world = World(
            Settings(
                flush_on_disk=flush_on_disk,
                min_insync_replicas=min_insync_replicas,
            )
        )
        self.world.start()

    def under_way(self) -> list[Envelope]:
        return [e for e in self.world.pending if self.world.is_open(e)]

    @precondition(lambda self: self.under_way())
    @rule(pick=PICK)
    def deliver(self, pick: int) -> None:
        messages = self.under_way()
        self.world.deliver(self.world.first_in_line(messages[pick % len(messages)]))

    @rule(count=st.integers(1, 40))
    def deliver_in_order(self, count: int) -> None:
        for _ in range(count):
            messages = self.under_way()
            if not messages:
                return
            self.world.deliver(messages[0])

    @rule(pick=PICK)
    def lose(self, pick: int) -> None:
        messages = [
            e
            for e in self.world.pending
            if e.call and not isinstance(e.body, CallFailed) and self.world.first_in_line(e) is e
        ]
        if messages:
            self.world.lose(messages[pick % len(messages)])

    @rule(pick=PICK)
    def duplicate(self, pick: int) -> None:
        messages = [e for e in self.world.pending if isinstance(e.body, REQUESTS) and e.target != ZOOKEEPER]
        if messages:
            self.world.duplicate(messages[pick % len(messages)])

    @rule(broker=BROKER, acks_all=st.booleans())
    def produce(self, broker: int, acks_all: bool) -> None:
        node = self.world.brokers[broker]
        if node.alive and not node.paused and self.world.next_value <= PRODUCED_MAX:
            self.world.produce(broker, acks_all)

    @rule(broker=BROKER)
    def fsync(self, broker: int) -> None:
        if self.world.brokers[broker].alive:
            self.world.fsync(broker)

    @rule(node=NODE, lost=st.integers(0, 3))
    def crash(self, node: int, lost: int) -> None:
        if not self.world.nodes[node].alive:
            return
        unsynced = 0
        if node in self.world.brokers and self.world.settings.flush_on_disk:
            disk = self.world.brokers[node].disk
            unsynced = len(disk.log) - disk.durable_end_offset
        self.world.crash(node, min(lost, unsynced))

    @rule(node=NODE)
    def restart(self, node: int) -> None:
        if not self.world.nodes[node].alive:
            self.world.restart(node)

    @rule(node=NODE)
    def expire(self, node: int) -> None:
        self.world.expire(node)

    @rule(node=NODE, paused=st.booleans())
    def pause(self, node: int, paused: bool) -> None:
        if paused:
            self.world.pause(node)
        else:
            self.world.resume(node)

    @rule(one=st.sampled_from((ZOOKEEPER, *BROKERS)), other=NODE)
    def cut(self, one: int, other: int) -> None:
        self.world.cut(one, other)

    @rule()
    def mend_links(self) -> None:
        self.world.cut_links.clear()

    @rule(by_ms=st.sampled_from((10, LAG_TIME_MAX_MS // 2, LAG_TIME_MAX_MS + 1)))
    def advance(self, by_ms: int) -> None:
        self.world.advance(by_ms)

    def teardown(self) -> None:
        if not self.world.nodes[1].alive and not self.world.pending and self.world.zookeeper.zxid == 1:
            return  # Never started.
        self.world.heal()
        self.world.converge()
        Healed(self.world).check()


SMOKE = settings(
    max_examples=100,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def test_whatever_hypothesis_orders_the_invariants_hold() -> None:
    run_state_machine_as_test(ReplicatedPartition, settings=SMOKE)


def test_hypothesis_breaks_v3_to_the_letter() -> None:
    red = settings(
        SMOKE, max_examples=200, print_blob=False, report_multiple_bugs=False, phases=(Phase.generate,)
    )
    with without(*BROKER_RULES), pytest.raises(Violation):
        run_state_machine_as_test(ReplicatedPartition, settings=red)
