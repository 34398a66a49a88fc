"""One trace laid out for drawing; the page and the PNG draw the same.

Milliseconds count from the zero of the trace's sentence, which for a failover is the break; a client's wait
may have begun before the break was noticed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hightide_local.traces.span_files import SpanRecord
from hightide_local.traces.trace_accounts import TraceAccount, account_of
from hightide_local.traces.trace_lookup import Trace
from hightide_runtime.telemetry import span_kinds

from hightide_cli.trace.waterfall import end_of_interest, in_tree_order, process_of, started_at, title

#: More rows than this nobody reads; the ones left out are counted.
ROWS_MAX: Final = 200
_TICKS_MAX: Final = 8
_LABEL_MAX: Final = 44
_NOTE_MAX: Final = 1_200
#: What is drawn ends a little after what matters; a span that goes on is cut there.
_ROOM: Final = 1.03

#: The steps of V3's "End-to-end latency during a broker failure".
STEPS: Final[dict[str, int]] = {
    span_kinds.BROKER_DOWN: 1,
    span_kinds.BROKER_WATCHER_TRIGGERED: 2,
    span_kinds.LEADERSHIP_CHANGE: 3,
    span_kinds.INFORM_BROKER: 4,
    span_kinds.FOLLOWERS_CONNECT: 5,
    span_kinds.BECOME_FOLLOWER: 6,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One span. `step` is its number in V3, if it has one. `is_cut` means that it goes on beyond the picture.
    `is_beyond` means that it begins there, as with a consumer that comes to a partition much later.
    `is_point` means that it stands for a moment, however long it took to write it."""

    label: str
    step: int | None
    depth: int
    process: int
    start_ms: float
    took_ms: float
    ok: bool
    is_cut: bool
    is_beyond: bool
    is_point: bool
    note: str
    """All that is known of it, one fact on each line."""

    @property
    def is_moment(self) -> bool:
        """Whether it is a point in time, as a first commit is."""
        return self.is_point or self.took_ms < 0.001

    @property
    def took(self) -> str:
        """Its duration, for its bar."""
        if self.is_beyond:
            return f"at {_duration(self.start_ms)} →"
        if self.is_moment:
            return f"at {_duration(self.start_ms)}"
        return _duration(self.took_ms) + (" →" if self.is_cut else "")


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of the account, with its place."""

    name: str
    start_ms: float
    took_ms: float


@dataclass(frozen=True, slots=True)
class Picture:
    """The content of the drawing."""

    title: str
    sentence: str
    facts: str
    processes: tuple[str, ...]
    rows: tuple[Row, ...]
    segments: tuple[Segment, ...]
    begin_ms: float
    end_ms: float
    ticks: tuple[float, ...]
    left_out: int

    def share(self, ms: float) -> float:
        """The place of a moment, from 0 at the left to 1 at the right."""
        return min(1.0, max(0.0, (ms - self.begin_ms) / (self.end_ms - self.begin_ms)))


def picture_of(trace: Trace) -> Picture:
    """Lay a trace out. Called for `trace show --html` and `--png`."""
    account = account_of(trace)
    origin_us = trace.start_us if account is None else account.start_us
    begin_ms = (min(trace.start_us, origin_us) - origin_us) / 1000
    end_ms = begin_ms + max(((end_of_interest(trace, account) - origin_us) / 1000 - begin_ms) * _ROOM, 0.01)
    spans = list(in_tree_order(trace.roots))
    processes: dict[str, int] = {}
    rows = []
    for span, depth in spans[:ROWS_MAX]:
        process = processes.setdefault(process_of(span), len(processes))
        start_ms = (span.start_us - origin_us) / 1000
        rows.append(
            Row(
                label=label_of(span, trace.kind)[:_LABEL_MAX],
                step=STEPS.get(span.name),
                depth=depth,
                process=process,
                start_ms=start_ms,
                took_ms=span.duration_us / 1000,
                ok=span.ok,
                is_cut=start_ms + span.duration_us / 1000 > end_ms,
                is_beyond=start_ms > end_ms,
                is_point=span.name == span_kinds.FIRST_COMMIT,
                note=_note(span, start_ms),
            )
        )
    everybody = {process_of(span) for span, _ in spans}
    count = f"{_counted(len(spans), 'span')} of {_counted(len(everybody), 'process', 'processes')}"
    return Picture(
        title=title(trace),
        sentence="" if account is None else account.sentence,
        facts=" · ".join([started_at(trace), count, f"trace {trace.trace_id}"]),
        processes=tuple(processes),
        rows=tuple(rows),
        segments=() if account is None else tuple(_segments(account)),
        begin_ms=begin_ms,
        end_ms=end_ms,
        ticks=_ticks(begin_ms, end_ms),
        left_out=max(0, len(spans) - ROWS_MAX),
    )


def label_of(span: SpanRecord, kind: str) -> str:
    """Return the name of a span as a person reads it, with the part that distinguishes it from its
    neighbours."""
    if span.service == span_kinds.CLIENT:
        return span.name
    name = span.name.removeprefix(f"{kind}.").replace("_", " ").replace(".", ": ")
    attributes = span.attributes
    if span.name == span_kinds.INFORM_BROKER and "broker_id" in attributes:
        return f"{name} {attributes['broker_id']}"
    if span.name == span_kinds.GROUP_REBALANCE and "group" in attributes:
        return f"{name} of {attributes['group']}"
    if "partition" in attributes:
        return f"{name} ({attributes['partition']})"
    count = attributes.get("partition_count", attributes.get("partitions"))
    if isinstance(count, int) and span.name not in span_kinds.TRACE_KINDS:
        return f"{name} ({_counted(count, 'partition')})"
    return name


def _segments(account: TraceAccount) -> Iterator[Segment]:
    at_ms = 0.0
    for part in account.parts:
        if part is account.parts[-1]:
            at_ms += account.idle_ms
        if part.ms is not None:
            yield Segment(part.name, at_ms, part.ms)
            at_ms += part.ms


def _ticks(begin_ms: float, end_ms: float) -> tuple[float, ...]:
    """Round numbers, one of them 0."""
    power = 10.0**-3
    while True:
        for step in (power, 2 * power, 5 * power):
            if (end_ms - begin_ms) / step <= _TICKS_MAX:
                first, last = math.ceil(begin_ms / step), math.floor(end_ms / step)
                return tuple(round(at * step, 6) for at in range(first, last + 1))
        power *= 10


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def _note(span: SpanRecord, start_ms: float) -> str:
    facts = [
        f"{span.name} · {process_of(span)}",
        f"at {_duration(start_ms)}, took {_duration(span.duration_us / 1000)}",
        *([] if span.ok else ["FAILED"]),
        *(f"{name}: {value}" for name, value in span.attributes.items() if value != ""),
    ]
    return "\n".join(facts)[:_NOTE_MAX]


def _duration(ms: float) -> str:
    size = abs(ms)
    if size >= 10_000:
        return f"{ms / 1000:,.1f} s"
    return f"{ms:,.0f} ms" if size >= 100 else f"{ms:.1f} ms" if size >= 1 else f"{ms:.2f} ms"
