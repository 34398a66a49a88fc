"""`hightide dump-log`: the record batches of a log on disk, without a broker."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json

if TYPE_CHECKING:
    from hightide_broker.storage.inspection.inspection import InspectedBatch, InspectedDamage

# Each column has a width that holds its usual values, because batches are printed as they are found.
_COLUMNS = {
    "position": 11,
    "offset": 11,
    "records": 7,
    "bytes": 8,
    "epoch": 5,
    "first timestamp": 20,
    "producer": 8,
    "sequence": 10,
    "compression": 11,
}


@common_options
@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.pass_context
def dump_log(ctx: click.Context, path: Path) -> None:
    """Print every batch of a segment file, or of all segments below a directory.

    It only reads, and checks each CRC. You may use it while a broker has the log open. Exit code 1: a file is
    damaged.
    """
    from hightide_broker.storage.inspection.inspection import InspectedDamage, inspect

    damages: list[InspectedDamage] = []
    as_document = wants_document(ctx)
    segment: Path | None = None
    for found in inspect(path):
        if as_document:
            emit(ctx, _document(found))
        elif isinstance(found, InspectedDamage):
            click.echo(f"{found.path} is damaged at position {found.position}: {found.reason}")
        else:
            if found.path != segment:
                segment = found.path
                click.echo(f"{segment}\n{_line(map(str.upper, _COLUMNS))}")
            click.echo(_line(_cells(found)))
        if isinstance(found, InspectedDamage):
            damages.append(found)
    if damages:
        raise click.ClickException(f"{len(damages)} damaged: {', '.join(str(each.path) for each in damages)}")


def _cells(found: "InspectedBatch") -> list[str]:
    header = found.header
    first = datetime.fromtimestamp(header.first_timestamp_us / 1e6, UTC)
    return [
        *map(str, (found.position, header.base_offset, header.record_count, header.size_bytes)),
        str(header.leader_epoch),
        f"{first:%Y-%m-%dT%H:%M:%SZ}",
        f"{header.producer_id}/{header.producer_epoch}",
        str(header.base_sequence),
        header.compression.name.lower(),
    ]


def _line(cells: Iterable[str]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, _COLUMNS.values(), strict=True)).rstrip()


def _document(found: "InspectedBatch | InspectedDamage") -> dict[str, Json]:
    from hightide_broker.storage.inspection.inspection import InspectedDamage

    place: dict[str, Json] = {"file": str(found.path), "position": found.position}
    if isinstance(found, InspectedDamage):
        return {**place, "valid": False, "reason": found.reason}
    header = found.header
    return {
        **place,
        "valid": True,
        "base_offset": header.base_offset,
        "record_count": header.record_count,
        "size_bytes": header.size_bytes,
        "leader_epoch": header.leader_epoch,
        "topic_id": header.topic_id.hex(),
        "partition": header.partition,
        "first_timestamp_us": header.first_timestamp_us,
        "max_timestamp_us": header.max_timestamp_us,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "compression": header.compression.name.lower(),
        "has_headers": header.has_headers,
        "crc": header.crc,
    }
