"""`hightide cluster`: what the active controller sees, and whether it is well."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from hightide import ClusterDescription

from hightide_cli.broker.commands import wide_brokers
from hightide_cli.cluster.health import health
from hightide_cli.cluster.health_report import controller_text, coordinators_text, is_led
from hightide_cli.command_line.options import common_options
from hightide_cli.documents.cluster import ClusterDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.output import emit, wants_document, wants_wide
from hightide_cli.printing.rendering import Cell, Json, properties, table

if TYPE_CHECKING:
    from hightide import ServerAddress


@click.group()
def cluster() -> None:
    """Show the cluster, and whether it is well."""


common_options(cluster)
cluster.add_command(health)


@common_options
@cluster.command()
@click.pass_context
def info(ctx: click.Context) -> None:
    """Show the controller, the coordinators and the brokers. For each broker, it counts the partitions."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        described, coordinators = admin.describe_cluster(), admin.coordinators()
        wide = wide_brokers(admin, described) if wants_wide(ctx) else None
    if wants_document(ctx):
        standbys: list[Json] = [
            {"service": kind, "id": each.server_id, "address": each.address}
            for kind, each in _standbys(described, coordinators)
        ]
        emit(ctx, {**view(ClusterDocument, described), "coordinators": coordinators, "standbys": standbys})
        return
    click.echo(
        properties(
            [
                ("cluster", described.cluster_id),
                ("coordination", described.coordination),
                ("controller", controller_text(described)),
                *([] if is_led(described) else [("controller epoch", described.controller_epoch)]),
                ("coordinators", coordinators_text(coordinators)),
                *_standing_by(described, coordinators),
                ("topics", described.topic_count),
                ("partitions", described.partition_count),
            ]
        )
    )
    click.echo()
    if wide is not None:
        click.echo(wide)
        return
    rows = [
        (each.broker_id, each.address, each.alive, each.leader_count, each.replica_count)
        for each in described.brokers
    ]
    click.echo(table(["broker", "address", "alive", "leads", "replicas"], rows))


def _standbys(
    described: ClusterDescription, coordinators: Sequence[str | None]
) -> "list[tuple[str, ServerAddress]]":
    """The controllers and coordinators that are running but not active."""
    active = {described.controller_address, *coordinators}
    return [
        (kind, each)
        for kind, told in (("controller", described.controllers), ("coordinator", described.coordinators))
        for each in told
        if each.address not in active
    ]


def _standing_by(described: ClusterDescription, coordinators: Sequence[str | None]) -> list[tuple[str, Cell]]:
    """A line about them; none if the controller does not send them."""
    if not described.controllers:
        return []
    named = [
        f"{kind} {each.server_id} at {each.address}" for kind, each in _standbys(described, coordinators)
    ]
    return [("standing by", ", ".join(named) or "none")]
