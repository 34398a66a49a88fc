"""`hightide config show`: the settings in use by running servers, and their sources."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from hightide_cli.command_line.completing import server_names
from hightide_cli.command_line.options import common_options
from hightide_cli.documents.cluster import ServerSettingDocument, ServerSettingsDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.output import emit, wants_document, wants_wide
from hightide_cli.printing.rendering import Cell, printable, table

if TYPE_CHECKING:
    from hightide import ServerSetting

    from hightide_cli.cluster.server_survey import Surveyed

_NAME: Final = re.compile(r"(broker|controller|coordinator)-(\d{1,10})")


@common_options
@click.command()
@click.argument("servers", metavar="[SERVER…]", nargs=-1, shell_complete=server_names)
@click.option(
    "--own", "only_own", is_flag=True, help="Show only the settings that a flag or the environment sets."
)
@click.pass_context
def show(ctx: click.Context, servers: tuple[str, ...], only_own: bool) -> None:
    """Show the settings of running servers. It shows their values, defaults, and where they come from.

    SERVER is broker-1, controller-1 or coordinator-1, or the HOST:PORT of any of them; the default is all
    servers. `hightide config get` shows the settings of topics. Exit code 1: a server does not answer.

    \b
    hightide config show broker-1
    hightide config show --own -o wide
    """
    asked = _ask(ctx, servers)
    if wants_document(ctx):
        emit(ctx, {"servers": [_document(each, only_own) for each in asked]})
    else:
        rows = [row for each in asked for row in _rows(each, only_own, is_wide=wants_wide(ctx))]
        headings = ["server", "setting", "value", "default", "origin"]
        if rows:
            click.echo(table([*headings, "variable", "meaning"] if wants_wide(ctx) else headings, rows))
    silent = [each for each in asked if each.error is not None]
    for each in silent:
        click.echo(printable(f"{_short_name(each)} is not shown: {each.error}"), err=True)
    untold = [each.name for each in asked if each.description is not None and not each.description.settings]
    if untold:
        click.echo(
            f"these servers are of a version that does not send its settings: {printable(', '.join(untold))}",
            err=True,
        )
    if silent:
        ctx.exit(1)


def _ask(ctx: click.Context, wanted: Sequence[str]) -> "list[Surveyed]":
    """The wanted servers in that order, or all. Raises ClickException if one is not known."""
    from hightide.calls.addresses import bootstrap_addresses

    from hightide_cli.cluster.server_survey import servers_of, survey
    from hightide_cli.command_line.connections import open_admin

    names = [each for each in wanted if _NAME.fullmatch(each)]
    addresses: list[tuple[str, int | None, str]] = [
        ("server", None, each) for each in wanted if each not in names
    ]
    if addresses:
        # A word that is neither a name nor an address is refused before any server is asked.
        bootstrap_addresses([address for _, _, address in addresses])
    with open_admin(ctx) as admin:
        if wanted and not names:
            return survey(admin, addresses)
        known = servers_of(admin.describe_cluster(), admin.coordinators())
        if not wanted:
            return survey(admin, known)
        meant = [each for each in known if each[1] is None or f"{each[0]}-{each[1]}" in names]
        found = survey(admin, [*meant, *addresses])
    by_name = {name: each for each in found for name in (_short_name(each), each.address)}
    missing = next((each for each in wanted if each not in by_name), None)
    if missing is not None:
        there = ", ".join(f"{kind}-{instance}" for kind, instance, _ in known if instance is not None)
        raise click.ClickException(f"there is no {missing}; there are {there}")
    return [by_name[each] for each in dict.fromkeys(wanted)]


def _short_name(server: "Surveyed") -> str:
    if server.description is not None:
        return f"{server.description.service}-{server.description.instance}"
    # A server that was asked for by address and does not answer has no other name.
    return "one server" if server.instance is None else f"{server.kind}-{server.instance}"


def _shown(server: "Surveyed", only_own: bool) -> "list[ServerSetting]":
    from hightide import SettingOrigin

    told = () if server.description is None else server.description.settings
    return [each for each in told if not only_own or each.origin is not SettingOrigin.DEFAULT]


def _rows(server: "Surveyed", only_own: bool, *, is_wide: bool) -> list[tuple[Cell, ...]]:
    name = _short_name(server)
    rows: list[tuple[Cell, ...]] = []
    for each in _shown(server, only_own):
        row = (name, each.name, each.value or None, each.default or None, each.origin.value)
        rows.append((*row, each.variable, each.meaning) if is_wide else row)
    return rows


def _document(server: "Surveyed", only_own: bool) -> ServerSettingsDocument:
    said = server.description
    return {
        "service": said.service if said else server.kind,
        "instance": said.instance if said else None if server.instance is None else str(server.instance),
        "address": server.address,
        "error": None if server.error is None else str(server.error),
        "settings": [view(ServerSettingDocument, each) for each in _shown(server, only_own)],
    }
