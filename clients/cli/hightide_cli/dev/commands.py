"""`hightide dev`: a whole cluster on this machine that goes on running when the command has ended."""

import shlex
from pathlib import Path

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.options import common_options
from hightide_cli.context.target import Target
from hightide_cli.documents.cluster import LocalProcessDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.progress import progress_option, waiting
from hightide_cli.printing.rendering import table

_DIRECTORY = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory of the cluster; the default is one in your home directory.",
)


@click.group()
def dev() -> None:
    """Start, stop and watch a cluster on this machine: ZooKeeper, controllers, coordinators, brokers."""


common_options(dev)


@common_options
@dev.command()
@click.option(
    "--brokers", type=click.IntRange(1, 20), default=3, show_default=True, help="The number of brokers."
)
@click.option(
    "--controllers",
    type=click.IntRange(1, 5),
    help="The number of controllers; one is active, the others stand by. The default is 2, and none where "
    "leaders decide.",
)
@click.option(
    "--coordinators",
    type=click.IntRange(0, 5),
    default=1,
    show_default=True,
    help="The number of coordinators; 0: no consumer groups.",
)
@click.option(
    "--coordination",
    type=click.Choice(["controller", "leaders"]),
    default="controller",
    show_default=True,
    help="What decides who leads a partition: a controller, or the replicas themselves. It stays so for the "
    "life of the cluster.",
)
@click.option(
    "--tls", is_flag=True, help="Use TLS, with a CA and certificates in the directory of the cluster."
)
@_DIRECTORY
@progress_option
@click.pass_context
def up(
    ctx: click.Context,
    brokers: int,
    controllers: int | None,
    coordinators: int,
    coordination: str,
    tls: bool,
    directory: Path | None,
) -> None:
    """Start the cluster. Processes that run already are left alone. It is ready when the command returns."""
    from hightide_local import detached
    from hightide_local.layout import controllers_wanted
    from hightide_runtime.znodes.coordination_znode import Coordination

    chosen = Coordination(coordination)
    controllers = controllers_wanted(brokers, controllers, coordinators, chosen)
    with waiting(f"starting ZooKeeper and {brokers + controllers + coordinators} processes"):
        cluster = detached.up(
            directory or detached.default_directory(),
            brokers=brokers,
            controllers=controllers,
            coordinators=coordinators,
            coordination=chosen,
            tls=tls,
        )
    files = None if cluster.certificates is None else cluster.certificates.client
    if wants_document(ctx):
        emit(
            ctx,
            {
                "bootstrap": cluster.bootstrap,
                "directory": str(cluster.directory),
                "tls_ca": None if files is None else str(files.ca),
                "tls_certificate": None if files is None else str(files.certificate),
                "tls_key": None if files is None else str(files.key),
            },
        )
        return
    click.echo(f"ready: {brokers} brokers at {cluster.bootstrap}, logs in {cluster.log_directory}")
    if directory is None:
        click.echo(_who_finds_it(choices(ctx).target(), cluster.bootstrap))
    click.echo(f"  export HIGHTIDE_BOOTSTRAP={cluster.bootstrap}")
    for name, value in cluster.client_environment.items():
        click.echo(f"  export {name}={shlex.quote(value)}")


def _who_finds_it(target: Target, bootstrap: str) -> str:
    """A sentence for the user: a selected context takes precedence over the cluster of this machine, which is
    easily forgotten."""
    if target.bootstrap == bootstrap:
        return "hightide commands use this cluster by default; for other programs:"
    return f"hightide commands use another cluster, {target.bootstrap} ({target.origin}); for this one:"


@common_options
@dev.command()
@click.option("--delete", is_flag=True, help="Delete the data, logs and traces of the cluster as well.")
@_DIRECTORY
@click.pass_context
def down(ctx: click.Context, delete: bool, directory: Path | None) -> None:
    """Stop the cluster."""
    from hightide_local import detached

    stopped = detached.down(directory or detached.default_directory(), delete=delete)
    if wants_document(ctx):
        emit(ctx, {"stopped": stopped})
    else:
        click.echo(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
        if delete:
            click.echo("data, logs and traces are deleted")


@common_options
@dev.command()
@_DIRECTORY
@click.pass_context
def status(ctx: click.Context, directory: Path | None) -> None:
    """Show the processes of the cluster. Exit code 3: a process does not run."""
    from hightide_local import detached

    processes = detached.status(directory or detached.default_directory())
    if wants_document(ctx):
        emit(ctx, {"processes": [view(LocalProcessDocument, each) for each in processes]})
    else:
        cells = [
            (each.name, each.address, each.pid, "running" if each.running else "stopped")
            for each in processes
        ]
        click.echo(table(["process", "address", "pid", "state"], cells))
    if not all(each.running for each in processes):
        ctx.exit(3)
