"""Reading znodes for `hightide zk`: bounded in time, number and size. Uses kazoo, which only servers need
otherwise."""

import logging
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import click

if TYPE_CHECKING:
    from hightide_runtime.zookeeper.security import ZooKeeperSecurity

PATH_CHARACTERS_MAX: Final = 1_024
VALUE_BYTES_MAX: Final = 64 << 10


class ZooKeeperAwayError(click.ClickException):
    """ZooKeeper does not answer, or refuses; the message says at which address and why."""


@dataclass(frozen=True, slots=True)
class Znode:
    """One znode. `data` is its content, at most 64 KiB of it; `depth` counts from the first znode of the
    look."""

    path: str
    depth: int
    data: bytes
    size_bytes: int
    version: int
    created_zxid: int
    modified_zxid: int
    is_ephemeral: bool
    child_count: int


class ZnodeReader:
    """A read-only look; use it as a with-block. Raises ZooKeeperAwayError."""

    def __init__(self, connection: str, security: "ZooKeeperSecurity", timeout_s: float) -> None:
        from hightide_runtime.zookeeper.tls_socket import ConnectingHandler
        from kazoo.client import KazooClient

        # One sentence below reports kazoo's messages about a server that is away.
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        self._connection = connection
        self._timeout_s = timeout_s
        try:
            self._handler = ConnectingHandler(timeout_s, security.tls)
            self._client = KazooClient(
                hosts=connection,
                timeout=max(timeout_s, 2.0),
                read_only=True,
                handler=self._handler,
                auth_data=[("digest", credential.text) for credential in security.credentials],
            )
        except (ValueError, TypeError) as error:
            raise ZooKeeperAwayError(f"{connection!r} is no address of ZooKeeper: {error}") from error

    def __enter__(self) -> Self:
        """Connect."""
        from kazoo.exceptions import NoAuthError
        from kazoo.handlers.threading import KazooTimeoutError

        try:
            self._client.start(timeout=self._timeout_s)
        except (KazooTimeoutError, NoAuthError) as error:
            self._client.stop()
            self._client.close()
            if isinstance(error, NoAuthError):
                raise self._not_permitted("its chroot") from error
            why = f": {self._handler.failure}" if self._handler.failure else ""
            raise ZooKeeperAwayError(
                f"no ZooKeeper answers at {self._connection} within {self._timeout_s:g} s{why}"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def get(self, path: str) -> Znode:
        """One znode."""
        checked = _checked(path)
        data, stat = self._ask(checked, self._client.get_async)
        return _znode(checked, 0, data, stat)

    def tree(self, path: str, depth: int, znodes_max: int) -> list[Znode]:
        """A znode and those below it, parents before their children, those by name. At most `depth` levels
        below it and `znodes_max` in all; znodes that disappear meanwhile are left out."""
        found: list[Znode] = []
        waiting = [(_checked(path), 0)]
        while waiting and len(found) < znodes_max:
            here, level = waiting.pop()
            try:
                data, stat = self._ask(here, self._client.get_async)
                found.append(_znode(here, level, data, stat))
                if level < depth and stat.numChildren:
                    names = sorted(self._ask(here, self._client.get_children_async), reverse=True)
                    waiting += [(f"{here.rstrip('/')}/{name}", level + 1) for name in names]
            except _GoneError as error:
                if not level:
                    raise ZooKeeperAwayError(str(error)) from error
        return found

    def _ask(self, path: str, ask: Any) -> Any:
        from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError

        try:
            return ask(path).get(timeout=self._timeout_s)
        except NoNodeError as error:
            raise _GoneError(f"there is no znode {path}; `hightide zk tree` shows those that are") from error
        except NoAuthError as error:
            raise self._not_permitted(path) from error
        except (KazooException, KazooTimeoutError) as error:
            what = str(error) or type(error).__name__
            raise ZooKeeperAwayError(
                f"ZooKeeper at {self._connection} did not give {path}: {what}"
            ) from error

    def _not_permitted(self, what: str) -> ZooKeeperAwayError:
        return ZooKeeperAwayError(
            f"ZooKeeper at {self._connection} shows {what} only to its cluster; give the file with the "
            "cluster's credentials with --zookeeper-credentials-file"
        )


class _GoneError(ZooKeeperAwayError):
    """The znode does not exist."""


def _checked(path: str) -> str:
    parts = path.split("/")
    is_below = path.startswith("/") and all(part not in ("", ".", "..") for part in parts[1:])
    is_plain = path == "/" or is_below
    if not is_plain or len(path) > PATH_CHARACTERS_MAX or not path.isprintable():
        raise click.BadParameter(f"{path!r} is no path of a znode, as in /brokers/ids", param_hint="PATH")
    return path


def _znode(path: str, depth: int, data: bytes | None, stat: Any) -> Znode:
    held = data or b""
    return Znode(
        path,
        depth,
        held[:VALUE_BYTES_MAX],
        len(held),
        stat.version,
        stat.czxid,
        stat.mzxid,
        stat.ephemeralOwner != 0,
        stat.numChildren,
    )
