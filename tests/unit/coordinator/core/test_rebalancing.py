"""§9: partitions are shared out, stop, are written down and start (C4, C6, C7)."""

from __future__ import annotations

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core.group import GroupState
from unit.coordinator.core.group_world import World, topic


def test_a_lone_consumer_is_given_everything() -> None:
    world = World()
    consumer = world.join()
    world.run(100)
    assert consumer.partitions == {0, 1, 2, 3}
    assert world.group_state is GroupState.STABLE


def test_a_member_that_joins_disturbs_only_the_partitions_that_move() -> None:
    world = World(topic(partitions=12))
    first, second = world.join("a"), world.join("b")
    world.run(100)
    third = world.join("c")
    world.run(100)
    assert {len(each.partitions) for each in (first, second, third)} == {4}
    assert sorted(first.partitions | second.partitions | third.partitions) == list(range(12))
    stops = [
        order for each in (first, second) for order in each.orders if isinstance(order, ef.SendStopFetcher)
    ]
    assert sorted(each.name for order in stops for each in order.partitions) == sorted(third.reading)
    assert world.describe().generation == 2
