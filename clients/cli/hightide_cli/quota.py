"""`hightide quota`: how much of the cluster each principal may take."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from hightide_cli.command_line.options import common_options
from hightide_cli.command_line.sizes import parse_size, size_text
from hightide_cli.documents.quotas import QuotaDocument
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import table

if TYPE_CHECKING:
    from hightide import Quota

_OPTIONS: Final = {
    "produce_bytes_per_s": "--produce",
    "fetch_bytes_per_s": "--fetch",
    "mutations_per_s": "--mutations",
    "calls_max": "--calls",
    "connections_max": "--connections",
}
_OFF: Final = "off"
_NO_PRINCIPAL: Final = "no principal has a quota"


@click.group()
def quota() -> None:
    """Show and change how much of the cluster clients may take.

    PRINCIPAL is client/<name>, as in the certificate of a client; client/*, the default of all clients, each
    of which counts for itself; or anonymous, all who do not show who they are, together.
    """


common_options(quota)


@common_options
@quota.command("ls")
@click.pass_context
def list_quotas(ctx: click.Context) -> None:
    """Show all quotas. A limit that is not there is that of client/*, and else there is none."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        quotas = admin.describe_quotas()
    if wants_document(ctx):
        emit(ctx, {"quotas": [_document(principal, each) for principal, each in quotas.items()]})
    elif quotas:
        columns = ["principal", "produce", "fetch", "mutations", "calls", "connections"]
        rows = [(principal, *_cells(each)) for principal, each in quotas.items()]
        click.echo(table(columns, rows))
    else:
        click.echo(_NO_PRINCIPAL)


@common_options
@quota.command("set")
@click.argument("principal")
@click.option("--produce", metavar="RATE|off", help="Bytes a second to each broker, such as 10MB.")
@click.option("--fetch", metavar="RATE|off", help="Bytes a second from each broker, such as 10MB.")
@click.option("--mutations", metavar="N|off", help="Partitions created and deleted a second.")
@click.option("--calls", metavar="N|off", help="Unfinished calls at each process.")
@click.option("--connections", metavar="N|off", help="Connections with unfinished calls at each process.")
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def set_quota(
    ctx: click.Context,
    principal: str,
    produce: str | None,
    fetch: str | None,
    mutations: str | None,
    calls: str | None,
    connections: str | None,
    dry_run: bool,
) -> None:
    """Change the limits that are named; the others stay. `off` takes a limit away.

    All processes know it within a second. Who takes more than a rate waits; nothing is lost by it.
    """
    from hightide import Quota

    given = dict(zip(_OPTIONS, (produce, fetch, mutations, calls, connections), strict=True))
    named = {name: text for name, text in given.items() if text is not None}
    if not named:
        raise click.UsageError(f"name a limit: {', '.join(_OPTIONS.values())}", ctx)
    limits = {name: _value(name, text) for name, text in named.items() if text != _OFF}
    _alter(
        ctx, principal, Quota(**limits), {name: text for name, text in named.items() if text == _OFF}, dry_run
    )


@common_options
@quota.command("rm")
@click.argument("principal")
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def remove_quota(ctx: click.Context, principal: str, dry_run: bool) -> None:
    """Take all limits of a principal away. Those of client/* then hold for it."""
    from hightide import Quota

    _alter(ctx, principal, Quota(), _OPTIONS, dry_run)


def _alter(
    ctx: click.Context, principal: str, limits: "Quota", reset: Mapping[str, str], dry_run: bool
) -> None:
    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin

    with open_admin(ctx, ORDER_TIMEOUT_MS) as admin:
        after = admin.alter_quota(principal, limits, reset=reset, validate_only=dry_run)
    if wants_document(ctx):
        emit(ctx, {"dry_run": dry_run, **_document(principal, after)})
        return
    verb = "would have" if dry_run else "has"
    told = [
        f"{option[2:]} {cell}"
        for option, cell in zip(_OPTIONS.values(), _cells(after), strict=True)
        if cell != "-"
    ]
    click.echo(f"{principal} {verb} {', '.join(told) if told else 'no limits of its own'}")


def _value(name: str, text: str) -> int:
    """The limit that an option gives. Raises click.BadParameter."""
    option = _OPTIONS[name]
    if name.endswith("_bytes_per_s"):
        try:
            value = parse_size(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}, or off", param_hint=option) from None
    elif text.isascii() and text.isdigit():
        value = int(text)
    else:
        raise click.BadParameter(f"{text!r} is no number, nor off", param_hint=option)
    if value < 1:
        raise click.BadParameter("it may be 1 or more; off takes the limit away", param_hint=option)
    return value


def _cells(quota: "Quota") -> tuple[str, ...]:
    def rate(value: int | None) -> str:
        return "-" if value is None else f"{size_text(value)}/s"

    def count(value: int | None, unit: str = "") -> str:
        return "-" if value is None else f"{value}{unit}"

    return (
        rate(quota.produce_bytes_per_s),
        rate(quota.fetch_bytes_per_s),
        count(quota.mutations_per_s, "/s"),
        count(quota.calls_max),
        count(quota.connections_max),
    )


def _document(principal: str, quota: "Quota") -> QuotaDocument:
    return {
        "principal": principal,
        "produce_bytes_per_s": quota.produce_bytes_per_s,
        "fetch_bytes_per_s": quota.fetch_bytes_per_s,
        "mutations_per_s": quota.mutations_per_s,
        "calls_max": quota.calls_max,
        "connections_max": quota.connections_max,
    }
