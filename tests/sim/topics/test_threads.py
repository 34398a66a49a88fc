"""Single threads of a broker stand still while its loop, and its session, go on."""

from __future__ import annotations

from contextlib import closing

from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from sim.topics.schedules import TOPIC, begin, heal
from sim.topics.world import Cluster


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
