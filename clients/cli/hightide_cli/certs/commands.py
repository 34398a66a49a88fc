"""`hightide certs`: a CA in a directory, and the certificates that it issues. No server is asked."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.options import common_options
from hightide_cli.documents.cluster import CertificateDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import properties

if TYPE_CHECKING:
    from hightide_local.certificates import CertificateDescription

_DIRECTORY = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("certificates"),
    show_default=True,
    help="The directory of the CA, with ca.crt and ca.key.",
)


@click.group()
def certs() -> None:
    """Make a CA, and issue the certificates of a small cluster and its clients."""


common_options(certs)


@common_options
@certs.command()
@click.option(
    "--cluster",
    default="hightide",
    show_default=True,
    help="The name of the cluster: who it is about in spiffe://NAME/broker/1.",
)
@_DIRECTORY
@click.pass_context
def ca(ctx: click.Context, cluster: str, directory: Path) -> None:
    """Make a CA. Whoever has its key, ca.key, can be anybody in the cluster: keep it where no service runs.

    \b
    hightide certs ca --cluster payments
    """
    from hightide_local.certificates import CA_CERTIFICATE, CertificateAuthority, describe_certificate

    CertificateAuthority.create(directory, cluster)
    _show(ctx, describe_certificate(directory / CA_CERTIFICATE))


@common_options
@certs.command()
@click.argument("identity", metavar="broker/ID|controller/ID|coordinator/ID|client/NAME")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="A name or an IP address by which others reach the process; several times for several.",
)
@click.option(
    "--days", type=click.IntRange(1, 3650), default=825, show_default=True, help="How long it is valid."
)
@click.option(
    "--to",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory for the certificate, its key and ca.crt; the default is that of the CA.",
)
@_DIRECTORY
@click.pass_context
def issue(
    ctx: click.Context, identity: str, hosts: tuple[str, ...], days: int, target: Path | None, directory: Path
) -> None:
    """Issue a certificate with a new key, for a process or a client. One of the same name is replaced; a
    process that runs takes the new one by itself.

    \b
    hightide certs issue broker/1 --host broker-1.example --host 10.0.0.1
    hightide certs issue client/alice --days 30 --to alice
    """
    from hightide_local.certificates import CertificateAuthority, describe_certificate

    files = CertificateAuthority.open(directory).issue(identity, hosts, target or directory, days)
    _show(ctx, describe_certificate(files.certificate))


@common_options
@certs.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def show(ctx: click.Context, file: Path) -> None:
    """Show whose certificate a file has, for which hosts, and until when."""
    from hightide_local.certificates import describe_certificate

    _show(ctx, describe_certificate(file))


def _show(ctx: click.Context, certificate: "CertificateDescription") -> None:
    document = view(CertificateDocument, certificate)
    if wants_document(ctx):
        emit(ctx, document)
        return
    click.echo(
        properties(
            [
                ("file", certificate.path),
                ("identity", certificate.identity or certificate.subject),
                ("hosts", ", ".join(certificate.hosts)),
                ("issued by", certificate.issuer),
                ("valid from", certificate.valid_from),
                ("valid until", certificate.valid_until),
            ]
        )
    )
