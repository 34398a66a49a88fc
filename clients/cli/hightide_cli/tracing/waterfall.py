"""Draws one trace as a waterfall: who did what, when, for how long."""

from collections.abc import Iterator

from hightide_cli.rendering import table
from hightide_cli.tracing.spans import Span, Trace

BAR_WIDTH = 40
_SHOWN_ATTRIBUTES_MAX = 3
_BLOCK = "█"
_MOMENT = "▏"


def waterfall(trace: Trace) -> str:
    """Return a heading and one line for each span, children under their parents, in order of start.

    Called by `hightide trace show`. A span whose parent was not written (its process died) stands at the
    outermost level.
    """
    total_us = max(trace.duration_us, 1)
    rows = [
        (
            "  " * depth + span.name,
            span.service,
            f"{(span.start_us - trace.start_us) / 1000:.1f}",
            f"{span.duration_us / 1000:.1f}",
            _bar(span, trace.start_us, total_us),
            _details(span),
        )
        for span, depth in _in_tree_order(trace)
    ]
    heading = (
        f"trace {trace.trace_id} · {trace.title} · {trace.started_at:%Y-%m-%d %H:%M:%S} UTC · "
        f"{trace.duration_us / 1000:.1f} ms"
    )
    return f"{heading}\n\n" + table(["span", "process", "at ms", "took ms", "", ""], rows)


def _in_tree_order(trace: Trace) -> Iterator[tuple[Span, int]]:
    known = {span.span_id for span in trace.spans}
    children: dict[str | None, list[Span]] = {}
    for span in trace.spans:
        parent = span.parent_id if span.parent_id in known else None
        children.setdefault(parent, []).append(span)

    def walk(parent_id: str | None, depth: int) -> Iterator[tuple[Span, int]]:
        for span in sorted(children.get(parent_id, []), key=lambda each: (each.start_us, -each.duration_us)):
            yield span, depth
            yield from walk(span.span_id, depth + 1)

    return walk(None, 0)


def _bar(span: Span, start_us: int, total_us: int) -> str:
    before = min((span.start_us - start_us) * BAR_WIDTH // total_us, BAR_WIDTH - 1)
    length = span.duration_us * BAR_WIDTH // total_us
    bar = _BLOCK * min(length, BAR_WIDTH - before) if length else _MOMENT
    return (" " * before + bar).ljust(BAR_WIDTH)


def _details(span: Span) -> str:
    shown = [f"{name.removeprefix('hightide.')}={value}" for name, value in span.attributes.items()]
    more = len(shown) - _SHOWN_ATTRIBUTES_MAX
    return " ".join(shown[:_SHOWN_ATTRIBUTES_MAX]) + (f" +{more}" if more > 0 else "")
