"""`hightide version`: of this command, and of every server that it can reach."""

from typing import TYPE_CHECKING

import click

from hightide_cli.broker.tables import since_text
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Cell, Json, printable, table

if TYPE_CHECKING:
    from hightide_cli.cluster.server_survey import Surveyed

_TIMEOUT_MS = 3_000


@common_options
@click.command()
@click.option(
    "--client", "client_only", is_flag=True, help="Show only the version of this command, and ask no server."
)
@click.pass_context
def version(ctx: click.Context, client_only: bool) -> None:
    """Show the versions of this command and of the servers. The exit code is 0 also if no server answers."""
    own = client_version()
    servers: list[Surveyed] = []
    failure: str | None = None
    if not client_only:
        servers, failure = _servers(ctx)
    if wants_document(ctx):
        document: dict[str, Json] = {"client": own}
        if not client_only:
            document |= {"servers": [_document(each) for each in servers], "error": failure}
        emit(ctx, document)
        return
    click.echo(f"hightide {own}")
    if servers:
        rows = [_row(each) for each in servers]
        click.echo(f"\n{table(['server', 'address', 'version', 'since'], rows)}")
    if failure is not None:
        click.echo(f"\nthe servers are not known: {printable(failure)}", err=True)


def _row(each: "Surveyed") -> tuple[Cell, ...]:
    said = each.description
    if said is None:
        return each.name, each.address, None, f"no answer: {each.error}"
    return each.name, each.address, said.version, since_text(said.started_at_ms)


def client_version() -> str:
    """The version of the package that runs here; "unknown" where it was not installed as one."""
    from importlib import metadata

    try:
        return metadata.version("hightide")
    except metadata.PackageNotFoundError:
        return "unknown"


def _servers(ctx: click.Context) -> "tuple[list[Surveyed], str | None]":
    from hightide.errors import HightideError

    from hightide_cli.cluster.server_survey import servers_of, survey
    from hightide_cli.command_line.connections import open_admin

    try:
        with open_admin(ctx, _TIMEOUT_MS) as admin:
            described = admin.describe_cluster()
            return survey(admin, servers_of(described, admin.coordinators())), None
    except HightideError as error:
        return [], str(error)


def _document(each: "Surveyed") -> dict[str, Json]:
    said = each.description
    return {
        "service": said.service if said else each.kind,
        "instance": said.instance if said else None if each.instance is None else str(each.instance),
        "address": each.address,
        "version": said.version if said else None,
        "started_at_ms": said.started_at_ms if said else None,
        "error": None if each.error is None else str(each.error),
    }
