"""`hightide topic trim`: delete the oldest records of a topic."""

from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.confirmation import confirm
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import table
from hightide_cli.records.positions import Anchor, Position, parse_moment
from hightide_cli.records.ranges import partitions_option

if TYPE_CHECKING:
    from hightide import Admin, HightideError, TopicPartition

    from hightide_cli.documents.partitions import TrimDocument, TrimmedPartitionDocument
    from hightide_cli.records.ranges import TopicRanges

_TRIM_TIMEOUT_MS = 60_000


@common_options
@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option(
    "--before-offset", type=click.IntRange(min=0), metavar="N", help="Delete the records before this offset."
)
@click.option(
    "--before-time",
    metavar="TIME",
    help="Delete the records before this time: ISO 8601, ms since 1970, or -7d for seven days ago.",
)
@click.option("--all", "is_all", is_flag=True, help="Delete all records that the partitions have now.")
@partitions_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.pass_context
def trim(
    ctx: click.Context,
    name: str,
    before_offset: int | None,
    before_time: str | None,
    is_all: bool,
    partitions: tuple[int, ...],
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete the oldest records of TOPIC; asks first. It deletes those before an offset or a time.

    The other records keep their offsets. Deleted records cannot be read any more; their space on disk is free
    when whole segments have been deleted. --before-time uses the timestamps of records: it keeps the first
    record that is as late, and all records after it.

    \b
    hightide topic trim flights --before-time -7d --dry-run
    """
    choices = {
        "--before-offset": None if before_offset is None else Position(Anchor.OFFSET, before_offset),
        "--before-time": None
        if before_time is None
        else Position(Anchor.TIMESTAMP, parse_moment(before_time)),
        "--all": Position(Anchor.LATEST) if is_all else None,
    }
    said = [position for position in choices.values() if position is not None]
    if len(said) != 1:
        raise click.UsageError(f"give one of {', '.join(choices)}", ctx)
    from hightide import TopicPartition

    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.records.ranges import topic_ranges

    with open_admin(ctx, _TRIM_TIMEOUT_MS) as admin:
        if before_offset is not None:
            _check_reach(admin, name, partitions, before_offset)
        going = topic_ranges(admin, name, partitions, Position(Anchor.EARLIEST), said[0])
        before = {TopicPartition(name, each.partition): each.end for each in going.ranges if each.count}
        if not wants_document(ctx):
            rows = [(each.partition, each.start, each.end, each.count) for each in going.ranges]
            click.echo(table(["partition", "earliest", "before", "records"], rows))
        if before and not dry_run:
            records = "record" if going.count == 1 else "records"
            confirm(f"Delete {going.count:,} {records} of topic {name} for good?", is_agreed=yes)
        # A dry run is refused as the real one would be.
        outcomes = admin.delete_records(before, validate_only=dry_run) if before else {}
    _tell(ctx, going, outcomes, dry_run)


def _check_reach(admin: "Admin", name: str, partitions: tuple[int, ...], before_offset: int) -> None:
    """Refuse an offset beyond the end of a log, so that one digit too many does not delete all records."""
    from hightide import TopicPartition

    (described,) = admin.describe_topics([name])
    numbers = sorted(set(partitions)) or [each.partition for each in described.partitions]
    ends = admin.list_offsets([TopicPartition(name, number) for number in numbers], "latest")
    for place, end in ends.items():
        if before_offset > (end or 0):
            raise click.ClickException(
                f"{name}-{place.partition} ends at offset {end or 0}, and has no record with the offset "
                f"{before_offset - 1}: give --all to delete all its records, or -p to name other partitions"
            )


def _tell(
    ctx: click.Context,
    going: "TopicRanges",
    outcomes: "dict[TopicPartition, int | HightideError]",
    dry_run: bool,
) -> None:
    from hightide import HightideError

    refused = {each: error for each, error in outcomes.items() if isinstance(error, HightideError)}
    if wants_document(ctx):
        emit(ctx, trim_document(going, outcomes, dry_run))
    elif not refused:
        would = "would be" if dry_run else "are"
        click.echo(f"\n{going.count:,} records {would} deleted", err=dry_run)
    if refused:
        partition, error = next(iter(refused.items()))
        raise click.ClickException(
            f"{len(refused)} of {len(outcomes)} partitions were not trimmed; {partition}: {error}"
        )


def trim_document(
    going: "TopicRanges", outcomes: "dict[TopicPartition, int | HightideError]", dry_run: bool
) -> "TrimDocument":
    """The same as JSON."""
    from hightide import HightideError

    from hightide_cli.printing.outcomes import error_name

    by_number = {place.partition: outcome for place, outcome in outcomes.items()}
    partitions: list[TrimmedPartitionDocument] = []
    for each in going.ranges:
        outcome = by_number.get(each.partition, each.start)
        error = outcome if isinstance(outcome, HightideError) else None
        partitions.append(
            {
                "partition": each.partition,
                "before": each.end,
                "records": each.count if error is None else 0,
                "earliest": None if isinstance(outcome, HightideError) else outcome,
                "error": None if error is None else error_name(error),
            }
        )
    return {"dry_run": dry_run, "topic": going.topic, "partitions": partitions}
