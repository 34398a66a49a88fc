"""Written schedules of consumer groups: for each mend of the coordinator's text, the story that needs it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core.values.registration import OffsetReset, Registration
from msgspec.structs import replace
from sim.groups.consumer import SimConsumer
from sim.groups.healed import check_committed, check_owned
from sim.groups.orders import HEALING_MS, GroupOrders
from sim.groups.world import LIMITS

__all__ = ["MENDS", "Schedule", "begin", "heal"]

Schedule: TypeAlias = Callable[[GroupOrders], None]

TOPIC: Final = "ebb"
TIMEOUT_MS: Final = 600


def begin() -> GroupOrders:
    """A coordinator is elected, and there is no topic yet. One missed order does not kill, and what Pings
    tell is written down before the next one."""
    world = GroupOrders(Random(0), replace(LIMITS, ping_retries_max=1, commit_interval_ms=50))
    world.elect(1)
    world.settle()
    return world


def consumer(world: GroupOrders, name: str, *, auto_commit: bool = True) -> SimConsumer:
    """A consumer of the group is started, and registers."""
    started = world.consume(
        Registration(
            group="g",
            consumer_id=name,
            topics={TOPIC: 1},
            auto_commit=auto_commit,
            offset_reset=OffsetReset.SMALLEST,
            session_timeout_ms=TIMEOUT_MS,
        )
    )
    world.settle()
    return started


def topic(world: GroupOrders, partition_count: int) -> None:
    """The topic is created, with ten records in each partition."""
    world.create(TOPIC, partition_count)
    for log in world.topics.logs():
        log.start, log.end = 0, 10
    world.settle()


def heal(world: GroupOrders) -> None:
    """Faults end; all must be well after a while."""
    world.heal()
    world.run(HEALING_MS)
    check_owned(world)
    check_committed(world)


def wait_until(world: GroupOrders, holds: Callable[[], bool]) -> None:
    """Messages arrive and time passes until it holds."""
    for _ in range(1_000):
        world.settle()
        if holds():
            return
        world.advance(10)
    raise AssertionError("it never comes to that")


def has_order(one: SimConsumer, kind: type[ef.SendStopFetcher | ef.SendStartFetcher]) -> bool:
    """Whether such an order is under way to it."""
    return one.connection is not None and any(isinstance(message, kind) for message in one.connection.down)


def a_late_answer_arrives_when_the_next_order_asks_for_more(world: GroupOrders) -> None:
    """C1: the first attempt wanted one partition, the second one two; the answer to the first is late."""
    topic(world, 6)
    first = consumer(world, "a")
    wait_until(world, lambda: len(first.readings) == 6)
    stream = first.connection
    assert stream is not None
    stream.holds_down = True
    consumer(world, "b")
    wait_until(world, lambda: has_order(first, ef.SendStopFetcher))
    consumer(world, "c")
    group = world.coordinators[1].state.groups["g"]
    wait_until(world, lambda: group.failures > 0)
    # The first order arrives, and its answer is on its way when the second one is sent.
    stream.holds_up = True
    world.hear(first)
    wait_until(world, lambda: bool(group.open_orders))
    stream.holds_up = False
    world.settle()
    heal(world)


def a_consumer_commits_after_its_partition_was_given_to_another(world: GroupOrders) -> None:
    """C2: it hears nothing, is declared dead, and still has something to commit."""
    topic(world, 1)
    old = consumer(world, "a", auto_commit=False)
    wait_until(world, lambda: bool(old.readings))
    (name,) = old.readings
    old.hand_out(name, 4)
    old.settle(name)
    world.silence(old)
    world.pause(old)
    new = consumer(world, "b", auto_commit=False)
    wait_until(world, lambda: bool(new.readings))
    new.hand_out(name, 8)
    new.settle(name)
    world.commit(new, [name])
    world.settle()
    world.resume(old)
    assert old.readings
    world.commit(old, [name])
    world.settle()
    heal(world)


def a_position_comes_late(world: GroupOrders) -> None:
    """C3: the answer to a Ping is overtaken by a commit of what was read after it."""
    topic(world, 1)
    one = consumer(world, "a")
    wait_until(world, lambda: bool(one.readings))
    (name,) = one.readings
    assert one.connection is not None
    one.connection.holds_up = True
    one.hand_out(name, 3)
    one.settle(name)
    wait_until(world, lambda: one.readings[name].told == 3)
    one.hand_out(name, 5)
    one.settle(name)
    world.commit(one, [name])
    world.settle()
    one.connection.holds_up = False
    heal(world)


def a_consumer_is_started(world: GroupOrders) -> None:
    """C4: nothing but that; what it is told to read must be its own already, for any other coordinator."""
    topic(world, 2)
    consumer(world, "a")
    heal(world)


def a_coordinator_wakes_up_deposed(world: GroupOrders) -> None:
    """C5: it stood still while another one was elected, and goes on where it was."""
    topic(world, 2)
    consumer(world, "a")
    wait_until(world, lambda: bool(world.coordinators[1].to_zookeeper) or "g" in world.zookeeper.groups)
    world.pause(world.coordinators[1])
    world.elect(2)
    world.run(TIMEOUT_MS * 2)
    zombie = world.coordinators[1]
    zombie.from_zookeeper.clear()  # That it is deposed comes later.
    world.resume(zombie)
    second = Registration(
        group="g", consumer_id="z", topics={TOPIC: 1}, session_timeout_ms=TIMEOUT_MS, assignor="range"
    )
    astray = SimConsumer(world, world.number(), second)
    world.consumers.append(astray)
    named, world.zookeeper.active = world.zookeeper.active, 1  # A broker is behind.
    astray.tick()
    world.zookeeper.active = named
    world.run(TIMEOUT_MS)
    heal(world)


def a_topic_grows_while_a_rebalance_is_under_way(world: GroupOrders) -> None:
    """C6: who joins is waited for when the new partitions come."""
    topic(world, 2)
    one = consumer(world, "a")
    wait_until(world, lambda: len(one.readings) == 2)
    stream = one.connection
    assert stream is not None
    stream.holds_up = True
    consumer(world, "b")
    wait_until(world, lambda: bool(world.coordinators[1].state.groups["g"].open_orders))
    world.grow(TOPIC, 2)
    world.settle()
    stream.holds_up = False
    heal(world)


def a_fourth_consumer_joins(world: GroupOrders) -> None:
    """C7: it gets one partition of each of two others, and nothing else stops."""
    topic(world, 8)
    for name in "abc":
        consumer(world, name)
    wait_until(world, lambda: sum(len(each.readings) for each in world.consumers) == 8)
    world.checkers.stopped.clear()
    fourth = consumer(world, "d")
    wait_until(world, lambda: len(fourth.readings) == 2)
    heal(world)
    if sorted(world.checkers.stopped) != sorted(fourth.readings):
        world.checkers.violated("OnlyMovedStop", f"{world.checkers.stopped} stopped for {fourth.readings}")


def ten_consumers_join_at_once(world: GroupOrders) -> None:
    """C7: they are one rebalance, not ten."""
    topic(world, 10)
    for number in range(10):
        consumer(world, f"c{number}")
        world.advance(5)
    wait_until(world, lambda: all(each.readings for each in world.consumers))
    if (generation := world.zookeeper.groups["g"].generation) > 1:
        world.checkers.violated("OneRebalance", f"ten joins took {generation} generations")
    heal(world)


MENDS: Final[tuple[tuple[str, Schedule, str], ...]] = (
    ("answers_matched", a_late_answer_arrives_when_the_next_order_asks_for_more, "OneReader"),
    ("commits_fenced", a_consumer_commits_after_its_partition_was_given_to_another, "AcceptedOwner"),
    ("positions_fenced", a_position_comes_late, "CommittedForward"),
    ("owners_before_start", a_consumer_is_started, "DurableFirst"),
    ("epochs_fenced", a_coordinator_wakes_up_deposed, "FencedWrites"),
    ("changes_rerun", a_topic_grows_while_a_rebalance_is_under_way, "EveryPartitionOwned"),
    ("only_moved_stop", a_fourth_consumer_joins, "OnlyMovedStop"),
    ("only_moved_stop", ten_consumers_join_at_once, "OneRebalance"),
)
"""Mend → the schedule that needs it, and the invariant that breaks without it."""
