"""How commands reach the cluster."""

import click
from hightide import Admin

from hightide_cli.options import choices

# Long enough for a failover, short enough for a person who mistyped the address.
ADMIN_TIMEOUT_MS = 10_000


def open_admin(ctx: click.Context, timeout_ms: int | None = None) -> Admin:
    """Return an admin client for the chosen cluster; use it as a with-block."""
    return Admin(choices(ctx).address(), timeout_ms=timeout_ms or ADMIN_TIMEOUT_MS)
