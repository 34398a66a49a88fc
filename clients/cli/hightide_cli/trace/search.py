"""Finds, among the traces of a cluster, those of certain kinds, and the one that belongs to a kill."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from hightide_local.traces.trace_lookup import FAILOVER_KINDS, Trace, read_spans, traces_of
from hightide_runtime.telemetry.span_kinds import CONTROLLER_FAILOVER, COORDINATOR_FAILOVER, FAILOVER


def all_traces(directories: Iterable[Path], kinds: Collection[str] | None = FAILOVER_KINDS) -> list[Trace]:
    """Return the traces of some kinds (None: of all) that lie in the directories, the oldest first."""
    spans = [span for directory in directories for span in read_spans(directory)]
    return [trace for trace in traces_of(spans) if kinds is None or trace.kind in kinds]


def broker_failover(directory: Path, broker_id: int, since_s: float) -> Trace | None:
    """Return the first failover of a broker that was noticed after a moment; None before that."""

    def is_of_broker(trace: Trace) -> bool:
        return str(broker_id) in str(trace.root.attributes.get("broker_ids", "")).split(",")

    return _first(directory, FAILOVER, since_s, is_of_broker)


def controller_failover(directory: Path, since_s: float) -> Trace | None:
    """Return the first takeover by another controller after a moment; None before there is one."""
    return _first(directory, CONTROLLER_FAILOVER, since_s)


def coordinator_failover(directory: Path, since_s: float) -> Trace | None:
    """Return the first takeover by another coordinator after a moment; None before there is one."""
    return _first(directory, COORDINATOR_FAILOVER, since_s)


def _first(
    directory: Path, name: str, since_s: float, is_it: Callable[[Trace], bool] = lambda _: True
) -> Trace | None:
    for trace in all_traces([directory], {name}):
        # The root is written last, so that a reader who finds it finds all spans of its process.
        if trace.root.name == name and trace.end_us / 1e6 > since_s and is_it(trace):
            return trace
    return None
