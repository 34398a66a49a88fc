"""`hightide coordinator`: who coordinates the consumer groups, and letting another one do it."""

from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import table

if TYPE_CHECKING:
    from hightide import Admin


@click.group()
def coordinator() -> None:
    """Show who coordinates the consumer groups, or let another one do it."""


common_options(coordinator)


@common_options
@coordinator.command()
@click.pass_context
def show(ctx: click.Context) -> None:
    """Show the coordinator of each shard, and those that stand by."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        shards = _shards_of(admin)
        everybody = admin.describe_cluster().coordinators
    active = {address for _, _, address in shards}
    standbys = [(each.server_id, each.address) for each in everybody if each.address not in active]
    if wants_document(ctx):
        emit(
            ctx,
            {
                "shards": [
                    {"shard": shard, "id": number, "address": address} for shard, number, address in shards
                ],
                "standbys": [{"id": number, "address": address} for number, address in standbys],
            },
        )
        return
    click.echo(table(("SHARD", "COORDINATOR", "ADDRESS"), shards))
    for number, address in standbys:
        click.echo(f"coordinator {number} at {address} stands by")


@common_options
@coordinator.command()
@click.argument("coordinator_id", metavar="ID", type=click.IntRange(min=0))
@click.option(
    "--shard", "shards", type=click.IntRange(min=0), multiple=True, help="Only this shard; repeatable."
)
@click.option("--dry-run", is_flag=True, help="Show which shards it would give up, and change nothing.")
@click.pass_context
def resign(ctx: click.Context, coordinator_id: int, shards: tuple[int, ...], dry_run: bool) -> None:
    """Let a coordinator give up its shards of the groups.

    Others are elected for them. Consumers keep their partitions. A coordinator that is alone is elected
    again.
    """
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        if dry_run:
            held = [shard for shard, number, _ in _shards_of(admin) if number == coordinator_id]
            wrong = [shard for shard in shards if shard not in held]
            if wrong:
                raise click.ClickException(
                    f"coordinator {coordinator_id} is not active for shard {wrong[0]}; see "
                    "`hightide coordinator show`"
                )
            given_up = [shard for shard in held if not shards or shard in shards]
        else:
            given_up = list(admin.resign_coordinator(coordinator_id, shards))
    if wants_document(ctx):
        emit(ctx, {"dry_run": dry_run, "id": coordinator_id, "shards": given_up})
        return
    named = ", ".join(map(str, given_up)) or "none"
    verb = "would give up" if dry_run else "gave up"
    click.echo(f"coordinator {coordinator_id} {verb} these shards: {named}")


def _shards_of(admin: "Admin") -> list[tuple[int, int | None, str | None]]:
    """Shard, id and address of its coordinator; None where it has none, or the id is not known."""
    ids = {each.address: each.server_id for each in admin.describe_cluster().coordinators}
    return [
        (shard, None if address is None else ids.get(address), address)
        for shard, address in enumerate(admin.coordinators())
    ]
