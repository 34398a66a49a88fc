"""What a broker holds that is not assigned to it goes, also where ZooKeeper does not say so at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hightide_broker.hosting.strays import AGAIN_S, HeldReplica, StoredPartitions, StrayWatch
from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from hightide_runtime.znodes.cluster_znodes import TopicZnode
from hightide_runtime.zookeeper.session import SetData
from sim.messages import ZOOKEEPER, Envelope
from sim.topics.loop import SimLoop
from sim.topics.messages import Rpc
from sim.topics.schedules import FIRST_ID, TOPIC, begin, delete, grow
from sim.topics.world import CONTROLLERS, Cluster, Settings

KEY = (bytes.fromhex(FIRST_ID), 1)
FIRST = CONTROLLERS[0]


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


def test_what_finds_no_room_in_quarantine_goes_when_there_is_some() -> None:
    """Its topic was deleted while the broker was down: nobody names it any more."""
    world = Cluster(Settings())
    try:
        begin(world)
        grow(world, ((1, 2, 3),))
        assert world.produce_to(TOPIC, 1) is not None
        world.settle()
        world.crash(3)
        world.expire(3)
        delete(world)
        for path in world.hosts[3].paths:
            world.fill_disk(3, path, 0)
        world.restart(3)
        world.converge(4)
        assert KEY in world.hosts[3].logs.partitions()
        world.make_room(3)
        world.until_healed()
        assert KEY not in world.hosts[3].logs.partitions()
    finally:
        world.close()


def test_a_late_command_brings_no_replica_back() -> None:
    """Its partition is removed: nobody names it any more, and it stayed until a controller failed over."""
    world = Cluster(Settings())
    try:
        begin(world)
        grow(world, ((1, 2, 3),))
        assert world.produce_to(TOPIC, 1) is not None
        world.settle()
        world.crash(2)
        world.expire(2)
        world.settle_until(lambda: bool(commands_to(world, 3)))
        (late,) = commands_to(world, 3)
        world.delay(late, give_up=True)
        world.settle()
        world.ask(rq.RemovePartitionsRequested(0, TOPIC, 1), ef.AnswerTopic)
        world.converge(2)
        assert KEY not in world.hosts[3].logs.partitions()
        world.let_arrive(late)
        world.settle()
        assert KEY not in world.hosts[3].replicas
        world.heal()
        world.until_healed()
    finally:
        world.close()


def test_a_replica_that_was_opened_for_an_older_controller_goes_again() -> None:
    """It waited until the log of a removed partition of its number was put aside. Its own partition was
    removed meanwhile, and the next controller told of all partitions before the replica was there."""
    world = Cluster(Settings())
    try:
        begin(world)
        grow(world, ((1, 2, 3),))
        assert world.produce_to(TOPIC, 1) is not None
        world.settle()
        for controller_id in CONTROLLERS:
            world.cut(controller_id, 3)
        remove_the_last(world)
        for envelope in [each for each in world.pending if each.target == 3 and each.source in CONTROLLERS]:
            world.lose(envelope)
        for threads in world.hosts[3].threads:
            if threads.startswith("disk"):
                world.stop_threads(3, threads)
        grow(world, ((3, 1, 2),))
        for controller_id in CONTROLLERS:
            world.mend_link(controller_id, 3)
        world.settle_until(lambda: KEY not in world.hosts[3].replicas)
        world.hold(FIRST, 3)
        remove_the_last(world)
        world.crash(FIRST)
        world.expire(FIRST)
        world.settle()
        world.release(FIRST, 3)
        world.let_threads_go_on(3)
        world.settle()
        assert KEY in world.hosts[3].replicas
        world.heal()
        world.until_healed()
        assert KEY not in world.hosts[3].replicas
    finally:
        world.close()


def test_an_order_that_its_controller_has_given_up_begins_no_replica() -> None:
    """The broker never had it: it was away when the partition went, and has been told of all others since."""
    world = Cluster(Settings())
    try:
        begin(world)
        world.ask(rq.AddPartitionsRequested(0, TOPIC, 2, ((1, 2, 3),)), ef.AnswerTopic)
        world.settle_until(lambda: bool(commands_to(world, 3)))
        (late,) = commands_to(world, 3)
        world.delay(late, give_up=True)
        world.refuse(3)
        world.detect_death(3, world.hosts[3].broker_epoch)
        world.settle()
        remove_the_last(world)
        world.let_in(3)
        world.converge(2)
        world.let_arrive(late)
        world.settle()
        assert KEY not in world.hosts[3].replicas
        world.heal()
        world.until_healed()
    finally:
        world.close()


def test_metadata_that_its_controller_has_given_up_names_no_topic_that_is_deleted() -> None:
    world = Cluster(Settings())
    try:
        begin(world)
        world.ask(rq.AddPartitionsRequested(0, TOPIC, 2, ((1, 2),)), ef.AnswerTopic)
        world.settle_until(lambda: bool(commands_to(world, 3, "UpdateMetadata")))
        (late,) = commands_to(world, 3, "UpdateMetadata")
        world.delay(late, give_up=True)
        world.settle()
        delete(world)
        world.converge(2)
        world.let_arrive(late)
        world.settle()
        parts = world.hosts[3].parts
        assert parts is not None
        assert parts._metadata.topics() == []
    finally:
        world.close()


def remove_the_last(world: Cluster) -> None:
    """A client removes the second partition."""
    world.ask(rq.RemovePartitionsRequested(0, TOPIC, 1), ef.AnswerTopic)
    world.settle()
    assert len(world.topic(TOPIC).partitions) == 1


def commands_to(world: Cluster, broker_id: int, method: str = "LeaderAndISR") -> list[Envelope]:
    """The LeaderAndISR, or others, that are under way to a broker."""
    found = []
    for envelope in world.pending:
        body: Any = envelope.body
        if envelope.target == broker_id and isinstance(body, Rpc) and body.method == method:
            found.append(envelope)
    return found


def test_a_stray_that_was_not_put_aside_is_looked_at_again() -> None:
    """An order about it was being carried out: there was news of it, and nobody told of it any more."""
    now_ms = 0
    loop = SimLoop(lambda: now_ms)
    held = HeldReplica(KEY, TOPIC, leader_epoch=0, partition_epoch=1)
    holds, is_busy = True, True

    async def read(suspects: Sequence[HeldReplica]) -> StoredPartitions:
        return StoredPartitions({}, is_whole=True)

    async def let_go(stray: HeldReplica) -> bool:
        nonlocal holds
        assert stray == held
        holds = is_busy
        return not holds

    async def watch() -> StrayWatch:
        return StrayWatch(3, "cluster", read, lambda key: held if holds else None, let_go)

    try:
        strays = loop.run_until_complete(watch())
        strays.suspect([KEY])
        loop.settle()
        now_ms += 2_000
        loop.settle()
        assert holds
        is_busy = False
        now_ms += int(AGAIN_S * 1000) + 2_000
        loop.settle()
        now_ms += 2_000
        loop.settle()
        assert not holds
    finally:
        loop.end()
