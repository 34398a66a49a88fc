"""Quotas as messages, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hightide.v1 import quotas_pb2
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.changes import QuotaChange, altered
from hightide_runtime.znodes.quota import LIMIT_NAMES, Quota
from hightide_runtime.znodes.quotas_znode import (
    ANONYMOUS_CALLERS,
    DEFAULT_CLIENT,
    PRINCIPALS_MAX,
    QuotasZnode,
    is_quota_principal,
)

__all__ = ["altered_quotas", "changes_in", "quotas_out"]


def changes_in(request: quotas_pb2.AlterQuotasRequest) -> tuple[QuotaChange, ...]:
    """The changes of an AlterQuotas request. Raises ServiceError (INVALID_REQUEST)."""
    return tuple(map(_change_in, request.changes))


def altered_quotas(before: QuotasZnode, changes: Iterable[QuotaChange]) -> QuotasZnode:
    """The quotas after the changes. Raises ServiceError if they are too many."""
    after = altered(before.quotas, changes)
    if len(after) > max(PRINCIPALS_MAX, len(before.quotas)):
        raise ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"{len(after)} principals would have quotas of their own; at most {PRINCIPALS_MAX} may. Take "
            f"some away, or give {DEFAULT_CLIENT} a quota, which holds for each client",
        )
    return QuotasZnode(after)


def quotas_out(quotas: Mapping[str, Quota], principals: Iterable[str]) -> Iterable[quotas_pb2.PrincipalQuota]:
    """The quotas of these principals."""
    for principal in principals:
        quota = quotas.get(principal, Quota())
        yield quotas_pb2.PrincipalQuota(principal=principal, quota=quotas_pb2.Quota(**quota.limits()))


def _change_in(change: quotas_pb2.QuotaChange) -> QuotaChange:
    told = change.principal[:249]
    if not is_quota_principal(change.principal):
        raise _invalid(
            f"{told!r} cannot have a quota; name client/<name>, {DEFAULT_CLIENT} (each client), or "
            f"{ANONYMOUS_CALLERS} (all who do not show who they are, together)"
        )
    limits: dict[str, int] = {
        field.name: value for field, value in change.set.ListFields() if field.name in LIMIT_NAMES
    }
    for name, value in limits.items():
        if value < 1:
            raise _invalid(f"{name} of {told} is {value}; give 1 or more, or take the limit away")
    for name in change.reset:
        if name not in LIMIT_NAMES:
            raise _invalid(f"a quota has no limit {name[:100]!r}; it has {', '.join(LIMIT_NAMES)}")
        if name in limits:
            raise _invalid(f"{name} of {told} is set and taken away; do one of both")
    return QuotaChange(change.principal, Quota(**limits), frozenset(change.reset))


def _invalid(message: str) -> ServiceError:
    return ServiceError(ErrorCode.ERROR_CODE_INVALID_REQUEST, message)
