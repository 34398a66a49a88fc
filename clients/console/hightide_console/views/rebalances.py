"""The rebalances of a group that traces tell of, each with its reason. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from hightide_local.traces.span_files import SpanRecord
from hightide_local.traces.trace_lookup import Trace
from hightide_runtime.telemetry import span_kinds

from hightide_console.views import figures
from hightide_console.views.records import safe_text

_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class RebalanceRow:
    """One rebalance. `state` is that of the group afterwards."""

    trace_id: str
    started: str
    took: str
    reason: str
    partitions: str
    generation: str
    state: str


def rebalance_rows(traces: Sequence[Trace], group: str) -> tuple[RebalanceRow, ...]:
    """Those of this group, the newest first. A rebalance that another coordinator caused is a part of the
    trace of that failover."""
    spans = [
        span
        for trace in traces
        for span in trace.named(span_kinds.GROUP_REBALANCE)
        if span.attributes.get("group") == group
    ]
    spans.sort(key=lambda span: -span.start_us)
    return tuple(_row(span) for span in spans[:_SHOWN_MAX])


def _row(span: SpanRecord) -> RebalanceRow:
    def said(name: str) -> str:
        return safe_text(str(span.attributes.get(name, figures.UNKNOWN)))

    return RebalanceRow(
        span.trace_id,
        figures.moment(span.start_us / 1000),
        figures.took((span.end_us - span.start_us) / 1000),
        said("reason"),
        said("partition_count"),
        said("generation"),
        said("state").lower(),
    )
