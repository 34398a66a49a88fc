"""`hightide controller`: who decides now, and letting another one decide."""

import time
from typing import TYPE_CHECKING

import click

from hightide_cli.broker.tables import server_document, server_pairs
from hightide_cli.command_line.options import common_options
from hightide_cli.documents.cluster import ControllerDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import properties

if TYPE_CHECKING:
    from hightide import Admin, ClusterDescription

_SUCCESSOR_TIMEOUT_MS = 30_000
_LOOK_AGAIN_S = 0.05


@click.group()
def controller() -> None:
    """Show the active controller, or replace it."""


common_options(controller)


@common_options
@controller.command()
@click.pass_context
def show(ctx: click.Context) -> None:
    """Show the active controller. It shows its address, epoch, version and start time."""
    from hightide_cli.cluster.health_report import is_led
    from hightide_cli.cluster.server_survey import survey
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        described = admin.describe_cluster()
        if is_led(described):
            raise click.ClickException(
                "this cluster has no controller: leaders decide for themselves; see `hightide cluster info`"
            )
        (said,) = survey(admin, [("controller", described.controller_id, described.controller_address)])
    if wants_document(ctx):
        emit(
            ctx,
            {**view(ControllerDocument, described), "server": server_document(said)},
        )
        return
    click.echo(
        properties(
            [
                ("controller", described.controller_id),
                ("address", described.controller_address),
                ("epoch", described.controller_epoch),
                *server_pairs(said),
            ]
        )
    )


@common_options
@controller.command()
@click.option("--epoch", type=click.IntRange(min=1), help="Do nothing unless the controller has this epoch.")
@click.option("--dry-run", is_flag=True, help="Show which controller would step down, and change nothing.")
@click.pass_context
def resign(ctx: click.Context, epoch: int | None, dry_run: bool) -> None:
    """Let the active controller step down. It waits for the next one; a single one is elected again."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx, _SUCCESSOR_TIMEOUT_MS) as admin:
        before = admin.describe_cluster()
        if dry_run:
            if epoch is not None and epoch != before.controller_epoch:
                raise click.ClickException(
                    f"the epoch of the active controller is {before.controller_epoch}, not {epoch}"
                )
            ended, now = (before.controller_id, before.controller_epoch), None
        else:
            begun_s = time.monotonic()
            resigned = admin.resign_controller(epoch or 0)
            ended = (resigned.controller_id, resigned.controller_epoch)
            now = _successor(admin, resigned.controller_epoch)
            took_ms = (time.monotonic() - begun_s) * 1000
    if wants_document(ctx):
        emit(
            ctx,
            {
                "dry_run": dry_run,
                "resigned": {"id": ended[0], "epoch": ended[1]},
                "controller": None if now is None else view(ControllerDocument, now),
                "took_ms": None if now is None else round(took_ms, 1),
            },
        )
    elif now is None:
        click.echo(f"controller {ended[0]} of epoch {ended[1]} would step down")
    else:
        click.echo(f"controller {ended[0]} of epoch {ended[1]} stepped down")
        click.echo(
            f"controller {now.controller_id} at {now.controller_address} is active in epoch "
            f"{now.controller_epoch}, {took_ms:.0f} ms later"
        )


def _successor(admin: "Admin", epoch: int) -> "ClusterDescription":
    """The active controller of a later epoch. Raises ControllerUnavailableError if there is none in time."""
    from hightide.errors import ControllerUnavailableError

    give_up_s = time.monotonic() + _SUCCESSOR_TIMEOUT_MS / 1000
    while True:
        described = admin.describe_cluster()
        if described.controller_epoch > epoch:
            return described
        if time.monotonic() > give_up_s:
            raise ControllerUnavailableError(
                f"controller {described.controller_id} of epoch {epoch} is still active", address=None
            )
        time.sleep(_LOOK_AGAIN_S)
