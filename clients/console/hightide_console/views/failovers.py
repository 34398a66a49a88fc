"""What failed over, what moves, and what the controller complains of. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from hightide_cli.reassign.progress import MoveProgress, Progress
from hightide_cli.trace.waterfall import started_at, title, took_ms
from hightide_local.traces.trace_accounts import account_of
from hightide_local.traces.trace_lookup import Trace

from hightide_console.settings import ROWS_MAX
from hightide_console.views import figures


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One trace in the list. `sentence` says where the time went, if its kind has one."""

    trace_id: str
    what: str
    started: str
    took: str
    sentence: str


@dataclass(frozen=True, slots=True)
class MoveRow:
    """One partition that is being moved. `done` is a share in per cent."""

    partition: str
    topic: str
    original: str
    target: str
    done: int
    copied: str
    in_sync: str


@dataclass(frozen=True, slots=True)
class MovesView:
    """All moves, their pace, and the time left."""

    summary: str
    rows: tuple[MoveRow, ...]
    more: int


def trace_rows(traces: Sequence[Trace]) -> tuple[TraceRow, ...]:
    """The newest first, as many as somebody reads."""
    rows = []
    for trace in reversed(traces[-ROWS_MAX:]):
        account = account_of(trace)
        rows.append(
            TraceRow(
                trace.trace_id,
                title(trace),
                started_at(trace),
                figures.took(took_ms(trace)),
                "" if account is None else account.sentence,
            )
        )
    return tuple(rows)


def trace_named(traces: Sequence[Trace], trace_id: str) -> Trace | None:
    """The trace with this id."""
    return next((each for each in traces if each.trace_id == trace_id), None)


def moves_view(progress: Progress, throttle_bytes_per_s: int) -> MovesView:
    """The moves under way. Without a throttle, brokers copy as fast as they can."""
    parts = [f"{len(progress.moves):,} under way" if progress.moves else "nothing is on the move"]
    if progress.moves:
        done, total = figures.size_text(progress.bytes_done), figures.size_text(progress.bytes_total)
        parts.append(f"{done} of {total} copied")
        parts.append(figures.size_rate(progress.bytes_per_s))
        if progress.seconds_left is not None:
            parts.append(f"{figures.duration_text(progress.seconds_left)} left")
        if progress.stalled_s:
            parts.append(f"no progress for {figures.duration_text(progress.stalled_s)}")
    limit = (
        f"{figures.size_text(throttle_bytes_per_s)}/s from each broker" if throttle_bytes_per_s else "none"
    )
    parts.append(f"throttle: {limit}")
    return MovesView(
        " · ".join(parts),
        tuple(_move_row(each) for each in progress.moves[:ROWS_MAX]),
        max(0, len(progress.moves) - ROWS_MAX),
    )


def _move_row(progress: MoveProgress) -> MoveRow:
    move = progress.move
    return MoveRow(
        str(move.partition),
        move.partition.topic,
        ", ".join(map(str, move.original)),
        ", ".join(map(str, move.target)),
        figures.share(progress.bytes_done, progress.bytes_total) if progress.copies else 100,
        f"{figures.size_text(progress.bytes_done)} of {figures.size_text(progress.bytes_total)}",
        ", ".join(map(str, move.isr)) or "none",
    )
