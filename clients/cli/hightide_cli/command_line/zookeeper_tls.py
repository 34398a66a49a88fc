"""The options of TLS with ZooKeeper, which `hightide zk` and `hightide doctor` take."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from hightide_runtime.zookeeper.tls_socket import ZooKeeperTls

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_OPTIONS: Final = (
    click.option(
        "--zookeeper-tls-ca",
        "ca",
        type=_FILE,
        envvar="HIGHTIDE_ZOOKEEPER_TLS_CA",
        show_envvar=True,
        help="The CAs that may have signed the certificates of ZooKeeper servers: turns TLS on.",
    ),
    click.option(
        "--zookeeper-tls-certificate",
        "certificate",
        type=_FILE,
        envvar="HIGHTIDE_ZOOKEEPER_TLS_CERTIFICATE",
        show_envvar=True,
        help="The certificate for servers that ask for one.",
    ),
    click.option(
        "--zookeeper-tls-key",
        "key",
        type=_FILE,
        envvar="HIGHTIDE_ZOOKEEPER_TLS_KEY",
        show_envvar=True,
        help="The key of the certificate.",
    ),
)


def zookeeper_tls_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options, as its arguments `ca`, `certificate` and `key`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def zookeeper_tls(ca: Path | None, certificate: Path | None, key: Path | None) -> "ZooKeeperTls | None":
    """What the options say; None without TLS. Raises click.UsageError."""
    if (certificate is None) != (key is None):
        raise click.UsageError("give both of --zookeeper-tls-certificate and --zookeeper-tls-key")
    if certificate is not None and ca is None:
        raise click.UsageError("--zookeeper-tls-certificate needs --zookeeper-tls-ca, which turns TLS on")
    if ca is None:
        return None
    from hightide_runtime.zookeeper.tls_socket import ZooKeeperTls

    return ZooKeeperTls(ca, certificate, key)
