"""`hightide zk`: look into ZooKeeper, without changing anything."""

from typing import Any

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import properties

_ADDRESS = click.option(
    "--zookeeper",
    metavar="HOST:PORT[,…][/CHROOT]",
    envvar="HIGHTIDE_ZOOKEEPER",
    show_envvar=True,
    help="The ZooKeeper of the cluster; the default is that of the context or of `dev up`.",
)
_TIMEOUT = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1, max=60),
    default=5.0,
    show_default=True,
    help="Seconds to wait for ZooKeeper.",
)


@click.group()
def zk() -> None:
    """Show what is in ZooKeeper, where all decisions are; change nothing."""


common_options(zk)


@common_options
@zk.command()
@click.argument("path", default="/")
@click.option(
    "--depth", type=click.IntRange(1, 20), default=4, show_default=True, help="How many levels to show."
)
@click.option(
    "--limit",
    "znodes_max",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="The most znodes to show.",
)
@click.option(
    "--values", "with_values", is_flag=True, help="Also show the beginning of the content of each znode."
)
@_ADDRESS
@_TIMEOUT
@click.pass_context
def tree(
    ctx: click.Context,
    path: str,
    depth: int,
    znodes_max: int,
    with_values: bool,
    zookeeper: str | None,
    timeout_s: float,
) -> None:
    """Show the znodes below a path. It marks ephemeral ones, which vanish with their process.

    \b
    hightide zk tree /brokers --values
    """
    from hightide_cli.zk.znode_reader import ZnodeReader
    from hightide_cli.zk.znode_text import tree_lines, znode_document

    with ZnodeReader(_connection(ctx, zookeeper), timeout_s) as reader:
        found = reader.tree(path, depth, znodes_max)
    is_cut = len(found) >= znodes_max
    if wants_document(ctx):
        documents = [znode_document(each, with_value=with_values) for each in found]
        emit(ctx, {"path": path, "truncated": is_cut, "znodes": documents})
        return
    click.echo("\n".join(tree_lines(found, with_values=with_values)))
    if is_cut:
        click.echo(f"only the first {znodes_max} znodes are shown; --limit shows more", err=True)


@common_options
@zk.command()
@click.argument("path")
@_ADDRESS
@_TIMEOUT
@click.pass_context
def get(ctx: click.Context, path: str, zookeeper: str | None, timeout_s: float) -> None:
    """Show the content of one znode, and how often it was changed."""
    from hightide_cli.zk.znode_reader import ZnodeReader
    from hightide_cli.zk.znode_text import value_text, znode_document

    with ZnodeReader(_connection(ctx, zookeeper), timeout_s) as reader:
        found = reader.get(path)
    if wants_document(ctx):
        emit(ctx, znode_document(found, with_value=True))
        return
    click.echo(value_text(found.data))
    click.echo()
    click.echo(
        properties(
            [
                ("version", found.version),
                ("created at zxid", f"{found.created_zxid:#x}"),
                ("changed at zxid", f"{found.modified_zxid:#x}"),
                ("ephemeral", found.is_ephemeral),
                ("children", found.child_count),
                ("bytes", found.size_bytes),
            ]
        )
    )


def _connection(ctx: click.Context, said: str | None) -> str:
    target: Any = choices(ctx).target()
    found = said or target.zookeeper
    if found is None:
        raise click.UsageError(
            "give the address of ZooKeeper with --zookeeper HOST:PORT, or in the context "
            "(`hightide context add NAME --bootstrap … --zookeeper …`)",
            ctx,
        )
    return str(found)
