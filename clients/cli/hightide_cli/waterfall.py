"""Draws one trace as a waterfall: which process did what, when, for how long."""

from collections.abc import Iterator
from datetime import UTC, datetime

from hightide_local.traces import SpanNode, SpanRecord, Trace
from hightide_runtime.telemetry import CONTROLLER_FAILOVER, COORDINATOR_FAILOVER

from hightide_cli.failover_traces import root_of
from hightide_cli.rendering import table

BAR_WIDTH = 40
_SHOWN_ATTRIBUTES_MAX = 4
_BLOCK = "█"
_MOMENT = "▏"


def waterfall(trace: Trace) -> str:
    """Return a heading and one line for each span, children below their parents, in order of start.

    Called by `hightide trace show`.
    """
    total_us = max(trace.end_us - trace.start_us, 1)
    rows = [
        (
            "  " * depth + span.name,
            process_of(span),
            f"{(span.start_us - trace.start_us) / 1000:>9.1f}",
            f"{span.duration_us / 1000:>9.1f}",
            _bar(span, trace.start_us, total_us),
            _details(span),
        )
        for span, depth in _in_tree_order(trace.roots)
    ]
    return f"{heading(trace)}\n\n" + table(["span", "process", "    at ms", "  took ms", "", ""], rows)


def heading(trace: Trace) -> str:
    """Return what a trace is, when it began and how long it took, on one line."""
    took_ms = (trace.end_us - trace.start_us) / 1000
    return f"{title(trace)} · {started_at(trace)} · {took_ms:.1f} ms · trace {trace.trace_id}"


def title(trace: Trace) -> str:
    """Return what the trace is about, with whom it happened to and the reason where they are told."""
    root = root_of(trace)
    who, reason = root.attributes.get("broker_ids"), root.attributes.get("reason")
    if root.name == CONTROLLER_FAILOVER:
        return f"{root.name} after controller {who}" if who else root.name
    if root.name == COORDINATOR_FAILOVER:
        return f"{root.name} after coordinator {root.attributes.get('previous_coordinator', '?')}"
    return root.name + (f" of broker {who}" if who else "") + (f" ({reason})" if reason else "")


def started_at(trace: Trace) -> str:
    """Return when the trace began, in UTC."""
    return f"{datetime.fromtimestamp(trace.start_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}Z"


def process_of(span: SpanRecord) -> str:
    """Return the process that wrote a span, as the local cluster calls it."""
    return f"{span.service.removeprefix('hightide-')}-{span.instance}"


def _in_tree_order(nodes: tuple[SpanNode, ...], depth: int = 0) -> Iterator[tuple[SpanRecord, int]]:
    for node in nodes:
        yield node.span, depth
        yield from _in_tree_order(node.children, depth + 1)


def _bar(span: SpanRecord, start_us: int, total_us: int) -> str:
    before = min((span.start_us - start_us) * BAR_WIDTH // total_us, BAR_WIDTH - 1)
    length = min(span.duration_us * BAR_WIDTH // total_us, BAR_WIDTH - before)
    return (" " * before + (_BLOCK * length or _MOMENT)).ljust(BAR_WIDTH)


def _details(span: SpanRecord) -> str:
    shown = [f"{name}={value}" for name, value in span.attributes.items()]
    more = len(shown) - _SHOWN_ATTRIBUTES_MAX
    failed = [] if span.ok else ["FAILED"]
    return " ".join(failed + shown[:_SHOWN_ATTRIBUTES_MAX]) + (f" +{more}" if more > 0 else "")
