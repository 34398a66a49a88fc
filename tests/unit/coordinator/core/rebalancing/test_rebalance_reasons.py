"""What a rebalance began with, as metrics count it, and the sentence that tells people."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason
from hightide_coordinator.counters import Counters
from unit.coordinator.core.group_world import Consumer, World, topic, tp


def shared_by_two() -> tuple[World, Consumer, Consumer]:
    """Two consumers of one topic, all of whose rebalances are over."""
    world = World(topic("t", 4), topic("u", 2, b"u" * 16))
    first, second = world.join("kite"), world.join("gull", instance_id="3")
    world.run(1_000)
    return world, first, second


def counted(world: World) -> dict[str, int]:
    """What a shard counts of the rebalances that have ended: their reports name the group."""
    counters = Counters()
    for report in world.all(ef.LogSentence):
        if report.rebalanced_group and not report.is_warning:
            counters.rebalanced(world.state.groups[report.rebalanced_group])
    return {reason: count for reason, count in counters.rebalances.items() if count}


def joins(world: World, first: Consumer, second: Consumer) -> None:
    world.join("tern")


def leaves(world: World, first: Consumer, second: Consumer) -> None:
    first.leave()


def dies(world: World, first: Consumer, second: Consumer) -> None:
    first.is_mute = True
    world.run(30_000)


def subscribes(world: World, first: Consumer, second: Consumer) -> None:
    world.come_back(first, topics={"u": 1})


def is_replaced_by_one_that_subscribes(world: World, first: Consumer, second: Consumer) -> None:
    world.join("skua", instance_id="3", topics={"u": 1})


def topic_grows(world: World, first: Consumer, second: Consumer) -> None:
    world.change_topics(topic("t", 8))


@pytest.mark.parametrize(
    ("happens", "reason", "sentence"),
    [
        (joins, RebalanceReason.JOINED, "consumer tern joined"),
        (leaves, RebalanceReason.LEFT, "consumer kite left"),
        (dies, RebalanceReason.DECLARED_DEAD, "consumer kite was declared dead: "),
        (subscribes, RebalanceReason.SUBSCRIPTION, "consumer kite subscribes to something else"),
        (is_replaced_by_one_that_subscribes, RebalanceReason.SUBSCRIPTION, "instance 3 has a new process"),
        (topic_grows, RebalanceReason.TOPICS, "the partitions of topic t changed from 4 to 8"),
    ],
)
def test_a_rebalance_is_counted_by_what_it_began_with(
    happens: Callable[[World, Consumer, Consumer], None], reason: RebalanceReason, sentence: str
) -> None:
    world, first, second = shared_by_two()
    world.log.clear()
    happens(world, first, second)
    world.run(1_000)
    assert counted(world) == {reason: 1}
    assert world.describe().reason.startswith(sentence)


def test_a_rebalance_that_a_takeover_finds_to_be_done_is_the_takeovers() -> None:
    world, first, _ = shared_by_two()
    world.owners["g"].pop(tp(0))
    after = world.fail_over()
    after.come_back(first, seen_coordinator_epoch=1)
    assert after.state.groups["g"].begun_by is RebalanceReason.TAKEOVER
    assert after.describe().reason == "this coordinator took over"


def test_a_new_process_of_an_instance_is_said_to_be_one() -> None:
    world, _, _ = shared_by_two()
    world.join("skua", instance_id="3")
    assert world.state.groups["g"].begun_by is RebalanceReason.NEW_PROCESS
    assert world.describe().reason == "instance 3 has a new process, consumer skua"


def test_what_an_operator_changed_in_zookeeper_begins_a_rebalance_of_its_own_kind() -> None:
    world, first, _ = shared_by_two()
    world.owners["g"].pop(next(iter(first.reading)))
    first.positions[next(iter(first.reading))] = 9
    world.run(4_000)
    first.answer_ping(*first.reading)
    world.stores_answer = False
    world.run(6_000)
    world.feed(ev.StoreRefused(world.stores[-1].store_id))
    world.stores_answer = True
    world.read()
    assert world.state.groups["g"].begun_by is RebalanceReason.ZOOKEEPER


def test_a_rebalance_that_succeeds_at_its_second_attempt_is_counted_by_what_it_began_with() -> None:
    world = World(topic("t", 1))
    world.look_ups_answer = False
    world.join("kite")
    world.run(600)
    world.feed(ev.OffsetsLookedUp(world.look_ups[-1].look_up_id, {}, {tp(0): "leader 7 is away"}))
    world.look_ups_answer = True
    world.run(1_000)
    assert counted(world) == {RebalanceReason.JOINED: 1}
