"""The one door into the controller's core: `step` takes an event and gives back the effects.

1. `step` is the only way in which a ClusterState changes. 2. No clock, no I/O, no logging.
3. Effects are in order (see effects.py). The state handed in is consumed: it is mutated and handed back,
because copying 10,000 partitions for each event is what a controller cannot afford.
"""

from __future__ import annotations

from hightide_controller.core.cluster_state import ClusterState
from hightide_controller.core.effects import Effect
from hightide_controller.core.events import Event

__all__ = ["step"]


def step(state: ClusterState, event: Event) -> tuple[ClusterState, tuple[Effect, ...]]:
    """Decide what follows from one event. Called by the shell's only task, and by tests."""
    raise NotImplementedError
