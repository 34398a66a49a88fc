"""A move drops no replica that has records which those that stay may have lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from sim.topics.schedules import (
    FIRST_ID,
    FLUSHED_AFTER_MS,
    LOSES_WHAT_IS_UNSYNCED,
    TOPIC,
    begin,
    create,
    heal,
    move,
)
from sim.topics.world import CONTROLLERS, Cluster

KEY: Final = (bytes.fromhex(FIRST_ID), 0)


@pytest.fixture
def world() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


def set_minimum(world: Cluster, minimum: int) -> None:
    """A client says how many replicas a commit needs."""
    settings = {"min.insync.replicas": str(minimum)}
    world.ask(rq.AlterTopicConfigRequested(0, TOPIC, settings), ef.AnswerTopic)
    world.settle()


def end(world: Cluster, broker_id: int) -> None:
    """A process dies, and all know it."""
    host = world.hosts[broker_id]
    world.crash(broker_id)
    world.detect_death(broker_id, host.broker_epoch)
    world.expire(broker_id)
    world.settle()


def test_a_dead_eligible_replica_is_not_moved_away_from_the_last_that_lost_power(world: Cluster) -> None:
    """It alone is certain to have all that was acknowledged. The shrink was an unclean election that nobody
    had allowed."""
    begin(world)
    set_minimum(world, 2)
    world.advance(FLUSHED_AFTER_MS)
    world.settle()
    end(world, 3)
    assert world.produce_to(TOPIC) is not None
    world.settle()
    end(world, 2)
    world.lose_power(1, LOSES_WHAT_IS_UNSYNCED)
    assert len(world.hosts[1].logs.log(KEY).log) == 1
    world.expire(1)
    world.settle()
    world.restart(1)
    world.settle()
    state = world.state(TOPIC, 0)
    assert state is not None
    assert (state.leader, state.isr, state.eligible) == (-1, (1,), (2,))
    set_minimum(world, 1)
    move(world, 1)
    world.settle()
    assert world.topic(TOPIC).partitions == ((1, 2, 3),)
    heal(world)
    assert len(world.hosts[1].logs.log(KEY).log) > 2


def test_a_move_does_not_end_on_the_shorter_of_two_logs_that_lost_power(world: Cluster) -> None:
    """All machines lose power before the end of the move, and the longer log is down when a controller is
    there again."""
    world.start()
    create(world, FIRST_ID, ((1,),))
    assert world.produce(1, KEY) is not None
    world.advance(FLUSHED_AFTER_MS)
    world.hold(1, 3)
    move(world, 3)
    world.settle()
    for controller_id in CONTROLLERS:
        world.crash(controller_id)
    world.release(1, 3)
    world.settle()
    state = world.state(TOPIC, 0)
    assert state is not None
    assert state.isr == (1, 3)
    for broker_id in (1, 3):
        world.lose_power(broker_id, LOSES_WHAT_IS_UNSYNCED)
        world.expire(broker_id)
    for broker_id in (1, 3):
        world.restart(broker_id)
        world.settle()
    state = world.state(TOPIC, 0)
    assert state is not None
    assert len(world.hosts[1].logs.log(KEY).log) == 1
    assert len(world.hosts[3].logs.log(KEY).log) == 0
    assert state.isr == (3,)
    assert [log.broker_id for log in state.recovered] == [1, 3]
    world.crash(1)
    world.expire(1)
    for controller_id in CONTROLLERS:
        world.restart(controller_id)
    world.settle()
    state = world.state(TOPIC, 0)
    assert state is not None
    assert state.leader == -1
    heal(world)
    assert len(world.hosts[3].logs.log(KEY).log) > 1
