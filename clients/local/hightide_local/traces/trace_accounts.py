"""Divides the time of one trace among its steps, as one sentence:
`unavailable 412 ms: detect 180, elect 35, fan-out 20, first commit 177`.

The parts follow one another, and their sum is the whole: a part ends with the last span of its step, and is
the time since the end of the part before. A step without a span is unknown, and its time belongs to the next
part. If the first or the last part is unknown, the whole is a lower bound.

A leader that got no records was idle, not unavailable. This time belongs to no part, and the sentence ends
with it. Time in which a producer waited is not idle, even if the leader did not know of the producer yet.

A failover begins with the failure that the controller noticed, or earlier, with the wait of a producer. If a
broker hangs, only a producer that waits for an acknowledgement knows since when; the end of the broker's
session does not show it. The clocks of several machines are assumed to agree.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from hightide_runtime.telemetry import span_kinds as kinds

from hightide_local.traces.span_files import SpanRecord
from hightide_local.traces.trace_lookup import Trace


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step with its time in milliseconds; None if it has no span."""

    name: str
    ms: float | None


@dataclass(frozen=True, slots=True)
class TraceAccount:
    """The times of one trace. `is_least` means that the whole is a lower bound, since its start or end is not
    known."""

    what: str
    start_us: int
    end_us: int
    parts: tuple[TraceStep, ...]
    is_least: bool
    waited_ms: float | None = None
    """The longest wait of a client; None if no client exports spans."""
    idle_ms: float = 0.0
    """The time in which a new leader had no records to commit. It belongs to no part."""

    @property
    def took_ms(self) -> float:
        """The time from the beginning to the end of the last known part, without idle time."""
        return (self.end_us - self.start_us) / 1000 - self.idle_ms

    @property
    def sentence(self) -> str:
        """The sentence, in whole milliseconds whose sum is exact."""
        texts, at_ms, shown_ms = [], 0.0, 0
        for part in self.parts:
            if part.ms is None:
                texts.append(f"{part.name} unknown")
                continue
            at_ms += part.ms
            texts.append(f"{part.name} {round(at_ms) - shown_ms}")
            shown_ms = round(at_ms)
        least = "at least " if self.is_least else ""
        idle = f" (after {round(self.idle_ms)} ms without records)" if round(self.idle_ms) else ""
        return f"{self.what} {least}{shown_ms} ms: {', '.join(texts)}{idle}"


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a step, and the idle time before it."""

    at_us: int
    idle_us: int = 0


_EndOf: TypeAlias = Callable[[Trace, int], _End | None]
"""Finds the end of a step in a trace; None if it has no span. The second argument is the end of the step
before, in microseconds."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A step: the name of its part, and the function that finds its end. An optional step may have no span,
    because there was nothing to do."""

    name: str
    end_of: _EndOf
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class _Story:
    """The description of a kind of traces: the headline and the steps, in their order."""

    what: str
    steps: tuple[_Step, ...]


def account_of(trace: Trace) -> TraceAccount | None:
    """The account of a trace; None if its kind has no steps, or if none of them has a span. `hightide trace`
    and the failure report call it."""
    story = _STORIES.get(trace.kind)
    if story is None:
        return None
    start_us, is_start_known = _beginning_of(trace)
    at_us, idle_us = start_us, 0
    parts: list[TraceStep] = []
    for step in story.steps:
        end = step.end_of(trace, at_us)
        if end is None:
            if not step.is_optional:
                parts.append(TraceStep(step.name, None))
        elif not parts and not is_start_known:
            # The start of the first step is not known, so the whole counts from its end.
            parts.append(TraceStep(step.name, None))
            start_us = at_us = end.at_us
        else:
            parts.append(TraceStep(step.name, max(0, end.at_us - end.idle_us - at_us) / 1000))
            at_us = max(at_us, end.at_us)
            idle_us += end.idle_us
    if not any(part.ms is not None for part in parts):
        return None
    return TraceAccount(
        what=_HANDOVER if trace.root.attributes.get("reason") == _ORDERLY else story.what,
        start_us=start_us,
        end_us=at_us,
        parts=tuple(parts),
        is_least=parts[-1].ms is None or parts[0].ms is None,
        waited_ms=max((span.duration_us / 1000 for span in trace.spans if is_wait(span)), default=None),
        idle_ms=idle_us / 1000,
    )


def is_wait(span: SpanRecord) -> bool:
    """Whether this is the span of a client that waited for a new leader."""
    return span.name.partition(" ")[0] in (kinds.SEND, kinds.POLL) and span.service == kinds.CLIENT


# ---- where it begins

_HANDOVER: Final = "handed over in"
_ORDERLY: Final = "controlled_shutdown"
"""A broker that shuts down leads until its successors do, so its partitions stay available."""
_SILENT: Final = frozenset({"pings_unanswered", "session_ended"})
"""The broker was silent for an unknown time before that was noticed."""
_FELT_WITHIN_US: Final = 120_000_000
"""A wait of a producer that began earlier than this before the failure had another cause."""


def _beginning_of(trace: Trace) -> tuple[int, bool]:
    """The beginning of a trace in microseconds, and whether it is certain that it did not begin earlier."""
    root = trace.root
    start_us = root.start_us if root.name == trace.kind else _first_of_services(trace)
    if root.attributes.get("carried_on"):
        # The root of the process that began it may be missing, but its finished steps are there.
        start_us = min(start_us, _first_of_services(trace))
    if trace.kind != kinds.FAILOVER:
        return start_us, True
    felt_us = _first_felt(trace, start_us)
    return min(start_us, felt_us), felt_us < start_us or root.attributes.get("reason") not in _SILENT


def _first_of_services(trace: Trace) -> int:
    """The start of the first span of a service. Spans of clients may begin before the failure was noticed."""
    began = (span.start_us for span in trace.spans if span.service != kinds.CLIENT)
    return min(began, default=trace.start_us)


def _first_felt(trace: Trace, start_us: int) -> int:
    """The time since which a producer waited. Consumers do not count, since a long poll may begin before the
    failure."""
    felt = (span.start_us for span in _sends(trace) if span.start_us > start_us - _FELT_WITHIN_US)
    return min(felt, default=start_us)


def _sends(trace: Trace) -> list[SpanRecord]:
    return [span for span in trace.spans if is_wait(span) and span.name.partition(" ")[0] == kinds.SEND]


# ---- where its steps end


def _last(*names: str) -> _EndOf:
    """A function that finds the end of the last span with one of these names."""

    def end_of(trace: Trace, _: int) -> _End | None:
        ended = [span.end_us for name in names for span in trace.named(name)]
        return _End(max(ended)) if ended else None

    return end_of


def _first_acted(trace: Trace, _: int) -> _End | None:
    """The time at which the controller began to act, on the first broker if it lost several."""
    acted = [span.end_us for span in trace.named(kinds.BROKER_WATCHER_TRIGGERED)]
    return _End(min(acted)) if acted else _last(kinds.BROKER_DOWN)(trace, 0)


def _last_elected(trace: Trace, _: int) -> _End | None:
    """The time at which the last new leader was in ZooKeeper. Multis with other changes may still be under
    way when the leader is informed."""
    stored = [span.end_us for span in trace.named(kinds.LEADERSHIP_CHANGE)]
    if not stored:
        return None
    by_id = {span.span_id: span for span in trace.spans}
    last = max(trace.named(kinds.BECOME_LEADER), key=lambda span: span.end_us, default=None)
    informed = None if last is None else by_id.get(last.parent_id)
    if informed is None or informed.name != kinds.INFORM_BROKER:
        return _End(max(stored))
    return _End(min(max(stored), informed.start_us))


def _last_commit(trace: Trace, led_us: int) -> _End | None:
    """The first commit of the new leader that took longest, and its idle time. Only the time in which a
    leader had records to commit counts."""
    ended = [_End(span.end_us, _idle_us(trace, span, led_us)) for span in trace.named(kinds.FIRST_COMMIT)]
    return max(ended, key=lambda end: end.at_us - end.idle_us, default=None)


def _idle_us(trace: Trace, commit: SpanRecord, led_us: int) -> int:
    """The time after `led_us` in which a leader waited for its first record and no producer waited, in
    microseconds."""
    waited_ms = commit.attributes.get("waited_for_traffic_ms")
    connects = (span for span in trace.named(kinds.FOLLOWERS_CONNECT) if span.span_id == commit.parent_id)
    connect = next(connects, None)
    if connect is None or not isinstance(waited_ms, int | float):
        return 0
    until_us = min(connect.start_us + int(waited_ms * 1000), commit.end_us)
    at_us, idle_us = max(connect.start_us, led_us), 0
    for send in sorted(_sends(trace), key=lambda span: span.start_us):
        idle_us += max(0, min(send.start_us, until_us) - at_us)
        at_us = max(at_us, send.end_us)
    return idle_us + max(0, until_us - at_us)


_STORIES: Final[Mapping[str, _Story]] = {
    kinds.FAILOVER: _Story(
        "unavailable",
        (
            _Step("detect", _first_acted),
            _Step("elect", _last_elected),
            _Step("fan-out", _last(kinds.BECOME_LEADER)),
            _Step("first commit", _last_commit),
        ),
    ),
    kinds.CONTROLLER_FAILOVER: _Story(
        "controller took over in",
        (
            _Step("detect", _last(kinds.CONTROLLER_DETECTION)),
            _Step("elect", _last(kinds.CONTROLLER_ELECTION)),
            _Step("load", _last(kinds.CONTROLLER_LOAD)),
            _Step("adopt", _last(kinds.CONTROLLER_ADOPT), is_optional=True),
            _Step("fan-out", _last(kinds.CONTROLLER_FAN_OUT)),
        ),
    ),
    kinds.COORDINATOR_FAILOVER: _Story(
        "coordinator took over in",
        (
            _Step("detect", _last(kinds.COORDINATOR_DETECTION)),
            _Step("elect", _last(kinds.COORDINATOR_ELECTION)),
            _Step("load", _last(kinds.COORDINATOR_LOAD)),
            _Step("recover", _last(kinds.COORDINATOR_RECOVERY)),
        ),
    ),
    kinds.GROUP_REBALANCE: _Story(
        "rebalanced in",
        (
            _Step("stop", _last(kinds.REBALANCE_STOP), is_optional=True),
            _Step("commit", _last(kinds.REBALANCE_COMMIT), is_optional=True),
            _Step("owners", _last(kinds.REBALANCE_OWNERS)),
            _Step("start", _last(kinds.REBALANCE_START)),
        ),
    ),
    kinds.STATE_CHANGE: _Story(
        "state change carried out in",
        (
            _Step("receive", _last(kinds.STATE_CHANGE_RECEIVED)),
            _Step("obey", _last(kinds.STATE_CHANGE_COMPLETED)),
        ),
    ),
    kinds.REASSIGNMENT: _Story(
        "moved in",
        (
            _Step("begin", _last(kinds.MOVE_BEGIN)),
            _Step("catch up", _last(kinds.MOVE_CATCH_UP)),
            _Step("switch", _last(kinds.MOVE_SWITCH)),
            _Step("stop old replicas", _last(kinds.MOVE_STOP)),
        ),
    ),
    kinds.TOPIC_CREATION: _Story(
        "created in",
        (
            _Step("znodes", _last(kinds.TOPIC_ZNODES)),
            _Step("elect", _last(kinds.ZOOKEEPER_MULTI)),
            _Step("fan-out", _last(kinds.INFORM_BROKER, kinds.BECOME_LEADER)),
        ),
    ),
    kinds.TOPIC_DELETION: _Story(
        "deleted in",
        (
            _Step("znodes", _last(kinds.DELETION_ZNODES)),
            _Step("stop replicas", _last(kinds.DELETION_STOP)),
        ),
    ),
}
