"""`hightide broker`: the brokers, what they hold, and making one ready to be stopped."""

from typing import TYPE_CHECKING

import click

from hightide_cli.broker.tables import (
    DirectoryRow,
    directory_rows,
    directory_table,
    drain_plan,
    replica_rows,
    server_document,
    server_pairs,
)
from hightide_cli.command_line.completing import broker_ids
from hightide_cli.command_line.options import common_options
from hightide_cli.documents.cluster import BrokerDocument, LogDirectoryDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.output import emit, wants_document, wants_wide
from hightide_cli.printing.rendering import Json, properties, table

if TYPE_CHECKING:
    from hightide import Admin, BrokerDescription, ClusterDescription

DRAIN_TIMEOUT_S = 60.0


@click.group()
def broker() -> None:
    """Show brokers and what they hold; move leadership away from a broker."""


common_options(broker)


@common_options
@broker.command("ls")
@click.pass_context
def list_brokers(ctx: click.Context) -> None:
    """List the brokers. With -o wide, also show their versions and start times."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        described = admin.describe_cluster()
        if wants_wide(ctx):
            click.echo(wide_brokers(admin, described))
            return
    if wants_document(ctx):
        emit(ctx, {"brokers": [view(BrokerDocument, each) for each in described.brokers]})
        return
    rows = [
        (each.broker_id, each.address, each.alive, each.leader_count, each.replica_count)
        for each in described.brokers
    ]
    click.echo(table(["broker", "address", "alive", "leads", "replicas"], rows))


def wide_brokers(admin: "Admin", described: "ClusterDescription") -> str:
    """The brokers with what each reports about itself; `cluster info -o wide` shows them, too."""
    from hightide_cli.broker.tables import since_text
    from hightide_cli.cluster.server_survey import survey

    asked = [each for each in described.brokers if each.address is not None]
    said = {
        each.instance: each.description
        for each in survey(admin, [("broker", each.broker_id, each.address or "") for each in asked])
    }
    rows = []
    for each in described.brokers:
        own = said.get(each.broker_id)
        rows.append(
            (
                *(each.broker_id, each.address, each.alive, each.leader_count, each.replica_count),
                each.broker_epoch or None,
                None if own is None else own.external_advertised or None,
                None if own is None else own.version,
                None if own is None else since_text(own.started_at_ms),
            )
        )
    headings = ["broker", "address", "alive", "leads", "replicas", "epoch", "external", "version", "since"]
    return table(headings, rows)


@common_options
@broker.command()
@click.argument("broker_id", metavar="BROKER", type=click.IntRange(min=0), shell_complete=broker_ids)
@click.option(
    "--replicas", "with_replicas", is_flag=True, help="List the replicas that the broker holds as well."
)
@click.pass_context
def describe(ctx: click.Context, broker_id: int, with_replicas: bool) -> None:
    """Show one broker. It shows the addresses, the version and the log directories of the broker."""
    from hightide_cli.cluster.server_survey import survey
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        found = _one(admin.describe_cluster(), broker_id)
        servers = [] if found.address is None else [("broker", found.broker_id, found.address)]
        said = next(iter(survey(admin, servers)), None)
        directories = [
            row for row in directory_rows(admin.describe_log_directories()) if row.broker_id == broker_id
        ]
        held = admin.describe_replicas() if with_replicas else None
    replicas = [] if held is None else replica_rows(held.replicas, broker_id)
    if wants_document(ctx):
        document = {
            **view(BrokerDocument, found),
            "server": server_document(said),
            "log_directories": [view(LogDirectoryDocument, each) for each in directories],
        }
        emit(ctx, document if held is None else {**document, "held": [dict(each) for each in replicas]})
        return
    click.echo(
        properties(
            [
                ("broker", found.broker_id),
                ("address", found.address),
                ("alive", found.alive),
                ("broker epoch", found.broker_epoch or None),
                ("leads", found.leader_count),
                ("replicas", found.replica_count),
                *server_pairs(said),
            ]
        )
    )
    if directories:
        click.echo(f"\n{directory_table(directories)}")
    if held is not None:
        headings = list(replicas[0]) if replicas else ["topic", "partition"]
        rows = [tuple(each.values()) for each in replicas]
        click.echo(f"\n{table([heading.replace('_', ' ') for heading in headings], rows)}")


@common_options
@broker.command("log-dirs")
@click.argument("ids", metavar="[BROKER…]", nargs=-1, type=click.IntRange(min=0), shell_complete=broker_ids)
@click.pass_context
def log_dirs(ctx: click.Context, ids: tuple[int, ...]) -> None:
    """Show the log directories of brokers. By default of all. Exit code 1: a directory has failed."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        rows = directory_rows(admin.describe_log_directories())
    shown = [each for each in rows if not ids or each.broker_id in ids]
    absent = sorted(set(ids) - {each.broker_id for each in rows})
    if absent:
        raise click.ClickException(
            f"broker {', '.join(map(str, absent))} is not alive; `hightide broker ls` lists all brokers"
        )
    if wants_document(ctx):
        emit(ctx, {"log_directories": [view(LogDirectoryDocument, each) for each in shown]})
    else:
        click.echo(directory_table(shown))
    if any(each.state != DirectoryRow.ONLINE for each in shown):
        ctx.exit(1)


@common_options
@broker.command()
@click.argument("broker_id", metavar="BROKER", type=click.IntRange(min=0), shell_complete=broker_ids)
@click.option(
    "--dry-run", is_flag=True, help="Show which brokers would lead its partitions, and change nothing."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1, max=3600),
    default=DRAIN_TIMEOUT_S,
    show_default=True,
    help="How many seconds to wait until other replicas are in sync.",
)
@click.pass_context
def drain(ctx: click.Context, broker_id: int, dry_run: bool, timeout_s: float) -> None:
    """Move leadership away from a broker. Then clients need not wait when it stops.

    The broker leads nothing until it is started again, or until another controller takes over. A broker does
    the same on SIGTERM. Exit code 1: it still leads partitions, because no other replica of them is in sync.
    """
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx, round(timeout_s * 1000)) as admin:
        cluster = admin.describe_cluster()
        found = _one(cluster, broker_id)
        alive = {each.broker_id for each in cluster.brokers if each.alive}
        plan = drain_plan(admin.describe_topics(), broker_id, alive)
        remaining = len(plan.stuck) if dry_run else admin.drain_broker(broker_id)
    if wants_document(ctx):
        stuck: list[Json] = [{"topic": topic, "partition": partition} for topic, partition in plan.stuck]
        emit(
            ctx,
            {
                "dry_run": dry_run,
                "broker": broker_id,
                "led": found.leader_count,
                "remaining": remaining,
                "without_another_in_sync": stuck,
            },
        )
    else:
        click.echo(plan.sentence(broker_id, found.leader_count, remaining, dry_run))
    if remaining:
        ctx.exit(1)


def _one(described: "ClusterDescription", broker_id: int) -> "BrokerDescription":
    for each in described.brokers:
        if each.broker_id == broker_id:
            return each
    known = ", ".join(str(each.broker_id) for each in described.brokers) or "none"
    raise click.ClickException(f"there is no broker {broker_id}; there are: {known}")
