"""How commands reach the cluster."""

import click
from hightide import Admin

from hightide_cli.command_line.choices import choices

# Long enough for a failover, short enough for a person who mistyped the address.
ADMIN_TIMEOUT_MS = 10_000


def open_admin(ctx: click.Context, timeout_ms: int | None = None) -> Admin:
    """Return an admin client for the chosen cluster; use it as a with-block. Raises BrokersUnavailableError
    where work that may take longer finds nobody to begin with."""
    return patient_admin(choices(ctx).address(), timeout_ms or ADMIN_TIMEOUT_MS)


def patient_admin(address: str | None, timeout_ms: int) -> Admin:
    """The same for any cluster. That the work may take minutes is no reason to wait as long where nobody is
    there at all."""
    if timeout_ms > ADMIN_TIMEOUT_MS:
        require_somebody(address)
    return Admin(address, timeout_ms=timeout_ms)


def require_somebody(address: str | None) -> None:
    """Called before work whose own patience is for a cluster that goes away meanwhile: producers wait a
    minute for room, and consumers for ever. Raises BrokersUnavailableError where nobody answers."""
    with Admin(address, timeout_ms=ADMIN_TIMEOUT_MS) as admin:
        admin.coordinators()
