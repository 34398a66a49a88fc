"""Groups spans into traces as trees, and finds the kind of a trace and the figures of a failover."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hightide_runtime.telemetry import span_kinds

from hightide_local.traces.span_files import Attributes, SpanRecord, read_spans

__all__ = [
    "FailoverSummary",
    "SpanNode",
    "SpanRecord",
    "Trace",
    "failovers",
    "read_spans",
    "summarise_failover",
    "traces_of",
]

FAILOVER_KINDS: Final = frozenset(
    {span_kinds.FAILOVER, span_kinds.CONTROLLER_FAILOVER, span_kinds.COORDINATOR_FAILOVER}
)
_OF_BEGINNING: Final = frozenset(each.name for each in span_kinds.ATTRIBUTES if each.is_of_beginning)
_DEPTH_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class SpanNode:
    """A span with its child spans, by start time."""

    span: SpanRecord
    children: tuple["SpanNode", ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace: its roots by start time.

    A root that two processes wrote, because one continued the work of the other, is one span. A span whose
    parent is missing, because its process was killed, is below the root. If the root is missing, too, it is a
    root.
    """

    trace_id: str
    roots: tuple[SpanNode, ...]

    @property
    def spans(self) -> list[SpanRecord]:
        """All spans, parents before children."""
        return [node.span for root in self.roots for node in _walk(root)]

    @property
    def start_us(self) -> int:
        """The start of the first span."""
        return min(span.start_us for span in self.spans)

    @property
    def end_us(self) -> int:
        """The end of the last span."""
        return max(span.end_us for span in self.spans)

    @property
    def root(self) -> SpanRecord:
        """The main root: the one whose name is a kind of traces, else the first one."""
        tops = [node.span for node in self.roots]
        return next((span for span in tops if span.name in span_kinds.TRACE_KINDS), tops[0])

    @property
    def kind(self) -> str:
        """The kind: one of `span_kinds.TRACE_KINDS`, from the root or, if the root is missing, from the
        steps; else the first word of the root's name, as for a trace of a client alone."""
        root = self.root
        if root.name in span_kinds.TRACE_KINDS:
            return root.name
        steps = {span.name.partition(".")[0] for span in self.spans if "." in span.name}
        return next((kind for kind in span_kinds.TRACE_KINDS if kind in steps), root.name.partition(" ")[0])

    def named(self, name: str) -> list[SpanRecord]:
        """The spans with this name, by start time."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start_us)


@dataclass(frozen=True, slots=True)
class FailoverSummary:
    """The times of one failover in milliseconds; None for a step without a span.

    elect_ms includes zookeeper_ms. all_led_ms is only for failovers of brokers, takeover_ms only for those of
    controllers. Both count from detection.
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
    """The number of multis that a stale version rolled back. Each has many partitions."""


def traces_of(spans: Iterable[SpanRecord]) -> list[Trace]:
    """Group spans into traces, the oldest first."""
    by_trace: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    traces = [Trace(trace_id, _trees_of(members)) for trace_id, members in by_trace.items()]
    # Spans in a cycle of parents, which no service writes, have no root and are left out.
    return sorted((trace for trace in traces if trace.roots), key=lambda trace: trace.start_us)


def failovers(directory: Path) -> list[Trace]:
    """The traces of failovers (of brokers, controllers and coordinators), the oldest first. `Trace.kind`
    decides."""
    return [trace for trace in traces_of(read_spans(directory)) if trace.kind in FAILOVER_KINDS]


def summarise_failover(trace: Trace, killed_at_s: float | None = None) -> FailoverSummary:
    """Compute the times of one failover, from the attributes of the root, else from the spans of the steps.

    With `killed_at_s`, the result of LocalCluster.kill, detect_ms and first_commit_ms count from then, else
    from the trace's first span. first_commit_ms ends at the first commit of any new leader.
    """
    origin_us = int(killed_at_s * 1_000_000) if killed_at_s is not None else trace.start_us
    root: Attributes = next(
        (node.span.attributes for node in trace.roots if node.span.name in FAILOVER_KINDS), {}
    )
    noticed = (
        trace.named(span_kinds.BROKER_DOWN)
        or trace.named(span_kinds.BROKER_WATCHER_TRIGGERED)
        or trace.named(span_kinds.CONTROLLER_DETECTION)
        or trace.named(span_kinds.COORDINATOR_DETECTION)
    )
    commits = trace.named(span_kinds.FIRST_COMMIT)
    lost = str(root.get("broker_ids", "")).partition(",")[0]
    multis = trace.named(span_kinds.ZOOKEEPER_MULTI)
    return FailoverSummary(
        trace_id=trace.trace_id,
        broker_id=int(lost) if lost.isdigit() else None,
        partitions=_whole(root.get("partition_count")),
        detect_ms=_ms(noticed, lambda found: found[0].end_us - origin_us),
        elect_ms=_number(root.get("elect_ms")) or _ms(trace.named(span_kinds.LEADERSHIP_CHANGE), _extent_us),
        zookeeper_ms=_number(root.get("zookeeper_ms")) or _ms(multis, _extent_us),
        fan_out_ms=_number(root.get("fan_out_ms")) or _ms(trace.named(span_kinds.INFORM_BROKER), _extent_us),
        first_commit_ms=_ms(commits, lambda found: min(span.end_us for span in found) - origin_us),
        all_led_ms=_number(root.get("all_led_ms")),
        takeover_ms=_number(root.get("takeover_ms")),
        multis_refused=sum(span.attributes.get("outcome") == "StoreRefused" for span in multis),
    )


def _extent_us(spans: list[SpanRecord]) -> int:
    """The time from the start of the first span to the end of the last one, in microseconds."""
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


def _merged(spans: Sequence[SpanRecord]) -> SpanRecord:
    """Merge the spans with one id. A process that continues the work of a dead one writes the root again.
    Attributes about the beginning come from the first span, all others from the last."""
    if len(spans) == 1:
        return spans[0]
    first, last = min(spans, key=lambda span: span.start_us), max(spans, key=lambda span: span.end_us)
    attributes: Attributes = {}
    for span in sorted(spans, key=lambda span: span.end_us):
        attributes |= span.attributes
    attributes |= {name: value for name, value in first.attributes.items() if name in _OF_BEGINNING}
    return replace(last, start_us=first.start_us, ok=all(span.ok for span in spans), attributes=attributes)


def _trees_of(spans: Iterable[SpanRecord]) -> tuple[SpanNode, ...]:
    alike: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        alike[span.span_id].append(span)
    by_id = {span_id: _merged(same) for span_id, same in alike.items()}
    root_ids = [span.span_id for span in by_id.values() if not span.parent_id]
    foster_id = root_ids[0] if len(root_ids) == 1 else ""
    children: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in by_id.values():
        is_known = not span.parent_id or span.parent_id in by_id
        children[span.parent_id if is_known else foster_id].append(span)
    return _forest("", children, frozenset())


def _forest(
    parent_id: str, children: dict[str, list[SpanRecord]], above: frozenset[str]
) -> tuple[SpanNode, ...]:
    if len(above) >= _DEPTH_MAX:
        return ()
    ordered = sorted(children.get(parent_id, ()), key=lambda span: (span.start_us, span.end_us))
    return tuple(
        SpanNode(span, _forest(span.span_id, children, above | {span.span_id}))
        for span in ordered
        if span.span_id not in above
    )
