"""Where the time of one trace went, as one sentence:
`unavailable 412 ms: detect 180, elect 35, fan-out 20, first commit 177`.

The parts follow one another and sum up to the whole: each ends where the last span of its step ended, and is
what that added. A step that left no span is said to be unknown, and its time is the next part's; where the
first or the last one is unknown, the whole is no more than a lower bound.

A leader that was sent nothing was not unavailable. That time belongs to no part, and is told behind them; the
time in which a producer waited is no such time, though the leader had not heard of it yet.

A failover begins with the break as the controller knows it, or as a producer felt it before: one that waited
for an acknowledgement of a broker that stood still knows when that was, of which the end of the broker's
session says nothing. Clocks of several machines are taken for one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from hightide_runtime.telemetry import span_kinds as kinds

from hightide_local.traces.span_files import SpanRecord
from hightide_local.traces.trace_lookup import Trace


@dataclass(frozen=True, slots=True)
class Part:
    """One step, with what it added to the whole in milliseconds; None where it left no span."""

    name: str
    ms: float | None


@dataclass(frozen=True, slots=True)
class Account:
    """What became of one trace. `is_least`: it took at least so long, the end of it is not known."""

    what: str
    start_us: int
    end_us: int
    parts: tuple[Part, ...]
    is_least: bool
    waited_ms: float | None = None
    """The longest that a client waited for it, where clients trace."""
    idle_ms: float = 0.0
    """How long, before the last part, a new leader had nothing to commit; no part counts it."""

    @property
    def took_ms(self) -> float:
        """From the beginning to the end of the last part that is known, without the time that was idle."""
        return (self.end_us - self.start_us) / 1000 - self.idle_ms

    @property
    def sentence(self) -> str:
        """All of it, in whole milliseconds that sum up."""
        told, at_ms, shown_ms = [], 0.0, 0
        for part in self.parts:
            if part.ms is None:
                told.append(f"{part.name} unknown")
                continue
            at_ms += part.ms
            told.append(f"{part.name} {round(at_ms) - shown_ms}")
            shown_ms = round(at_ms)
        least = "at least " if self.is_least else ""
        idle = f" (after {round(self.idle_ms)} ms without records)" if round(self.idle_ms) else ""
        return f"{self.what} {least}{shown_ms} ms: {', '.join(told)}{idle}"


@dataclass(frozen=True, slots=True)
class _End:
    """When a step ended, and for how long before that there was nothing to do."""

    at_us: int
    idle_us: int = 0


_EndOf: TypeAlias = Callable[[Trace, int], _End | None]
"""When a step of a trace ended; None where it left no span. It is told when the step before it did, in us."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What a part is called, and what ends it. Where an optional one left no span, all is well: nobody had to
    move, or nothing was there to be stopped."""

    name: str
    end_of: _EndOf
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class _Story:
    """How a kind of trace is described: the headline, and one step after another."""

    what: str
    steps: tuple[_Step, ...]


def account_of(trace: Trace) -> Account | None:
    """Account for a trace; None for a kind that has no steps, or where none of them has left a span."""
    story = _STORIES.get(trace.kind)
    if story is None:
        return None
    start_us, is_start_known = _beginning_of(trace)
    at_us, idle_us = start_us, 0
    parts: list[Part] = []
    for step in story.steps:
        end = step.end_of(trace, at_us)
        if end is None:
            if not step.is_optional:
                parts.append(Part(step.name, None))
        elif not parts and not is_start_known:
            # What it took is not known, so that the whole counts from its end.
            parts.append(Part(step.name, None))
            start_us = at_us = end.at_us
        else:
            parts.append(Part(step.name, max(0, end.at_us - end.idle_us - at_us) / 1000))
            at_us = max(at_us, end.at_us)
            idle_us += end.idle_us
    if not any(part.ms is not None for part in parts):
        return None
    return Account(
        what=_HANDOVER if trace.root.attributes.get("reason") == _ORDERLY else story.what,
        start_us=start_us,
        end_us=at_us,
        parts=tuple(parts),
        is_least=parts[-1].ms is None or parts[0].ms is None,
        waited_ms=max((span.duration_us / 1000 for span in trace.spans if is_wait(span)), default=None),
        idle_ms=idle_us / 1000,
    )


def is_wait(span: SpanRecord) -> bool:
    """Whether a client ended this span because it had to wait for a leader change."""
    return span.name.partition(" ")[0] in (kinds.SEND, kinds.POLL) and span.service == kinds.CLIENT


# ---- where it begins

_HANDOVER: Final = "handed over in"
_ORDERLY: Final = "controlled_shutdown"
"""A broker that asks for it leads on until it is told, so that nothing is unavailable all that time."""
_SILENT: Final = "session_ended"
"""The broker was silent for an unknown time until its session ended."""
_FELT_WITHIN_US: Final = 120_000_000
"""A producer that waited for longer than that before the break waited for something else."""


def _beginning_of(trace: Trace) -> tuple[int, bool]:
    """When what the trace is about began, in us, and whether it may not have begun before."""
    root = trace.root
    start_us = root.start_us if root.name == trace.kind else _first_of_services(trace)
    if root.attributes.get("carried_on"):
        # The root of who began it may have died with its process, but not the steps that were done by then.
        start_us = min(start_us, _first_of_services(trace))
    if trace.kind != kinds.FAILOVER:
        return start_us, True
    felt_us = _first_felt(trace, start_us)
    return min(start_us, felt_us), felt_us < start_us or root.attributes.get("reason") != _SILENT


def _first_of_services(trace: Trace) -> int:
    """Where the root was not written: what clients felt may have begun before it was noticed."""
    began = (span.start_us for span in trace.spans if span.service != kinds.CLIENT)
    return min(began, default=trace.start_us)


def _first_felt(trace: Trace, start_us: int) -> int:
    """Since when a producer waited. A consumer's long poll may have begun before anything broke."""
    felt = (span.start_us for span in _sends(trace) if span.start_us > start_us - _FELT_WITHIN_US)
    return min(felt, default=start_us)


def _sends(trace: Trace) -> list[SpanRecord]:
    return [span for span in trace.spans if is_wait(span) and span.name.partition(" ")[0] == kinds.SEND]


# ---- where its steps end


def _last(*names: str) -> _EndOf:
    """The end of the last span with one of these names."""

    def end_of(trace: Trace, _: int) -> _End | None:
        ended = [span.end_us for name in names for span in trace.named(name)]
        return _End(max(ended)) if ended else None

    return end_of


def _first_acted(trace: Trace, _: int) -> _End | None:
    """When the controller began to act: on the first broker, where more were lost while it did."""
    acted = [span.end_us for span in trace.named(kinds.BROKER_WATCHER_TRIGGERED)]
    return _End(min(acted)) if acted else _last(kinds.BROKER_DOWN)(trace, 0)


def _last_elected(trace: Trace, _: int) -> _End | None:
    """When the last new leader stood in ZooKeeper. Multis of what only followed may go on while it is told
    already."""
    stored = [span.end_us for span in trace.named(kinds.LEADERSHIP_CHANGE)]
    if not stored:
        return None
    by_id = {span.span_id: span for span in trace.spans}
    last = max(trace.named(kinds.BECOME_LEADER), key=lambda span: span.end_us, default=None)
    told = None if last is None else by_id.get(last.parent_id)
    if told is None or told.name != kinds.INFORM_BROKER:
        return _End(max(stored))
    return _End(min(max(stored), told.start_us))


def _last_commit(trace: Trace, led_us: int) -> _End | None:
    """When the new leader that took longest to commit did so, and how much of that time it had nothing to
    commit. Of each leader only the time counts in which there was something."""
    ended = [_End(span.end_us, _idle_us(trace, span, led_us)) for span in trace.named(kinds.FIRST_COMMIT)]
    return max(ended, key=lambda end: end.at_us - end.idle_us, default=None)


def _idle_us(trace: Trace, commit: SpanRecord, led_us: int) -> int:
    """How long after all were led a leader waited for its first record, while no producer waited either."""
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
