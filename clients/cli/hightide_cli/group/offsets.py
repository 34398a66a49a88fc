"""`hightide group commit` and `delete-offsets`: set or delete the offsets of a group without readers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.completing import group_names, topic_names
from hightide_cli.command_line.confirmation import confirm
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json, table

if TYPE_CHECKING:
    from hightide import Admin, TopicPartition

_METADATA_CHARACTERS_MAX = 4_096


@common_options
@click.command()
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.argument("places", nargs=-1, required=True, metavar="TOPIC:PARTITION=OFFSET…")
@click.option("--metadata", default="", metavar="TEXT", help="A text to store with the offsets.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation if an offset goes back.")
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def commit(
    ctx: click.Context, name: str, places: tuple[str, ...], metadata: str, yes: bool, dry_run: bool
) -> None:
    """Commit offsets for a GROUP without members. OFFSET is that of the next record to read.

    The group need not exist. Use this if you know the offsets; `group reset-offsets` looks them up by time or
    position. If an offset goes back, records will be read again, so the command asks first.

    \b
    hightide group commit readers flights:0=1200 flights:1=1180
    """
    if len(metadata) > _METADATA_CHARACTERS_MAX:
        raise click.BadParameter(
            f"it has {len(metadata)} characters, and may have {_METADATA_CHARACTERS_MAX}",
            param_hint="--metadata",
        )
    offsets = parse_places(places)
    from hightide import CommittedOffset

    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        before = _committed(admin, name)
        # Missing partitions or members of the group are reported before anything is printed, which would read
        # as if it had been done, and before the user is asked.
        for outcome in admin.reset_offsets(name, offsets, validate_only=True):
            if outcome.error is not None:
                raise outcome.error
        if not wants_document(ctx):
            rows = [
                (each.topic, each.partition, before.get(each), offset) for each, offset in offsets.items()
            ]
            click.echo(table(["topic", "partition", "committed", "new"], rows))
        back = [each for each, offset in offsets.items() if offset < before.get(each, 0)]
        if back and not dry_run:
            confirm(f"Go back in {len(back)} of {len(offsets)} partitions?", is_agreed=yes)
        if not dry_run:
            admin.commit_group_offsets(
                name, {each: CommittedOffset(offset, metadata=metadata) for each, offset in offsets.items()}
            )
    if wants_document(ctx):
        partitions: list[Json] = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "previous": before.get(each),
                "committed": offset,
            }
            for each, offset in offsets.items()
        ]
        emit(ctx, {"dry_run": dry_run, "group": name, "partitions": partitions})
    else:
        click.echo("\nnothing was changed" if dry_run else "\nthe offsets are committed", err=dry_run)


def parse_places(texts: Sequence[str]) -> "dict[TopicPartition, int]":
    """Parse TOPIC:PARTITION=OFFSET, any number of them. Raises click.BadParameter."""
    from hightide import TopicPartition

    offsets: dict[TopicPartition, int] = {}
    for text in texts:
        place, _, offset = text.rpartition("=")
        topic, _, partition = place.rpartition(":")
        if not (topic and _is_number(partition) and _is_number(offset)):
            raise click.BadParameter(f"{text!r} is not TOPIC:PARTITION=OFFSET, as in flights:0=1000")
        if TopicPartition(topic, int(partition)) in offsets:
            raise click.BadParameter(f"{topic}:{partition} is given twice; give each partition once")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _committed(admin: "Admin", name: str) -> "dict[TopicPartition, int]":
    from hightide.errors import UnknownGroupError

    try:
        return {each: found.offset for each, found in admin.group_offsets(name).items()}
    except UnknownGroupError:
        return {}


@common_options
@click.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=topic_names)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.pass_context
def delete_offsets(ctx: click.Context, name: str, topics: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Delete the offsets of GROUP for TOPICs; asks first. No member may read these topics.

    A consumer that reads them later begins as its offset_reset says.
    """
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        wanted = sorted(set(topics))
        count = admin.delete_group_offsets(name, wanted, validate_only=True)
        offsets = f"{count} committed offset{'s' * (count != 1)}"
        click.echo(f"{name}: {offsets} of {', '.join(wanted)}", err=True)
        if count and not dry_run:
            confirm(f"Delete {offsets} for good?", is_agreed=yes)
            count = admin.delete_group_offsets(name, wanted)
    if wants_document(ctx):
        emit(ctx, {"dry_run": dry_run, "group": name, "topics": wanted, "offsets": count})
    elif count:
        click.echo(f"{count} offsets {'would be deleted' if dry_run else 'deleted'}")
    else:
        click.echo("there is nothing to delete")
