"""`hightide cluster health`: whether all is well, and what is wrong if not."""

import click

from hightide_cli.cluster.health_report import health_document, health_text, problems_of
from hightide_cli.command_line.exit_codes import EXIT_NOT_HEALTHY
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document


@common_options
@click.command()
@click.option("-w", "--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option("--until-healthy", is_flag=True, help="Repeat until all is well, or until Ctrl-C.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two updates.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1, max=600),
    default=5.0,
    show_default=True,
    help="Seconds to wait for each answer.",
)
@click.pass_context
def health(ctx: click.Context, watch: bool, until_healthy: bool, interval_s: float, timeout_s: float) -> None:
    """Show whether the cluster is well, and what is wrong if it is not.

    \b
    exit code 0  all is well
              1  something is not: a partition without a leader or with too few replicas in sync, no
                 controller, no coordinator, a dead broker, a failed log directory, a complaint
              2  the command line is wrong
              3  no server can be reached

    With --watch and --until-healthy, the exit code is that of the last update.
    """
    from hightide_cli.cluster.health_look import look
    from hightide_cli.cluster.health_watch import watch_health

    timeout_ms = round(timeout_s * 1000)
    if watch or until_healthy:
        ctx.exit(watch_health(ctx, interval_s, timeout_ms, is_over_when_well=until_healthy))
    described, holdings = look(ctx, timeout_ms)
    if wants_document(ctx):
        emit(ctx, health_document(described, holdings))
    else:
        click.echo(health_text(described, holdings))
    if problems_of(described, holdings):
        ctx.exit(EXIT_NOT_HEALTHY)
