"""This broker's own queue (V2 stateChangeListener), and its life: startup, sessions, the end (V2 "Broker
startup").

Theory of operation. A state change is taken out of the queue after it was obeyed, in a multi that checks
that this is still the newest life of the broker. The text takes it out first: who dies in between has lost
it, and of two processes with the same id the one that is to go takes what the other needs.
"""

from __future__ import annotations

from hightide_runtime.znodes.paths import incarnation_path

from hightide_leaders.core import admin
from hightide_leaders.core import effects as fx
from hightide_leaders.core.events import (
    AssignmentsRead,
    Connected,
    PartitionsRead,
    QueueRead,
    Started,
    StopRequested,
)
from hightide_leaders.core.replicas import look, obey, without_leader
from hightide_leaders.core.state import LeadersState, Phase, Role
from hightide_leaders.core.values import ChangeKind, QueuedChange
from hightide_leaders.core.writes import Check, Dequeue, Operations

CHANGES_MAX = 900
"""The state changes that are obeyed together: they leave the queue in one multi."""


def started(state: LeadersState, event: Started) -> fx.Effects:
    """A new life: drain the queue first, so that what was to be closed is closed before anything starts."""
    assert state.phase is Phase.NEW
    state.phase = Phase.DRAINING
    state.incarnation, state.session = event.incarnation, event.session
    return (fx.ReadQueue(),)


def queue_read(state: LeadersState, event: QueueRead) -> fx.Effects:
    """Look at the partitions that the queue names; what to do about them is said by their znodes."""
    if state.draining or None in state.writing.values():
        return ()  # It is read again when that is done.
    if not event.changes:
        if state.phase is not Phase.DRAINING:
            return ()
        state.phase = Phase.READING
        return (fx.ReadAssignments(),)
    changes = event.changes[:CHANGES_MAX]
    known = [queued.change for queued in changes if queued.change is not None]
    names = {each.name: None for each in known if each.kind is not ChangeKind.READ_ASSIGNMENTS}
    read = state.read(*names)
    state.draining[read.read_id] = changes
    if any(each.kind is ChangeKind.READ_ASSIGNMENTS for each in known):
        return (fx.ReadAssignments(), read)
    return (read,)


def partitions_read(state: LeadersState, event: PartitionsRead, now_ms: int) -> fx.Effects:
    """Partitions were read: obey what the queue said about them, look at each, then empty the queue of it."""
    del state.reading[event.read_id]
    drained = state.draining.pop(event.read_id, ())
    hands_over = bool(state.leaving)
    effects: list[fx.Effect] = []
    for queued in drained:
        if queued.change is not None and queued.change.kind is not ChangeKind.READ_ASSIGNMENTS:
            effects += obey(state, queued.change, event.found.get(queued.change.name))
    # Before the queue is empty, a replica that is there may have to go first.
    if state.phase is not Phase.DRAINING:
        for name, nodes in event.found.items():
            effects += look(state, name, nodes, event.lives, now_ms)
    if drained:
        effects.append(state.write(None, taken_out(state, drained)))
    if event.read_id == state.starting:
        state.starting, state.phase = None, Phase.SERVING
        effects.append(fx.Register())
    if hands_over and state.leaving is not None:
        state.leaving &= state.hosted.keys()
        effects += _handed_over(state)
    return tuple(effects)


def stop_requested(state: LeadersState, event: StopRequested) -> fx.Effects:
    """The broker is to stop: look at each replica, and hand over what others can lead."""
    state.leaving, state.stopping = set(state.hosted), event.request_id
    reads = (state.read(*state.hosted),) if state.hosted else ()
    return (*reads, *_handed_over(state))


def _handed_over(state: LeadersState) -> fx.Effects:
    return () if state.leaving else (fx.Answer(state.stopping, fx.Outcome.DONE),)


def taken_out(state: LeadersState, drained: tuple[QueuedChange, ...]) -> Operations:
    """The write that removes state changes from this broker's queue."""
    taken = (Dequeue(state.me, queued.znode) for queued in drained)
    return (*of_this_life(state), *taken)


def of_this_life(state: LeadersState) -> Operations:
    """What a write begins with that only the newest life of a broker may do."""
    return (Check(incarnation_path(state.me), state.incarnation),)


def assignments_read(state: LeadersState, event: AssignmentsRead) -> fx.Effects:
    """Read the partitions that are assigned to this broker, and those of which it has a replica."""
    read = state.read(*{**dict.fromkeys(event.names), **dict.fromkeys(state.hosted)})
    if state.phase is Phase.READING:
        state.starting = read.read_id
    return (read,)


def connected(state: LeadersState, event: Connected) -> fx.Effects:
    """Read everything again that was watched. With a session go the leader znodes that were made in it: this
    broker stops to lead at once."""
    effects: list[fx.Effect] = []
    if event.session != state.session:
        state.session = event.session
        state.draining.clear()
        for hosted in state.hosted.values():
            if hosted.role is Role.LEADING:
                effects += without_leader(state, hosted)
        if state.phase is Phase.SERVING:
            effects.append(fx.Register())
    match state.phase:
        case Phase.DRAINING:
            effects.append(fx.ReadQueue())
        case Phase.READING | Phase.SERVING:
            effects += (fx.ReadQueue(), fx.ReadAssignments(), *admin.look_again(state))
        case Phase.NEW | Phase.SUPERSEDED:
            pass
    return tuple(effects)


def superseded(state: LeadersState) -> fx.Effects:
    """A later life of this broker has begun: this one does nothing any more."""
    if state.phase is Phase.SUPERSEDED:
        return ()
    state.phase = Phase.SUPERSEDED
    effects: list[fx.Effect] = []
    for hosted in state.hosted.values():
        if hosted.role is Role.LEADING:
            effects += without_leader(state, hosted)
    state.timers.clear()
    state.requests.clear()
    return (*effects, fx.StepAside())
