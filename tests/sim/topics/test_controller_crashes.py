"""The controller dies at every step of what it was asked for, and the next one carries it on (V3 D, F, H).

A step is a multi that has reached ZooKeeper, whose answer the controller never hears, or a call that has
reached a broker. After each the controller is killed; once all has healed, nothing is left half done.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from hightide_runtime.znodes.admin_znodes import DeleteTopicZnode, PartitionAddZnode, ReassignmentZnode
from sim.messages import Envelope
from sim.topics.messages import Asked, Rpc
from sim.topics.schedules import TOPIC, begin, grow, heal, move
from sim.topics.world import Cluster

Request = Callable[[Cluster], None]
ACTIVE = 11


def deleted(world: Cluster) -> None:
    world.ask(rq.DeleteTopicRequested(0, TOPIC), ef.AnswerTopic)


def deleted_by_hand(world: Cluster) -> None:
    world.by_hand(DeleteTopicZnode.path(TOPIC))


def grown(world: Cluster) -> None:
    world.ask(rq.AddPartitionsRequested(0, TOPIC, 3, ((2, 3, 4),)), ef.AnswerTopic)


def grown_by_hand(world: Cluster) -> None:
    world.by_hand(PartitionAddZnode.path(TOPIC, 2), b"[4,1]")


def shrunk(world: Cluster) -> None:
    world.ask(rq.RemovePartitionsRequested(0, TOPIC, 1), ef.AnswerTopic)


def moved(world: Cluster) -> None:
    move(world, 4, 2)


def moved_by_hand(world: Cluster) -> None:
    world.by_hand(ReassignmentZnode.path(TOPIC, 0), b'{"replicas":[4,3]}')


def moved_and_taken_back(world: Cluster) -> None:
    world.hold(1, 4)
    move(world, 4, 2)
    world.settle()
    world.ask(rq.CancelReassignmentsRequested(0), ef.AnswerPartitions)


def led_by_the_preferred_one(world: Cluster) -> None:
    partition = (TopicPartition(TOPIC, 1),)
    world.crash(2)
    world.expire(2)
    world.settle()
    world.restart(2)
    world.converge(2)
    world.ask(rq.ElectLeadersRequested(0, rq.ElectionKind.PREFERRED, partition), ef.AnswerElections)


REQUESTS: dict[Request, tuple[tuple[int, ...], ...] | None] = {
    deleted: None,
    deleted_by_hand: None,
    grown: ((1, 2, 3), (2, 3, 4), (2, 3, 4)),
    grown_by_hand: ((1, 2, 3), (2, 3, 4), (4, 1)),
    shrunk: ((1, 2, 3),),
    moved: ((4, 2), (2, 3, 4)),
    moved_by_hand: ((4, 3), (2, 3, 4)),
    moved_and_taken_back: ((1, 2, 3), (2, 3, 4)),
    led_by_the_preferred_one: ((1, 2, 3), (2, 3, 4)),
}
"""What is asked for → AR of the topic's partitions when it is done; None: there is no such topic."""


def is_step(envelope: Envelope) -> bool:
    """Whether the arrival of this message is one."""
    if envelope.source != ACTIVE:
        return False
    body: Any = envelope.body
    if isinstance(body, Rpc):
        return body.method != "UpdateMetadata"
    return isinstance(body, Asked) and body.what == "multi"


def died_after(request: Request, steps: int) -> tuple[Cluster, bool]:
    """The cluster after the request, the controller killed behind so many steps; whether it was."""
    world = Cluster()
    begin(world)
    grow(world, ((2, 3, 4),))
    assert world.produce_to(TOPIC, 1) is not None
    world.settle()
    request(world)
    for _ in range(3_000):
        envelope = world.next_message()
        if envelope is None:
            return world, False
        step = is_step(envelope)
        world.deliver(envelope)
        steps -= step
        if step and steps <= 0:
            world.crash(ACTIVE)
            world.expire(ACTIVE)
            return world, True
    raise AssertionError("the cluster does not come to rest")


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.__name__)
def test_whenever_the_controller_dies_the_next_one_finishes_or_has_nothing_to_finish(
    request_: Request,
) -> None:
    for steps in range(1, 100):
        world, died = died_after(request_, steps)
        with closing(world):
            before = world.topic(TOPIC).partitions if TOPIC in world.topics() else None
            finish(world)
            after = world.topic(TOPIC).partitions if TOPIC in world.topics() else None
            assert not world.complaints
            if steps > 1:  # The first one may only make sure of a parent.
                assert after == REQUESTS[request_], "once it has begun it is never taken back"
            if not died:
                assert after == before
                break
    else:
        raise AssertionError("it never ends")
    assert steps > 3, "there are steps to die behind"


def finish(world: Cluster) -> None:
    """Heal, and ask for what must hold then."""
    if TOPIC in world.topics():
        world.settle()
    world.heal()
    world.converge()
    if TOPIC in world.topics():
        heal(world)
    world.checkers.check_healed()
