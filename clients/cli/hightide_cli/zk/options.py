"""The options of all commands that talk to ZooKeeper: where it is, and how this command shows who it is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.zookeeper_tls import zookeeper_tls, zookeeper_tls_options

if TYPE_CHECKING:
    from hightide_runtime.zookeeper.security import ZooKeeperSecurity

_FILE = click.Path(dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option(
        "--zookeeper",
        metavar="HOST:PORT[,…][/CHROOT]",
        envvar="HIGHTIDE_ZOOKEEPER",
        show_envvar=True,
        help="The ZooKeeper of the cluster; the default is that of the context or of `dev up`.",
    ),
    zookeeper_tls_options,
    click.option(
        "--zookeeper-credentials-file",
        "credentials_file",
        type=_FILE,
        envvar="HIGHTIDE_ZOOKEEPER_CREDENTIALS_FILE",
        show_envvar=True,
        help="The file with the cluster's user:password for ZooKeeper.",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0.1, max=60),
        default=5.0,
        show_default=True,
        help="Seconds to wait for ZooKeeper.",
    ),
)


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """What the options say."""

    zookeeper: str | None
    ca: Path | None
    certificate: Path | None
    key: Path | None
    credentials_file: Path | None
    timeout_s: float

    def hosts(self, ctx: click.Context) -> str:
        """host:port[,…][/chroot]. Raises click.UsageError where nothing says it."""
        found = self.zookeeper or choices(ctx).target().zookeeper
        if found is None:
            raise click.UsageError(
                "give the address of ZooKeeper with --zookeeper HOST:PORT, or in the context "
                "(`hightide context add NAME --bootstrap … --zookeeper …`)",
                ctx,
            )
        return str(found)

    def security(self) -> "ZooKeeperSecurity":
        """Read the files. Raises StartupError, click.UsageError."""
        from hightide_runtime.zookeeper.security import ZooKeeperSecurity

        tls = zookeeper_tls(self.ca, self.certificate, self.key)
        return ZooKeeperSecurity.of(tls, self.credentials_file)


def zookeeper_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options, as one argument `server`."""

    @wraps(command)
    def with_server(*arguments: Any, **options: Any) -> None:
        told = {name: options.pop(name) for name in ZooKeeperOptions.__dataclass_fields__}
        command(*arguments, server=ZooKeeperOptions(**told), **options)

    found: Callable[..., None] = with_server
    for option in reversed(_OPTIONS):
        found = option(found)
    return found
