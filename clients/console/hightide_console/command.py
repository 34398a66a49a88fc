"""`hightide console`: the cluster in a browser."""

from pathlib import Path
from threading import Thread

import click
from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.options import common_options

DEFAULT_PORT = 9980


@common_options
@click.command()
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port on 127.0.0.1; 0 takes a free one.",
)
@click.option(
    "--traces",
    "trace_directories",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="The directory of the trace files, for failovers; repeatable. The default is that of `trace show`.",
)
@click.option(
    "--allow-changes",
    is_flag=True,
    help="Offer the changes that commands make: topics, records, offsets, leaders, moves. Each asks first.",
)
@click.option("--open", "opens", is_flag=True, help="Open it in the browser of this machine.")
@click.pass_context
def console(
    ctx: click.Context, port: int, trace_directories: tuple[Path, ...], allow_changes: bool, opens: bool
) -> None:
    """Show the cluster in a browser. It serves pages on 127.0.0.1 alone, until Ctrl-C.

    It prints the address to open, with a token that other users of this machine do not know. The pages ask
    the cluster with the credentials of this command line: whoever has the address sees what you may see. It
    only reads, unless you allow changes: then whoever has the address may do what you may do.

    \b
    hightide console
    hightide console --context production --port 0
    """
    from hightide_console.server import serve

    chosen = choices(ctx)
    target = chosen.target()
    try:
        serve(
            chosen.client_arguments(),
            cluster=target.bootstrap,
            origin=target.origin,
            port=port,
            allows_changes=allow_changes,
            trace_directories=trace_directories or _known_traces(ctx),
            announce=lambda address, once: _announce(address, once if opens else None),
        )
    except KeyboardInterrupt:
        # Ctrl-C is the only way to end it, and no failure.
        return


def _known_traces(ctx: click.Context) -> tuple[Path, ...]:
    """Where `hightide trace show` looks; nowhere if it does not know the traces of this cluster."""
    from hightide_cli.trace.commands import known_directories

    try:
        return known_directories(ctx)
    except (click.ClickException, ImportError):
        return ()


def _announce(address: str, to_open: str | None) -> None:
    click.echo(f"The console is at {address}")
    click.echo("Press Ctrl-C to end it.", err=True)
    if to_open is not None:
        import webbrowser

        # A browser in a terminal returns when it ends, and waits for pages that are served only then.
        Thread(target=webbrowser.open, args=(to_open,), daemon=True).start()
