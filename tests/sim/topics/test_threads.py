"""Single threads of a broker stand still while its loop, and its session, go on."""

from __future__ import annotations

from contextlib import closing

from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from sim.topics.schedules import FIRST_ID, TOPIC, begin, heal, move
from sim.topics.world import Cluster

KEY = (bytes.fromhex(FIRST_ID), 0)


def test_what_waits_for_a_disk_whose_thread_stands_still_is_acknowledged_when_it_goes_on() -> None:
    with closing(Cluster()) as world:
        begin(world)
        world.ask(rq.AlterTopicConfigRequested(0, TOPIC, {"flush": "fsync"}), ef.AnswerTopic)
        world.settle()
        for name in ("disk-0", "disk-1"):
            world.stop_threads(1, name)
        value = world.produce_to(TOPIC)
        world.settle()
        assert not any(f"acknowledges ({value},)" in line for line in world.story)
        world.let_threads_go_on(1)
        world.settle()
        assert any(f"acknowledges ({value},)" in line for line in world.story)
        heal(world)


def test_who_begins_anew_is_in_sync_once_its_start_is_on_disk() -> None:
    """It said before where it begins; a power cut then left it an empty log that began at 0."""
    with closing(Cluster()) as world:
        begin(world)
        world.ask(rq.AlterTopicConfigRequested(0, TOPIC, {"flush": "fsync"}), ef.AnswerTopic)
        world.settle()
        world.delete_records(1, KEY, -1)
        world.settle()
        move(world, 1, 2, 4)
        world.settle_until(lambda: KEY in world.hosts[4].replicas)
        for name in ("disk-0", "disk-1"):
            world.stop_threads(4, name)
        world.settle()
        assert world.hosts[4].replicas[KEY].state.log_start_offset == 1
        assert 4 not in isr(world)
        world.let_threads_go_on(4)
        world.converge(2)
        assert 4 in isr(world)
        heal(world)


def isr(world: Cluster) -> tuple[int, ...]:
    """As ZooKeeper has it."""
    state = world.state(TOPIC, 0)
    assert state is not None
    return state.isr
