"""Reading the spans that services write as JSON lines: `hightide trace show` renders what this finds."""

from dataclasses import dataclass, field
from pathlib import Path


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
    """One trace: its roots by start time (spans whose parent was not written are roots as well)."""

    trace_id: str
    roots: tuple[SpanNode, ...]

    @property
    def spans(self) -> list[SpanRecord]:
        """All spans, parents before children."""
        raise NotImplementedError

    @property
    def start_us(self) -> int:
        """When the first span started."""
        raise NotImplementedError

    @property
    def end_us(self) -> int:
        """When the last span ended."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FailoverSummary:
    """Where the time of one failover went, in milliseconds; None for a step that left no span."""

    trace_id: str
    broker_id: int | None
    partitions: int | None
    detect_ms: float | None
    elect_ms: float | None
    zookeeper_ms: float | None
    fan_out_ms: float | None
    first_commit_ms: float | None


def read_spans(directory: Path) -> list[SpanRecord]:
    """All spans in *.jsonl of a directory; a torn last line (a process was killed) is skipped."""
    raise NotImplementedError


def traces_of(spans: list[SpanRecord]) -> list[Trace]:
    """Group spans into traces, the oldest first."""
    raise NotImplementedError


def failovers(directory: Path) -> list[Trace]:
    """The traces whose root is a failover, the oldest first."""
    raise NotImplementedError


def summarise_failover(trace: Trace, killed_at_s: float | None = None) -> FailoverSummary:
    """Sum one failover up. With `killed_at_s` (what LocalCluster.kill returned) times count from there,
    else from the trace's first span."""
    raise NotImplementedError
