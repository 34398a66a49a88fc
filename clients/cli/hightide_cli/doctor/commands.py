"""`hightide doctor`: what is wrong between here, ZooKeeper and the servers, and what to do about it."""

from pathlib import Path

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.options import common_options
from hightide_cli.command_line.zookeeper_tls import zookeeper_tls, zookeeper_tls_options
from hightide_cli.printing.output import emit, wants_document


@common_options
@click.command()
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[,…]",
    envvar="HIGHTIDE_ZOOKEEPER",
    show_envvar=True,
    help="The ZooKeeper of the cluster; the default is that of the context or of `dev up`.",
)
@zookeeper_tls_options
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1, max=60),
    default=3.0,
    show_default=True,
    help="Seconds to wait for each answer.",
)
@click.pass_context
def doctor(
    ctx: click.Context,
    zookeeper: str | None,
    ca: Path | None,
    certificate: Path | None,
    key: Path | None,
    timeout_s: float,
) -> None:
    """Look for what is wrong between this machine, ZooKeeper and the servers.

    It checks Java, ZooKeeper and the session timeouts that it grants, the addresses that servers advertise,
    clocks, versions, proxies, disks and file limits. It works with a cluster of which only a part
    runs, and changes nothing.

    \b
    exit code 0  nothing is wrong; there may be warnings
              1  something does not work
    """
    from hightide_cli.doctor.examination import examine
    from hightide_cli.doctor.findings import Verdict, findings_document, findings_text, worst

    target = choices(ctx).target()
    tls = zookeeper_tls(ca, certificate, key)
    if tls is not None:
        tls.check()
    findings = examine(target, zookeeper or target.zookeeper, timeout_s, tls)
    if wants_document(ctx):
        emit(ctx, {"bootstrap": target.bootstrap, **findings_document(findings)})
    else:
        click.echo(f"{target.bootstrap} ({target.origin})\n\n{findings_text(findings)}")
    if worst(findings) is Verdict.FAIL:
        ctx.exit(1)
