"""The traces of moves, one for all partitions of a request. They may take hours.

    begin  until ZooKeeper has the new replicas beside the old ones
    catch_up  until they are in the ISR
    switch  until ZooKeeper has only the new replicas
    stop_old_replicas  until every live broker knows, and the old replicas have stopped

The core knows nothing about them. A move is recognized by its writes, and by the messages that follow them.
Its traceparent is in its znode, so that the next controller continues the trace. The traceparent of a move
that an operator began is computed from the topic, the partition and the znode.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.trace_context import is_root, new_root_traceparent, root_traceparent
from hightide_runtime.telemetry.tracing import Span, Telemetry
from msgspec.structs import replace

from hightide_controller.core import events as ev
from hightide_controller.core.effects import SendLeaderAndIsr, SendStopReplica
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.writes import ReassignmentDone, ReassignmentWrite, StoreWrites, Write
from hightide_controller.tracing.causes import cause_within, traceparent_within
from hightide_controller.tracing.control_trace import SAMPLE, Life, sample_of

__all__ = ["MoveTraces"]

_MOVES_MAX: Final = 2_000
"""At most so many moves are traced at a time."""


class _Stage(Enum):
    """The stages of a move. The value is the name of the span."""

    BEGIN = span_kinds.MOVE_BEGIN
    CATCH_UP = span_kinds.MOVE_CATCH_UP
    SWITCH = span_kinds.MOVE_SWITCH
    STOP = span_kinds.MOVE_STOP


@dataclass(slots=True, eq=False)
class _Trace:
    """The trace of all moves of one request."""

    root: Span
    began_us: int
    moves: int = 0
    open: int = 0
    sample: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    is_awaited: bool = False
    """Whether the request still waits for its answer, so that more of its moves may begin."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request that waits for its answer."""

    began_us: int
    trace: _Trace | None = None
    """None before its first move."""


@dataclass(slots=True, eq=False)
class _Move:
    """The move of one partition."""

    name: TopicPartition
    trace: _Trace
    target: tuple[int, ...]
    original: tuple[int, ...]
    stage: _Stage
    began_us: int
    is_named: bool
    """Whether it has its own spans, as the first SAMPLE moves of a trace."""
    store_id: int = -1
    awaited: dict[Life, int] = field(default_factory=dict)


class MoveTraces:
    """Traces moves. One for each shell, on the event loop's thread."""

    def __init__(self, cluster_id: str, telemetry: Telemetry, clock: Clock) -> None:
        self._cluster_id = cluster_id
        self._telemetry = telemetry
        self._clock = clock
        self._is_active = False
        self._moves: dict[TopicPartition, _Move] = {}
        self._requests: dict[str, _Request] = {}
        """The requests that wait, by cause."""
        self._by_hand: dict[TopicPartition, str] = {}
        """The traceparents of moves that have not begun."""
        self._written: dict[int, list[_Move]] = {}
        """The moves of each write, by store id."""
        self._switched: list[_Move] = []
        """The moves whose last write has just been done. Messages that the core sends in this step are for
        them."""
        self._awaiting: dict[Life, deque[tuple[int, _Move]]] = {}
        """The moves that wait for each broker, with the sequence, in growing order. Some may no longer
        wait."""
        self._perhaps_done: list[_Move] = []

    @property
    def has_any(self) -> bool:
        """Whether a move is under way."""
        return bool(self._moves)

    # ---- requests

    def requested(self, cause: str) -> None:
        """Note that a request to move partitions goes to the core. Its moves are one trace."""
        if cause:
            self._requests[cause] = _Request(self._clock.wall_us())

    def answered(self, cause: str) -> None:
        """Note that a request has its answer. The trace goes on until its moves are done."""
        request = self._requests.pop(cause, None)
        if request is not None and request.trace is not None:
            request.trace.is_awaited = False
            self._end_if_done(request.trace)

    def traceparent_of(self, cause: str) -> str:
        """The traceparent for effects with this cause, of a request or of a move; empty if there is no
        move."""
        request = self._requests.get(cause)
        if request is None:
            return traceparent_within(cause)
        return "" if request.trace is None else request.trace.root.traceparent

    # ---- the znodes of moves

    def before(self, state: ClusterState, event: ev.Event) -> None:
        """Note the moves in this event. Called before the core takes it."""
        if not self._telemetry.enabled:
            return
        match event:
            case ev.Elected() if state.role is Role.CAMPAIGNING:
                self._is_active = True
                topics = {topic.name: topic for topic in event.snapshot.topics}
                self._take_over(event.snapshot.admin.reassignments, topics)
            case ev.AdminChanged() | ev.TopicsRead():
                if moves := event.admin.reassignments:
                    self._note(moves, state.topics)
            case _:
                pass

    def _take_over(
        self, moves: Mapping[TopicPartition, ev.StoredReassignment | None], topics: Mapping[str, ev.Topic]
    ) -> None:
        traces: dict[str, _Trace] = {}
        self._note(moves, topics)
        for name, znode in moves.items():
            if znode is None or not znode.original or len(self._moves) >= _MOVES_MAX:
                continue
            traceparent = self._traceparent_of(name, znode, topics)
            trace = traces.get(traceparent)
            if trace is None:
                trace = traces[traceparent] = self._new_trace(traceparent, self._clock.wall_us())
                trace.root.set("carried_on", True)
            self._add(name, trace, znode.target, znode.original, _Stage.CATCH_UP)

    def _note(
        self, moves: Mapping[TopicPartition, ev.StoredReassignment | None], topics: Mapping[str, ev.Topic]
    ) -> None:
        for name, znode in moves.items():
            self._by_hand.pop(name, None)
            if znode is not None and not znode.original and len(self._by_hand) < _MOVES_MAX:
                self._by_hand[name] = self._traceparent_of(name, znode, topics)
            move = self._moves.get(name)
            if znode is None and move is not None and move.stage in (_Stage.BEGIN, _Stage.CATCH_UP):
                # An operator has deleted the znode of the move.
                move.stage = _Stage.CATCH_UP
                self._end_stage(move)
                self._done(move)

    def _traceparent_of(
        self, name: TopicPartition, znode: ev.StoredReassignment, topics: Mapping[str, ev.Topic]
    ) -> str:
        if is_root(znode.traceparent):
            return znode.traceparent
        topic = topics.get(name.topic)
        topic_id = "" if topic is None else topic.topic_id
        return root_traceparent(
            span_kinds.REASSIGNMENT, self._cluster_id, topic_id, name.partition, znode.czxid
        )

    # ---- writes

    def marked(self, effect: StoreWrites) -> StoreWrites:
        """The same writes with the traceparents of the moves that begin with them."""
        if not self._is_active or not _is_about_moves(effect):
            return effect
        writes: list[Write] = []
        for write in effect.writes:
            if isinstance(write, ReassignmentWrite):
                traceparent = self._beginning(effect, write)
                writes.append(replace(write, traceparent=traceparent))
            else:
                if isinstance(write, ReassignmentDone):
                    self._switching(effect, write)
                writes.append(write)
        return replace(effect, writes=tuple(writes))

    def _beginning(self, effect: StoreWrites, write: ReassignmentWrite) -> str:
        move = self._moves.get(write.name)
        if move is None and len(self._moves) >= _MOVES_MAX:
            return ""
        if move is None or move.target != write.target:
            if move is not None:
                self._done(move)
            trace = self._trace_for(effect.cause, self._by_hand.get(write.name, ""))
            move = self._add(write.name, trace, write.target, write.original, _Stage.BEGIN)
        self._writes(move, effect)
        return move.trace.root.traceparent

    def _trace_for(self, cause: str, by_hand: str) -> _Trace:
        request = self._requests.get(cause)
        if request is None:
            return self._new_trace(by_hand or new_root_traceparent(), self._clock.wall_us())
        if request.trace is None:
            request.trace = self._new_trace(new_root_traceparent(), request.began_us)
            request.trace.is_awaited = True
        return request.trace

    def _switching(self, effect: StoreWrites, write: ReassignmentDone) -> None:
        move = self._moves.get(write.name)
        if move is None:
            return
        if move.stage is _Stage.CATCH_UP:
            self._end_stage(move)
        move.stage = _Stage.SWITCH
        self._writes(move, effect)

    def _writes(self, move: _Move, effect: StoreWrites) -> None:
        move.store_id = effect.store_id
        self._written.setdefault(effect.store_id, []).append(move)

    def stored(self, store_id: int, at_us: int, *, is_committed: bool) -> None:
        """Note the outcome of writes at this time. The core repeats refused writes."""
        for move in self._written.pop(store_id, ()):
            if not is_committed or self._moves.get(move.name) is not move or move.store_id != store_id:
                continue
            if move.stage is _Stage.BEGIN:
                self._end_stage(move, at_us)
                move.stage = _Stage.CATCH_UP
            elif move.stage is _Stage.SWITCH:
                self._end_stage(move, at_us)
                move.stage = _Stage.STOP
                self._switched.append(move)

    # ---- messages to brokers

    def sends(self, effect: SendLeaderAndIsr | SendStopReplica) -> str:
        """Note a message to a broker. If it follows from a move that was just written, return the cause by
        which it joins the trace, else an empty text."""
        life = effect.broker_id, effect.broker_epoch
        for move in self._switched:
            move.awaited[life] = effect.sequence
            self._awaiting.setdefault(life, deque()).append((effect.sequence, move))
        # A multi has moves of one topic, which are normally one trace.
        return cause_within(self._switched[0].trace.root.traceparent) if self._switched else ""

    def acknowledged(self, life: Life, sequence: int) -> None:
        """Note that a broker has acknowledged everything up to a sequence."""
        waiting = self._awaiting.get(life)
        while waiting and waiting[0][0] <= sequence:
            _, move = waiting.popleft()
            if move.awaited.get(life, sequence + 1) <= sequence:
                del move.awaited[life]
                self._perhaps_done.append(move)

    def settle(self, is_live: Callable[[Life], bool]) -> None:
        """End the moves that are done, after the core has taken an event. Stop waiting for brokers that are
        not live."""
        for life in [life for life in self._awaiting if not is_live(life)]:
            for _, move in self._awaiting.pop(life):
                move.awaited.pop(life, None)
                self._perhaps_done.append(move)
        candidates, self._switched, self._perhaps_done = [*self._switched, *self._perhaps_done], [], []
        for move in candidates:
            if not move.awaited and self._moves.get(move.name) is move:
                self._end_stage(move)
                self._done(move)

    def finish_all(self) -> None:
        """End all spans of this controller, which is no longer active, or ends. The next one continues the
        traces."""
        self._is_active = False
        for move in list(self._moves.values()):
            if move.stage is _Stage.CATCH_UP:
                self._end_stage(move)
            self._done(move)
        for cause in [cause for cause, request in self._requests.items() if request.trace is not None]:
            self.answered(cause)
        self._by_hand.clear()
        self._written.clear()
        self._awaiting.clear()
        self._switched, self._perhaps_done = [], []

    # ---- spans

    def _new_trace(self, traceparent: str, began_us: int) -> _Trace:
        root = self._telemetry.root(span_kinds.REASSIGNMENT, traceparent, start_time_us=began_us)
        return _Trace(root, began_us)

    def _add(
        self,
        name: TopicPartition,
        trace: _Trace,
        target: tuple[int, ...],
        original: tuple[int, ...],
        stage: _Stage,
    ) -> _Move:
        is_named = trace.moves < SAMPLE
        if is_named:
            trace.sample[name] = target
        trace.moves += 1
        trace.open += 1
        began_us = trace.began_us if stage is _Stage.BEGIN else self._clock.wall_us()
        move = self._moves[name] = _Move(name, trace, target, original, stage, began_us, is_named)
        return move

    def _end_stage(self, move: _Move, at_us: int | None = None) -> None:
        """End a stage of a move, now or at this time, and begin the next one."""
        began_us, move.began_us = move.began_us, self._clock.wall_us() if at_us is None else at_us
        if not move.is_named:
            return
        span = self._telemetry.span(
            move.stage.value,
            parent=move.trace.root.traceparent,
            start_time_us=began_us,
            attributes={
                "partition": f"{move.name.topic}-{move.name.partition}",
                "original": _listed(move.original),
                "target": _listed(move.target),
            },
        )
        span.end(move.began_us)

    def _done(self, move: _Move) -> None:
        del self._moves[move.name]
        move.trace.open -= 1
        self._end_if_done(move.trace)

    def _end_if_done(self, trace: _Trace) -> None:
        if trace.open or trace.is_awaited:
            return
        trace.root.set("partition_count", trace.moves)
        if trace.sample:
            trace.root.set("partition_sample", sample_of(trace.sample))
            moves = (f"{sample_of([name])} to {_listed(to)}" for name, to in trace.sample.items())
            trace.root.set("move_sample", "; ".join(moves))
        trace.root.end()


def _is_about_moves(effect: StoreWrites) -> bool:
    return any(isinstance(write, ReassignmentWrite | ReassignmentDone) for write in effect.writes)


def _listed(broker_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, broker_ids))
