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

from dataclasses import dataclass
from typing import Final

from hightide_runtime import span_kinds as kinds

from hightide_local.span_files import SpanRecord
from hightide_local.traces import Trace


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
class _Steps:
    """How a kind of trace is told: the headline, and which spans end which part."""

    what: str
    parts: tuple[tuple[str, tuple[str, ...]], ...]


_NOTICED: Final = (kinds.BROKER_DOWN, kinds.BROKER_WATCHER_TRIGGERED)
_FAILOVER: Final = (
    ("detect", _NOTICED),
    ("elect", (kinds.LEADERSHIP_CHANGE,)),
    ("fan-out", (kinds.BECOME_LEADER,)),
    ("first commit", (kinds.FIRST_COMMIT,)),
)
_HANDOVER: Final = "handed over in"
_STEPS: Final[dict[str, _Steps]] = {
    kinds.FAILOVER: _Steps("unavailable", _FAILOVER),
    kinds.CONTROLLER_FAILOVER: _Steps(
        "controller took over in",
        (
            ("detect", (kinds.CONTROLLER_DETECTION,)),
            ("elect", (kinds.CONTROLLER_ELECTION,)),
            ("load", (kinds.CONTROLLER_LOAD,)),
            ("adopt", (kinds.CONTROLLER_ADOPT,)),
            ("fan-out", (kinds.CONTROLLER_FAN_OUT,)),
        ),
    ),
    kinds.COORDINATOR_FAILOVER: _Steps(
        "coordinator took over in",
        (
            ("detect", (kinds.COORDINATOR_DETECTION,)),
            ("elect", (kinds.COORDINATOR_ELECTION,)),
            ("load", (kinds.COORDINATOR_LOAD,)),
            ("recover", (kinds.COORDINATOR_RECOVERY,)),
        ),
    ),
    kinds.GROUP_REBALANCE: _Steps(
        "rebalanced in",
        (
            ("stop", (kinds.REBALANCE_STOP,)),
            ("commit", (kinds.REBALANCE_COMMIT,)),
            ("owners", (kinds.REBALANCE_OWNERS,)),
            ("start", (kinds.REBALANCE_START,)),
        ),
    ),
    kinds.REASSIGNMENT: _Steps(
        "moved in",
        (
            ("begin", (kinds.MOVE_BEGIN,)),
            ("catch up", (kinds.MOVE_CATCH_UP,)),
            ("switch", (kinds.MOVE_SWITCH,)),
            ("stop old replicas", (kinds.MOVE_STOP,)),
        ),
    ),
    kinds.TOPIC_CREATION: _Steps(
        "created in",
        (
            ("znodes", (kinds.TOPIC_ZNODES,)),
            ("elect", (kinds.ZOOKEEPER_MULTI,)),
            ("fan-out", (kinds.INFORM_BROKER, kinds.BECOME_LEADER)),
        ),
    ),
    kinds.TOPIC_DELETION: _Steps(
        "deleted in",
        (("znodes", (kinds.DELETION_ZNODES,)), ("stop replicas", (kinds.DELETION_STOP,))),
    ),
}
# A broker that asks for it leads on until it is told, so that nothing is unavailable all that time.
_ORDERLY: Final = "controlled_shutdown"
# Until its session ended the broker was silent for nobody knows how long.
_SILENT: Final = "session_ended"
_FELT_WITHIN_US: Final = 120_000_000
# Steps without which nothing is amiss: nobody has to move, or nothing was there to be stopped.
_OPTIONAL: Final = frozenset({"stop", "commit", "adopt"})


def account_of(trace: Trace) -> Account | None:
    """Account for a trace; None for a kind that has no steps, or where none of them has left a span."""
    steps = _STEPS.get(trace.kind)
    if steps is None:
        return None
    root = trace.root
    is_orderly = root.attributes.get("reason") == _ORDERLY
    start_us = root.start_us if root.name == trace.kind else _first_of_services(trace)
    if root.attributes.get("carried_on"):
        # The root of who began it may have died with its process, but not the steps that were done by then.
        start_us = min(start_us, _first_of_services(trace))
    felt_us = _first_felt(trace, start_us) if trace.kind == kinds.FAILOVER else start_us
    is_break_known = root.attributes.get("reason") != _SILENT or felt_us < start_us
    start_us = at_us = min(start_us, felt_us)
    parts = []
    idle_us = 0
    for name, spans in steps.parts:
        ended_us = _first_acted_at(trace) if spans == _NOTICED else _end_of(trace, spans)
        if spans == (kinds.FIRST_COMMIT,) and ended_us is not None:
            ended_us, idle_us = _last_commit(trace, at_us)
        if ended_us is not None and spans == (kinds.LEADERSHIP_CHANGE,):
            ended_us = min(ended_us, _last_leader_told_at(trace, ended_us))
        if ended_us is not None and name == "detect" and not is_break_known:
            parts.append(Part(name, None))
            start_us = at_us = ended_us
            continue
        if ended_us is None:
            if name not in _OPTIONAL:
                parts.append(Part(name, None))
            continue
        parts.append(Part(name, max(0, ended_us - idle_us - at_us) / 1000))
        at_us = max(at_us, ended_us)
    if not any(part.ms is not None for part in parts):
        return None
    return Account(
        what=_HANDOVER if is_orderly else steps.what,
        start_us=start_us,
        end_us=at_us,
        parts=tuple(parts),
        is_least=parts[-1].ms is None or parts[0].ms is None,
        waited_ms=max((span.duration_us / 1000 for span in trace.spans if is_wait(span)), default=None),
        idle_ms=idle_us / 1000,
    )


def _last_commit(trace: Trace, led_us: int) -> tuple[int, int]:
    """When the new leader that took longest to commit did so, and how much of that time it had nothing to
    commit. Of each leader only the time counts in which there was something."""
    ended = [(span.end_us, _idle_us(trace, span, led_us)) for span in trace.named(kinds.FIRST_COMMIT)]
    return max(ended, key=lambda each: each[0] - each[1])


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


def _sends(trace: Trace) -> list[SpanRecord]:
    return [span for span in trace.spans if is_wait(span) and span.name.partition(" ")[0] == kinds.SEND]


def is_wait(span: SpanRecord) -> bool:
    """Whether a client ended this span because it had to wait for a leader change."""
    return span.name.partition(" ")[0] in (kinds.SEND, kinds.POLL) and span.service == kinds.CLIENT


def _first_of_services(trace: Trace) -> int:
    """Where the root was not written: what clients felt may have begun before it was noticed."""
    began = (span.start_us for span in trace.spans if span.service != kinds.CLIENT)
    return min(began, default=trace.start_us)


def _last_leader_told_at(trace: Trace, otherwise_us: int) -> int:
    """When the controller began to tell the last new leader; multis of what only followed may go on then."""
    by_id = {span.span_id: span for span in trace.spans}
    last = max(trace.named(kinds.BECOME_LEADER), key=lambda span: span.end_us, default=None)
    told = None if last is None else by_id.get(last.parent_id)
    return otherwise_us if told is None or told.name != kinds.INFORM_BROKER else told.start_us


def _first_felt(trace: Trace, start_us: int) -> int:
    """Since when a producer waited. A consumer's long poll may have begun before anything broke."""
    felt = (span.start_us for span in _sends(trace) if span.start_us > start_us - _FELT_WITHIN_US)
    return min(felt, default=start_us)


def _first_acted_at(trace: Trace) -> int | None:
    """When the controller began to act: on the first broker, where more were lost while it did."""
    acted = [span.end_us for span in trace.named(kinds.BROKER_WATCHER_TRIGGERED)]
    return min(acted, default=None) or _end_of(trace, _NOTICED)


def _end_of(trace: Trace, names: tuple[str, ...]) -> int | None:
    return max((span.end_us for name in names for span in trace.named(name)), default=None)
