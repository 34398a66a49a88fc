"""Spans as traces: which belongs below which, what a trace is about, and what became of one failover."""

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

    @property
    def root(self) -> SpanRecord:
        """The span that the trace is about: the one that names its kind, else the first."""
        tops = [node.span for node in self.roots]
        return next((span for span in tops if span.name in span_kinds.TRACE_KINDS), tops[0])

    @property
    def kind(self) -> str:
        """One of `span_kinds.TRACE_KINDS`, also where the root died with its process and only steps are left;
        else the first word of the root's name, as of a client that joined nothing."""
        root = self.root
        if root.name in span_kinds.TRACE_KINDS:
            return root.name
        steps = {span.name.partition(".")[0] for span in self.spans if "." in span.name}
        return next((kind for kind in span_kinds.TRACE_KINDS if kind in steps), root.name.partition(" ")[0])

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


def traces_of(spans: Iterable[SpanRecord]) -> list[Trace]:
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
    return [trace for trace in traces_of(read_spans(directory)) if trace.kind in FAILOVER_KINDS]


def summarise_failover(trace: Trace, killed_at_s: float | None = None) -> FailoverSummary:
    """Sum one failover up, from what the controller wrote at the root, or else from the spans of the steps.

    With `killed_at_s` (what LocalCluster.kill returned), detect_ms and first_commit_ms count from there, else
    from the trace's first span. first_commit_ms is the time to the first commit of any new leader.
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


def _merged(spans: Sequence[SpanRecord]) -> SpanRecord:
    """Who carries on what a dead process began writes its root again: together they are one span. What it is
    about, who began it has told; what became of it, who ended it."""
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
