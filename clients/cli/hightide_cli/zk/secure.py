"""`hightide zk secure`: give all znodes of a cluster the ACL of its credentials; a dry run by default."""

from typing import TYPE_CHECKING, Final

import click

from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.zk.options import ZooKeeperOptions, zookeeper_options

if TYPE_CHECKING:
    from hightide_cli.documents.cluster import SecuredDocument
    from hightide_cli.zk.securing import Secured

_NAMED_MAX: Final = 5


@common_options
@click.command()
@click.option("--undo", is_flag=True, help="Open all znodes again to anyone.")
@click.option(
    "--execute/--dry-run",
    default=False,
    help="Set the ACLs, or only show how many would be set; the default is --dry-run.",
)
@zookeeper_options
@click.pass_context
def secure(ctx: click.Context, undo: bool, execute: bool, server: ZooKeeperOptions) -> None:
    """Close a cluster's znodes to all but its credentials.

    Only who shows them to ZooKeeper can change and read the znodes then. The cluster runs on meanwhile, if
    all of its processes show them already; the command refuses to lock one out. Repeat it as often as you
    like, also after an interruption: it sets only what is not yet as it should be.

    \b
    hightide zk secure --zookeeper-credentials-file zookeeper.credentials
    hightide zk secure --zookeeper-credentials-file zookeeper.credentials --execute
    """
    import asyncio

    if server.credentials_file is None:
        raise click.UsageError(
            "give the file with the cluster's credentials with --zookeeper-credentials-file", ctx
        )
    found = asyncio.run(_secure(server.hosts(ctx), server, undo=undo, execute=execute))
    is_refused = bool(found.locked_out) and not undo
    if wants_document(ctx):
        document: SecuredDocument = {
            "znodes": found.znodes,
            "to_change": found.to_change,
            "open": found.open,
            "locked_out": found.locked_out,
            "executed": execute and not is_refused,
        }
        emit(ctx, document)
    else:
        click.echo(f"{found.znodes} znodes, of which anyone may change {found.open}")
    if is_refused:
        more = len(found.locked_out) - _NAMED_MAX
        named = ", ".join(found.locked_out[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        raise click.ClickException(
            f"processes that run would be locked out, since they do not show these credentials: {named}; "
            "start them again with --zookeeper-credentials-file first; nothing was changed"
        )
    if not wants_document(ctx):
        click.echo(
            f"{found.to_change} ACLs were set"
            if execute
            else f"nothing was changed; --execute sets {found.to_change} ACLs",
            err=not execute,
        )


async def _secure(hosts: str, server: ZooKeeperOptions, *, undo: bool, execute: bool) -> "Secured":
    from dataclasses import replace

    from hightide_runtime.zookeeper.access_check import open_session
    from hightide_runtime.zookeeper.security import ZnodeAcl

    from hightide_cli.zk.securing import secure_znodes

    security = server.security()
    wanted = replace(security, acl=ZnodeAcl.OPEN if undo else ZnodeAcl.CREATOR)
    session = await open_session(
        hosts,
        security,
        session_timeout_ms=30_000,
        connect_timeout_ms=round(server.timeout_s * 1000),
        creates_chroot=False,
    )
    try:
        found = await secure_znodes(session, wanted, execute=False)
        if not found.znodes:
            raise click.ClickException(f"there is nothing at {hosts}; give the chroot of the cluster")
        if execute and (undo or not found.locked_out):
            found = await secure_znodes(session, wanted, execute=True)
        return found
    finally:
        await session.close()
