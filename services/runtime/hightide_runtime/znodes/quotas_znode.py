"""/config/quotas: how much of the cluster each principal may take."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from re import compile as pattern
from typing import Final, Self

from hightide_runtime.znodes.content import INT64_MAX, Fields, dump
from hightide_runtime.znodes.quota import LIMIT_NAMES, Quota

PRINCIPALS_MAX: Final = 2_000
"""Principals with quotas of their own: the znode stays far below the MiB that ZooKeeper takes."""
DEFAULT_CLIENT: Final = "client/*"
"""The quota of each client for what its own does not limit."""
ANONYMOUS_CALLERS: Final = "anonymous"
"""All who do not show who they are, together."""
_PATH: Final = "/config/quotas"
_FORMAT: Final = 1
_CLIENT = pattern(r"client/[!-~]{1,249}")


@dataclass(frozen=True, slots=True)
class QuotasZnode:
    """/config/quotas: the limits of each principal that has any: `client/alice`, `client/*`, `anonymous`."""

    quotas: Mapping[str, Quota]

    @staticmethod
    def path() -> str:
        """/config/quotas."""
        return _PATH

    def encode(self) -> bytes:
        """The content as JSON."""
        quotas = {principal: quota.limits() for principal, quota in sorted(self.quotas.items())}
        return dump({"version": _FORMAT, "quotas": quotas})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        content = Fields(_PATH, data)
        content.integer("version", _FORMAT, _FORMAT)
        entries = content.mapping("quotas")
        if len(entries) > PRINCIPALS_MAX:
            raise content.garbage(f"{len(entries)} principals have quotas; at most {PRINCIPALS_MAX} may")
        return cls(dict(_quotas_in(content, entries)))


def is_quota_principal(principal: str) -> bool:
    """Whether a principal of this name can have a quota."""
    return principal == ANONYMOUS_CALLERS or _CLIENT.fullmatch(principal) is not None


def _quotas_in(content: Fields, entries: Mapping[str, object]) -> Iterator[tuple[str, Quota]]:
    for principal, limits in entries.items():
        told = principal[:300]
        if not is_quota_principal(principal):
            raise content.garbage(
                f"{told!r} cannot have a quota; name client/<name>, {DEFAULT_CLIENT} or {ANONYMOUS_CALLERS}"
            )
        if not isinstance(limits, dict):
            raise content.garbage(f"the quota of {told} is not an object")
        if unknown := next((name for name in limits if name not in LIMIT_NAMES), None):
            raise content.garbage(f"the quota of {told} has {unknown[:100]!r}, which is no limit")
        values = {
            name: content.checked_integer(value, f"{name} of {told}", 1, INT64_MAX)
            for name, value in limits.items()
        }
        yield principal, Quota(**values)
