"""Reading the spans that services write as JSON lines: `hightide trace show` renders what this finds."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from hightide_runtime import span_kinds, telemetry

_FAILOVER_ROOTS = frozenset(
    {telemetry.FAILOVER, telemetry.CONTROLLER_FAILOVER, telemetry.COORDINATOR_FAILOVER}
)
_FAILOVER_STEPS = tuple(f"{root}." for root in sorted(_FAILOVER_ROOTS))
Attributes: TypeAlias = dict[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One span as written. Times are wall-clock microseconds."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    instance: str
    start_us: int
    end_us: int
    ok: bool = True
    attributes: dict[str, str | int | float | bool] = field(default_factory=dict)

    @property
    def duration_us(self) -> int:
        """How long it took."""
        return self.end_us - self.start_us


@dataclass(frozen=True, slots=True)
class SpanNode:
    """A span with what happened inside it, by start time."""

    span: SpanRecord
    children: tuple["SpanNode", ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace: its roots by start time.

    A root that two processes wrote, since one carried on what the other began, is one span. Spans whose
    parent was not written (its process was killed) hang below it; where it is missing too, they are roots.
    """

    trace_id: str
    roots: tuple[SpanNode, ...]

    @property
    def spans(self) -> list[SpanRecord]:
        """All spans, parents before children."""
        return [node.span for root in self.roots for node in _walk(root)]

    @property
    def start_us(self) -> int:
        """When the first span started."""
        return min(span.start_us for span in self.spans)

    @property
    def end_us(self) -> int:
        """When the last span ended."""
        return max(span.end_us for span in self.spans)

    def named(self, name: str) -> list[SpanRecord]:
        """The spans of one name, by start time."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start_us)


@dataclass(frozen=True, slots=True)
class FailoverSummary:
    """Where the time of one failover went, in milliseconds; None for a step that left no span.

    elect_ms includes zookeeper_ms. all_led_ms is of brokers only, takeover_ms of controllers only; both count
    from detection.
    """

    trace_id: str
    broker_id: int | None
    partitions: int | None
    detect_ms: float | None
    elect_ms: float | None
    zookeeper_ms: float | None
    fan_out_ms: float | None
    first_commit_ms: float | None
    all_led_ms: float | None = None
    takeover_ms: float | None = None
    multis_refused: int = 0
    """Multis that a stale version rolled back, each with all of its partitions."""


def read_spans(directory: Path) -> list[SpanRecord]:
    """All spans in *.jsonl of a directory; a line that is none (a process was killed midway) is skipped."""
    spans = []
    for path in sorted(directory.glob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    spans.append(_span_of(json.loads(line)))
                except (ValueError, KeyError, TypeError):
                    continue
    return spans


def traces_of(spans: list[SpanRecord]) -> list[Trace]:
    """Group spans into traces, the oldest first."""
    by_trace: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    traces = [Trace(trace_id, _trees_of(members)) for trace_id, members in by_trace.items()]
    # Spans that name each other as parents, which nothing of ours writes, have no root and are left out.
    return sorted((trace for trace in traces if trace.roots), key=lambda trace: trace.start_us)


def failovers(directory: Path) -> list[Trace]:
    """The traces of failovers (of brokers, controllers and coordinators), the oldest first.

    A trace counts as one where its root says so, also where the root died with its controller and only steps
    of a failover are left.
    """
    return [
        trace
        for trace in traces_of(read_spans(directory))
        if any(_is_of_failover(root.span.name) for root in trace.roots)
    ]


def summarise_failover(trace: Trace, killed_at_s: float | None = None) -> FailoverSummary:
    """Sum one failover up, from what the controller wrote at the root, or else from the spans of the steps.

    With `killed_at_s` (what LocalCluster.kill returned), detect_ms and first_commit_ms count from there, else
    from the trace's first span. first_commit_ms is the time to the first commit of any new leader.
    """
    origin_us = int(killed_at_s * 1_000_000) if killed_at_s is not None else trace.start_us
    root: Attributes = next(
        (node.span.attributes for node in trace.roots if node.span.name in _FAILOVER_ROOTS), {}
    )
    noticed = (
        trace.named(telemetry.BROKER_DOWN)
        or trace.named(telemetry.BROKER_WATCHER_TRIGGERED)
        or trace.named(span_kinds.CONTROLLER_DETECTION)
        or trace.named(span_kinds.COORDINATOR_DETECTION)
    )
    commits = trace.named(telemetry.FIRST_COMMIT)
    lost = str(root.get("broker_ids", "")).partition(",")[0]
    return FailoverSummary(
        trace_id=trace.trace_id,
        broker_id=int(lost) if lost.isdigit() else None,
        partitions=_whole(root.get("partition_count")),
        detect_ms=_ms(noticed, lambda found: found[0].end_us - origin_us),
        elect_ms=_number(root.get("elect_ms")) or _ms(trace.named(telemetry.LEADERSHIP_CHANGE), _extent_us),
        zookeeper_ms=_number(root.get("zookeeper_ms"))
        or _ms(trace.named(telemetry.ZOOKEEPER_MULTI), _extent_us),
        fan_out_ms=_number(root.get("fan_out_ms")) or _ms(trace.named(telemetry.INFORM_BROKER), _extent_us),
        first_commit_ms=_ms(commits, lambda found: min(span.end_us for span in found) - origin_us),
        all_led_ms=_number(root.get("all_led_ms")),
        takeover_ms=_number(root.get("takeover_ms")),
        multis_refused=sum(
            span.attributes.get("outcome") == "StoreRefused"
            for span in trace.named(telemetry.ZOOKEEPER_MULTI)
        ),
    )


def _is_of_failover(name: str) -> bool:
    return name in _FAILOVER_ROOTS or name.startswith(_FAILOVER_STEPS)


def _extent_us(spans: list[SpanRecord]) -> int:
    """From the start of the first to the end of the last: what they took together, side by side or not."""
    return max(span.end_us for span in spans) - min(span.start_us for span in spans)


def _ms(spans: list[SpanRecord], measure: Callable[[list[SpanRecord]], int]) -> float | None:
    return measure(spans) / 1000 if spans else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _walk(node: SpanNode) -> Iterator[SpanNode]:
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def _trees_of(spans: Iterable[SpanRecord]) -> tuple[SpanNode, ...]:
    by_id: dict[str, SpanRecord] = {}
    for span in spans:
        known = by_id.get(span.span_id)
        by_id[span.span_id] = span if known is None else _merged(known, span)
    root_ids = [span.span_id for span in by_id.values() if not span.parent_id]
    foster_id = root_ids[0] if len(root_ids) == 1 else ""
    children: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in by_id.values():
        is_known = not span.parent_id or span.parent_id in by_id
        children[span.parent_id if is_known else foster_id].append(span)
    return _forest("", children, frozenset())


def _merged(one: SpanRecord, other: SpanRecord) -> SpanRecord:
    """A span that was written twice: from the earlier start to the later end, who ended it later is right."""
    earlier, later = sorted((one, other), key=lambda span: span.end_us)
    return replace(
        later,
        start_us=min(one.start_us, other.start_us),
        ok=one.ok and other.ok,
        attributes={**earlier.attributes, **later.attributes},
    )


def _forest(
    parent_id: str, children: dict[str, list[SpanRecord]], above: frozenset[str]
) -> tuple[SpanNode, ...]:
    ordered = sorted(children.get(parent_id, ()), key=lambda span: (span.start_us, span.end_us))
    return tuple(
        SpanNode(span, _forest(span.span_id, children, above | {span.span_id}))
        for span in ordered
        if span.span_id not in above
    )


def _span_of(fields: Any) -> SpanRecord:
    if not isinstance(fields, dict):
        raise TypeError("a span is a JSON object")
    attributes = fields.get("attributes", {})
    return SpanRecord(
        trace_id=str(fields["trace_id"]),
        span_id=str(fields["span_id"]),
        parent_id=str(fields["parent_id"]),
        name=str(fields["name"]),
        service=str(fields["service"]),
        instance=str(fields["instance"]),
        start_us=int(fields["start_us"]),
        end_us=int(fields["end_us"]),
        ok=bool(fields.get("ok", True)),
        attributes=attributes if isinstance(attributes, dict) else {},
    )
