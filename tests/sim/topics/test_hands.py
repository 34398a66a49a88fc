"""An operator in ZooKeeper is quicker than the controller, which reads about the same topic just now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.values import requests as rq
from hightide_runtime.znodes.admin_znodes import ReassignmentZnode
from hightide_runtime.znodes.cluster_znodes import TOPIC_IDS, TopicZnode
from sim.messages import ZOOKEEPER, Envelope
from sim.topics.messages import Asked
from sim.topics.schedules import FIRST_ID, SECOND_ID, TOPIC, begin
from sim.topics.world import Cluster

ACTIVE = 11
OTHER = "flow"


@pytest.fixture
def world() -> Iterator[Cluster]:
    cluster = Cluster()
    begin(cluster)
    yield cluster
    cluster.close()


def asked(world: Cluster, what: str, about: str) -> Envelope | None:
    """What the active controller asks of ZooKeeper about a path."""
    for each in world.pending:
        body: Any = each.body
        is_asked = each.source == ACTIVE and isinstance(body, Asked) and body.what == what
        if is_asked and f"'{about}'" in str(body.arguments):
            return each
    return None


def brought(world: Cluster, what: str, about: str) -> int:
    """Such a request has just reached ZooKeeper; its number."""
    world.settle_until(lambda: asked(world, what, about) is not None)
    envelope = asked(world, what, about)
    assert envelope is not None
    world.deliver(envelope)
    return envelope.call


def test_the_marker_of_a_topic_goes_that_was_taken_away_before_its_creation_was_known(world: Cluster) -> None:
    """The answer was lost, and the watch told of nothing that was still there."""
    event = ev.CreateTopicRequested(0, OTHER, SECOND_ID, 0, 0, ((1, 2, 3),))
    world.ask(event, ef.AnswerCreateTopic)
    call = brought(world, "multi", TopicZnode.path(OTHER))
    world.lose(next(each for each in world.pending if (each.source, each.call) == (ZOOKEEPER, call)))
    world.take_away(TopicZnode.path(OTHER))
    world.settle()
    assert world.tree.children(TOPIC_IDS) == [FIRST_ID]


def test_a_move_that_an_operator_asks_for_between_two_reads_is_complained_about_when_its_topic_is_gone(
    world: Cluster,
) -> None:
    """The names below its parent were read before, and were told of after the watch."""
    path = ReassignmentZnode.path(TOPIC, 0)
    world.by_hand(path.rpartition("/")[0])
    world.settle()
    world.ask(rq.DeleteTopicRequested(0, TOPIC), ef.AnswerTopic)
    brought(world, "children_and_changes", path.rpartition("/")[0])
    world.by_hand(path, b'{"replicas":[4,1]}')
    world.settle()
    assert TOPIC not in world.topics()
    assert world.tree.read(path) is None or path in world.complaints
