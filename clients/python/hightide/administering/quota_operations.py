"""The requests of an admin client about quotas. Sans-IO. To repeat one changes nothing more."""

from collections.abc import Iterable

from hightide.calls.call import Method
from hightide.cluster.operations import Operation, Operations
from hightide.errors import InvalidArgumentError
from hightide.quotas import LIMIT_NAMES, Quota
from hightide.v1 import quotas_pb2


class QuotaOperations(Operations):
    """Describing and changing quotas."""

    def describe_quotas(self) -> Operation[dict[str, Quota]]:
        """All quotas, by principal."""
        request = quotas_pb2.DescribeQuotasRequest()
        answer = yield from self.order(Method.DESCRIBE_QUOTAS, request, quotas_pb2.DescribeQuotasResponse)
        return {each.principal: _quota(each.quota) for each in answer.quotas}

    def alter_quota(
        self, principal: str, limits: Quota, reset: Iterable[str], *, validate_only: bool
    ) -> Operation[Quota]:
        """Give a principal these limits, and take away those of these names. Returns its own quota then."""
        names = list(dict.fromkeys(reset))
        for name in names:
            if name not in LIMIT_NAMES:
                raise InvalidArgumentError(f"a quota has no limit {name!r}; it has {', '.join(LIMIT_NAMES)}")
        change = quotas_pb2.QuotaChange(principal=principal, set=_message(limits), reset=names)
        request = quotas_pb2.AlterQuotasRequest(changes=[change], validate_only=validate_only)
        answer = yield from self.order(Method.ALTER_QUOTAS, request, quotas_pb2.AlterQuotasResponse)
        (altered,) = answer.quotas
        return _quota(altered.quota)


def _quota(message: quotas_pb2.Quota) -> Quota:
    return Quota(**{field.name: value for field, value in message.ListFields()})


def _message(quota: Quota) -> quotas_pb2.Quota:
    limits = {name: value for name in LIMIT_NAMES if (value := getattr(quota, name)) is not None}
    for name, value in limits.items():
        if not 1 <= value < 1 << 63:
            raise InvalidArgumentError(f"{name} is {value}; it may be 1 to 2**63 - 1")
    return quotas_pb2.Quota(**limits)
