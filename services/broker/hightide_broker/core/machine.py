"""Replication of one partition: events in, effects out.

Rules of this file:
1. `step` is the only way in which a replica changes.
2. No clock, no I/O, no logging, no randomness: the same events give the same effects.
3. Effects are ordered (effects.py says how); if one that touches the log fails, the step has not happened.

Theory of operation. The controller decides who leads (`LeaderAndIsrDecided`); each decision has a leader
epoch. A leader appends, learns from fetches how far its followers are, and moves the high watermark to the
smallest end over the maximal ISR. A follower first finds out where its log parts from the leader's, cuts
it there, then copies. Every message carries the leader epoch: an older one is fenced, a newer one means
that *this* replica is stale.
"""

from __future__ import annotations

from hightide_broker.core.effects import Effects
from hightide_broker.core.events import Event
from hightide_broker.core.replica import Replica


def step(replica: Replica, event: Event) -> tuple[Replica, Effects]:
    """The replica after `event`, and what the shell must do, in order. Called by the shell for every
    event."""
    raise NotImplementedError
