"""A group's lag as a table, as one line, and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hightide_cli.command_line.sizes import duration_text
from hightide_cli.documents.groups import LagDocument, PartitionLagDocument, WatchedLagDocument
from hightide_cli.documents.view import view
from hightide_cli.group.lag_watch import LagPace
from hightide_cli.printing.rendering import table

if TYPE_CHECKING:
    from hightide import PartitionLag

_HEADINGS = ("topic", "partition", "committed", "end", "lag", "consumer")


def lag_table(lines: Sequence["PartitionLag"]) -> str:
    """One row for each partition; a missing offset or owner is `-`."""
    rows = [
        (line.partition.topic, line.partition.partition, line.committed, line.end, line.lag, line.owner)
        for line in lines
    ]
    return table(_HEADINGS, rows)


def furthest_behind(lines: Sequence["PartitionLag"], count: int) -> list["PartitionLag"]:
    """Return this many partitions with the most lag, in their order: not all fit on a screen."""
    chosen = sorted(range(len(lines)), key=lambda at: -(lines[at].lag or 0))[:count]
    return [lines[at] for at in sorted(chosen)]


def lag_sentence(pace: LagPace) -> str:
    """All partitions in one line: lag, pace, time left, and problems."""
    partitions = f"{pace.partition_count} partition{'s' * (pace.partition_count != 1)}"
    parts = [f"lag {pace.lag:,} in {partitions}"]
    if pace.stalled_s:
        parts.append(f"nothing was committed for {duration_text(pace.stalled_s)}")
    elif pace.read_per_s is not None and pace.written_per_s is not None:
        parts.append(f"{pace.read_per_s:,.0f}/s read, {pace.written_per_s:,.0f}/s written")
        if pace.lag and pace.seconds_left is not None:
            parts.append(f"{duration_text(pace.seconds_left)} left")
    if pace.uncommitted_count:
        parts.append(f"{pace.uncommitted_count} without a committed offset")
    if pace.gone_count:
        parts.append(f"{pace.gone_count} not there any more")
    if pace.unowned_count:
        parts.append(f"{pace.unowned_count} read by nobody")
    return ", ".join(parts)


def lag_document(group: str, lines: Sequence["PartitionLag"]) -> LagDocument:
    """The same as JSON."""
    partitions = [view(PartitionLagDocument, line) for line in lines]
    return {"group": group, "lag": sum(line.lag or 0 for line in lines), "partitions": partitions}


def watched_lag_document(group: str, lines: Sequence["PartitionLag"], pace: LagPace) -> WatchedLagDocument:
    """One look of `--watch` as JSON."""
    return {
        **lag_document(group, lines),
        "read_per_s": pace.read_per_s,
        "written_per_s": pace.written_per_s,
        "seconds_left": pace.seconds_left,
        "stalled_s": pace.stalled_s,
    }
