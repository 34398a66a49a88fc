"""A controller core whose steps are taken down as the shell takes them down."""

from __future__ import annotations

from hand_clock import HandClock
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.tracing.traces import ControllerTraces
from unit.controller.controller_world import World, topic


def traced_world(traces: ControllerTraces, clock: HandClock, *assignment: tuple[int, ...]) -> World:
    """An active controller over the brokers of this topic; traced from here on."""
    brokers = sorted({broker_id for replicas in assignment for broker_id in replicas})
    world = World.elected(*brokers, topics=(topic(*assignment),))
    world.acknowledge_all()

    def take(state: ClusterState, event: ev.Event) -> tuple[ClusterState, tuple[ef.Effect, ...]]:
        state, effects = traces.record(state, event, clock.wall_us())
        return state, tuple(effects)

    world.take = take
    return world
