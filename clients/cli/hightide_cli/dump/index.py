"""`hightide dump-index`: what lies beside the segments of a log on disk, without a broker."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json, table

if TYPE_CHECKING:
    from hightide_broker.storage.inspection.index_inspection import InspectedIndex


@common_options
@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-n", "--max-entries", type=click.IntRange(min=0), help="Print only the last N entries of each file."
)
@click.pass_context
def dump_index(ctx: click.Context, path: Path, max_entries: int | None) -> None:
    """Print the offset indexes, time indexes, leader epochs and producer snapshots in a file, or below a
    directory.

    It only reads, and checks each CRC. You may use it while a broker has the log open. Exit code 1: a file is
    damaged; the broker rebuilds it from the segments.
    """
    from hightide_broker.storage.inspection.index_inspection import inspect_indexes

    damaged = []
    try:
        for at, found in enumerate(inspect_indexes(path)):
            if wants_document(ctx):
                emit(ctx, index_document(found, max_entries))
            else:
                click.echo("\n" * (at > 0) + _text(found, max_entries))
            if found.damage is not None:
                damaged.append(str(found.path))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param_hint="PATH") from error
    if damaged:
        raise click.ClickException(f"{len(damaged)} damaged: {', '.join(damaged)}")


def _shown(found: "InspectedIndex", entries_max: int | None) -> tuple[tuple[int, ...], ...]:
    return (
        found.entries
        if entries_max is None
        else found.entries[len(found.entries) - entries_max :][:entries_max]
    )


def _text(found: "InspectedIndex", entries_max: int | None) -> str:
    shown = _shown(found, entries_max)
    left_out = f", the last {len(shown)}" if len(shown) < len(found.entries) else ""
    lines = [f"{found.path}: {found.kind.replace('_', ' ')}, {len(found.entries)} entries{left_out}"]
    if found.damage is not None:
        lines.append(f"damaged: {found.damage}")
    if shown:
        lines.append(table([column.replace("_", " ") for column in found.columns], shown))
    return "\n".join(lines)


def index_document(found: "InspectedIndex", entries_max: int | None) -> dict[str, Json]:
    """One file as JSON."""
    entries: list[Json] = [dict(zip(found.columns, row, strict=True)) for row in _shown(found, entries_max)]
    return {
        "file": str(found.path),
        "kind": found.kind,
        "valid": found.damage is None,
        "reason": found.damage,
        "entry_count": len(found.entries),
        "entries": entries,
    }
