"""A topic that comes with the name of one that was deleted: what was decided about the earlier one does
nothing to it, though its znodes have the same versions."""

from __future__ import annotations

from typing import Any

import pytest
from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.elections import resignation
from hightide_leaders.core.machine import step
from hightide_leaders.core.state import LeadersState
from hightide_leaders.core.values import Lives, PartitionNodes, Settings, TopicNodes
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode, TopicNode
from hightide_runtime.znodes.paths import (
    isr_path,
    leader_path,
    partition_path,
    reassigned_path,
    replicas_path,
)
from sim.leaders.zookeeper import NAME, LeadersZooKeeper

EARLIER, LATER = "a" * 32, "b" * 32
AR = (1, 2, 3)
ALL = Lives(((1, 0), (2, 0), (3, 0), (4, 0)))
ONLY_3 = Lives(((3, 0),))
REQUEST = -1


class Store:
    """ZooKeeper with the topic of this id, whatever else is the same."""

    def __init__(self, topic_id: str, leader: int | None, isr: tuple[int, ...], moving: bool) -> None:
        self._zookeeper = LeadersZooKeeper(lambda node, path: None)
        self._session = self._zookeeper.open_session()
        term: wr.Operations = (
            () if leader is None else (wr.Create(leader_path(*NAME), LeaderNode(leader, 5)),)
        )
        move = wr.Put(reassigned_path(*NAME), (2, 3, 4)) if moving else wr.Delete(reassigned_path(*NAME))
        topic = wr.create_topic(NAME.topic, TopicNode(bytes.fromhex(topic_id), None, 1))
        replicas = wr.Create(replicas_path(*NAME), AR)
        for made in (
            *topic,
            wr.Create(partition_path(*NAME)),
            wr.Create(reassigned_path(*NAME), AR),
            replicas,
            move,
            wr.Create(isr_path(*NAME), IsrNode(5, isr)),
        ):
            assert not self.refuses((made,))
        assert not self.refuses(term)

    def refuses(self, operations: wr.Operations) -> bool:
        """Whether a write does nothing here."""
        return self._zookeeper.write(operations, self._session, 1) is not None

    def partition(self) -> PartitionNodes:
        found = self._zookeeper.partition(NAME)
        assert found is not None
        return found

    def topic(self) -> TopicNodes | None:
        return self._zookeeper.topic(NAME.topic)


def decided(asked: ev.Event, found: TopicNodes | None, lives: Lives) -> fx.Effect:
    """What an admin does for this request, by what it has read."""
    state = LeadersState(Settings(1))
    step(state, asked, 0)
    (effect,) = step(state, ev.TopicRead(REQUEST, found, lives), 0)
    return effect


REQUESTS = {
    "move": (ev.ReassignmentRequested(REQUEST, NAME, (2, 3, 4)), 1, AR, False, ALL),
    "elect": (ev.ElectionRequested(REQUEST, NAME), 2, AR, False, ALL),
    "grow": (ev.AdditionRequested(REQUEST, "tide", "", ((1, 2),), first=1), 1, AR, False, ALL),
    "delete": (ev.DeletionRequested(REQUEST, "tide"), 1, AR, False, ALL),
    "cancel": (ev.ReassignmentRequested(REQUEST, NAME, None), 1, AR, True, ALL),
    "elect-unclean": (ev.ElectionRequested(REQUEST, NAME, unclean=True), None, (1, 2), False, ONLY_3),
}
"""What an admin writes: the request, and the leader, the ISR, a move and the brokers as read."""


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_what_an_admin_decided_about_a_topic_does_nothing_to_a_later_one(request_: Any) -> None:
    asked, leader, isr, moving, lives = request_
    earlier, later = (Store(topic_id, leader, isr, moving) for topic_id in (EARLIER, LATER))
    write = decided(asked, earlier.topic(), lives)
    assert isinstance(write, fx.Write), write
    assert later.refuses(write.everything)
    assert not earlier.refuses(write.everything)


def test_a_leader_of_a_deleted_topic_takes_no_place_from_that_of_a_later_one() -> None:
    earlier, later = (Store(topic_id, 1, AR, moving=False) for topic_id in (EARLIER, LATER))
    operations = resignation(NAME, earlier.partition())
    assert later.refuses(operations)
    assert not earlier.refuses(operations)
