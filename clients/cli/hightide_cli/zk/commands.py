"""`hightide zk`: look into ZooKeeper, and secure what is there."""

import click

from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import properties
from hightide_cli.zk.options import ZooKeeperOptions, zookeeper_options
from hightide_cli.zk.secure import secure


@click.group()
def zk() -> None:
    """Show what is in ZooKeeper, where all decisions are, and secure it."""


common_options(zk)
zk.add_command(secure)


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
@zookeeper_options
@click.pass_context
def tree(
    ctx: click.Context,
    path: str,
    depth: int,
    znodes_max: int,
    with_values: bool,
    server: ZooKeeperOptions,
) -> None:
    """Show the znodes below a path. It marks ephemeral ones, which vanish with their process.

    \b
    hightide zk tree /brokers --values
    """
    from hightide_cli.zk.znode_reader import ZnodeReader
    from hightide_cli.zk.znode_text import tree_lines, znode_document

    with ZnodeReader(server.hosts(ctx), server.security(), server.timeout_s) as reader:
        # One more tells whether there are more.
        found = reader.tree(path, depth, znodes_max + 1)
    is_cut, found = len(found) > znodes_max, found[:znodes_max]
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
@zookeeper_options
@click.pass_context
def get(ctx: click.Context, path: str, server: ZooKeeperOptions) -> None:
    """Show the content of one znode, and how often it was changed."""
    from hightide_cli.zk.znode_reader import ZnodeReader
    from hightide_cli.zk.znode_text import cut_line, value_text, znode_document

    with ZnodeReader(server.hosts(ctx), server.security(), server.timeout_s) as reader:
        found = reader.get(path)
    if (cut := cut_line(found)) is not None:
        click.echo(cut, err=True)
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
