"""What a broker holds that is not assigned to it goes, also where ZooKeeper does not say so at once."""

from __future__ import annotations

from dataclasses import replace

from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from hightide_runtime.znodes.cluster_znodes import TopicZnode
from hightide_runtime.zookeeper.session import SetData
from sim.messages import ZOOKEEPER
from sim.topics.schedules import FIRST_ID, TOPIC, begin, grow
from sim.topics.world import CONTROLLERS, Cluster, Settings

KEY = (bytes.fromhex(FIRST_ID), 1)


def test_a_stray_that_was_not_certain_to_be_one_goes_once_it_is() -> None:
    """Its number was used again, elsewhere, and taken back before any controller chose a leader: none ever
    tells the broker of it."""
    world = Cluster(Settings())
    try:
        begin(world)
        grow(world, ((1, 2, 3),))
        assert world.produce_to(TOPIC, 1) is not None
        world.settle()
        world.crash(3)
        world.expire(3)
        world.ask(rq.RemovePartitionsRequested(0, TOPIC, 1), ef.AnswerTopic)
        world.settle()
        world.restart(3)
        world.settle()
        for controller_id in CONTROLLERS:
            world.hold(ZOOKEEPER, controller_id)
        topic = world.topic(TOPIC)
        again = replace(topic, partitions=(*topic.partitions, (2,)))
        world.tree.by_hand(SetData(TopicZnode.path(TOPIC), again.encode(), -1))
        for _ in range(4):
            world.settle()
            world.advance(500)
        assert KEY in world.hosts[3].logs.partitions(), "nobody knows for certain that it is not wanted"
        world.tree.by_hand(SetData(TopicZnode.path(TOPIC), topic.encode(), -1))
        for controller_id in CONTROLLERS:
            world.release(ZOOKEEPER, controller_id)
        world.until_healed()
        assert KEY not in world.hosts[3].logs.partitions()
    finally:
        world.close()
