"""One broker in the leader-coordinated design (V2): events in, effects out.

Rules of this file: 1. `step` is the only way in which the state changes; it is changed in place. 2. No
clock, no I/O, no randomness: the same events give the same effects. 3. Effects are performed in order
(effects.py says how).

Theory of operation. There is no controller. Of each partition the replica that first creates the ephemeral
leader znode leads it, and is the partition's only brain: it stores the ISR, moves the partition, and orders
other brokers by state changes in their queues. Any broker is an admin for clients. What a leader does with
records is the broker's core, which obeys the decisions (`Decide`) as it obeys those of a controller.
"""

from __future__ import annotations

from hightide_leaders.core import admin, listening, moves, replicas
from hightide_leaders.core import events as ev
from hightide_leaders.core.effects import Effects, ReadQueue
from hightide_leaders.core.state import LeadersState, Phase
from hightide_leaders.core.values import TopicPartition


def step(state: LeadersState, event: ev.Event, now_ms: int) -> Effects:
    """What the shell must do, in order, now that this has happened.

    Called by the shell for every event, one at a time. `now_ms` is a monotonic clock.
    """
    if state.phase is Phase.SUPERSEDED:
        return ()
    match event:
        case ev.PartitionsRead():
            return listening.partitions_read(state, event, now_ms)
        case ev.PartitionTouched():
            return touched(state, event.name)
        case ev.WriteEnded():
            return write_ended(state, event, now_ms)
        case ev.IsrAdopted():
            return moves.isr_adopted(state, event)
        case ev.IsrChanged():
            return replicas.isr_changed(state, event)
        case ev.QueueRead():
            return listening.queue_read(state, event)
        case ev.AssignmentsRead():
            return listening.assignments_read(state, event)
        case ev.TopicRead():
            return admin.topic_read(state, event, now_ms)
        case ev.QueuesRead():
            return admin.queues_read(state, event)
        case ev.Ticked():
            return ticked(state, now_ms)
        case ev.Started():
            return listening.started(state, event)
        case ev.Connected():
            return listening.connected(state, event)
        case ev.StopRequested():
            return listening.stop_requested(state, event)
        case ev.LeadershipDeclined():
            return replicas.leadership_declined(state, event, now_ms)
        case _:
            return admin.requested(state, event, now_ms)


def touched(state: LeadersState, name: TopicPartition) -> Effects:
    """A watch fired: read the partition again, if this broker has a replica of it, or is about to learn that
    it is to have one. What is being read may be of before, and its watch is spent."""
    return (state.read(name),) if name in state.hosted or state.is_being_read(name) else ()


def write_ended(state: LeadersState, event: ev.WriteEnded, now_ms: int) -> Effects:
    """A write ended, whatever way: read again what it was about, and go on from what is there."""
    about = state.writing.pop(event.write_id)
    if event.ending is ev.Ending.SUPERSEDED:
        return listening.superseded(state)
    if about is None:
        return (ReadQueue(),)
    if isinstance(about, int):
        return admin.write_ended(state, about, event.ending)
    hosted = state.hosted.get(about)
    if hosted is not None and hosted.writing == event.write_id:
        hosted.writing = None
        if event.ending is not ev.Ending.COMMITTED:
            hosted.started_for = None  # Whatever it was to send may have to be sent again.
        if event.ending is ev.Ending.QUEUE_FULL:
            state.look_at(hosted, now_ms + state.settings.leader_election_wait_time_ms)
            return ()
    return (state.read(about, written=True),)


def ticked(state: LeadersState, now_ms: int) -> Effects:
    """Time passed: read the partitions that are due, and go on with requests that waited long enough."""
    due = state.take_due(now_ms)
    reads = (state.read(*due),) if due else ()
    return (*reads, *admin.time_passed(state, now_ms))
