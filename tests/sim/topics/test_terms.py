"""A controller process that is elected more than once: what one term began must not spoil the next."""

from __future__ import annotations

from contextlib import closing

from hightide_controller.core import events as ev
from hightide_runtime.znodes.cluster_znodes import ControllerEpochZnode, ControllerZnode
from sim.topics.controller import SimControllerProcess
from sim.topics.schedules import begin, heal
from sim.topics.world import Cluster


def is_read_as_mine(controller: SimControllerProcess) -> bool:
    """Whether the process has won, and has seen so, but does not act yet."""
    active = controller.shell.active
    seen = active is not None and active.is_mine and active.znode.controller_epoch == 2
    return seen and not controller.is_active


def test_who_stood_back_while_it_was_elected_makes_room() -> None:
    with closing(Cluster()) as world:
        begin(world)
        world.crash(12)  # Nobody else is there to be elected.
        world.expire(11)
        controller = world.controllers[11]
        world.settle_until(lambda: is_read_as_mine(controller))
        controller.tell(ev.SessionLost())
        assert not controller.is_active
        world.settle()
        assert world.controllers[11].is_active, "it gave the znode back, and was elected again"
        heal(world)


def test_an_election_that_the_next_one_of_the_same_process_has_overtaken_does_not_count() -> None:
    """It still reads what there is when the next one is won. Taken for that one, each took the other's
    place, in the worst case for ever."""
    with closing(Cluster()) as world:
        begin(world)
        world.crash(12)
        world.expire(11)
        controller = world.controllers[11]
        world.settle_until(lambda: is_read_as_mine(controller))
        controller.tell(ev.SessionLost())
        standing = world.tree.read(ControllerZnode.path())
        assert standing is not None
        world.by_hand(standing.path, standing.data)  # It looks again, before it has read everything.
        world.settle()
        assert controller.is_active
        stored = world.tree.read(ControllerEpochZnode.path())
        assert stored is not None
        assert ControllerEpochZnode.decode(stored.data).controller_epoch == 3, "no other was needed"
        heal(world)
