"""The connections of commands to the cluster."""

from typing import TYPE_CHECKING

import click
from hightide import Admin

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.client_arguments import ClientArguments, CredentialFiles

if TYPE_CHECKING:
    from hightide.calls.credentials import Credentials

# Long enough for a failover, short enough for a person who mistyped the address.
ADMIN_TIMEOUT_MS = 10_000
# Longer than the controller works at a request (its create_topic_timeout_ms and request_timeout_ms): it says
# then how far it has come, and whoever has given up before does not read it.
ORDER_TIMEOUT_MS = 30_000


def open_admin(ctx: click.Context, timeout_ms: int | None = None) -> Admin:
    """Return an admin client for the chosen cluster; use it as a with-block. If the work may take longer,
    first checks that a broker answers: raises BrokersUnavailableError."""
    return patient_admin(choices(ctx).client_arguments(), timeout_ms or ADMIN_TIMEOUT_MS)


def patient_admin(cluster: ClientArguments, timeout_ms: int) -> Admin:
    """Return an admin client for any cluster. The first answer is not waited for as long as the work, which
    may take minutes."""
    if timeout_ms > ADMIN_TIMEOUT_MS:
        require_somebody(cluster)
    return Admin(**cluster, timeout_ms=timeout_ms)


def require_somebody(cluster: ClientArguments) -> None:
    """Check that a broker answers. Called before work that waits long for a cluster that goes away meanwhile:
    producers wait a minute for room, and consumers for ever. Raises BrokersUnavailableError."""
    with Admin(**cluster, timeout_ms=ADMIN_TIMEOUT_MS) as admin:
        admin.coordinators()


def credentials_of(files: CredentialFiles) -> "Credentials":
    """Return the credentials for channels that a command opens by itself: those of the files, else those of
    the environment. Raises InvalidArgumentError if one is missing."""
    from hightide.calls.credentials import chosen_credentials

    return chosen_credentials(files.ca, files.certificate, files.key, token_file=files.token)
