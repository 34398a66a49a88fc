"""A setting of the whole cluster that one znode holds, such as its quotas: read and changed by whoever
decides, at the request of an operator.

Such a change moves no partition, so it does not pass a core. The write checks what shows that the process may
still decide, and the version of the znode, so of two changes at once neither is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.errors import BadVersion, NodeExists, NoNode, ZooKeeperError
from hightide_runtime.zookeeper.operations import Check, Create, SetData
from hightide_runtime.zookeeper.session import ZooKeeperSession

__all__ = ["ANY_BROKER", "Authority", "ClusterSetting"]

_ATTEMPTS: Final = 10
Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Authority:
    """What lets a process answer for the whole cluster."""

    checks: Callable[[], Sequence[Check]]
    """What each of its writes checks. Raises ServiceError if it may not decide."""
    lost: Callable[[], ServiceError]
    """The error when such a check failed: another process decides by now."""


def _never_lost() -> ServiceError:
    raise AssertionError("a write without checks cannot fail by them")


ANY_BROKER: Final = Authority(tuple, _never_lost)
"""Without a controller: every broker may."""


class ClusterSetting(Generic[Content]):
    """One setting. All methods raise ServiceError, also if an operator has written nonsense."""

    def __init__(
        self,
        session: ZooKeeperSession,
        path: str,
        decode: Callable[[bytes], Content],
        encode: Callable[[Content], bytes],
        absent: Content,
        authority: Authority,
        names: str,
        advice: str,
    ) -> None:
        """`absent`: what holds while there is no such znode. `names`: what it is called in errors; `advice`:
        what to do about nonsense."""
        self._session = session
        self._path = path
        self._decode = decode
        self._encode = encode
        self._absent = absent
        self._authority = authority
        self._names = names
        self._advice = advice

    async def read(self) -> Content:
        """What it is now."""
        self._authority.checks()
        content, _ = await self._read()
        return content

    async def alter(self, change: Callable[[Content], Content], *, validate_only: bool) -> Content:
        """Change it, and return what it is then. `change` may be called again, if others change it meanwhile;
        it may raise."""
        checks = self._authority.checks()
        for _ in range(_ATTEMPTS):
            before, version = await self._read()
            after = change(before)
            if validate_only or after == before:
                return after
            data = self._encode(after)
            write = Create(self._path, data) if version is None else SetData(self._path, data, version)
            try:
                await self._session.multi([*checks, write])
                return after
            except (BadVersion, NodeExists, NoNode) as error:
                if error.path in {check.path for check in checks}:
                    raise self._authority.lost() from error
            except ZooKeeperError as error:
                raise _unavailable(error) from error
        raise ServiceError(
            ErrorCode.ERROR_CODE_OVERLOADED,
            f"others keep changing the {self._names}; try again after a pause",
        )

    async def _read(self) -> tuple[Content, int | None]:
        try:
            znode = await self._session.get(self._path)
            return self._decode(znode.data), znode.version
        except NoNode:
            return self._absent, None
        except ZnodeGarbage as error:
            raise ServiceError(ErrorCode.ERROR_CODE_INVALID_CONFIG, f"{error}; {self._advice}") from error
        except ZooKeeperError as error:
            raise _unavailable(error) from error


def _unavailable(error: ZooKeeperError) -> ServiceError:
    return ServiceError(
        ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE, f"ZooKeeper does not answer, try again: {error}"
    )
