"""Hypothesis chooses what happens to a group, and shrinks it where an invariant breaks.

Two real coordinator cores, and consumers whose messages are delayed, lost with their stream and reordered
across streams, that pause, die, leave and come back; coordinators that die, pause, are usurped and lose sight
of what ZooKeeper has written.
"""

from __future__ import annotations

from random import Random

import pytest
from hightide_coordinator.core.values.registration import OffsetReset, Registration
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from sim.checkers import Violation
from sim.groups.consumer import ConsumerState, SimConsumer
from sim.groups.healed import check_committed, check_owned
from sim.groups.orders import HEALING_MS, GroupOrders
from sim.groups.world import COORDINATORS, SESSION_TIMEOUTS_MS
from sim.known_wrong import without

PICK = st.integers(0, 30)
COORDINATOR = st.sampled_from(COORDINATORS)
TOPIC = "ebb"
CONSUMERS_MAX = 4


class ConsumerGroup(RuleBasedStateMachine):
    """One group on one topic; after every rule all invariants have been looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupOrders(Random(0))

    @initialize(partitions=st.integers(1, 4))
    def start(self, partitions: int) -> None:
        self.world.elect(COORDINATORS[0])
        self.world.create(TOPIC, partitions)

    def consumer(self, pick: int) -> SimConsumer | None:
        awake = [each for each in self.world.consumers if each.is_alive and not each.is_paused]
        return awake[pick % len(awake)] if awake else None

    @rule(
        auto_commit=st.booleans(),
        reset=st.sampled_from(OffsetReset),
        timeout_ms=st.sampled_from(SESSION_TIMEOUTS_MS),
        instance=st.sampled_from(("", "", "i1")),
    )
    def consume(self, auto_commit: bool, reset: OffsetReset, timeout_ms: int, instance: str) -> None:
        if sum(each.is_alive for each in self.world.consumers) < CONSUMERS_MAX:
            self.world.consume(
                Registration(
                    group="g",
                    topics={TOPIC: 1},
                    auto_commit=auto_commit,
                    offset_reset=reset,
                    session_timeout_ms=timeout_ms,
                    instance_id=instance,
                )
            )

    @rule(pick=PICK)
    def deliver(self, pick: int) -> None:
        self.world.deliver(pick)

    @rule(picks=st.lists(PICK, max_size=20))
    def deliver_some(self, picks: list[int]) -> None:
        for pick in picks:
            self.world.deliver(pick)

    @rule(for_ms=st.sampled_from((100, 300, 1_000)), reads=st.booleans())
    def go_on(self, for_ms: int, reads: bool) -> None:
        self.world.run(for_ms, reads=reads)

    @rule(by_ms=st.sampled_from((10, 60, 200, 700)))
    def advance(self, by_ms: int) -> None:
        self.world.advance(by_ms)

    @rule(pick=PICK, count=st.integers(1, 3))
    def read(self, pick: int, count: int) -> None:
        consumer = self.consumer(pick)
        if consumer is not None and consumer.readings:
            consumer.hand_out(list(consumer.readings)[pick % len(consumer.readings)], count)

    @rule(pick=PICK, back_by=st.sampled_from((0, 0, 2)))
    def commit(self, pick: int, back_by: int) -> None:
        consumer = self.consumer(pick)
        if consumer is not None and consumer.state is ConsumerState.MEMBER:
            self.world.commit(consumer, list(consumer.readings), back_by)

    @rule(count=st.integers(1, 3))
    def produce(self, count: int) -> None:
        for log in self.world.topics.logs():
            self.world.produce(log, count)

    @rule(pick=PICK, what=st.sampled_from(("leave", "kill", "break_stream", "silence", "pause")))
    def disturb(self, pick: int, what: str) -> None:
        consumer = self.consumer(pick)
        if consumer is not None:
            getattr(self.world, what)(consumer)

    @rule(coordinator=COORDINATOR, what=st.sampled_from(("crash", "expire", "lose_outcomes", "elect")))
    def disturb_coordinator(self, coordinator: int, what: str) -> None:
        getattr(self.world, what)(coordinator)

    @rule(coordinator=COORDINATOR)
    def pause_coordinator(self, coordinator: int) -> None:
        self.world.pause(self.world.coordinators[coordinator])

    @rule()
    def recover(self) -> None:
        for consumer in self.world.consumers:
            self.world.resume(consumer)
        for number, coordinator in self.world.coordinators.items():
            self.world.resume(coordinator)
            self.world.restart(number)
            self.world.renew_session(number)
        if self.world.zookeeper.active is None:
            self.world.elect(COORDINATORS[-1])

    @rule(what=st.sampled_from(("grow", "shrink", "delete", "create")))
    def change_topic(self, what: str) -> None:
        topic = self.world.topics.by_name.get(TOPIC)
        if what == "delete":
            self.world.delete(TOPIC)
        elif what == "create":
            self.world.create(TOPIC, 2)
        elif what == "shrink" or topic is None or len(topic.logs) < 5:
            getattr(self.world, what)(TOPIC, 1)

    def teardown(self) -> None:
        self.world.heal()
        self.world.run(HEALING_MS)
        check_owned(self.world)
        check_committed(self.world)


SMOKE = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def test_whatever_hypothesis_orders_the_invariants_hold() -> None:
    run_state_machine_as_test(ConsumerGroup, settings=SMOKE)


def test_hypothesis_breaks_the_text_to_the_letter() -> None:
    red = settings(
        SMOKE, max_examples=40, print_blob=False, report_multiple_bugs=False, phases=(Phase.generate,)
    )
    with without("owners_before_start"), pytest.raises(Violation):
        run_state_machine_as_test(ConsumerGroup, settings=red)
