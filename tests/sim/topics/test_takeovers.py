"""What happens in ZooKeeper exactly while a controller takes over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hightide_runtime.znodes import cluster_znodes
from hightide_runtime.znodes.admin_znodes import DeleteTopicZnode
from hightide_runtime.znodes.cluster_znodes import TopicZnode
from sim.messages import Envelope
from sim.topics.messages import Asked
from sim.topics.schedules import TOPIC, begin
from sim.topics.world import Cluster

FIRST, NEXT = 11, 12


@pytest.fixture
def world() -> Iterator[Cluster]:
    """Its active controller has just died, and the other one takes over."""
    cluster = Cluster()
    begin(cluster)
    cluster.crash(FIRST)
    cluster.expire(FIRST)
    yield cluster
    cluster.close()


def asked_by_the_next(world: Cluster, what: str) -> list[Envelope]:
    """The requests of this kind that are on their way to ZooKeeper."""
    bodies: list[tuple[Envelope, Any]] = [(each, each.body) for each in world.pending]
    return [
        envelope
        for envelope, body in bodies
        if envelope.source == NEXT and isinstance(body, Asked) and body.what == what
    ]


def test_the_marker_of_a_topic_goes_also_where_an_operator_takes_it_away_between_two_reads(
    world: Cluster,
) -> None:
    """Its name was among the children, and its znode was not there any more: so it is no topic that cannot be
    understood, whose marker is needed."""
    path = TopicZnode.path(TOPIC)
    world.settle_until(
        lambda: any(path in each.body.arguments[0] for each in asked_by_the_next(world, "multi_read"))  # type: ignore[union-attr]
    )
    world.take_away(path)
    world.restart(FIRST)
    world.until_healed()
    assert world.tree.children(cluster_znodes.TOPIC_IDS) == []


def test_a_connection_that_breaks_between_two_watches_has_both_set_again(world: Cluster) -> None:
    """One of them was set when it broke, and the other one after that."""
    world.settle_until(lambda: len(asked_by_the_next(world, "watch_tree")) == 2)
    of_admin, _ = asked_by_the_next(world, "watch_tree")
    of_brokers = asked_by_the_next(world, "children_and_changes")[0]
    world.deliver(of_admin)
    world.lose(of_brokers)
    world.settle()
    assert world.controllers[NEXT].is_active
    world.by_hand(DeleteTopicZnode.path(TOPIC))
    world.settle()
    assert TOPIC not in world.topics()
