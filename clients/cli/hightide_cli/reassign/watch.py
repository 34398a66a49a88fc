"""Following moves until they are done: a table that redraws itself on a terminal, otherwise one line for each
look."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from hightide_cli.command_line.sizes import duration_text, size_text
from hightide_cli.documents.moves import MoveProgressDocument, ProgressDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.live_text import draw, live_text
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json
from hightide_cli.reassign.progress import MoveProgress, Progress, Watched

if TYPE_CHECKING:
    from hightide import Admin, TopicPartition

# A failover of the controller must not end the watching.
WATCH_TIMEOUT_MS: Final = 60_000
_ROWS_MAX: Final = 20
_BAR_WIDTH: Final = 12
_EXIT_INTERRUPTED: Final = 130
_GO_ON: Final = (
    "the moves go on; `hightide reassign watch` follows them again, "
    "`hightide reassign cancel` takes them back"
)


def watch_moves(
    ctx: click.Context,
    admin: "Admin",
    interval_s: float,
    *,
    only: Mapping["TopicPartition", tuple[int, ...]] | None,
) -> None:
    """Look repeatedly until no partition of interest is being moved, then print where each ended up. `only`
    are the partitions of interest with their targets; None: all that move.

    Ctrl-C leaves the moves running, and says so; so does a look that fails. Raises HightideError, and
    click.ClickException if a move ended and did not arrive.
    """
    from hightide.errors import HightideError

    watched = Watched(only)
    are_known = only is not None
    as_document = wants_document(ctx)
    try:
        with live_text(is_wanted=not as_document, is_kept=False) as live:
            while True:
                progress = _look(admin, watched)
                are_known = bool(progress.moves)
                _tell(ctx, progress, live)
                if not progress.moves:
                    break
                time.sleep(interval_s)
        _conclude(ctx, admin, watched, progress)
    except KeyboardInterrupt:
        click.echo(f"\n{_GO_ON}", err=True)
        ctx.exit(_EXIT_INTERRUPTED)
    except HightideError:
        # The next line is about the watching; without this it reads as if the moves had failed.
        if are_known:
            click.echo(_GO_ON, err=True)
        raise


def _look(admin: "Admin", watched: Watched) -> Progress:
    moves = admin.list_reassignments().reassignments
    topics = sorted({each.partition.topic for each in moves})
    replicas = admin.describe_replicas(topics).replicas if topics else ()
    return watched.look(time.monotonic(), moves, replicas)


def _tell(ctx: click.Context, progress: Progress, live: Any) -> None:
    if wants_document(ctx):
        emit(ctx, progress_document(progress))
    elif live is not None:
        shown = progress.moves[:_ROWS_MAX]
        width = max((len(str(each.move.partition)) for each in shown), default=0)
        lines = [move_line(each, width) for each in shown]
        if len(progress.moves) > _ROWS_MAX:
            lines.append(f"… and {len(progress.moves) - _ROWS_MAX} more")
        draw(live, "\n".join([*lines, summary_line(progress)]))
    elif progress.moves:
        click.echo(summary_line(progress))


def move_line(progress: MoveProgress, name_width: int = 0) -> str:
    """One partition on the move: a bar, bytes, and the offset of each new replica against the end."""
    done, total = progress.bytes_done, progress.bytes_total
    filled = _BAR_WIDTH if total == 0 else _BAR_WIDTH * done // total
    bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
    ends = [each.end_offset for each in progress.copies if not each.in_sync]
    in_sync_first = sorted(progress.copies, key=lambda each: not each.in_sync)
    offsets = ", ".join(
        f"{each.broker_id} {'in sync' if each.in_sync else f'at {each.offset:,}'}" for each in in_sync_first
    )
    name = str(progress.move.partition).ljust(name_width)
    line = f"{name} {bar} {size_text(done):>7} of {size_text(total):>7}  {offsets}"
    return f"{line} of {max(ends):,}" if ends else line.rstrip()


def summary_line(progress: Progress) -> str:
    """All moves in one line: their number, bytes, pace, and time left."""
    parts = [
        f"{len(progress.finished)} of {progress.move_count} moves done",
        f"{size_text(progress.bytes_done)} of {size_text(progress.bytes_total)}",
    ]
    if progress.stalled_s:
        parts.append(
            f"nothing has moved for {duration_text(progress.stalled_s)}: see `hightide cluster health`"
        )
    elif progress.bytes_per_s is not None:
        parts.append(f"{size_text(progress.bytes_per_s)}/s")
        if progress.seconds_left is not None:
            parts.append(f"{duration_text(progress.seconds_left)} left")
    return ", ".join(parts)


def progress_document(progress: Progress) -> ProgressDocument:
    """One look as JSON."""
    return {
        "moves": [view(MoveProgressDocument, each) for each in progress.moves],
        "moves_done": len(progress.finished),
        "bytes_done": progress.bytes_done,
        "bytes_total": progress.bytes_total,
        "bytes_per_s": progress.bytes_per_s,
        "seconds_left": progress.seconds_left,
    }


def _conclude(ctx: click.Context, admin: "Admin", watched: Watched, progress: Progress) -> None:
    if not progress.finished:
        if not wants_document(ctx):
            click.echo("nothing is on the move")
        return
    wanted = {each: watched.target_of(each) for each in progress.finished}
    places = _places(admin, progress.finished)
    astray = [each for each in progress.finished if places.get(each) != wanted[each]]
    if wants_document(ctx):
        results: list[Json] = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "to": wanted[each],
                "replicas": places.get(each),
                "arrived": each not in astray,
            }
            for each in progress.finished
        ]
        emit(ctx, {"finished": results})
        _fail_where_astray(astray, progress)
        return
    count = len(progress.finished) - len(astray)
    click.echo(f"{count} of {len(progress.finished)} moves have arrived, {size_text(progress.bytes_total)}")
    throttle = admin.list_reassignments().throttle_bytes_per_s
    if throttle:
        click.echo(
            f"{size_text(throttle)}/s stays the limit of moves; `hightide reassign throttle off` lifts it"
        )
    for each in astray[:_ROWS_MAX]:
        now = places.get(each)
        where = "is deleted" if now is None else f"was cancelled and is on brokers {','.join(map(str, now))}"
        click.echo(f"{each} {where}")
    _fail_where_astray(astray, progress)


def _fail_where_astray(astray: Sequence["TopicPartition"], progress: Progress) -> None:
    if astray:
        raise click.ClickException(f"{len(astray)} of {len(progress.finished)} moves did not arrive")


def _places(
    admin: "Admin", partitions: Sequence["TopicPartition"]
) -> dict["TopicPartition", tuple[int, ...]]:
    from hightide import TopicPartition
    from hightide.errors import UnknownTopicError

    places: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in sorted({each.topic for each in partitions}):
        try:
            (described,) = admin.describe_topics([topic])
        except UnknownTopicError:
            continue
        places.update((TopicPartition(topic, each.partition), each.replicas) for each in described.partitions)
    return places
