"""Finds, among the traces of a cluster, those of failovers, and the one that belongs to a certain kill."""

from collections.abc import Iterable
from pathlib import Path

from hightide_local.traces import SpanRecord, Trace, failovers, read_spans, traces_of
from hightide_runtime.telemetry import CONTROLLER_FAILOVER, COORDINATOR_FAILOVER, FAILOVER

_NAMES = frozenset({FAILOVER, CONTROLLER_FAILOVER, COORDINATOR_FAILOVER})


def root_of(trace: Trace) -> SpanRecord:
    """Return the span that the trace is about: that of the failover where there is one, else the first."""
    roots = [node.span for node in trace.roots]
    return next((span for span in roots if span.name in _NAMES), roots[0])


def all_traces(directories: Iterable[Path], *, failovers_only: bool) -> list[Trace]:
    """Return the traces that lie in the directories, the oldest first."""
    found: list[Trace] = []
    for directory in directories:
        found += failovers(directory) if failovers_only else traces_of(read_spans(directory))
    return sorted(found, key=lambda trace: trace.start_us)


def broker_failover(directory: Path, broker_id: int, since_s: float) -> Trace | None:
    """Return the first failover of a broker that was noticed after a moment; None before that."""
    for trace in all_traces([directory], failovers_only=True):
        root = root_of(trace)
        brokers = str(root.attributes.get("broker_ids", "")).split(",")
        if root.name == FAILOVER and str(broker_id) in brokers and trace.end_us / 1e6 > since_s:
            return trace
    return None


def controller_failover(directory: Path, since_s: float) -> Trace | None:
    """Return the first takeover by another controller after a moment; None before there is one."""
    return _first(directory, CONTROLLER_FAILOVER, since_s)


def coordinator_failover(directory: Path, since_s: float) -> Trace | None:
    """Return the first takeover by another coordinator after a moment; None before there is one."""
    return _first(directory, COORDINATOR_FAILOVER, since_s)


def _first(directory: Path, name: str, since_s: float) -> Trace | None:
    for trace in all_traces([directory], failovers_only=True):
        if root_of(trace).name == name and trace.end_us / 1e6 > since_s:
            return trace
    return None
