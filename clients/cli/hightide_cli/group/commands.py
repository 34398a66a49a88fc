"""`hightide group`: show groups, their readers and lag, set offsets, delete."""

from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.completing import group_names
from hightide_cli.command_line.confirmation import confirm
from hightide_cli.command_line.options import common_options
from hightide_cli.group.offsets import commit, delete_offsets
from hightide_cli.group.reset_offsets import reset_offsets
from hightide_cli.printing.outcomes import told_as_deleted
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json

if TYPE_CHECKING:
    from hightide import Admin


@click.group()
def group() -> None:
    """Show consumer groups and their lag, set their offsets, delete them."""


common_options(group)
for _command in (reset_offsets, commit, delete_offsets):
    group.add_command(_command)


@common_options
@group.command("ls")
@click.pass_context
def list_groups(ctx: click.Context) -> None:
    """List all groups."""
    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.group.tables import listing_document, listing_table

    with open_admin(ctx) as admin:
        groups = admin.list_groups()
    if wants_document(ctx):
        emit(ctx, listing_document(groups))
    else:
        click.echo(listing_table(groups))


@common_options
@group.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP…", shell_complete=group_names)
@click.pass_context
def describe(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the members of groups, their partitions and lag."""
    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.group.tables import description_document, description_text

    with open_admin(ctx) as admin:
        described = [(admin.describe_group(name), admin.group_lag(name)) for name in names]
    if wants_document(ctx):
        documents: list[Json] = [description_document(each, lines) for each, lines in described]
        emit(ctx, {"groups": documents})
    else:
        click.echo("\n\n\n".join(description_text(each, lines) for each, lines in described))


@common_options
@group.command()
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.option("-w", "--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two updates.",
)
@click.pass_context
def lag(ctx: click.Context, name: str, watch: bool, interval_s: float) -> None:
    """Show how many records a group has yet to read. It shows a line for each partition.

    With --watch, also show how fast the group reads, how fast producers write, and when the group will have
    caught up. On a terminal this is a table that is updated, otherwise a line for each update.

    \b
    hightide group lag readers --watch
    """
    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.group.lag import show_lag, watch_lag

    with open_admin(ctx) as admin:
        if watch:
            watch_lag(ctx, admin, name, interval_s)
        else:
            show_lag(ctx, admin, name)


@common_options
@group.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP…", shell_complete=group_names)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--if-exists", is_flag=True, help="Ignore groups that do not exist.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.pass_context
def delete(ctx: click.Context, names: tuple[str, ...], yes: bool, if_exists: bool, dry_run: bool) -> None:
    """Delete groups that have no members; asks first. It deletes their offsets as well."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        found = _offset_counts(admin, list(dict.fromkeys(names)), if_exists)
        for name, count in found.items():
            click.echo(f"{name}: {count} committed offset{'s' * (count != 1)}", err=True)
        if found and not dry_run:
            what = f"group {next(iter(found))}" if len(found) == 1 else f"these {len(found)} groups"
            confirm(f"Delete {what} for good?", is_agreed=yes)
        documents: list[Json] = []
        with told_as_deleted(ctx, documents, dry_run=dry_run):
            for name, count in found.items():
                if not dry_run:
                    admin.delete_group(name)
                documents.append({"group": name, "offsets": count})
                if not wants_document(ctx):
                    click.echo(f"group {name} {'would be deleted' if dry_run else 'deleted'}")


def _offset_counts(admin: "Admin", names: list[str], if_exists: bool) -> dict[str, int]:
    """The number of offsets that each group has committed. A group with members is reported before the user
    is asked."""
    from hightide.errors import UnknownGroupError

    counts = {}
    for name in names:
        try:
            described = admin.describe_group(name)
        except UnknownGroupError:
            if not if_exists:
                raise
            continue
        if described.members:
            members = ", ".join(each.consumer_id for each in described.members[:3])
            others = f" and {len(described.members) - 3} more" if len(described.members) > 3 else ""
            raise click.ClickException(
                f"group {name} has members, {members}{others}: stop them, then delete it"
            )
        counts[name] = len(described.offsets)
    return counts
